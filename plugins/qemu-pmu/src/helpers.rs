//! Detects instructions that access memory in a helper function of the emulator.
//!
//! QEMU before 8.0 leaves a pointer to the memory callbacks of the last helper-calling instruction
//! behind if a block ends in it (a `ret` is enough), and frees the callbacks when it flushes its
//! translations. The next instruction whose helper accesses memory follows that pointer, unless it
//! has memory callbacks of its own, and the emulator aborts. Translations without memory callbacks
//! are made only after such a flush, in fast-forward, so these instructions get a callback there
//! that does nothing.

/// Returns true if the helper of the instruction `bytes` may access memory. Errs on the safe side:
/// a false positive costs a callback now and then.
pub(crate) fn may_access_memory(bytes: &[u8]) -> bool {
    let (mut locked, mut rest) = (false, bytes);
    while let [prefix @ (0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3), tail @ ..] =
        rest
    {
        // Atomic operations of threaded programs use helpers.
        locked |= *prefix == 0xf0;
        rest = tail;
    }
    if let [0x40..=0x4f, tail @ ..] = rest {
        rest = tail;
    }
    locked
        || match rest {
            // xchg with memory is atomic without a prefix; x87; enter; far returns, interrupts.
            [0x86 | 0x87 | 0xc8 | 0xca..=0xcf | 0xd8..=0xdf, ..] => true,
            // System tables; fxsave, xsave and their kin; cmpxchg8b/16b, xsavec; maskmov.
            [0x0f, 0x00 | 0x01 | 0xae | 0xc7 | 0xf7, ..] => true,
            // vldmxcsr and its kin, vmaskmovdqu.
            [0xc5, _, opcode, ..] => matches!(opcode, 0xae | 0xf7),
            [0xc4, map, _, opcode, ..] => match map & 0x1f {
                1 => matches!(opcode, 0xae | 0xf7),
                // vmaskmov, vpmaskmov, gathers.
                2 => matches!(opcode, 0x2c..=0x2f | 0x8c | 0x8e | 0x90..=0x93),
                _ => false,
            },
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::may_access_memory;

    #[test]
    fn state_saves_atomics_x87_and_masked_moves_do() {
        let instructions: [&[u8]; 8] = [
            &[0x0f, 0xae, 0x6c, 0x24, 0x40],       // xrstor [rsp+0x40]
            &[0x0f, 0xc7, 0x64, 0x24, 0x40],       // xsavec [rsp+0x40]
            &[0x48, 0x0f, 0xae, 0x01],             // fxsave64 [rcx]
            &[0xf0, 0x0f, 0xb1, 0x0f],             // lock cmpxchg [rdi], ecx
            &[0x48, 0x87, 0x07],                   // xchg [rdi], rax
            &[0xdb, 0x6c, 0x24, 0x10],             // fld tbyte [rsp+0x10]
            &[0xc4, 0xe2, 0x75, 0x8e, 0x07],       // vpmaskmovd [rdi], ymm1, ymm0
            &[0xc4, 0xe2, 0x75, 0x90, 0x04, 0x87], // vpgatherdd ymm0, [rdi+ymm0*4], ymm1
        ];
        for bytes in instructions {
            assert!(may_access_memory(bytes), "{bytes:02x?}");
        }
    }

    #[test]
    fn everyday_instructions_do_not() {
        let instructions: [&[u8]; 7] = [
            &[0x48, 0x8b, 0x07],             // mov rax, [rdi]
            &[0xc3],                         // ret
            &[0xf3, 0x48, 0xa5],             // rep movsq
            &[0xc5, 0xfe, 0x6f, 0x06],       // vmovdqu ymm0, [rsi]
            &[0xf3, 0x0f, 0x6f, 0x06],       // movdqu xmm0, [rsi]
            &[0xc4, 0xe2, 0x7d, 0x78, 0xc0], // vpbroadcastb ymm0, xmm0
            &[],
        ];
        for bytes in instructions {
            assert!(!may_access_memory(bytes), "{bytes:02x?}");
        }
    }
}
