//! End-to-end tests: the real command, real processes, real cgroups where root allows them.

mod bank_level;
mod batches;
mod colors;
mod detection;
mod dram;
mod dram_check;
mod dram_side_by_side;
mod emulated;
mod faults;
mod install;
mod kernels;
mod kills;
mod maps;
mod media;
mod paged;
mod paging;
mod reproduce;
mod signals;
mod sim;
mod support;
mod usage;
