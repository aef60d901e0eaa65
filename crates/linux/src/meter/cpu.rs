//! The CPU of this machine, as `/proc/cpuinfo` describes it, to be matched against event files.

use std::fmt;

use crate::topology::value_of;

/// Vendor, family and model of a CPU.
///
/// On x86 these are the `vendor_id`, `cpu family`, `model` and `stepping` of `/proc/cpuinfo`. On
/// ARM the vendor is the `CPU implementer` as the kernel writes it (`0x41` is Arm Ltd), the family
/// the architecture, the model the part number, and the stepping the revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// `GenuineIntel`, `AuthenticAMD`, or an ARM implementer such as `0x41`.
    pub vendor: String,
    /// The x86 family (base and extended together), or the ARM architecture.
    pub family: u32,
    /// The x86 model (base and extended together), or the ARM part number.
    pub model: u32,
    /// The x86 stepping, or the ARM revision.
    pub stepping: u32,
}

/// Why the model is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuModelError {
    /// `/proc/cpuinfo` could not be read.
    #[error("cannot read /proc/cpuinfo: {0}")]
    Unreadable(String),
    /// A field is missing or is not a number.
    #[error("/proc/cpuinfo has no usable `{0}`")]
    Field(&'static str),
    /// The machine has cores of several kinds, on which one event means several things.
    #[error("this machine mixes CPU models ({0} and {1})")]
    Mixed(Box<CpuModel>, Box<CpuModel>),
}

impl CpuModel {
    /// Reads the CPU of this machine.
    pub fn of_this_machine() -> Result<Self, CpuModelError> {
        let text = std::fs::read_to_string("/proc/cpuinfo")
            .map_err(|error| CpuModelError::Unreadable(error.to_string()))?;
        Self::from_cpuinfo(&text)
    }

    /// Reads the text of `/proc/cpuinfo`. Every processor listed must be of the same model; the
    /// stepping is that of the first.
    pub fn from_cpuinfo(text: &str) -> Result<Self, CpuModelError> {
        let mut found: Option<Self> = None;
        for block in text.split("\n\n") {
            if value_of(block, "processor").is_none() {
                continue;
            }
            let model = Self::from_block(block)?;
            match &found {
                None => found = Some(model),
                Some(first) if first.same_model(&model) => {}
                Some(first) => {
                    return Err(CpuModelError::Mixed(Box::new(first.clone()), Box::new(model)));
                }
            }
        }
        found.ok_or(CpuModelError::Field("processor"))
    }

    fn same_model(&self, other: &Self) -> bool {
        (&self.vendor, self.family, self.model) == (&other.vendor, other.family, other.model)
    }

    fn from_block(block: &str) -> Result<Self, CpuModelError> {
        let text = |name| value_of(block, name);
        let number = |name| text(name).and_then(parse_number).ok_or(CpuModelError::Field(name));
        if let Some(vendor) = text("vendor_id") {
            return Ok(Self {
                vendor: vendor.to_owned(),
                family: number("cpu family")?,
                model: number("model")?,
                stepping: number("stepping")?,
            });
        }
        let vendor = text("CPU implementer").ok_or(CpuModelError::Field("vendor_id"))?;
        Ok(Self {
            vendor: vendor.to_lowercase(),
            family: number("CPU architecture")?,
            model: number("CPU part")?,
            stepping: number("CPU revision")?,
        })
    }
}

impl fmt::Display for CpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} family {:#x} model {:#x} stepping {}",
            self.vendor, self.family, self.model, self.stepping
        )
    }
}

/// Parses a number as `/proc/cpuinfo` writes them: decimal on x86, `0x` on ARM.
pub(super) fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ZEN5: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\n\
        model\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n";
    const NEOVERSE_N1: &str = "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n\
        CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n\
        CPU revision\t: 1\n";

    #[test]
    fn reads_x86() {
        let two = format!("{ZEN5}\n{}\n", ZEN5.replace("processor\t: 0", "processor\t: 1"));
        let expected =
            CpuModel { vendor: "AuthenticAMD".into(), family: 26, model: 2, stepping: 1 };
        assert_eq!(CpuModel::from_cpuinfo(&two), Ok(expected));
    }

    #[test]
    fn reads_arm() {
        let expected = CpuModel { vendor: "0x41".into(), family: 8, model: 0xd0c, stepping: 1 };
        assert_eq!(CpuModel::from_cpuinfo(NEOVERSE_N1), Ok(expected));
    }

    #[test]
    fn cores_of_two_kinds_are_told_apart() {
        let little = NEOVERSE_N1.replace("0xd0c", "0xd05");
        let mixed = CpuModel::from_cpuinfo(&format!("{NEOVERSE_N1}\n{little}"));
        assert!(matches!(mixed, Err(CpuModelError::Mixed(_, _))), "{mixed:?}");
        // A board summary at the end, as on many ARM machines, is no processor.
        let board = format!("{NEOVERSE_N1}\nHardware\t: BCM2835\nRevision\t: a02082\n");
        assert!(CpuModel::from_cpuinfo(&board).is_ok());
    }

    #[test]
    fn says_which_field_is_missing() {
        let text = ZEN5.replace("stepping\t: 1\n", "");
        assert_eq!(CpuModel::from_cpuinfo(&text), Err(CpuModelError::Field("stepping")));
        let text = ZEN5.replace("26", "twenty-six");
        assert_eq!(CpuModel::from_cpuinfo(&text), Err(CpuModelError::Field("cpu family")));
        assert_eq!(CpuModel::from_cpuinfo(""), Err(CpuModelError::Field("processor")));
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn this_machine_has_a_model() {
        match CpuModel::of_this_machine() {
            Ok(model) => assert!(!model.vendor.is_empty()),
            Err(CpuModelError::Mixed(_, _)) => {
                memweir_test_support::skip!(Processor, "cores of several kinds")
            }
            Err(error) => panic!("{error}"),
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(processor|vendor_id|model|CPU part|[ -~]{0,9})*[:\n\t 0-9a-fx]{0,40}") {
            let _ = CpuModel::from_cpuinfo(&text);
        }

        #[test]
        fn damaged_files_never_panic(cut in 0usize..200, junk in "\\PC{0,20}") {
            let mut text: String = ZEN5.chars().take(cut).collect();
            text.push_str(&junk);
            let _ = CpuModel::from_cpuinfo(&text);
        }

        #[test]
        fn every_number_reads_back(family: u32, model: u32, stepping: u32) {
            let expected = CpuModel { vendor: "GenuineIntel".into(), family, model, stepping };
            let text = format!(
                "processor : 7\nvendor_id : GenuineIntel\ncpu family : {family}\n\
                 model : {model}\nstepping : {stepping}\n"
            );
            prop_assert_eq!(CpuModel::from_cpuinfo(&text), Ok(expected));
        }
    }
}
