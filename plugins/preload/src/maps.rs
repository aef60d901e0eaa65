//! The mappings of the program, from `/proc/self/maps`, without allocating.

use crate::{memory, sys};

/// Size of the text buffer, of which only the used part takes memory. The kernel allows 65,530
/// mappings unless it is told otherwise, of about a hundred bytes each.
const TEXT: usize = 8 << 20;

/// Identity of a mapped file as the kernel reports it for a mapping; that of `fstat` may differ.
/// All zero means no file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileId {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// A mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) readable: bool,
    /// Private memory without a file.
    pub(crate) anonymous: bool,
    pub(crate) file: FileId,
}

impl Mapping {
    /// Returns the protection in the form that `mmap` takes.
    pub(crate) fn protection(self) -> i32 {
        let bit = |set: bool, bit: i32| if set { bit } else { 0 };
        bit(self.readable, libc::PROT_READ)
            | bit(self.writable, libc::PROT_WRITE)
            | bit(self.executable, libc::PROT_EXEC)
    }
}

/// Parses one line of the file.
pub(crate) fn parse(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    let mut range = fields.next()?.split(|byte| *byte == b'-');
    let (start, end) = (hexadecimal(range.next()?)?, hexadecimal(range.next()?)?);
    let flags = fields.next()?;
    let (device, inode) = (fields.nth(1)?, fields.next()?);
    let name = fields.next().unwrap_or(b"");
    let own =
        name.is_empty() || name == b"[heap]" || name == b"[stack]" || name.starts_with(b"[anon:");
    Some(Mapping {
        start,
        end,
        readable: flags.first() == Some(&b'r'),
        writable: flags.get(1) == Some(&b'w'),
        executable: flags.get(2) == Some(&b'x'),
        anonymous: flags.get(3) == Some(&b'p') && inode == b"0" && own,
        file: FileId { device: device_of(device)?, inode: memory::number(inode) },
    })
}

/// Calls `read` with each current mapping, in little memory. Mappings that change meanwhile may be
/// left out, or reported twice.
pub(crate) fn for_each(mut read: impl FnMut(&[u8], Mapping)) {
    let mut text = [0u8; 4096];
    let Ok(fd) = sys::open(c"/proc/self/maps", libc::O_RDONLY) else { return };
    let mut offset = 0;
    while let Ok(length @ 1..) = sys::read_at(fd, &mut text, offset) {
        // Truncated lines are read again.
        let whole =
            text[..length].iter().rposition(|byte| *byte == b'\n').map_or(length, |at| at + 1);
        for line in text[..whole].split(|byte| *byte == b'\n') {
            if let Some(mapping) = parse(line) {
                read(line, mapping);
            }
        }
        offset += whole as u64;
    }
    sys::close(fd);
}

/// Parses two hexadecimal numbers with a colon between them.
fn device_of(text: &[u8]) -> Option<u64> {
    let mut numbers = text.split(|byte| *byte == b':');
    let (major, minor) = (hexadecimal(numbers.next()?)?, hexadecimal(numbers.next()?)?);
    Some(major as u64 | (minor as u64) << 32)
}

fn hexadecimal(text: &[u8]) -> Option<usize> {
    let digit =
        |number: usize, byte: &u8| Some(number << 4 | (*byte as char).to_digit(16)? as usize);
    text.iter().try_fold(0, digit)
}

/// The text of the file, read at once.
#[repr(C)]
pub(crate) struct Maps {
    text: [u8; TEXT],
    length: usize,
}

impl Maps {
    /// Reads the mappings as they are now.
    pub(crate) fn read(&mut self) {
        self.length = memory::read(c"/proc/self/maps", &mut self.text).len();
    }

    /// Returns the mapping whose line begins at the byte `at` of the text, and the start of the
    /// next line.
    pub(crate) fn next(&self, at: usize) -> Option<(Mapping, usize)> {
        let rest = self.text.get(at..self.length)?;
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        Some((parse(&rest[..end]).unwrap_or_default(), at + end + 1))
    }

    /// Returns the mapping that holds `address`, or the next one.
    pub(crate) fn find_next(&self, address: usize) -> Option<Mapping> {
        let mut at = 0;
        while let Some((mapping, next)) = self.next(at) {
            if mapping.end > address {
                return Some(mapping);
            }
            at = next;
        }
        None
    }

    /// Returns the mapping that holds `address`.
    pub(crate) fn find(&self, address: usize) -> Option<Mapping> {
        self.find_next(address).filter(|mapping| mapping.start <= address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines() {
        let heap = parse(
            b"55d0c2a00000-55d0c2a21000 rw-p 00000000 00:00 0                          [heap]",
        );
        let heap = heap.unwrap();
        assert_eq!((heap.start, heap.end), (0x55d0_c2a0_0000, 0x55d0_c2a2_1000));
        assert!(heap.anonymous && heap.writable && !heap.executable);
        let anonymous = |line: &[u8]| parse(line).unwrap().anonymous;
        assert!(anonymous(b"7f0000000000-7f0000001000 ---p 00000000 00:00 0 "));
        assert!(!anonymous(b"7f0000000000-7f0000001000 rw-s 00000000 00:01 5 /dev/zero (deleted)"));
        assert!(!anonymous(b"7f0000000000-7f0000001000 rw-p 00000000 08:01 5 /lib/x.so"));
        let file =
            parse(b"7f0000000000-7f0000001000 rw-p 00000000 08:1a 52 /lib/x.so").unwrap().file;
        assert_eq!(file, FileId { device: 8 | 0x1a << 32, inode: 52 });
        assert!(!anonymous(b"7f0000000000-7f0000001000 r-xp 00000000 00:00 0 [vdso]"));
        assert_eq!(parse(b"nonsense"), None);
    }

    #[test]
    fn the_last_of_many_mappings_is_found() {
        const MAPPINGS: usize = 65_530;
        let mut maps = crate::all_zero::<Maps>();
        for start in (0..MAPPINGS).map(|mapping| mapping << 13) {
            let (end, file) = (start + 0x1000, "08:01 1234567    /usr/lib/x86_64-linux-gnu/a.so.1");
            let line = format!("{start:012x}-{end:012x} rw-p 00000000 {file}\n");
            maps.text[maps.length..][..line.len()].copy_from_slice(line.as_bytes());
            maps.length += line.len();
        }
        assert!(maps.find((MAPPINGS - 1) << 13).is_some());
    }
}
