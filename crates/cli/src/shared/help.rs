//! Tables in the help of commands.

use std::fmt::{Display, Write};

use serde::{Serialize, Serializer};

/// The names that an input can use, by what they name.
#[derive(Default)]
pub(crate) struct Names(Vec<Part>);

struct Part {
    key: &'static str,
    title: String,
    names: Vec<NameAndPurpose>,
}

#[derive(Serialize)]
struct NameAndPurpose {
    name: String,
    about: String,
}

impl Names {
    /// Adds names with their purpose. `key` stands for them in JSON, and `title` with `form`, the
    /// place in the input, in text.
    #[must_use]
    pub(crate) fn with<N: ToString, A: ToString>(
        mut self,
        key: &'static str,
        title: &str,
        form: &str,
        rows: impl IntoIterator<Item = (N, A)>,
    ) -> Self {
        let rows = rows.into_iter();
        let names = rows.map(|(name, about)| NameAndPurpose {
            name: name.to_string(),
            about: about.to_string(),
        });
        self.0.push(Part { key, title: format!("{title} ({form})"), names: names.collect() });
        self
    }

    /// One table after the other.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.0 {
            let rows = part.names.iter().map(|row| (&row.name, &row.about));
            section(&mut text, &part.title, rows);
        }
        text
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|part| (part.key, &part.names)))
    }
}

/// Appends a titled table of names and what they stand for.
pub(crate) fn section<N: ToString, A: Display>(
    text: &mut String,
    title: &str,
    rows: impl IntoIterator<Item = (N, A)>,
) {
    let rows: Vec<_> = rows.into_iter().map(|(name, about)| (name.to_string(), about)).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let _ = writeln!(text, "{title}:");
    for (name, about) in rows {
        let _ = writeln!(text, "  {name:width$}  {about}");
    }
    text.push('\n');
}
