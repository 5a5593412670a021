//! Files and folders of a source, with their stamps: as long as a stamp stays the same, the content is assumed to be
//! unchanged. By the stamps of all folders, the digest of a source is known without a look at its files.

use std::borrow::Cow;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread as scoped;

use crossbeam::channel::{Receiver, Sender, bounded};
use serde::{Deserialize, Serialize};
use walkdir::{DirEntry, WalkDir};

use super::{seal, unseal};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::RowKey;
use pairloom_storage::files::without_folder;
use pairloom_store::{Store, folder_times_name};

/// Number of files whose stamps a thread reads at a time.
const BLOCK: usize = 1024;

/// Largest number of blocks that wait for a thread.
const WAITING_BLOCKS: usize = 16;

/// Files and folders at or below a path.
#[derive(Debug)]
pub(super) struct Listing {
    /// Files, sorted by the bytes of their paths.
    pub files: Vec<SourceFile>,
    /// Folders with their stamps, as they were before their entries were read.
    pub folders: Vec<(PathBuf, FileStamp)>,
    /// True if no folder was changed shortly before it was listed.
    pub is_settled: bool,
}

/// File of a source.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub path: PathBuf,
    pub bytes: u64,
    /// Key of the path in the source.
    pub name: RowKey,
    /// Key of the stamp.
    pub stamp: RowKey,
    /// True if the file was last changed so long before it was read that a later change has another time.
    pub is_settled: bool,
}

impl SourceFile {
    /// File below `source` with this metadata, at the time `now` in seconds.
    pub fn new(source: &Path, path: PathBuf, meta: &Metadata, now: i64) -> Self {
        let stamp = FileStamp::of(meta);
        let name = RowKey::of(relative_name(source, &path).as_bytes());
        Self { path, bytes: stamp.bytes, name, stamp: stamp.key(), is_settled: stamp.is_settled(now) }
    }
}

/// Path of a file relative to the source; empty for a source that is a file.
pub(super) fn relative_name<'p>(source: &Path, path: &'p Path) -> Cow<'p, str> {
    let below = path.as_os_str().as_bytes().get(source.as_os_str().len()..).unwrap_or_default();
    String::from_utf8_lossy(below.strip_prefix(b"/").unwrap_or(below))
}

/// Current time in seconds, by which stamps are settled.
pub(super) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// Lists all files at or below `path`. The store is left out if it lies there. One thread reads the folders, and
/// `threads` threads the stamps of their files, which take most of the time.
pub(super) fn list(path: &Path, store: Option<&Path>, threads: usize, cancel: &CancelToken) -> Result<Listing> {
    let (sender, receiver) = bounded(WAITING_BLOCKS);
    let (walked, stamped) = scoped::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1))
            .map(|_| {
                let blocks = receiver.clone();
                scope.spawn(move || read_stamps(path, &blocks))
            })
            .collect();
        drop(receiver);
        let walked = walk(path, store, cancel, &sender);
        drop(sender);
        let join = |worker: scoped::ScopedJoinHandle<'_, Result<Vec<SourceFile>>>| {
            worker.join().unwrap_or_else(|_| Err(Error::internal("a thread that lists files panicked")))
        };
        (walked, workers.into_iter().map(join).collect::<Result<Vec<_>>>())
    });
    let (mut files, folders) = (stamped?.into_iter().flatten().collect::<Vec<_>>(), walked?);
    files.sort_unstable_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    let now = now();
    let is_settled = folders.iter().all(|(_, stamp)| stamp.is_settled(now));
    Ok(Listing { files, folders, is_settled })
}

/// Reads folders. Sends their files, and returns the folders.
fn walk(
    path: &Path,
    store: Option<&Path>,
    cancel: &CancelToken,
    blocks: &Sender<Vec<DirEntry>>,
) -> Result<Vec<(PathBuf, FileStamp)>> {
    let mut folders = Vec::new();
    let mut block = Vec::new();
    for entry in without_folder(WalkDir::new(path).follow_links(true), store) {
        let entry = entry.map_err(|error| unreadable_entry(path, &error))?;
        if entry.file_type().is_dir() {
            cancel.check()?;
            let meta = entry.metadata().map_err(|error| unreadable_entry(path, &error))?;
            folders.push((entry.into_path(), FileStamp::of(&meta)));
            continue;
        }
        block.push(entry);
        if block.len() == BLOCK {
            cancel.check()?;
            if blocks.send(std::mem::take(&mut block)).is_err() {
                // All threads have ended with an error, which is the one to show.
                return Ok(folders);
            }
        }
    }
    let _ = blocks.send(block);
    Ok(folders)
}

