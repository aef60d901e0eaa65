use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

const NOBODY: u32 = 65534;
const LIMIT: Bytes = Bytes(1 << 10);

/// A directory with a file of this user in it.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "content").unwrap();
    (folder, file)
}

/// The reason why something was refused.
fn reason<T>(result: io::Result<T>) -> String {
    result.err().expect("it is refused").to_string()
}

/// Returns true if files can be given to another user; says so if not.
fn root() -> bool {
    let root = user() == 0;
    if !root {
        memweir_test_support::skip!(Privilege, "files of another user need root");
    }
    root
}

#[test]
fn the_directory_is_private_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memweir");
    let made = RuntimeDirectory::at(&path).unwrap();
    assert_eq!(fs::metadata(made.path()).unwrap().mode() & 0o777, 0o700);
    assert_eq!(RuntimeDirectory::at(&path).unwrap(), made);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
    assert!(reason(RuntimeDirectory::at(&path)).contains("lets other users in"));
}

#[test]
fn links_and_files_are_no_run_time_directory() {
    let (folder, file) = folder();
    assert!(reason(RuntimeDirectory::at(&file)).contains("is not a directory"));
    let link = folder.path().join("link");
    symlink(folder.path(), &link).unwrap();
    assert!(reason(RuntimeDirectory::at(&link)).contains("is not a directory"));
    if root() {
        let path = folder.path().join("foreign");
        fs::create_dir(&path).unwrap();
        chown(&path, Some(NOBODY), None).unwrap();
        assert!(reason(RuntimeDirectory::at(&path)).contains("belongs to user 65534"));
    }
}

#[test]
fn root_has_a_place_of_its_own_and_others_that_of_their_session() {
    let session = || Some(PathBuf::from("/run/user/7"));
    assert_eq!(place(0, session()), Path::new("/run/memweir"));
    assert_eq!(place(7, session()), Path::new("/run/user/7/memweir"));
    assert_eq!(place(7, Some("relative".into())), Path::new("/tmp/memweir-7"));
    assert_eq!(place(7, None), Path::new("/tmp/memweir-7"));
}

#[test]
fn own_files_are_read_up_to_the_limit() {
    let (_folder, file) = folder();
    assert_eq!(read(&file, Bytes(7)).unwrap(), b"content");
    assert!(reason(read(&file, Bytes(6))).contains("is larger than 6 B"));
    File::options().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
    assert!(reason(read(&file, LIMIT)).contains("is larger than 1 KiB"));
}

#[test]
fn fifos_and_links_are_refused_without_waiting() {
    let (folder, file) = folder();
    let (fifo, link) = (folder.path().join("fifo"), folder.path().join("link"));
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    symlink(&file, &link).unwrap();
    for made in [read(&fifo, LIMIT).map(drop), create(&fifo).map(drop)] {
        assert!(reason(made).contains("is not a regular file"));
    }
    // With a reader, a FIFO can be opened for writing.
    let _reader = without_trust(OpenOptions::new().read(true), &fifo).unwrap();
    assert!(reason(create(&fifo)).contains("is not a regular file"));
    for made in [read(&link, LIMIT).map(drop), create(&link).map(drop)] {
        assert!(reason(made).contains("is a symbolic link"));
    }
    assert_eq!(fs::read(&file).unwrap(), b"content");
}

#[test]
fn a_created_file_is_empty_and_appended_to() {
    let (folder, file) = folder();
    let mut first = create(&file).unwrap();
    let mut second = first.try_clone().unwrap();
    first.write_all(b"1").unwrap();
    second.write_all(b"2").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"12");
    let other = folder.path().join("other");
    fs::hard_link(&file, &other).unwrap();
    assert!(reason(create(&other)).contains("has a second name"));
    assert_eq!(fs::read(&file).unwrap(), b"12");
}

#[test]
fn files_of_another_user_are_refused_but_for_logs_in_a_directory_of_theirs() {
    if !root() {
        return;
    }
    let (folder, file) = folder();
    chown(&file, Some(NOBODY), None).unwrap();
    assert!(reason(read(&file, LIMIT)).contains("belongs to user 65534"));
    assert!(reason(create(&file)).contains("belongs to user 65534"));
    assert_eq!(fs::read(&file).unwrap(), b"content");
    chown(folder.path(), Some(NOBODY), None).unwrap();
    create(&file).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"");
}

#[test]
fn links_of_other_users_are_told_from_own_ones() {
    let (folder, file) = folder();
    let link = folder.path().join("link");
    symlink(&file, &link).unwrap();
    for fine in [&file, &link, &folder.path().join("missing")] {
        no_foreign_link(fine).unwrap();
    }
    if root() {
        std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
        for path in [link.clone(), link.join("")] {
            assert!(
                reason(no_foreign_link(&path)).contains("symbolic link that belongs to user 65534")
            );
        }
        no_foreign_directory(folder.path()).unwrap();
        no_foreign_directory(&folder.path().join("missing")).unwrap();
        chown(folder.path(), Some(NOBODY), None).unwrap();
        assert!(reason(no_foreign_directory(folder.path())).contains("belongs to user 65534"));
    }
}
