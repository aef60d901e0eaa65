//! Callbacks for the emulator: translation, memory accesses, threads, system calls, the end.
//!
//! Instructions are counted per block and code region. While a process has one vCPU, translated
//! code adds them to the shared slot directly. With the second thread, all code is translated
//! again, and from then on blocks call back and each vCPU counts separately, because additions by
//! translated code are not atomic.
//!
//! The emulator translates again on its own (`CF_PARALLEL`) unless the process has mapped shared
//! memory, as programs of most locales do: then it has translated for threads already, when there
//! was only one, and keeps these blocks. So they are discarded here too, and a second thread that
//! executes any of them before that must do no harm.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use memweir_abi::softpmu::layout::REGIONS;
use memweir_abi::softpmu::program::GateOption;

use crate::api::{self, Api, Block, Info, Instruction, PluginId};
use crate::exec::Emulator;
use crate::gate::{Caches, Gate, Turn};
use crate::helpers::may_access_memory;
use crate::model::vcpu::{Room, VcpuCaches};
use crate::process::{Phase, Process};
use crate::recorder::Recorder;
use crate::regions::Regions;
use crate::together::{Group, Look, Operand, Span, plan};
use crate::vcpus::{TABLE, VCPUS, Vcpu, vcpu};

/// Instructions that a vCPU counts before it publishes them; a SIGKILL can lose this many.
const INSTRUCTION_BATCH: u32 = 1 << 14;

/// Logarithm of the line size, 64 bytes.
const LINE_SHIFT: u32 = 6;

/// State that all vCPUs share.
struct Plugin {
    id: PluginId,
    api: Api,
    process: Process,
    emulator: Emulator,
    /// Present in virtual time.
    gate: Option<Gate>,
    regions: OnceLock<Regions>,
    info_is_known: bool,
    /// True if the process has ever had a second thread.
    threaded: AtomicBool,
}

impl Plugin {
    /// Returns true if translated code counts instructions directly while there is one thread.
    fn counts_inline(&self) -> bool {
        // In virtual time a turn ends at its instruction, like a phase of sampling.
        // Recorded accesses contain the instruction of their thread at which they were made.
        let by_callback =
            self.process.is_sampled() || self.gate.is_some() || self.process.records();
        self.api.on_execute_inline.is_some() && !by_callback
    }

    /// Returns the callback for accesses to memory in code that is translated now, and its state.
    fn memory_callback(&self) -> (api::MemoryCallback, *mut Vcpu) {
        let first = TABLE[0].load(Relaxed);
        // Newer emulators announce a vCPU only when it is already running.
        let announced = self.api.on_execute_inline.is_some();
        if !self.info_is_known {
            (on_memory_ask, std::ptr::null_mut())
        } else if announced && !first.is_null() && !self.threaded.load(Relaxed) {
            (on_memory_alone, first)
        } else {
            (on_memory, std::ptr::null_mut())
        }
    }
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

fn plugin() -> &'static Plugin {
    PLUGIN.get().expect("callbacks are registered after the plugin is set")
}

/// Sets up the plugin. An error that the user can fix ends the emulator; shared files that cannot
/// be opened do not, because then memweir is gone and the job must continue.
///
/// # Safety
/// `info` and `arguments` must be those of `qemu_plugin_install`.
pub(crate) unsafe fn install(
    id: PluginId,
    info: &Info,
    arguments: &[*const c_char],
) -> Result<(), String> {
    // SAFETY: the emulator passes C strings.
    let target = unsafe { CStr::from_ptr(info.target_name) };
    if target != c"x86_64" || info.system_emulation {
        return Err("this plugin is for qemu-x86_64 in user mode".to_owned());
    }
    let api = Api::load(info.version_cur)
        .map_err(|symbol| format!("the emulator has no {}", symbol.to_string_lossy()))?;
    // SAFETY: as above.
    let arguments: Vec<&CStr> = arguments.iter().map(|a| unsafe { CStr::from_ptr(*a) }).collect();
    let (page, llc) = (argument(&arguments, b"page=")?, argument(&arguments, b"llc=")?);
    let Ok(process) = Process::open(&page, &llc) else { return Ok(()) };
    let option = gate_option(&arguments);
    let gate = option.as_ref().and_then(|(path, option)| Gate::open(path, option.job).ok());
    let option = option.map(|(_, option)| option);
    let plugin = Plugin {
        id,
        info_is_known: api::info_is_known(&api),
        api,
        process,
        emulator: Emulator::this(&page, &llc, option).map_err(|e| e.to_string())?,
        gate,
        regions: OnceLock::new(),
        threaded: AtomicBool::new(false),
    };
    if PLUGIN.set(plugin).is_err() {
        return Err("loaded twice".to_owned());
    }
    // SAFETY: the handler stays loaded as long as the process and makes only system calls.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(after_fork)) };
    // SAFETY: called with the identity that the emulator gave.
    unsafe { register(id) };
    Ok(())
}