/// Reads the stamps of files.
fn read_stamps(source: &Path, blocks: &Receiver<Vec<DirEntry>>) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for block in blocks {
        let now = now();
        for entry in block {
            let meta = entry.metadata().map_err(|error| unreadable_entry(source, &error))?;
            if !meta.is_file() {
                // A pipe or a device may never end.
                return Err(Error::data(format!("`{}` is neither a file nor a folder", entry.path().display()))
                    .hint("move it out of the folder"));
            }
            files.push(SourceFile::new(source, entry.into_path(), &meta, now));
        }
    }
    Ok(files)
}

/// Error of an entry below `path` that cannot be read, such as a link to a file that is gone.
fn unreadable_entry(path: &Path, error: &walkdir::Error) -> Error {
    let reason = match (error.loop_ancestor(), error.io_error()) {
        (Some(above), _) => format!("the link leads to `{}`, a folder above it", above.display()),
        (None, Some(error)) => error.to_string(),
        (None, None) => error.to_string(),
    };
    let error = Error::data(format!("cannot read `{}`: {reason}", error.path().unwrap_or(path).display()));
    error.hint("every file of a folder is read: mend or remove this one, or move it out of the folder")
}

/// Size, times, inode and device of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp {
    pub bytes: u64,
    /// Seconds and nanoseconds of the last change of the content.
    content: (i64, i64),
    /// Seconds and nanoseconds of the last change of content, name, owner or times.
    status: (i64, i64),
    device: u64,
    inode: u64,
}

/// Longest time between two changes that a file system may give the same time: FAT counts in two seconds.
const TIME_RESOLUTION_SECONDS: i64 = 2;

impl FileStamp {
    /// Stamp of a file or folder with this metadata.
    pub fn of(meta: &Metadata) -> Self {
        Self {
            bytes: meta.len(),
            content: (meta.mtime(), meta.mtime_nsec()),
            status: (meta.ctime(), meta.ctime_nsec()),
            device: meta.dev(),
            inode: meta.ino(),
        }
    }

    /// Key of the stamp.
    pub fn key(&self) -> RowKey {
        let Self { bytes, content, status, device, inode } = self;
        let times = [content.0, content.1, status.0, status.1].map(i64::to_le_bytes);
        RowKey::of(
            [[bytes, device, inode].map(|number| number.to_le_bytes()).as_flattened(), times.as_flattened()]
                .concat()
                .as_slice(),
        )
    }

    /// True if the last change was so long before `now`, in seconds, that a later one has another time.
    pub fn is_settled(&self, now: i64) -> bool {
        self.content.0.max(self.status.0) + TIME_RESOLUTION_SECONDS < now
    }
}

// The time of a folder changes when an entry is added, removed, renamed or replaced by a rename. It stays when a file is
// rewritten in place, and says nothing of what a link leads to.

/// Digest of a source when its folders had these stamps.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FolderTimes {
    pub digest: String,
    pub folders: Vec<(PathBuf, FileStamp)>,
}

impl FolderTimes {
    /// Reads the stamps that are known of a source; `None` if there are none or they are damaged.
    pub fn read(store: &Store, source: &Path) -> Result<Option<Self>> {
        let content = store.objects().get(&folder_times_name(source))?;
        Ok(content.and_then(|content| serde_json::from_slice(unseal(&content)?).ok()))
    }

    /// Writes the stamps of a source.
    pub fn write(&self, store: &Store, source: &Path) -> Result<()> {
        // A path that is no text has no form in JSON. Such a source is always looked through.
        let Ok(content) = serde_json::to_vec(self) else { return Ok(()) };
        store.objects().put(&folder_times_name(source), seal(content).into())
    }

    /// True if all folders have their stamps still.
    pub fn are_current(&self) -> bool {
        let is_current = |(path, stamp): &(PathBuf, FileStamp)| {
            std::fs::metadata(path).is_ok_and(|meta| FileStamp::of(&meta) == *stamp)
        };
        !self.folders.is_empty() && self.folders.iter().all(is_current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_in_one_thing_have_different_stamps() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stamp = FileStamp::of(&file.as_file().metadata().unwrap());
        assert_eq!(stamp, FileStamp::of(&std::fs::metadata(file.path()).unwrap()));
        for other in [
            // As after another file system was mounted in place of the first, with the same content.
            FileStamp { device: stamp.device + 1, ..stamp },
            FileStamp { inode: stamp.inode + 1, ..stamp },
            FileStamp { bytes: stamp.bytes + 1, ..stamp },
            FileStamp { content: (stamp.content.0, stamp.content.1 ^ 1), ..stamp },
            FileStamp { content: (stamp.content.0 - 1, stamp.content.1), ..stamp },
            FileStamp { status: (stamp.status.0, stamp.status.1 ^ 1), ..stamp },
            FileStamp { status: (stamp.status.0 - 1, stamp.status.1), ..stamp },
        ] {
            assert!(other != stamp && other.key() != stamp.key(), "{other:?} {stamp:?}");
        }
    }
}
