//! Kinds of program files, by their first bytes, as `execve` tells them apart. The caller reads the
//! file.

/// Number of bytes that determine the kind of a file: the kernel's own limit for a `#!` line.
pub const HEAD: usize = 256;

/// Number of files that the kernel looks at for one `execve`: five scripts, of which each is the
/// interpreter of the one before, and the program that interprets the last.
pub const SCRIPT_DEPTH: usize = 6;

/// Returns true if the kernel would start a program of this mode, user and group as another user or
/// group than the effective ones of the calling process. This holds for programs only: of a script
/// the kernel ignores the mode, and takes that of its interpreter.
#[must_use]
pub const fn changes_user(mode: u32, owner: (u32, u32), effective: (u32, u32)) -> bool {
    const SET_USER: u32 = 0o4000;
    // Without the right of the group to execute, the bit means something else.
    const SET_GROUP: u32 = 0o2010;
    mode & SET_USER != 0 && owner.0 != effective.0
        || mode & SET_GROUP == SET_GROUP && owner.1 != effective.1
}

/// Kind of a file, by its first [`HEAD`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image<'a> {
    /// A 64-bit x86 program.
    X86_64,
    /// A script.
    Script {
        /// Path of its interpreter.
        interpreter: &'a [u8],
        /// The rest of the line, as one argument.
        argument: Option<&'a [u8]>,
    },
    /// A program for another machine or mode, which the kernel may be able to start.
    Foreign(&'static str),
    /// A file that the kernel does not start; the reason is a clause for people.
    Unfit(&'static str),
}

const ELF_MAGIC: &[u8] = b"\x7fELF";
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_SHARED: u16 = 3;
const MACHINE_386: u16 = 3;
const MACHINE_X86_64: u16 = 62;

impl<'a> Image<'a> {
    /// Classifies a file by its head, as the kernel does. Does not allocate.
    #[must_use]
    pub fn of(head: &'a [u8]) -> Self {
        if let Some(line) = head.strip_prefix(b"#!") {
            return Self::script(line);
        }
        if !head.starts_with(ELF_MAGIC) {
            return Self::Unfit("neither an ELF program nor a script with `#!`");
        }
        let half = |at: usize| head.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        let (Some(class), Some(endian)) = (head.get(4), head.get(5)) else {
            return Self::Unfit("a truncated ELF file");
        };
        match (*class, *endian, half(16), half(18)) {
            (_, _, None, _) | (_, _, _, None) => Self::Unfit("a truncated ELF file"),
            (_, LITTLE_ENDIAN, _, Some(MACHINE_386)) => Self::Foreign("a 32-bit x86 program"),
            (CLASS_64, LITTLE_ENDIAN, Some(kind), Some(MACHINE_X86_64)) => {
                if matches!(kind, TYPE_EXECUTABLE | TYPE_SHARED) {
                    Self::X86_64
                } else {
                    Self::Unfit("an ELF file that is no program")
                }
            }
            (_, LITTLE_ENDIAN, _, Some(MACHINE_X86_64)) => Self::Foreign("an x32 program"),
            _ => Self::Foreign("a program for another machine"),
        }
    }

    fn script(line: &'a [u8]) -> Self {
        // To the kernel a carriage return is part of a name, and a zero byte ends the line.
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let trimmed = |text: &'a [u8]| -> &'a [u8] {
            let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
            let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
            &text[start..end]
        };
        let line = line.split(|byte| matches!(byte, b'\n' | b'\0')).next().unwrap_or_default();
        let mut words = trimmed(line).splitn(2, is_blank);
        match words.next() {
            Some(interpreter) if !interpreter.is_empty() => {
                Self::Script { interpreter, argument: words.next().map(trimmed) }
            }
            _ => Self::Unfit("a script whose `#!` line names no interpreter"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elf(class: u8, endian: u8, kind: u16, machine: u16) -> Vec<u8> {
        let mut head = b"\x7fELF".to_vec();
        head.extend([class, endian, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        head.extend(kind.to_le_bytes());
        head.extend(machine.to_le_bytes());
        head
    }

    #[test]
    fn programs_are_told_by_class_machine_and_type() {
        assert_eq!(Image::of(&elf(2, 1, 3, 62)), Image::X86_64);
        assert_eq!(Image::of(&elf(2, 1, 2, 62)), Image::X86_64);
        assert_eq!(Image::of(&elf(1, 1, 2, 3)), Image::Foreign("a 32-bit x86 program"));
        assert_eq!(Image::of(&elf(1, 1, 2, 62)), Image::Foreign("an x32 program"));
        assert_eq!(Image::of(&elf(2, 1, 3, 183)), Image::Foreign("a program for another machine"));
        assert_eq!(Image::of(&elf(2, 1, 1, 62)), Image::Unfit("an ELF file that is no program"));
        assert_eq!(Image::of(b"\x7fELF\x02\x01"), Image::Unfit("a truncated ELF file"));
    }

    #[test]
    fn a_bit_changes_the_user_or_the_group_that_it_names() {
        let of = |mode, owner| changes_user(mode, owner, (7, 70));
        assert!(of(0o4755, (0, 70)) && !of(0o4755, (7, 0)));
        assert!(of(0o2755, (7, 0)) && !of(0o2755, (0, 70)));
        assert!(of(0o6755, (7, 0)) && of(0o6755, (0, 70)) && !of(0o6755, (7, 70)));
        assert!(!of(0o2745, (7, 0)) && !of(0o755, (0, 0)));
    }

    #[test]
    fn a_script_line_is_split_once() {
        let script = |interpreter: &'static str, argument: Option<&'static str>| Image::Script {
            interpreter: interpreter.as_bytes(),
            argument: argument.map(str::as_bytes),
        };
        assert_eq!(Image::of(b"#!/bin/sh\necho"), script("/bin/sh", None));
        assert_eq!(
            Image::of(b"#! /usr/bin/env -S python3 -u \nx"),
            script("/usr/bin/env", Some("-S python3 -u"))
        );
        assert_eq!(Image::of(b"#!\t/bin/sh\t -e\t\n"), script("/bin/sh", Some("-e")));
        // The kernel looks for a file whose name ends in a carriage return, and finds none.
        assert_eq!(Image::of(b"#!/bin/sh\r\necho"), script("/bin/sh\r", None));
        assert_eq!(Image::of(b"#!/bin/sh -e\r\necho"), script("/bin/sh", Some("-e\r")));
        assert_eq!(Image::of(b"#!/bin/sh\0x -e\n"), script("/bin/sh", None));
        assert!(matches!(Image::of(b"#!  \n/bin/sh"), Image::Unfit(_)));
        assert!(matches!(Image::of(b"echo"), Image::Unfit(_)));
    }

    proptest! {
        #[test]
        fn any_head_is_classified(head in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Image::of(&head);
            let _ = Image::of(&[b"#!", &head[..]].concat());
            let _ = Image::of(&[ELF_MAGIC, &head[..]].concat());
        }
    }
}