fn argument(arguments: &[&CStr], key: &[u8]) -> Result<CString, String> {
    arguments
        .iter()
        .find_map(|argument| argument.to_bytes().strip_prefix(key))
        .and_then(|value| CString::new(value).ok())
        .ok_or_else(|| format!("missing argument {}...", String::from_utf8_lossy(key)))
}

/// Returns the gate of this program, if it runs in virtual time.
fn gate_option(arguments: &[&CStr]) -> Option<(CString, GateOption)> {
    let path = argument(arguments, b"gate=").ok()?;
    let number = |key: &[u8]| argument(arguments, key).ok()?.to_str().ok()?.parse().ok();
    let job = u32::try_from(number(b"job=")?).ok()?;
    let option = GateOption { path: path.to_bytes().to_vec(), job, seed: number(b"seed=")? };
    Some((path, option))
}

/// Registers every callback; also called after a reset, which removes them.
unsafe extern "C" fn register(id: PluginId) {
    let api = &plugin().api;
    // SAFETY: functions of the emulator, with callbacks that live as long as the process.
    unsafe {
        (api.on_vcpu_start)(id, on_vcpu_start);
        (api.on_vcpu_exit)(id, on_vcpu_exit);
        (api.on_translate)(id, on_translate);
        (api.on_syscall)(id, on_syscall);
        (api.on_syscall_end)(id, on_syscall_end);
        (api.on_exit)(id, on_exit, std::ptr::null_mut());
    }
}

unsafe extern "C" fn on_vcpu_start(_: PluginId, index: c_uint) {
    let plugin = plugin();
    if index > 0 && !plugin.threaded.swap(true, Relaxed) && plugin.counts_inline() {
        // The reset is over before the calling thread, the only one so far, executes further code.
        // SAFETY: called on a vCPU's thread; the callbacks come back with `register`.
        unsafe { (plugin.api.reset)(plugin.id, register) };
    }
    // Threads of a process share its address space, which the first of them opened.
    let llc = match TABLE[0].load(Relaxed) {
        first if first.is_null() => plugin.process.new_address_space(),
        // SAFETY: vCPU 0 is never freed, and its view of the last level changes only in the
        // child of a fork, where no other thread is.
        first => unsafe { (*first).caches.llc },
    };
    let slot = plugin.process.slot_number();
    let turn = plugin.gate.as_ref().map_or_else(Turn::default, |gate| match index {
        0 => gate.first(slot),
        _ => gate.further(slot),
    });
    let recorder = plugin.process.records().then(|| Recorder::new(index));
    let mut caches = VcpuCaches::new(&plugin.process.caches, llc);
    caches.lines = recorder.is_some().then(Vec::new);
    let fresh = Vcpu {
        caches,
        instructions: 0,
        batch: if plugin.gate.is_some() { 1 } else { INSTRUCTION_BATCH },
        turn,
        tries_native: false,
        recorder,
        operand: Operand::default(),
        regions: [0; REGIONS],
    };
    let entry = &TABLE[index as usize % VCPUS];
    let old = entry.swap(Box::into_raw(Box::new(fresh)), AcqRel);
    if !old.is_null() && (index as usize) < VCPUS {
        // SAFETY: created by `Box::into_raw` here; the thread that used this number has ended.
        drop(unsafe { Box::from_raw(old) });
    }
}

