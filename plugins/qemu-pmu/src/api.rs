//! The part of QEMU's plugin interface that this plugin uses, looked up at load time.
//!
//! The emulator exports the functions; nothing is linked against them, so that the same library
//! loads into every version and the tests of this crate link without an emulator.
//!
//! Versions, according to QEMU's `include/qemu/qemu-plugin.h`:
//!
//! | QEMU | interface | accepts plugins for | here |
//! |---|---|---|---|
//! | 6.0-8.2 | 1 | 0-1 | tried with 7.2 |
//! | 9.0 and later | 2 and later | 2 and later | by the headers, not tried |
//!
//! Version 2 dropped inline additions to a fixed address; every block then calls back. Version 3
//! changed `insn_data`, which is not used from there on.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// Identifies this plugin to the emulator.
pub(crate) type PluginId = u64;

/// A translation block during its translation.
#[repr(C)]
pub(crate) struct Block {
    _opaque: [u8; 0],
}

/// An instruction during its translation.
#[repr(C)]
pub(crate) struct Instruction {
    _opaque: [u8; 0],
}

/// The part of the emulator's self-description that is read.
#[repr(C)]
pub struct Info {
    pub(crate) target_name: *const c_char,
    pub(crate) version_min: c_int,
    pub(crate) version_cur: c_int,
    pub(crate) system_emulation: bool,
}

pub(crate) type SimpleCallback = unsafe extern "C" fn(PluginId);
pub(crate) type VcpuCallback = unsafe extern "C" fn(PluginId, c_uint);
pub(crate) type TranslateCallback = unsafe extern "C" fn(PluginId, *mut Block);
pub(crate) type ExecuteCallback = unsafe extern "C" fn(c_uint, *mut c_void);
pub(crate) type MemoryCallback = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
pub(crate) type ExitCallback = unsafe extern "C" fn(PluginId, *mut c_void);
/// Plugin, vCPU, number, eight arguments.
pub(crate) type SyscallCallback =
    unsafe extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

/// Plugin, vCPU, number, result.
pub(crate) type SyscallEndCallback = unsafe extern "C" fn(PluginId, c_uint, i64, i64);

