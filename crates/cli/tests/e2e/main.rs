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
mod hogs;
mod install;
mod kernels;
mod kills;
mod manual;
mod maps;
mod media;
mod outputs;
mod paged;
mod paging;
mod profiles;
mod reproduce;
mod signals;
mod sim;
mod support;
mod usage;
mod watch;