unsafe extern "C" fn on_vcpu_exit(_: PluginId, index: c_uint) {
    // SAFETY: called on the thread of that vCPU.
    publish_all(unsafe { vcpu(index) });
}

/// Publishes everything before the thread ends or becomes another program.
fn publish_all(vcpu: &mut Vcpu) {
    publish(vcpu);
    if let Some(recorder) = &mut vcpu.recorder {
        recorder.flush(&plugin().process);
    }
}

fn publish(vcpu: &mut Vcpu) {
    let Plugin { process, gate, .. } = plugin();
    let events = vcpu.caches.take_events();
    let instructions = std::mem::take(&mut vcpu.instructions);
    if let (Some(recorder), Some(lines)) = (&mut vcpu.recorder, &mut vcpu.caches.lines) {
        recorder.take(process, lines, instructions);
        recorder.publish(instructions);
    }
    if instructions > 0 {
        process.publish_instructions(&mut vcpu.regions);
    }
    process.publish_events(events);
    if let Some(gate) = gate {
        gate.charge(&vcpu.turn, instructions.into(), &events);
    }
}

/// Runs in the parent before a fork; the parent alone has the turn.
unsafe extern "C" fn before_fork() {
    if let Some(gate) = &plugin().gate {
        gate.before_fork();
    }
}

/// Runs in the child of a fork, where only the forking thread exists: takes another slot, another
/// address space and empty private caches. Counts that the parent has not published yet belong to
/// the parent.
unsafe extern "C" fn after_fork() {
    let Plugin { process, gate, .. } = plugin();
    process.begin();
    let llc = process.new_address_space();
    let turn =
        gate.as_ref().map_or_else(Turn::default, |gate| gate.after_fork(process.slot_number()));
    for entry in &TABLE {
        let vcpu = entry.load(Relaxed);
        if !vcpu.is_null() {
            // SAFETY: no other thread exists in this process.
            let vcpu = unsafe { &mut *vcpu };
            vcpu.caches.clear();
            vcpu.caches.llc = llc;
            vcpu.instructions = 0;
            if let Some(recorder) = &mut vcpu.recorder {
                recorder.forget();
            }
            vcpu.regions = [0; REGIONS];
            // Whichever vCPU has forked, no other one executes code here.
            vcpu.turn = turn.in_child();
            if gate.is_some() {
                vcpu.batch = 1;
            }
        }
    }
}

unsafe extern "C" fn on_translate(_: PluginId, block: *mut Block) {
    let plugin = plugin();
    let api = &plugin.api;
    // SAFETY: functions of the emulator, on the block that it is translating.
    unsafe {
        let length = (api.block_length)(block);
        let regions =
            plugin.regions.get_or_init(|| Regions::new((api.text_start)(), (api.text_end)()));
        let region = regions.of((api.block_address)(block));
        let inline = !plugin.threaded.load(Relaxed) && plugin.counts_inline();
        match api.on_execute_inline {
            Some(add) if inline => {
                let counter = plugin.process.region_counter(region);
                add(block, api::ADD_U64, counter.as_ptr().cast(), length as u64);
            }
            _ => {
                let packed = (length << 8 | region) as *mut c_void;
                (api.on_execute)(block, on_execute, api::NO_REGISTERS, packed);
            }
        }
        for instruction in instructions(api, block) {
            if instruction_bytes(api, instruction).first() == Some(&EVEX) {
                plugin.process.header().avx512.fetch_add(1, Relaxed);
            }
        }
        if plugin.process.phase() == Phase::FastForward {
            ignore_accesses(api, block);
        } else {
            watch_accesses(plugin, block);
        }
    }
}

/// Returns the instructions of a block.
///
/// # Safety
/// The block must be in translation.
unsafe fn instructions(
    api: &Api,
    block: *mut Block,
) -> impl ExactSizeIterator<Item = *mut Instruction> {
    // SAFETY: a function of the emulator, on a block that it is translating.
    let length = unsafe { (api.block_length)(block) };
    // SAFETY: as above, within the block's length.
    (0..length).map(move |index| unsafe { (api.block_instruction)(block, index) })
}

