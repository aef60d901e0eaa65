//! This machine, as calibrations, recordings and `doctor` name it.

use std::fs;

use memweir_core::Bytes;
use memweir_core::words::counted;
use memweir_linux::topology;

use crate::platform::Machine;

impl Machine {
    /// Describes this machine. Facts that the kernel does not report are `unknown`, zero or absent.
    #[must_use]
    pub fn here() -> Self {
        let cpus = topology::allowed_cpus().map_or(0, |cpus| cpus.len());
        let caches = topology::caches();
        Self {
            cpu: topology::cpu_name().unwrap_or_else(|| "unknown".to_owned()),
            cores: u32::try_from(cpus).unwrap_or(u32::MAX).max(1),
            memory: topology::memory().unwrap_or(Bytes::ZERO),
            hypervisor: topology::is_virtual().then(hypervisor),
            caches: caches.notice.is_none().then_some(caches.hierarchy),
        }
    }

    /// The machine in a few words, for reports and recordings.
    #[must_use]
    pub fn name(&self) -> String {
        let cores = counted(self.cores.into(), "core");
        let below = self.hypervisor.as_ref().map_or(String::new(), |name| format!(" on {name}"));
        format!("{}, {cores}{below}", self.cpu)
    }
}

/// Returns the hypervisor's name, as far as the system shows it.
fn hypervisor() -> String {
    ["/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .map(|text| text.trim().to_owned())
        .find(|name| !name.is_empty())
        .unwrap_or_else(|| "an unknown hypervisor".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_cores_memory_and_a_name() {
        let machine = Machine::here();
        assert!(machine.cores >= 1 && machine.memory > Bytes(1 << 20), "{machine:?}");
        assert!(machine.name().starts_with(&machine.cpu));
        assert_eq!(machine, Machine::here());
    }

    #[test]
    fn a_name_says_what_is_below() {
        let mut machine = Machine {
            cpu: "A CPU".to_owned(),
            cores: 2,
            memory: Bytes::ZERO,
            hypervisor: Some("KVM".to_owned()),
            caches: None,
        };
        assert_eq!(machine.name(), "A CPU, 2 cores on KVM");
        machine.hypervisor = None;
        machine.cores = 1;
        assert_eq!(machine.name(), "A CPU, 1 core");
    }
}
