//! Fields of a line and the numbers in them, without a copy of either.

/// Reason why a field was refused.
#[derive(Debug)]
pub(super) struct FieldError {
    pub(super) field: &'static str,
    pub(super) reason: String,
}

impl FieldError {
    pub(super) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

/// The fields of a line, separated by blanks.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Returns the next field; an error if there is none.
    pub(super) fn require(&mut self, field: &'static str) -> Result<&'a [u8], FieldError> {
        self.next().ok_or_else(|| FieldError::new(field, "is missing"))
    }

    /// Refuses further fields.
    pub(super) fn end(&mut self) -> Result<(), FieldError> {
        match self.next() {
            None => Ok(()),
            Some(field) => Err(FieldError::new(
                "end of line",
                format!("`{}` stands behind the last field", shown(field)),
            )),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let start = self.rest.iter().position(|byte| !blank(byte))?;
        let field = &self.rest[start..];
        let end = field.iter().position(blank).unwrap_or(field.len());
        self.rest = &field[end..];
        Some(&field[..end])
    }
}

/// Base of a number without a prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    Decimal,
    Hexadecimal,
}

/// Parses a number; with the prefix `0x` it is hexadecimal for any `base`.
#[inline]
pub(super) fn number(text: &[u8], base: Base, field: &'static str) -> Result<u64, FieldError> {
    let (digits, base) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, Base::Hexadecimal),
        digits => (digits, base),
    };
    let value = match base {
        Base::Decimal => decimal(digits),
        Base::Hexadecimal => hexadecimal(digits),
    };
    value.map_err(|wrong| {
        let text = shown(text);
        FieldError::new(
            field,
            match wrong {
                Wrong::TooLarge => format!("`{text}` does not fit into 64 bits"),
                Wrong::NoNumber if base == Base::Decimal => format!("`{text}` is no number"),
                Wrong::NoNumber => format!("`{text}` is no hexadecimal number"),
            },
        )
    })
}

enum Wrong {
    NoNumber,
    TooLarge,
}

#[inline]
fn decimal(digits: &[u8]) -> Result<u64, Wrong> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Wrong::NoNumber);
    }
    let step = |value: u64, digit: &u8| value.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
    digits.iter().try_fold(0, step).ok_or(Wrong::TooLarge)
}

#[inline]
fn hexadecimal(digits: &[u8]) -> Result<u64, Wrong> {
    let mut value = 0u64;
    let mut lost = 0;
    for byte in digits {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(Wrong::NoNumber),
        };
        lost |= value >> 60;
        value = value << 4 | u64::from(digit);
    }
    match (digits, lost) {
        ([], _) => Err(Wrong::NoNumber),
        (_, 0) => Ok(value),
        _ => Err(Wrong::TooLarge),
    }
}

/// Longest part of a wrong field that a message repeats.
const SHOWN: usize = 40;

/// Returns a field in the form in which messages show it.
pub(super) fn shown(field: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(field).chars().take(SHOWN).collect();
    let text = text.escape_debug().to_string();
    if field.len() > SHOWN { format!("{text}...") } else { text }
}