/// Registers the callbacks that the accesses of a block need.
///
/// # Safety
/// The block must be in translation.
unsafe fn watch_accesses(plugin: &Plugin, block: *mut Block) {
    let api = &plugin.api;
    let (memory, state) = plugin.memory_callback();
    // SAFETY: functions of the emulator, on a block that it is translating and its instructions.
    unsafe {
        let code = instructions(api, block).map(|each| instruction_bytes(api, each));
        let looks = match plugin.info_is_known {
            true => plan((api.block_address)(block), code),
            false => vec![Look::Alone; code.len()],
        };
        for (instruction, look) in instructions(api, block).zip(looks) {
            let (callback, data): (api::MemoryCallback, *mut c_void) = match look {
                Look::Alone => (memory, state.cast()),
                Look::Later => continue,
                Look::Span(span) if span.operand() > 0 => (on_vector_span, span.0 as *mut c_void),
                Look::Span(span) => (on_span, span.0 as *mut c_void),
                Look::Mixed(group) => (on_mixed_group, group.0 as *mut c_void),
            };
            (api.on_memory)(instruction, callback, api::NO_REGISTERS, api::READ_WRITE, data);
        }
    }
}

/// Leaves the accesses of a block out of the simulation; `helpers` explains why this needs
/// callbacks.
///
/// # Safety
/// The block must be in translation.
unsafe fn ignore_accesses(api: &Api, block: *mut Block) {
    // SAFETY: functions of the emulator, on a block that it is translating and its instructions.
    unsafe {
        for instruction in instructions(api, block) {
            if may_access_memory(instruction_bytes(api, instruction)) {
                let (flags, both) = (api::NO_REGISTERS, api::READ_WRITE);
                (api.on_memory)(instruction, on_memory_unseen, flags, both, std::ptr::null_mut());
            }
        }
    }
}

/// Returns the bytes of an instruction; empty if the emulator is too new to provide them in this
/// way.
///
/// # Safety
/// `instruction` must belong to the block in translation; the bytes live as long as the
/// translation.
unsafe fn instruction_bytes<'a>(api: &Api, instruction: *const Instruction) -> &'a [u8] {
    let Some(bytes) = api.instruction_bytes else { return &[] };
    // SAFETY: the emulator keeps as many bytes as it says during the translation.
    unsafe { std::slice::from_raw_parts(bytes(instruction), (api.instruction_length)(instruction)) }
}

/// Ignores an access.
unsafe extern "C" fn on_memory_unseen(_: c_uint, _: u32, _: u64, _: *mut c_void) {}

/// First byte of every AVX-512 instruction, and of no other in 64-bit code.
const EVEX: u8 = 0x62;

unsafe extern "C" fn on_execute(index: c_uint, packed: *mut c_void) {
    let (length, region) = ((packed as usize >> 8) as u32, packed as usize & 0xff);
    // SAFETY: called on the thread of that vCPU.
    let vcpu = unsafe { vcpu(index) };
    vcpu.regions[region % REGIONS] += length;
    vcpu.instructions += length;
    if vcpu.instructions >= vcpu.batch {
        keep(vcpu);
    }
}

/// Simulates an access to memory: by far the most frequent callback.
unsafe extern "C" fn on_memory(index: c_uint, info: u32, address: u64, _: *mut c_void) {
    // SAFETY: called on the thread of that vCPU.
    look_at(unsafe { vcpu(index) }, info, address);
}

/// Simulates an access in code that was translated while the process had one vCPU, whose state
/// comes with the call. Other vCPUs can execute it too (see the top of this file).
unsafe extern "C" fn on_memory_alone(index: c_uint, info: u32, address: u64, first: *mut c_void) {
    if index == 0 {
        // SAFETY: `on_translate` passes the state of vCPU 0, which is never freed, and this is its
        // thread.
        look_at(unsafe { &mut *first.cast::<Vcpu>() }, info, address);
    } else {
        look_at_as(index, info, address);
    }
}

