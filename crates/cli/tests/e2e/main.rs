//! End-to-end tests: the real command, real processes, real cgroups where root allows them.

mod bank_level;
mod batches;
mod colors;
mod detection;
mod dram;
mod emulated;
mod faults;
mod kills;
mod maps;
mod media;
mod paging;
mod reproduce;
mod signals;
mod sim;
mod support;
mod usage;
