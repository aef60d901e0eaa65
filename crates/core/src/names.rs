//! Values that users choose by name, and suggestions for misspelled names.

use std::path::Path;

use crate::input::Refusal;

/// A value that has a name on the command line, in files or in reports. [`named!`](crate::named)
/// implements it.
///
/// ```
/// use memweir_core::names::Named;
///
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Shape {
///     Round,
///     Square,
/// }
///
/// memweir_core::named! { Shape, "shape": Round = "round", Square = "square" }
///
/// assert_eq!(Shape::named("square"), Ok(Shape::Square));
/// assert_eq!(Shape::Round.to_string(), "round");
/// let refusal = Shape::named("sqare").unwrap_err();
/// assert_eq!(refusal.reason, "unknown shape `sqare`");
/// assert_eq!(refusal.help.unwrap(), "did you mean `square`? valid: round, square");
/// ```
pub trait Named: Copy + 'static {
    /// Kind of the values in messages: `meter`.
    const KIND: &'static str;

    /// Every value, in the order in which messages list them.
    const ALL: &'static [Self];

    /// Returns the name.
    #[must_use]
    fn name(self) -> &'static str;

    /// Returns every name, in the order of [`ALL`](Self::ALL).
    fn names() -> impl Iterator<Item = &'static str> + Clone {
        Self::ALL.iter().map(|value| value.name())
    }

    /// Returns the value called `name`.
    ///
    /// # Errors
    /// If there is none; the refusal suggests the nearest name.
    fn named(name: &str) -> Result<Self, Refusal> {
        choose(Self::KIND, name, Self::ALL.iter().map(|value| (value.name(), *value)))
    }
}

/// Gives the variants of an enum their names: a `name` method, [`Named`],
/// `Display` and `FromStr`. A variant without a name does not compile.
///
/// [`Named`]: crate::names::Named
#[macro_export]
macro_rules! named {
    ($vis:vis $type:ident, $kind:literal: $($variant:ident = $name:literal),+ $(,)?) => {
        impl $type {
            /// Returns the name on the command line, in files and in reports.
            #[must_use]
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl $crate::names::Named for $type {
            const KIND: &'static str = $kind;
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn name(self) -> &'static str {
                self.name()
            }
        }

        impl ::std::fmt::Display for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $crate::input::Refusal;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                <Self as $crate::names::Named>::named(name)
            }
        }
    };
}

/// Returns the one of `values` that is called `name`; `kind` is theirs in messages: `policy`.
///
/// # Errors
/// If there is none; the refusal suggests the nearest name.
pub fn choose<'a, T>(
    kind: &str,
    name: &str,
    values: impl IntoIterator<Item = (&'a str, T)> + Clone,
) -> Result<T, Refusal> {
    let mut all = values.clone().into_iter();
    all.find(|(known, _)| *known == name).map(|(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = values.into_iter().map(|(known, _)| known).collect();
        Refusal::new(format!("unknown {kind} `{name}`"), suggestion(name, names))
    })
}

/// Returns the one of `values` whose name is the ending of `path`, in upper or lower case. `what`
/// is the content of the file: `a table`.
///
/// # Errors
/// If the path has another ending, or none; the refusal suggests the nearest.
pub fn by_ending<T, const N: usize>(
    path: &Path,
    what: &str,
    values: [(&str, T); N],
) -> Result<T, Refusal> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let names = values.each_ref().map(|(name, _)| *name);
    let found = values.into_iter().find(|(name, _)| *name == ending).map(|(_, value)| value);
    found.ok_or_else(|| match ending.as_str() {
        "" => Refusal::new(
            format!("`{}` has no ending", path.display()),
            format!("end it in .{}", names.join(" or .")),
        ),
        other => {
            let reason = format!("{what} cannot be written as `.{other}`");
            Refusal::new(reason, suggestion(other, names))
        }
    })
}

/// Returns the candidate nearest to `given`, if one is near enough.
///
/// ```
/// use memweir_core::names::nearest;
///
/// assert_eq!(nearest("ideal-avg", ["os", "ideal-average"]), Some("ideal-average"));
/// assert_eq!(nearest("zebra", ["os", "random"]), None);
/// assert_eq!(nearest("ideal", ["os", "ideal-average"]), Some("ideal-average"));
/// assert_eq!(nearest("gddr6", ["ddr4-1866", "ddr3-1066"]), None);
/// assert_eq!(nearest("ddr4-2500", ["ddr4-2400", "ddr4-3200"]), Some("ddr4-2400"));
/// ```
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let likeness = strsim::jaro_winkler(&given, candidate);
            (likeness, strsim::normalized_levenshtein(&given, candidate), candidate)
        })
        // Jaro-Winkler alone finds `gddr6` near `ddr4-1866`. A prefix has a large edit distance.
        .filter(|(likeness, edits, candidate)| {
            *likeness >= 0.7 && (*edits >= 0.4 || candidate.starts_with(&given))
        })
        // Equal digits in other positions are as near by the first measure, but not by the second.
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)))
        .map(|(_, _, candidate)| candidate)
}

/// Returns a sentence that lists the valid choices, preceded by the nearest one if there is any.
pub fn suggestion<'a>(
    given: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    let list = candidates.clone().into_iter().collect::<Vec<_>>().join(", ");
    match nearest(given, candidates) {
        Some(name) => format!("did you mean `{name}`? valid: {list}"),
        None => format!("valid: {list}"),
    }
}
