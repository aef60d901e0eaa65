//! The Linux mechanisms under memweir.
//!
//! Every system call and every `unsafe` block of the host side lives here: starting jobs, blocking
//! and resuming them, counting their memory traffic. Use cases see two traits, [`Blocker`] and
//! [`Meter`], each of which has a fake that injects faults. Nothing here decides which jobs run.

pub mod affinity;
pub mod arena;
pub mod blocker;
mod cgroup;
pub mod cgroup_tree;
pub mod clock;
mod companion;
pub mod cpu_use;
pub mod fake;
mod files;
pub mod foreground;
pub mod foreign;
pub mod gate;
pub mod guardian;
pub mod hog;
pub mod host;
mod image;
pub mod journal;
pub mod kernel_colors;
pub mod launch;
pub mod leftovers;
pub mod line_peer;
pub mod memories;
pub mod memory_group;
mod memory_limit;
pub mod meter;
mod missing;
mod nice;
pub mod notify;
pub mod oom;
mod os_error;
mod owner;
pub mod paging;
pub mod peer;
pub mod pidfd;
pub mod preload;
pub mod private;
pub mod probe;
pub mod qemu;
pub mod record;
mod scheduling_class;
mod shared_setting;
pub mod signals;
pub mod softpmu;
pub mod spread;
pub mod stderr;
pub mod supervise;
mod suspension;
pub mod swap;
pub mod terminal;
pub mod topology;
pub mod waker;
pub mod world;

pub use blocker::{Blocker, Mechanism};
pub use cgroup::is_gone;
pub use launch::Launch;
pub use meter::{Capabilities, Meter, MeterChoice, MeterError, MeterKind, Reading};
pub use missing::MissingFeature;
pub use os_error::OsError;
pub use probe::Probe;
pub use shared_setting::SharedSetting;
