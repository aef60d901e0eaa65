//! Instruction traces in the text format of Ramulator's SimpleO3 cores. A line has the number of
//! instructions before a load, the load's address, and optionally the address of a store.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use memweir_core::input::InputError;
use memweir_trace::decompressed;

use crate::packed::{Reader, put, unzigzag, zigzag};
use crate::stream::{Access, AccessKind, Stream};

/// An instruction trace, packed in memory: a few bytes per access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionTrace {
    /// Per line: instructions before the load times two, plus one if there is a store; the load's
    /// address as a difference from the previous line's; the store's address as a difference from
    /// the load's.
    packed: Vec<u8>,
    lines: u64,
}

impl InstructionTrace {
    /// Reads the file at `path`, which may be compressed.
    ///
    /// # Errors
    /// Names the file, the line and the field that cannot be used.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let mut text = String::new();
        File::open(path)
            .and_then(|file| decompressed(Box::new(file)))
            .and_then(|mut input| input.read_to_string(&mut text))
            .map_err(|error| InputError::unreadable(path, &error))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses the text of a trace called `name`. Numbers are decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    /// Names the line and the field that cannot be used.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        let mut trace = Self { packed: Vec::with_capacity(text.len() / 2), lines: 0 };
        let mut before = 0;
        for (line, content) in text.lines().enumerate() {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            before = trace
                .append(content, before)
                .map_err(|(field, reason)| {
                    InputError::new(name, reason).line(line + 1).key(field).help(
                        "write `INSTRUCTIONS LOAD_ADDRESS` or `INSTRUCTIONS LOAD_ADDRESS STORE_ADDRESS`",
                    )
                })?;
        }
        if trace.lines == 0 {
            return Err(InputError::new(name, "the trace has no access"));
        }
        Ok(trace)
    }

    fn append(&mut self, content: &str, before: u64) -> Result<u64, (&'static str, String)> {
        const FIELDS: [&str; 3] = ["instructions", "load address", "store address"];
        let mut values = [0u64; 3];
        let mut count = 0;
        for field in content.split_whitespace() {
            let Some(name) = FIELDS.get(count) else {
                return Err(("line", "has more than three fields".to_owned()));
            };
            values[count] =
                number(field).ok_or_else(|| (*name, format!("`{field}` is no number")))?;
            count += 1;
        }
        if count < 2 {
            return Err(("load address", "is missing".to_owned()));
        }
        let [instructions, load, store] = values;
        if instructions > u64::from(u32::MAX) {
            return Err(("instructions", format!("{instructions} is out of range")));
        }
        put(&mut self.packed, instructions << 1 | u64::from(count == 3));
        put(&mut self.packed, zigzag(load.wrapping_sub(before)));
        if count == 3 {
            put(&mut self.packed, zigzag(store.wrapping_sub(load)));
        }
        self.lines += 1;
        Ok(load)
    }

    /// Returns the number of loads.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.lines
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A core's endless pass through a trace.
#[derive(Clone, Debug)]
pub struct InstructionStream {
    trace: Arc<InstructionTrace>,
    reader: Reader,
    before: u64,
    store: Option<u64>,
}

impl InstructionStream {
    /// Creates a stream that starts at the beginning of the trace.
    #[must_use]
    pub fn new(trace: Arc<InstructionTrace>) -> Self {
        Self { trace, reader: Reader::default(), before: 0, store: None }
    }
}

impl Stream for InstructionStream {
    fn next(&mut self) -> Access {
        if let Some(address) = self.store.take() {
            return Access { instructions: 0, address, kind: AccessKind::Store, needs: 0 };
        }
        if self.reader.is_at_end(&self.trace.packed) {
            self.restart();
        }
        let packed = &self.trace.packed;
        let head = self.reader.take(packed);
        let address = self.before.wrapping_add(unzigzag(self.reader.take(packed)));
        self.before = address;
        if head & 1 == 1 {
            self.store = Some(address.wrapping_add(unzigzag(self.reader.take(packed))));
        }
        Access { instructions: (head >> 1) + 1, address, kind: AccessKind::Load, needs: 0 }
    }

    fn restart(&mut self) {
        (self.reader, self.before, self.store) = (Reader::default(), 0, None);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_store_belongs_to_the_instruction_of_its_load() {
        let trace = InstructionTrace::parse("t", "# core 0\n10 0x1000 4096\n\n3 64\n").unwrap();
        let mut stream = InstructionStream::new(Arc::new(trace));
        let access = |instructions, address, kind| Access { instructions, address, kind, needs: 0 };
        for _ in 0..2 {
            assert_eq!(stream.next(), access(11, 4096, AccessKind::Load));
            assert_eq!(stream.next(), access(0, 4096, AccessKind::Store));
            assert_eq!(stream.next(), access(4, 64, AccessKind::Load));
        }
        stream.restart();
        assert_eq!(stream.next().address, 4096);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_line_and_field() {
        for (text, said) in [
            ("", "t: the trace has no access"),
            ("1 64\n2", "t:2: load address: is missing"),
            ("1 64\n2 x", "t:2: load address: `x` is no number"),
            ("-1 64", "t:1: instructions: `-1` is no number"),
            ("1 2 3 4", "t:1: line: has more than three fields"),
            ("99999999999 0", "t:1: instructions: 99999999999 is out of range"),
        ] {
            let error = InstructionTrace::parse("t", text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,40}|[0-9a-fx \n-]{0,60}") {
            if let Ok(trace) = InstructionTrace::parse("t", &text) {
                let loads = trace.loads();
                let mut stream = InstructionStream::new(Arc::new(trace));
                for _ in 0..3 * loads {
                    stream.next();
                }
            }
        }

        #[test]
        fn packing_loses_nothing(
            lines in prop::collection::vec((0u32.., any::<u64>(), any::<Option<u64>>()), 1..40),
        ) {
            let text: String = lines
                .iter()
                .map(|(gap, load, store)| match store {
                    Some(store) => format!("{gap} {load} {store}\n"),
                    None => format!("{gap} {load}\n"),
                })
                .collect();
            let trace = Arc::new(InstructionTrace::parse("t", &text).unwrap());
            let mut stream = InstructionStream::new(trace);
            for (gap, load, store) in lines {
                let access = stream.next();
                prop_assert_eq!((access.instructions, access.address), (u64::from(gap) + 1, load));
                if let Some(store) = store {
                    prop_assert_eq!(stream.next().address, store);
                }
            }
        }
    }
}