/// Simulates an access by any vCPU. With this calling convention a callback can end with a jump
/// here.
#[cold]
#[inline(never)]
extern "C" fn look_at_as(index: c_uint, info: u32, address: u64) {
    // SAFETY: called on the thread of that vCPU.
    look_at(unsafe { vcpu(index) }, info, address);
}

#[inline(always)]
fn look_at(vcpu: &mut Vcpu, info: u32, address: u64) {
    look_at_line(vcpu, address >> LINE_SHIFT, u64::from(info >> api::STORE_BIT & 1));
}

#[inline(always)]
fn look_at_line(vcpu: &mut Vcpu, line: u64, dirty: u64) {
    if !vcpu.caches.touch(line, dirty) {
        access(vcpu, line, dirty);
    }
}

/// Simulates several loads or several stores, in any mode of counting.
unsafe extern "C" fn on_span(index: c_uint, _: u32, address: u64, span: *mut c_void) {
    // SAFETY: called on the thread of that vCPU.
    look_at_span(unsafe { vcpu(index) }, address, Span(span as u64));
}

/// Does the same for a span whose own operand is accessed in pieces; the first is looked at for all
/// of them.
unsafe extern "C" fn on_vector_span(index: c_uint, info: u32, address: u64, span: *mut c_void) {
    let span = Span(span as u64);
    // SAFETY: called on the thread of that vCPU.
    let vcpu = unsafe { vcpu(index) };
    if !vcpu.operand.continues(address, api::size(info)) {
        vcpu.operand.begin(address, span.operand());
        look_at_span(vcpu, address, span);
    }
}

#[inline(always)]
fn look_at_span(vcpu: &mut Vcpu, address: u64, span: Span) {
    if span.is_on_one_line(address) {
        look_at_line(vcpu, address >> LINE_SHIFT, span.stores());
    } else {
        look_at_lines(vcpu, address, span.0);
    }
}

/// Simulates accesses on several lines. With this calling convention a callback can end with a jump
/// here.
#[inline(never)]
extern "C" fn look_at_lines(vcpu: &mut Vcpu, address: u64, span: u64) {
    let span = Span(span);
    for line in span.lines(address) {
        look_at_line(vcpu, line, span.stores());
    }
}

/// Simulates loads and stores together, in any mode of counting.
unsafe extern "C" fn on_mixed_group(index: c_uint, _: u32, address: u64, group: *mut c_void) {
    let group = Group(group as u64);
    // SAFETY: called on the thread of that vCPU.
    let vcpu = unsafe { vcpu(index) };
    if group.is_on_one_line(address) {
        look_at_line(vcpu, address >> LINE_SHIFT, 1);
    } else {
        look_at_two(vcpu, address, group.0);
    }
}

/// Simulates loads and stores on two lines, as [`look_at_lines`] does.
#[inline(never)]
extern "C" fn look_at_two(vcpu: &mut Vcpu, address: u64, group: u64) {
    for (address, dirty) in Group(group).on_two_lines(address) {
        look_at_line(vcpu, address >> LINE_SHIFT, dirty);
    }
}

/// Simulates an access under an emulator whose `info` must be decoded by a call.
unsafe extern "C" fn on_memory_ask(index: c_uint, info: u32, address: u64, _: *mut c_void) {
    // SAFETY: a pure function of its argument.
    let dirty = u64::from(unsafe { (plugin().api.is_store)(info) });
    // SAFETY: called on the thread of that vCPU.
    let vcpu = unsafe { vcpu(index) };
    access(vcpu, address >> LINE_SHIFT, dirty);
}

/// Simulates an access to a line that is not where it was last seen. With this calling convention
/// nothing unwinds from here, so that a callback can end with a jump here and needs no stack of its
/// own.
#[inline(never)]
extern "C" fn access(vcpu: &mut Vcpu, line: u64, dirty: u64) {
    let room = vcpu.caches.access(line, dirty);
    if vcpu.recorder.is_some() {
        record(vcpu);
    } else if room == Room::None {
        keep(vcpu);
    }
}

