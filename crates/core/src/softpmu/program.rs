//! Programs that can run in the emulator, and the command line that runs them there.
//!
//! Shared by the scheduler, which starts the first program of a job, and the plugin, which starts
//! those that the job executes later. Both read the first bytes of the file themselves.

/// Number of bytes that determine the kind of a file: the kernel's own limit for a `#!` line.
pub const HEAD: usize = 256;

/// Kind of a file, by its first [`HEAD`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// A 64-bit x86 program.
    X86_64,
    /// A script.
    Script {
        /// Path of its interpreter.
        interpreter: Vec<u8>,
        /// The rest of the line, as one argument.
        argument: Option<Vec<u8>>,
    },
    /// Something else; the reason is a clause for people.
    Unfit(&'static str),
}

const ELF_MAGIC: &[u8] = b"\x7fELF";
const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_SHARED: u16 = 3;
const MACHINE_386: u16 = 3;
const MACHINE_X86_64: u16 = 62;

impl Image {
    /// Classifies a file by its head, as the kernel does.
    #[must_use]
    pub fn of(head: &[u8]) -> Self {
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
            (_, LITTLE_ENDIAN, _, Some(MACHINE_386)) => Self::Unfit("a 32-bit x86 program"),
            (CLASS_64, LITTLE_ENDIAN, Some(kind), Some(MACHINE_X86_64)) => {
                if matches!(kind, TYPE_EXECUTABLE | TYPE_SHARED) {
                    Self::X86_64
                } else {
                    Self::Unfit("an ELF file that is no program")
                }
            }
            (_, LITTLE_ENDIAN, _, Some(MACHINE_X86_64)) => Self::Unfit("an x32 program"),
            _ => Self::Unfit("a program for another machine"),
        }
    }

    fn script(line: &[u8]) -> Self {
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
        let mut words = line.splitn(2, |b| matches!(b, b' ' | b'\t'));
        match words.next() {
            Some(interpreter) if !interpreter.is_empty() => Self::Script {
                interpreter: interpreter.to_vec(),
                argument: words.next().map(|rest| rest.trim_ascii().to_vec()),
            },
            _ => Self::Unfit("a script whose `#!` line names no interpreter"),
        }
    }
}

/// The emulator with the plugin, as started for every program of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatorCommand {
    /// Path of `qemu-x86_64`.
    pub emulator: Vec<u8>,
    /// Path of the plugin.
    pub plugin: Vec<u8>,
    /// Path at which the job's page can be opened.
    pub page: Vec<u8>,
    /// Path at which the last-level cache can be opened.
    pub llc: Vec<u8>,
    /// Gate that hands out the program's turns, if it runs in virtual time.
    pub gate: Option<GateOption>,
}

/// Gate parameters of a program that runs in virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOption {
    /// Path at which the page of the gate can be opened.
    pub path: Vec<u8>,
    /// The job, by its place in the batch.
    pub job: u32,
    /// Seed of the emulator's random numbers, such as those that a program gets at its start.
    pub seed: u64,
}

/// An argument vector and an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Arguments, the first of them the name.
    pub argv: Vec<Vec<u8>>,
    /// Environment, `NAME=value`.
    pub env: Vec<Vec<u8>>,
}

impl EmulatorCommand {
    /// Returns the command line that runs `path` with `argv` and `env` in the emulator.
    ///
    /// Variables of the dynamic loader must reach the program and not the emulator: they travel as
    /// options if their values contain no comma (which the emulator treats as the end).
    #[must_use]
    pub fn line(&self, path: &[u8], argv: &[Vec<u8>], env: Vec<Vec<u8>>) -> CommandLine {
        let (loader, env): (Vec<_>, Vec<_>) =
            env.into_iter().partition(|v| v.starts_with(b"LD_") && !v.contains(&b','));
        let mut words: Vec<Vec<u8>> = vec![self.emulator.clone()];
        // The program may use every instruction set that the emulator has.
        for word in ["-cpu", "max", "-plugin"] {
            words.push(word.into());
        }
        words.push(self.plugin_option());
        if let Some(gate) = &self.gate {
            words.push(b"-seed".to_vec());
            words.push(gate.seed.to_string().into_bytes());
        }
        for variable in loader {
            words.push(b"-E".to_vec());
            words.push(variable);
        }
        words.push(b"-0".to_vec());
        words.push(argv.first().cloned().unwrap_or_default());
        words.push(if path.starts_with(b"-") { [b"./", path].concat() } else { path.to_vec() });
        words.extend(argv.iter().skip(1).cloned());
        CommandLine { argv: words, env }
    }

