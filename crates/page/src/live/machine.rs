//! What is asked of the machine before a program is started, behind a trait so that the refusals can be
//! tested on machines that one does not have.

use std::fs::File;
use std::io;
use std::path::Path;

use memweir_core::Bytes;
use memweir_linux::memories::{DaxDevice, Memories, available, free_on};
use memweir_linux::paging::{self, Obstacle};

/// What is known of the file system of a place.
#[derive(Debug)]
pub struct FileFinding {
    /// Whether it maps its files without the page cache.
    pub is_dax: bool,
    /// What may still be written to it.
    pub room: Bytes,
    /// Whether its pages can be protected.
    pub protection: Result<(), Obstacle>,
}

/// A machine, as far as paging needs it.
pub trait Surroundings {
    /// Memory that programs could get now.
    fn available(&self) -> Option<Bytes>;
    /// NUMA nodes with their memory and what of it is free.
    fn nodes(&self) -> Vec<(usize, Bytes, Bytes)>;
    /// Memory that is offered as a device.
    fn dax(&self) -> Vec<DaxDevice>;
    /// Whether shared memory without a file can be paged to.
    ///
    /// # Errors
    /// The step that failed.
    fn try_memfd(&self) -> Result<(), Obstacle>;
    /// Whether a nameless file in `directory` can be paged to.
    ///
    /// # Errors
    /// If there can be no such file.
    fn try_directory(&self, directory: &Path) -> io::Result<FileFinding>;
    /// Whether a device can be mapped privately and protected.
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

    fn try_directory(&self, directory: &Path) -> io::Result<FileFinding> {
        let file = tempfile::tempfile_in(directory)?;
        file.set_len(4096)?;
        Ok(FileFinding {
            is_dax: paging::is_dax(&file).unwrap_or(false),
            room: paging::room(&file)?,
            protection: paging::try_protection(&file),
        })
    }

    fn try_device(&self, device: &Path) -> io::Result<Result<(), Obstacle>> {
        Ok(paging::try_protection(&File::open(device)?))
    }
}
