//! Queries to the machine before a program is started, behind a trait so that the refusals can be
//! tested on machines that are not at hand.

use std::fs::File;
use std::io;
use std::path::Path;

use memweir_abi::preload::page::TmpfsOptions;
use memweir_core::Bytes;
use memweir_linux::host::{CAP_SYS_ADMIN, has_capability};
use memweir_linux::memories::{DaxDevice, Memories, available, free_on};
use memweir_linux::paging::{self, Obstacle};

/// Properties of a place's file system.
#[derive(Debug)]
pub struct FileFinding {
    /// True if it maps its files without the page cache.
    pub is_dax: bool,
    /// Bytes that may still be written to it.
    pub room: Bytes,
    /// Its mount options, if it is a tmpfs.
    pub tmpfs: Option<TmpfsOptions>,
    /// Result of trying to protect its pages.
    pub protection: Result<(), Obstacle>,
}

/// A machine, as far as paging needs it.
pub trait Surroundings {
    /// Returns the memory that programs could get now.
    fn available(&self) -> Option<Bytes>;
    /// Returns the NUMA nodes, each with its memory and the free part of it.
    fn nodes(&self) -> Vec<(usize, Bytes, Bytes)>;
    /// Returns the memory that is offered as devices.
    fn dax(&self) -> Vec<DaxDevice>;
    /// Checks that shared memory without a file can be paged to.
    ///
    /// # Errors
    /// The step that failed.
    fn try_memfd(&self) -> Result<(), Obstacle>;
    /// Returns true if this process may mount file systems.
    fn may_mount(&self) -> bool;
    /// Examines `directory` with a nameless file, to which pages would go.
    ///
    /// # Errors
    /// If there can be no such file.
    fn try_directory(&self, directory: &Path) -> io::Result<FileFinding>;
    /// Checks that a device can be mapped privately and protected.
    ///
    /// # Errors
    /// If it cannot be opened; within, the step that failed.
    fn try_device(&self, device: &Path) -> io::Result<Result<(), Obstacle>>;
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct Here;

impl Surroundings for Here {
    fn available(&self) -> Option<Bytes> {
        available()
    }

    fn nodes(&self) -> Vec<(usize, Bytes, Bytes)> {
        let nodes = Memories::here().nodes.into_iter();
        nodes.map(|n| (n.number, n.size, free_on(n.number).unwrap_or(n.size))).collect()
    }

    fn dax(&self) -> Vec<DaxDevice> {
        Memories::here().dax
    }

    fn try_memfd(&self) -> Result<(), Obstacle> {
        paging::try_memfd()
    }

    fn may_mount(&self) -> bool {
        has_capability(CAP_SYS_ADMIN)
    }

    fn try_directory(&self, directory: &Path) -> io::Result<FileFinding> {
        let file = tempfile::tempfile_in(directory)?;
        file.set_len(4096)?;
        Ok(FileFinding {
            is_dax: paging::is_dax(&file).unwrap_or(false),
            room: paging::room(&file)?,
            tmpfs: paging::tmpfs_options(&file)?,
            protection: paging::try_protection(&file),
        })
    }

    fn try_device(&self, device: &Path) -> io::Result<Result<(), Obstacle>> {
        Ok(paging::try_protection(&File::open(device)?))
    }
}
