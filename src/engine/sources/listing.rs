//! Files and folders of a source, with their stamps.

use std::borrow::Cow;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread as scoped;

use crossbeam::channel::{Receiver, Sender, bounded};
use walkdir::{DirEntry, WalkDir};

use super::file_stamp::FileStamp;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::RowKey;
use pairloom_storage::files::without_folder;

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
