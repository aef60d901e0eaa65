//! Formulas over timing parameters: `CWL + BL / 2 + tWTR_S`, `max(tRTP, 4)`.

/// Syntax tree of a formula. Division rounds up, as time spans must not be shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Number(i64),
    Name(String),
    Pair(Operator, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
}

/// A parsed formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Formula(Node);

impl Formula {
    /// Parses `text`; the error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { rest: text };
        let node = reader.sum()?;
        match reader.peek() {
            None => Ok(Self(node)),
            Some(other) => Err(format!("`{other}` is not expected here")),
        }
    }

    /// Computes the value with the names that `value_of` knows; the error tells the unknown name.
    pub(super) fn value(&self, value_of: &impl Fn(&str) -> Option<i64>) -> Result<i64, String> {
        self.0.value(value_of)
    }
}

impl Node {
    fn value(&self, value_of: &impl Fn(&str) -> Option<i64>) -> Result<i64, String> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => {
                value_of(name).ok_or_else(|| format!("there is no parameter `{name}`"))
            }
            Self::Pair(operator, left, right) => {
                let (left, right) = (left.value(value_of)?, right.value(value_of)?);
                operator.apply(left, right).ok_or_else(|| "has no value".to_owned())
            }
        }
    }
}

impl Operator {
    fn apply(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide if right <= 0 => None,
            Self::Divide => Some(left.div_euclid(right) + i64::from(left.rem_euclid(right) != 0)),
            Self::Max => Some(left.max(right)),
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.accept(wanted) { Ok(()) } else { Err(format!("`{wanted}` is missing")) }
    }

    fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn sum(&mut self) -> Result<Node, String> {
        self.chain(&[('+', Operator::Add), ('-', Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Node, String> {
        self.chain(&[('*', Operator::Multiply), ('/', Operator::Divide)], Self::atom)
    }

    fn chain(
        &mut self,
        operators: &[(char, Operator)],
        operand: impl Fn(&mut Self) -> Result<Node, String>,
    ) -> Result<Node, String> {
        let mut node = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.accept(*sign)) {
            node = Node::Pair(*operator, Box::new(node), Box::new(operand(self)?));
        }
        Ok(node)
    }

    fn atom(&mut self) -> Result<Node, String> {
        match self.peek() {
            None => Err("the formula ends too early".to_owned()),
            Some('(') => {
                self.expect('(')?;
                let node = self.sum()?;
                self.expect(')')?;
                Ok(node)
            }
            Some(c) if c.is_ascii_digit() => {
                let digits = self.take_while(|c| c.is_ascii_digit());
                digits.parse().map(Node::Number).map_err(|_| format!("{digits} is too large"))
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
                if name == "max" { self.maximum() } else { Ok(Node::Name(name.to_owned())) }
            }
            Some(other) => Err(format!("`{other}` is not expected here")),
        }
    }

    fn maximum(&mut self) -> Result<Node, String> {
        self.expect('(')?;
        let left = self.sum()?;
        self.expect(',')?;
        let right = self.sum()?;
        self.expect(')')?;
        Ok(Node::Pair(Operator::Max, Box::new(left), Box::new(right)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Result<i64, String> {
        let value_of = |name: &str| match name {
            "CWL" => Some(12),
            "BL" => Some(8),
            "tWTR_S" => Some(3),
            _ => None,
        };
        Formula::parse(text)?.value(&value_of)
    }

    #[test]
    fn computes() {
        assert_eq!(value("CWL + BL/2 + tWTR_S"), Ok(19));
        assert_eq!(value("2 * (CWL - BL) - 1"), Ok(7));
        assert_eq!(value("max(tWTR_S, 4)"), Ok(4));
        assert_eq!(value("7 / 2"), Ok(4));
        assert_eq!(value("20 - 4 - 6"), Ok(10));
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(value("CWL + tWTR"), Err("there is no parameter `tWTR`".to_owned()));
        assert_eq!(value("CWL +"), Err("the formula ends too early".to_owned()));
        assert_eq!(value("CWL BL"), Err("`B` is not expected here".to_owned()));
        assert_eq!(value("(CWL"), Err("`)` is missing".to_owned()));
        assert_eq!(value("CWL / (BL - 8)"), Err("has no value".to_owned()));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_fall(text in "[CWLB0-9+*/(), max-]{0,40}") {
            let _ = value(&text);
        }
    }
}