    /// Returns `file,key=value,...` with the commas of the values doubled, as QEMU's option parser
    /// requires.
    fn plugin_option(&self) -> Vec<u8> {
        let mut option = b"file=".to_vec();
        let mut push = |prefix: &[u8], value: &[u8]| {
            option.extend_from_slice(prefix);
            for byte in value {
                option.push(*byte);
                if *byte == b',' {
                    option.push(b',');
                }
            }
        };
        push(b"", &self.plugin);
        push(b",page=", &self.page);
        push(b",llc=", &self.llc);
        if let Some(gate) = &self.gate {
            push(b",gate=", &gate.path);
            push(b",job=", gate.job.to_string().as_bytes());
            push(b",seed=", gate.seed.to_string().as_bytes());
        }
        option
    }
}

/// Returns the arguments that start the interpreter of the script `path`.
#[must_use]
pub fn script_argv(
    interpreter: &[u8],
    argument: Option<Vec<u8>>,
    path: &[u8],
    argv: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let mut words = vec![interpreter.to_vec()];
    words.extend(argument);
    words.push(path.to_vec());
    words.extend(argv.iter().skip(1).cloned());
    words
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
        assert_eq!(Image::of(&elf(1, 1, 2, 3)), Image::Unfit("a 32-bit x86 program"));
        assert_eq!(Image::of(&elf(1, 1, 2, 62)), Image::Unfit("an x32 program"));
        assert_eq!(Image::of(&elf(2, 1, 3, 183)), Image::Unfit("a program for another machine"));
        assert_eq!(Image::of(&elf(2, 1, 1, 62)), Image::Unfit("an ELF file that is no program"));
        assert_eq!(Image::of(b"\x7fELF\x02\x01"), Image::Unfit("a truncated ELF file"));
    }

    #[test]
    fn a_script_line_is_split_once() {
        let script = |interpreter: &str, argument: Option<&str>| Image::Script {
            interpreter: interpreter.into(),
            argument: argument.map(Into::into),
        };
        assert_eq!(Image::of(b"#!/bin/sh\necho"), script("/bin/sh", None));
        assert_eq!(
            Image::of(b"#! /usr/bin/env -S python3 -u \nx"),
            script("/usr/bin/env", Some("-S python3 -u"))
        );
        assert!(matches!(Image::of(b"#!  \n/bin/sh"), Image::Unfit(_)));
        assert!(matches!(Image::of(b"echo"), Image::Unfit(_)));
    }

    #[test]
    fn the_emulator_gets_name_loader_variables_and_doubled_commas() {
        let command = EmulatorCommand {
            emulator: b"/q".to_vec(),
            plugin: b"/a,b/p.so".to_vec(),
            page: b"/proc/1/fd/3".to_vec(),
            llc: b"/proc/1/fd/4".to_vec(),
            gate: None,
        };
        let env = vec![b"LD_PRELOAD=x.so".to_vec(), b"A=1,2".to_vec(), b"LD_DEBUG=a,b".to_vec()];
        let line = command.line(b"-odd", &[b"name".to_vec(), b"arg".to_vec()], env);
        let words: Vec<_> = line.argv.iter().map(|w| String::from_utf8_lossy(w)).collect();
        assert_eq!(
            words.join(" "),
            "/q -cpu max -plugin file=/a,,b/p.so,page=/proc/1/fd/3,llc=/proc/1/fd/4 \
             -E LD_PRELOAD=x.so -0 name ./-odd arg"
        );
        assert_eq!(line.env, [b"A=1,2".to_vec(), b"LD_DEBUG=a,b".to_vec()]);
        let gate = Some(GateOption { path: b"/proc/1/fd/5".to_vec(), job: 7, seed: 3 });
        let line = EmulatorCommand { gate, ..command }.line(b"/p", &[b"p".to_vec()], Vec::new());
        let words: Vec<_> = line.argv.iter().map(|w| String::from_utf8_lossy(w)).collect();
        assert_eq!(
            words.join(" "),
            "/q -cpu max -plugin file=/a,,b/p.so,page=/proc/1/fd/3,llc=/proc/1/fd/4,\
             gate=/proc/1/fd/5,job=7,seed=3 -seed 3 -0 p /p"
        );
    }

    #[test]
    fn a_script_is_passed_by_its_path_in_place_of_its_name() {
        let argv =
            script_argv(b"/bin/sh", Some(b"-e".to_vec()), b"./x", &[b"x".to_vec(), b"1".to_vec()]);
        assert_eq!(argv, [&b"/bin/sh"[..], b"-e", b"./x", b"1"]);
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
