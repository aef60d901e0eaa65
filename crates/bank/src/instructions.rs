//! Instruction traces in the text format of Ramulator's SimpleO3 cores. A line has the number of
//! instructions before a load, the load's address, and optionally the address of a store.

use std::fs::File;
use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use memweir_core::Direction;
use memweir_core::input::InputError;
use memweir_trace::{Format, Trace};

use crate::packed::{Reader, put, unzigzag, zigzag};
use crate::stream::{Access, AccessKind, Stream};

/// The only format of these traces: it need not be recognized.
const FORMAT: Option<Format> = Some(Format::SimpleO3);

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
        let file = File::open(path).map_err(|error| InputError::unreadable(path, &error))?;
        Self::of(Trace::read(&path.display().to_string(), Box::new(file), FORMAT)?)
    }

    /// Parses the text of a trace called `name`. Numbers are decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    /// Names the line and the field that cannot be used.
    pub fn parse(name: &str, text: &str) -> Result<Self, InputError> {
        Self::of(Trace::read(name, Box::new(Cursor::new(text.to_owned())), FORMAT)?)
    }

    /// Packs a trace, in which a read follows its instructions and a write belongs to the read
    /// before it.
    fn of(mut trace: Trace) -> Result<Self, InputError> {
        let mut packed = Vec::new();
        let (mut lines, mut before) = (0, 0);
        let mut next = trace.next_access()?;
        while let Some(load) = next {
            let instructions = load.gap - 1;
            if instructions > u64::from(u32::MAX) {
                let error = trace.refuse(format!("{instructions} is out of range"));
                return Err(error.key("bubbles"));
            }
            next = trace.next_access()?;
            let store = next.take_if(|access| access.direction == Direction::Write);
            put(&mut packed, instructions << 1 | u64::from(store.is_some()));
            put(&mut packed, zigzag(load.address.wrapping_sub(before)));
            if let Some(store) = store {
                put(&mut packed, zigzag(store.address.wrapping_sub(load.address)));
                next = trace.next_access()?;
            }
            before = load.address;
            lines += 1;
        }
        Ok(Self { packed, lines })
    }

    /// Returns the number of loads.
    #[must_use]
    pub fn loads(&self) -> u64 {
        self.lines
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

    fn rewind(&mut self) {
        (self.reader, self.before, self.store) = (Reader::default(), 0, None);
    }
}

impl Stream for InstructionStream {
    fn next(&mut self) -> Access {
        if let Some(address) = self.store.take() {
            return Access { instructions: 0, address, kind: AccessKind::Store, needs: 0 };
        }
        if self.reader.is_at_end(&self.trace.packed) {
            self.rewind();
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

    fn restart(&mut self) -> Option<Access> {
        self.rewind();
        Some(self.next())
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
        assert_eq!(stream.restart(), Some(access(11, 4096, AccessKind::Load)));
    }

    #[test]
    fn what_is_no_trace_is_refused_with_line_and_field() {
        for (text, said) in [
            ("", "t: the trace is empty"),
            ("1 64\n2", "t:2: read address: is missing"),
            ("1 64\n2 x", "t:2: read address: `x` is no number"),
            ("-1 64", "t:1: bubbles: `-1` is no number"),
            ("1 2 3 4", "t:1: end of line: `4` stands behind the last field"),
            ("99999999999 0", "t:1: bubbles: 99999999999 is out of range"),
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
