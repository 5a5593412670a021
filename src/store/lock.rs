//! File locks of the operating system. They are released when the process ends, however it ends. Messages name their
//! holders, by `/proc/locks`, which lists those of this machine.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pairloom_base::error::{Error, Result};

/// Name of the file in a folder through which the folder is locked.
pub(super) const LOCK_FILE: &str = "lock";

/// Locks a folder through the file `lock` in it; `None` if another process holds the lock.
pub(super) fn lock_folder(
    folder: &Path,
    try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Result<Option<File>> {
    let path = folder.join(LOCK_FILE);
    fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
    lock(&path, try_lock)
}

/// Locks a folder whose lock file exists, without writing; `None` if another process holds the lock.
pub(super) fn lock_existing(
    folder: &Path,
    try_lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> Result<Option<File>> {
    let path = folder.join(LOCK_FILE);
    let file = File::open(&path).map_err(|error| Error::io("open the lock", &path, &error))?;
    locked(file, &path, try_lock)
}

/// A lock whose file is removed when the lock is released. The file of a killed process is empty, and the next holder
/// removes it.
#[derive(Debug)]
pub(super) struct TemporaryLock(Option<(File, PathBuf)>);

impl TemporaryLock {
    /// A placeholder without a lock.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Locks the file at `path`; `None` if another process holds the lock.
    pub(super) fn try_lock(path: &Path) -> Result<Option<Self>> {
        loop {
            let Some(file) = lock(path, File::try_lock)? else { return Ok(None) };
            let locked = file.metadata().map_err(|error| Error::io("lock", path, &error))?;
            // The previous holder may have removed the file after it was opened here. Other processes then lock a new
            // file.
            if fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (locked.dev(), locked.ino())) {
                return Ok(Some(Self(Some((file, path.to_owned())))));
            }
        }
    }
}

impl Drop for TemporaryLock {
    fn drop(&mut self) {
        if let Some((_held, path)) = &self.0 {
            // The lock is still held here. Best effort.
            let _ = fs::remove_file(path);
        }
    }
}

fn lock(path: &Path, try_lock: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Option<File>> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = open.map_err(|error| Error::io("open the lock", path, &error))?;
    locked(file, path, try_lock)
}

fn locked(file: File, path: &Path, try_lock: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Option<File>> {
    match try_lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", path, &error)
            .hint("if the disk has no locks (`flock`), mount it with them, or use a store at a URL")),
    }
}

/// Describes the process that holds the lock of the file at `path`: `process 123, which is stopped`, or `another process`
/// if it is not known, as on another machine.
pub(super) fn describe_holder(path: &Path) -> String {
    let Some(process) = holder(path) else { return "another process".to_owned() };
    let is_stopped = fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| is_stopped(&stat));
    let state =
        if is_stopped { format!(", which is stopped (`kill -CONT {process}` continues it)") } else { String::new() };
    format!("process {process}{state}")
}

/// Process that holds the lock of a file.
fn holder(path: &Path) -> Option<u32> {
    let file = fs::metadata(path).ok()?;
    find_holder(&fs::read_to_string("/proc/locks").ok()?, file.dev(), file.ino())
}

/// Process in a list of locks such as `1: FLOCK  ADVISORY  WRITE 123 fd:01:4711 0 EOF`. Waiting processes have an arrow.
fn find_holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    let expected = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, process, place, ..] if place == expected => process.parse().ok(),
            _ => None,
        }
    })
}

/// True for the state of a process that is stopped: the field after its name in brackets, which may have any characters.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, rest)| matches!(rest.split_whitespace().next(), Some("T" | "t")))
}

/// Kind of the file system of `path`, if it is of the network and its locks may be seen by this machine only.
pub(super) fn unshared_locks(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    find_unshared(&fs::read_to_string("/proc/self/mountinfo").ok()?, &path)
}

/// Kind of the file system in a list of mounts such as `36 35 98:0 / /mnt rw shared:1 - nfs4 host:/ rw,local_lock=all`.
fn find_unshared(mounts: &str, path: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let place = before.split(' ').nth(4)?.replace("\\040", " ");
        let mut words = after.split(' ');
        let (kind, options) = (words.next()?.to_owned(), words.nth(1)?.to_owned());
        path.starts_with(&place).then_some((place.len(), kind, options))
    };
    // Of mounts at one place, the last covers the others.
    let (_, kind, options) = mounts.lines().filter_map(mount).max_by_key(|(length, ..)| *length)?;
    let has = |option_name: &str| options.split(',').any(|option| option == option_name);
    let is_unshared = match kind.as_str() {
        "nfs" | "nfs4" => has("nolock") || has("local_lock=all") || has("local_lock=flock"),
        "lustre" => has("localflock"),
        "cifs" | "smb3" => has("nobrl"),
        "9p" | "beegfs" | "vboxsf" | "virtiofs" => true,
        // Of these, some pass locks on to a server.
        kind => kind.starts_with("fuse.") && !matches!(kind, "fuse.ceph" | "fuse.glusterfs" | "fuse.juicefs"),
    };
    is_unshared.then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        assert_eq!(describe_holder(&path), "another process");
        file.try_lock().unwrap();
        // Where the list shows no locks of this file system, the process is not known.
        let described = describe_holder(&path);
        assert!(described == format!("process {}", std::process::id()) || described == "another process");
        let locks = "1: POSIX  ADVISORY  WRITE 7 fd:01:4711 0 EOF\n2: FLOCK  ADVISORY  WRITE 123 fd:01:4711 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 fd:01:4711 0 EOF\n3: FLOCK  ADVISORY  READ  8 00:2b:4711 0 EOF\n";
        assert_eq!(find_holder(locks, 0xfd01, 4711), Some(123));
        assert_eq!(find_holder(locks, 0x2b, 4711), Some(8));
        assert_eq!(find_holder(locks, 0xfd01, 4712), None);
        assert!(is_stopped("12 (a) T) T 1 2") && !is_stopped("12 (T) S 1 2") && !is_stopped(""));
    }

    #[test]
    fn network_disks_without_shared_locks_are_known() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      36 22 0:40 / /mnt rw shared:1 - nfs4 host:/a rw,vers=4.2,local_lock=none\n\
                      37 36 0:41 / /mnt/a\\040b rw - nfs host:/b rw,nolock,local_lock=all\n\
                      38 22 0:42 / /lus rw - lustre host:/c rw,flock\n\
                      39 22 0:43 / /bucket rw - fuse.gcsfuse a rw\n40 22 0:44 / /ntfs rw - fuseblk /dev/sdb1 rw\n";
        let kind = |path: &str| find_unshared(mounts, Path::new(path));
        assert_eq!(kind("/mnt/a b/store").as_deref(), Some("nfs"));
        assert_eq!(kind("/bucket/store").as_deref(), Some("fuse.gcsfuse"));
        assert!(["/mnt/store", "/home", "/lus/store", "/ntfs/store"].into_iter().all(|path| kind(path).is_none()));
    }
}
