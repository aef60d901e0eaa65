//! Reads amounts of memory, and whether the kernel moved pages, from /proc without allocating.

use std::ffi::CStr;

use crate::sys;

/// Reads a file into `buffer`, as far as there is room.
pub(crate) fn read<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    let Ok(fd) = sys::open(path, libc::O_RDONLY) else { return &[] };
    let mut length = 0;
    while let Ok(bytes @ 1..) = sys::read_at(fd, &mut buffer[length..], length as u64) {
        length += bytes;
    }
    sys::close(fd);
    &buffer[..length]
}

/// Returns the first number of the text; 0 if there is none.
pub(crate) fn number(text: &[u8]) -> u64 {
    let digits = text.iter().skip_while(|b| !b.is_ascii_digit()).take_while(|b| b.is_ascii_digit());
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

/// Returns the number in the line that starts with `key`.
pub(crate) fn field(text: &[u8], key: &[u8]) -> u64 {
    let mut lines = text.split(|byte| *byte == b'\n');
    lines.find_map(|line| line.strip_prefix(key)).map_or(0, number)
}

/// Returns a count that changes whenever the kernel may have moved a page of any process.
pub(crate) fn moved_by_kernel() -> u64 {
    let mut buffer = [0; 8192];
    let text = read(c"/proc/vmstat", &mut buffer);
    let keys: [&[u8]; 4] = [b"pgmigrate_success ", b"pswpin ", b"thp_collapse_alloc ", b"cow_ksm "];
    keys.iter().map(|key| field(text, key)).sum()
}

/// Returns the pages of address space and of data, which change with the mappings.
pub(crate) fn sizes() -> [u64; 2] {
    let mut buffer = [0; 256];
    let text = read(c"/proc/self/statm", &mut buffer);
    let mut words = text.split(|byte| *byte == b' ').map(number);
    [words.next().unwrap_or(0), words.nth(4).unwrap_or(0)]
}

/// Returns the number of present pages of memory without a file.
pub(crate) fn own_pages() -> usize {
    let mut buffer = [0; 256];
    usage_of(read(c"/proc/self/statm", &mut buffer)).0
}

/// Returns the same from the text of `statm`, and the pages of address space that can become such:
/// private writable mappings, and stacks.
pub(crate) fn usage_of(text: &[u8]) -> (usize, usize) {
    let mut words = text.split(|byte| *byte == b' ').skip(1).map(number);
    let (resident, shared) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    (resident.saturating_sub(shared) as usize, words.nth(2).unwrap_or(0) as usize)
}

/// Returns the bytes that are available to the machine.
pub(crate) fn available() -> u64 {
    meminfo(b"MemAvailable:")
}

/// Returns the bytes that the machine has.
pub(crate) fn total() -> u64 {
    meminfo(b"MemTotal:")
}

fn meminfo(key: &[u8]) -> u64 {
    let mut buffer = [0; 4096];
    field(read(c"/proc/meminfo", &mut buffer), key) * 1024
}
