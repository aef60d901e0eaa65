use std::io;

use memweir_abi::preload::page::TmpfsOptions;
use memweir_linux::memories::{Backing, DaxDevice};

use super::*;
use crate::live::machine::FileFinding;

/// A machine with two nodes of 4 GiB, the second of which is half full, and its refusals.
#[derive(Clone, Copy, Default)]
struct Fake {
    memfd: Option<(Step, i32)>,
    file: Option<(Step, i32)>,
    is_dax: bool,
    is_disk: bool,
    is_user: bool,
    device: Option<(Step, i32)>,
    system_ram: bool,
}

const GIB: u64 = 1 << 30;

fn answer(trouble: Option<(Step, i32)>) -> Result<(), Obstacle> {
    let obstacle = |(step, errno)| Obstacle { step, error: io::Error::from_raw_os_error(errno) };
    trouble.map_or(Ok(()), |trouble| Err(obstacle(trouble)))
}

impl Surroundings for Fake {
    fn available(&self) -> Option<Bytes> {
        Some(Bytes(8 * GIB))
    }

    fn nodes(&self) -> Vec<(usize, Bytes, Bytes)> {
        vec![(0, Bytes(4 * GIB), Bytes(4 * GIB)), (2, Bytes(4 * GIB), Bytes(2 * GIB))]
    }

    fn dax(&self) -> Vec<DaxDevice> {
        vec![DaxDevice {
            name: "dax0.0".to_owned(),
            size: Bytes(4 * GIB),
            backing: Backing::Cxl,
            node: Some(2),
            is_system_ram: self.system_ram,
        }]
    }

    fn try_memfd(&self) -> Result<(), Obstacle> {
        answer(self.memfd)
    }

    fn may_mount(&self) -> bool {
        !self.is_user
    }

    fn try_directory(&self, directory: &Path) -> io::Result<FileFinding> {
        if directory != Path::new("/mnt") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (protection, room) = (answer(self.file), Bytes(GIB));
        let tmpfs = (!self.is_disk).then(TmpfsOptions::default);
        Ok(FileFinding { is_dax: self.is_dax, room, tmpfs, protection })
    }

    fn try_device(&self, device: &Path) -> io::Result<Result<(), Obstacle>> {
        if device != Path::new("/dev/dax0.0") {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(answer(self.device))
    }
}

const EPERM: i32 = 1;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

fn memfd(bytes: u64) -> Nvm {
    Nvm::Memfd(Bytes(bytes))
}

fn file(path: &str, size: Option<u64>) -> Nvm {
    Nvm::File { path: path.into(), size: size.map(Bytes) }
}

fn node(number: u32, size: Option<u64>) -> Nvm {
    Nvm::Node { number, size: size.map(Bytes) }
}

/// Reason and help of a refusal.
fn said(nvm: &Nvm, here: &Fake) -> String {
    match nvm.check(here).expect_err("it is refused") {
        NotStarted::Request(refusal) => {
            format!("input: {}; {}", refusal.reason, refusal.help.expect("help"))
        }
        NotStarted::Machine(missing) => format!("machine: {missing}"),
    }
}

#[track_caller]
fn says(nvm: &Nvm, here: &Fake, parts: &[&str]) {
    let said = said(nvm, here);
    for part in parts {
        assert!(said.contains(part), "`{part}` is missing in: {said}");
    }
}

#[test]
fn places_have_the_size_that_is_asked_for_or_all_there_is() {
    let here = Fake::default();
    assert_eq!(memfd(GIB).check(&here), Ok((NvmPlace::Memfd, Bytes(GIB))));
    let mnt = NvmPlace::Tmpfs(TmpfsOptions::default());
    assert_eq!(file("/mnt/nvm", None).check(&here), Ok((mnt.clone(), Bytes(GIB))));
    assert_eq!(file("/mnt/nvm", Some(GIB / 2)).check(&here), Ok((mnt, Bytes(GIB / 2))));
    let second = NvmPlace::Node { node: 2 };
    assert_eq!(node(2, None).check(&here), Ok((second.clone(), Bytes(2 * GIB))));
    assert_eq!(node(2, Some(3 * GIB)).check(&here), Ok((second, Bytes(3 * GIB))));
}

#[test]
fn what_is_not_there_is_refused_with_the_figure() {
    let here = Fake::default();
    says(&memfd(9 * GIB), &here, &["input: 9 GiB", "has 8 GiB", "`memfd:8192M` is the most"]);
    says(&file("/mnt", Some(2 * GIB)), &here, &["room for 1 GiB", "`file:/mnt:1024M`"]);
    says(&node(2, Some(5 * GIB)), &here, &["node 2 has 4 GiB", "`node:2:4096M`"]);
    says(&node(1, None), &here, &["no memory on a NUMA node 1", "0 (4 GiB), 2 (4 GiB)"]);
    says(&memfd(4096), &here, &["4 KiB of NVM", "2 MiB"]);
    says(&file("/gone/x", None), &here, &["/gone: entity not found", "tmpfs"]);
}

#[test]
fn what_the_kernel_does_not_do_is_told_with_what_would_help() {
    let with = |step, errno| Fake { memfd: Some((step, errno)), ..Fake::default() };
    let refused = |step, errno, parts: &[&str]| {
        says(&memfd(GIB), &with(step, errno), parts);
        says(&node(2, None), &with(step, errno), parts);
    };
    refused(Step::Open, EPERM, &["machine: ", "CAP_SYS_PTRACE", "vm.unprivileged_userfaultfd=1"]);
    refused(Step::Features, EPERM, &["machine: ", "forks, is for CAP_SYS_PTRACE"]);
    refused(Step::Open, ENOSYS, &["machine: ", "no userfaultfd", "CONFIG_USERFAULTFD"]);
    refused(Step::Features, EINVAL, &["machine: ", "Linux 6.4"]);
    refused(Step::Protect, EINVAL, &["machine: ", "CONFIG_PTE_MARKER_UFFD_WP"]);
}

#[test]
fn file_systems_that_cannot_be_protected_are_refused() {
    let dax = Fake { is_dax: true, ..Fake::default() };
    says(&file("/mnt", None), &dax, &["input: ", "DAX file system", "node:N"]);
    let disk = Fake { file: Some((Step::Protect, EINVAL)), ..Fake::default() };
    says(&file("/mnt", None), &disk, &["input: ", "cannot be protected", "mount -t tmpfs"]);
    let other = Fake { is_disk: true, ..Fake::default() };
    says(&file("/mnt", None), &other, &["input: /mnt is not on a tmpfs", "mount -t tmpfs"]);
    let user = Fake { is_user: true, ..Fake::default() };
    says(&file("/mnt", None), &user, &["machine: ", "CAP_SYS_ADMIN", "memfd:SIZE"]);
    let closed = Fake { file: Some((Step::Open, EPERM)), ..Fake::default() };
    says(&file("/mnt", None), &closed, &["machine: ", "CAP_SYS_PTRACE"]);
}

#[test]
fn devices_are_refused_with_the_reason() {
    let device = |name: &str| Nvm::Device(name.into());
    let refuses = Fake { device: Some((Step::Map, EINVAL)), ..Fake::default() };
    let parts = ["input: /dev/dax0.0 refuses private mappings", "--mode=system-ram dax0.0"];
    says(&device("/dev/dax0.0"), &refuses, &parts);
    says(&device("/dev/dax9.9"), &refuses, &["entity not found", "devices: dax0.0"]);
    let online = Fake { system_ram: true, ..refuses };
    says(&device("/dev/dax0.0"), &online, &["memory of the system already", "`node:2`"]);
}