/// Records the events of this very instruction.
#[cold]
#[inline(never)]
fn record(vcpu: &mut Vcpu) {
    let process = &plugin().process;
    process.publish_events(vcpu.caches.take_events());
    if let (Some(recorder), Some(lines)) = (&mut vcpu.recorder, &mut vcpu.caches.lines) {
        recorder.take(process, lines, vcpu.instructions);
    }
}

/// Publishes, and ends chunks and phases that are over.
#[cold]
#[inline(never)]
fn keep(vcpu: &mut Vcpu) {
    let plugin = plugin();
    publish(vcpu);
    if let Some(gate) = &plugin.gate {
        let (batch, caches) = gate.check(&mut vcpu.turn);
        vcpu.batch = batch.min(INSTRUCTION_BATCH);
        if caches == Caches::Cold {
            vcpu.caches.flush();
        }
    }
    if plugin.process.keep() {
        // SAFETY: called on a vCPU's thread; the callbacks come back with `register`.
        unsafe { (plugin.api.reset)(plugin.id, register) };
    }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn on_syscall(
    _: PluginId,
    index: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    _: u64,
    _: u64,
    _: u64,
) {
    let plugin = plugin();
    if let Some(gate) = &plugin.gate {
        // SAFETY: called on the thread of that vCPU.
        let vcpu = unsafe { vcpu(index) };
        publish(vcpu);
        gate.enter(&mut vcpu.turn, number, [a1, a2, a3, a4]);
    }
    match number {
        libc::SYS_execve | libc::SYS_execveat => {
            // SAFETY: called on the thread of that vCPU.
            let vcpu = unsafe { vcpu(index) };
            publish_all(vcpu);
            plugin.process.finish();
            let (directory, path, argv, env, flags) = if number == libc::SYS_execve {
                (libc::AT_FDCWD, a1, a2, a3, 0)
            } else {
                (a1 as c_int, a2, a3, a4, a5 as c_int)
            };
            let program = || {
                // SAFETY: a function of the emulator; what it returns is leaked once per exec of
                // the program's own file.
                let path = unsafe { (plugin.api.program_path)() };
                // SAFETY: a C string, or null.
                (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes().to_vec())
            };
            // The next emulator takes it back, unless it cannot open the counters.
            plugin.process.header().uncounted_programs.fetch_add(1, Relaxed);
            plugin.emulator.execute(directory, path, argv, env, flags, program);
            // The program's own call continues, and the kernel alone knows if it will succeed.
            vcpu.tries_native = true;
            if let Some(gate) = &plugin.gate {
                gate.goes_native(&vcpu.turn);
            }
        }
        // SAFETY: called on the thread of that vCPU.
        libc::SYS_exit | libc::SYS_exit_group => publish_all(unsafe { vcpu(index) }),
        _ => {}
    }
}

/// Handles the end of a system call.
unsafe extern "C" fn on_syscall_end(_: PluginId, index: c_uint, number: i64, result: i64) {
    let plugin = plugin();
    // SAFETY: called on the thread of that vCPU.
    let vcpu = unsafe { vcpu(index) };
    if std::mem::take(&mut vcpu.tries_native) {
        // The exec has failed.
        plugin.process.header().uncounted_programs.fetch_sub(1, Relaxed);
    }
    if let Some(gate) = &plugin.gate {
        gate.leave(&mut vcpu.turn, number, result);
        // The rest of the turn is determined at the next block.
        vcpu.batch = 1;
    }
}

/// Handles the orderly end of the process. The emulator has stopped the other vCPUs.
unsafe extern "C" fn on_exit(_: PluginId, _: *mut c_void) {
    for entry in &TABLE {
        let vcpu = entry.load(Relaxed);
        if !vcpu.is_null() {
            // SAFETY: the vCPU's thread is stopped or is this one.
            publish_all(unsafe { &mut *vcpu });
        }
    }
    let process = &plugin().process;
    process.finish();
    process.release();
}