/// `QEMU_PLUGIN_CB_NO_REGS`.
pub(crate) const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`.
pub(crate) const READ_WRITE: c_int = 3;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub(crate) const ADD_U64: c_int = 0;

type ExecuteInline = unsafe extern "C" fn(*mut Block, c_int, *mut c_void, u64);
type InstructionBytes = unsafe extern "C" fn(*const Instruction) -> *const u8;

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: `name` is a C string; a symbol lookup has no other precondition.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Returns the offset from an address of the program to its address in this process. The emulator
/// exports the variable, though not as a part of the plugin interface; for a 64-bit program on a
/// 64-bit machine it is zero, unless the user sets another.
pub(crate) fn guest_base() -> u64 {
    // SAFETY: QEMU's `uintptr_t guest_base`, set before the first instruction and constant then.
    symbol(c"guest_base").map_or(0, |address| unsafe { *address.cast::<u64>() })
}

/// Returns true if the emulator still has version 1 of the interface.
pub(crate) fn has_version_one() -> bool {
    symbol(c"qemu_plugin_register_vcpu_tb_exec_inline").is_some()
}

macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        $field:ident = $symbol:literal : fn($($argument:ty),*) $(-> $result:ty)?;
    )*) => {
        /// The emulator's functions.
        #[derive(Clone, Copy)]
        pub(crate) struct Api {
            $($(#[$doc])* pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Adds to a fixed address whenever a block is executed; gone in version 2.
            pub(crate) on_execute_inline: Option<ExecuteInline>,
            /// The bytes of an instruction; changed in version 3.
            pub(crate) instruction_bytes: Option<InstructionBytes>,
        }

        impl Api {
            /// Looks every function up, for an emulator with this version of the interface. The
            /// name of the first function that is missing otherwise.
            pub(crate) fn load(version: c_int) -> Result<Self, &'static CStr> {
                $(
                    let address = symbol($symbol).ok_or($symbol)?;
                    // SAFETY: the symbol is a function of QEMU's plugin interface with this
                    // signature in every version of the table above.
                    let $field = unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($argument),*) $(-> $result)?,
                        >(address)
                    };
                )*
                let inline = symbol(c"qemu_plugin_register_vcpu_tb_exec_inline");
                let bytes = (version <= 2).then(|| symbol(c"qemu_plugin_insn_data")).flatten();
                Ok(Self {
                    $($field,)*
                    on_execute_inline: inline.map(|address| {
                        // SAFETY: as above; the symbol exists in versions 0 and 1 alone.
                        unsafe { std::mem::transmute::<*mut c_void, ExecuteInline>(address) }
                    }),
                    instruction_bytes: bytes.map(|address| {
                        // SAFETY: as above; up to version 2 the signature is this one.
                        unsafe { std::mem::transmute::<*mut c_void, InstructionBytes>(address) }
                    }),
                })
            }
        }
    };
}

functions! {
    on_vcpu_start = c"qemu_plugin_register_vcpu_init_cb": fn(PluginId, VcpuCallback);
    on_vcpu_exit = c"qemu_plugin_register_vcpu_exit_cb": fn(PluginId, VcpuCallback);
    on_translate = c"qemu_plugin_register_vcpu_tb_trans_cb": fn(PluginId, TranslateCallback);
    on_syscall = c"qemu_plugin_register_vcpu_syscall_cb": fn(PluginId, SyscallCallback);
    on_syscall_end = c"qemu_plugin_register_vcpu_syscall_ret_cb":
        fn(PluginId, SyscallEndCallback);
    on_exit = c"qemu_plugin_register_atexit_cb": fn(PluginId, ExitCallback, *mut c_void);
    on_execute = c"qemu_plugin_register_vcpu_tb_exec_cb":
        fn(*mut Block, ExecuteCallback, c_int, *mut c_void);
    on_memory = c"qemu_plugin_register_vcpu_mem_cb":
        fn(*mut Instruction, MemoryCallback, c_int, c_int, *mut c_void);
    /// Removes all callbacks and translations, then calls back.
    reset = c"qemu_plugin_reset": fn(PluginId, SimpleCallback);
    block_length = c"qemu_plugin_tb_n_insns": fn(*const Block) -> usize;
    block_address = c"qemu_plugin_tb_vaddr": fn(*const Block) -> u64;
    block_instruction = c"qemu_plugin_tb_get_insn": fn(*const Block, usize) -> *mut Instruction;
    instruction_length = c"qemu_plugin_insn_size": fn(*const Instruction) -> usize;
    is_store = c"qemu_plugin_mem_is_store": fn(u32) -> bool;
    /// Logarithm of an access's bytes.
    size_shift = c"qemu_plugin_mem_size_shift": fn(u32) -> c_uint;
    /// Path of the program, to be freed.
    program_path = c"qemu_plugin_path_to_binary": fn() -> *const c_char;
    text_start = c"qemu_plugin_start_code": fn() -> u64;
    text_end = c"qemu_plugin_end_code": fn() -> u64;
}

/// Position of the store bit in a memory callback's `info` in all known versions, after the load
/// bit; the interface does not guarantee it, hence [`info_is_known`].
pub(crate) const STORE_BIT: u32 = 17;

/// Position of the three bits with the logarithm of the access's bytes, likewise.
const SIZE_SHIFT: u32 = 4;

/// Returns the bytes of an access.
#[inline(always)]
pub(crate) fn size(info: u32) -> u64 {
    1 << (info >> SIZE_SHIFT & 7)
}

/// Verifies with the emulator that the bits of `info` have the assumed meaning, so that the
/// callbacks of accesses need not call it.
pub(crate) fn info_is_known(api: &Api) -> bool {
    let (load, store) = (1 << (STORE_BIT - 1), 1 << STORE_BIT);
    // SAFETY: pure functions of their argument.
    unsafe {
        (api.is_store)(store)
            && (api.is_store)(store | load)
            && !(api.is_store)(load)
            && (0..4).all(|shift| (api.size_shift)(load | shift << SIZE_SHIFT) == shift)
    }
}
