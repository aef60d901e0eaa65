//! Programs that can run in the emulator, and the command line that runs them there.
//!
//! Shared by the scheduler, which starts the first program of a job, and the plugin, which starts
//! those that the job executes later. Both read the first bytes of the file themselves.

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
    argument: Option<&[u8]>,
    path: &[u8],
    argv: &[Vec<u8>],
) -> Vec<Vec<u8>> {
    let mut words = vec![interpreter.to_vec()];
    words.extend(argument.map(<[u8]>::to_vec));
    words.push(path.to_vec());
    words.extend(argv.iter().skip(1).cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let argv = script_argv(b"/bin/sh", Some(b"-e"), b"./x", &[b"x".to_vec(), b"1".to_vec()]);
        assert_eq!(argv, [&b"/bin/sh"[..], b"-e", b"./x", b"1"]);
    }
}
