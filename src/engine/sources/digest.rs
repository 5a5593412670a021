//! Digest of a source, from the known digests of its files and the contents of the others.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread as scoped;

use super::bucket;
use super::digest_list::{self, KnownDigests};
use super::file_stamp::FileStamp;
use super::folder_times::FolderTimes;
use super::listing::{self, Listing, SourceFile, relative_name};
use super::source_content::SourceContent;
use crate::event::{Event, Observer};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::{FileKeys, RowKey};
use pairloom_store::{Store, source_list_name};

/// Number of bytes hashed between two progress events.
const PROGRESS_BYTES: u64 = 64 << 20;

/// Number of bytes of names and digests that are hashed at a time.
const NAME_BYTES: usize = 1 << 16;

/// Largest number of reads of a file that changes while it is read.
const MAX_READS: usize = 3;

/// Way of reading sources.
#[derive(Debug, Clone, Copy)]
pub struct SourceReading {
    /// Number of threads that read files.
    pub threads: usize,
    /// True if a source whose folders all have their former times counts as unchanged, without a look at its files.
    pub trusts_folder_times: bool,
}

/// Digest of a source at the start of a run.
#[derive(Debug, Clone)]
pub struct SourceDigest {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Digest.
    pub digest: String,
}

/// Reads a file, or all files in a folder and its subfolders, as far as their digests are not known. Lists the objects of a
/// bucket.
///
/// # Errors
/// There is nothing at `path`, or it cannot be read or listed.
pub fn read_source(
    store: &Store,
    path: &Path,
    reading: SourceReading,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<SourceContent> {
    if let Some(objects) = store.objects_of_source(path)? {
        return bucket::read_bucket(&objects);
    }
    let path = path.canonicalize().map_err(|error| Error::io("read", path, &error))?;
    let times = FolderTimes::read(store, &path)?;
    if reading.trusts_folder_times
        && let Some(times) = times.as_ref().filter(|times| times.are_current())
    {
        return Ok(SourceContent { digest: times.digest.clone(), files: None });
    }
    let Listing { mut files, folders, is_settled } =
        listing::list(&path, store.objects().folder(), reading.threads, cancel)?;
    let known = known_digests(store, &path)?;
    let (digests, is_new) = hash_all(&path, &mut files, &known, reading.threads, cancel, observer)?;
    let mut whole = blake3::Hasher::new();
    let mut names = Vec::new();
    for (file, digest) in files.iter().zip(&digests) {
        names.extend_from_slice(relative_name(&path, &file.path).as_bytes());
        let _ = write!(names, "\0{digest}");
        if names.len() >= NAME_BYTES {
            whole.update(&names);
            names.clear();
        }
    }
    let digest = whole.update(&names).finalize().to_hex()[..32].to_owned();
    let keys = files.iter().zip(&digests).map(|(file, digest)| (file.name, *digest)).collect();
    let content = SourceContent { digest, files: Some(keys) };
    if store.is_read_only() {
        return Ok(content);
    }
    if is_new {
        let settled = files.iter().zip(&digests).filter(|(file, _)| file.is_settled);
        let list = digest_list::format(settled.map(|(file, digest)| [file.name, file.stamp, *digest]));
        store.objects().put(&source_list_name(&path), list.into())?;
    }
    let now = FolderTimes { digest: content.digest.clone(), folders };
    let are_settled = is_settled && files.iter().all(|file| file.is_settled);
    if are_settled && !now.folders.is_empty() && times.as_ref() != Some(&now) {
        now.write(store, &path)?;
    }
    Ok(content)
}

/// Keys of the files of a folder whose digests are known since [`read_source`]: those that had not changed for some seconds.
///
/// # Errors
/// The folder or the store cannot be read.
pub fn file_keys(store: &Store, path: &Path) -> Result<FileKeys> {
    let path = path.canonicalize().map_err(|error| Error::io("read", path, &error))?;
    Ok(FileKeys::new(known_digests(store, &path)?.into_iter().map(|(name, (_, digest))| (name, digest))))
}

/// Digests of the files at a path that the store knows.
fn known_digests(store: &Store, path: &Path) -> Result<KnownDigests> {
    let list = store.objects().get(&source_list_name(path))?;
    Ok(list.map(|content| digest_list::parse(&content)).unwrap_or_default())
}

/// Checks that a source still has the digest with which a run began. Looks at each of its files.
///
/// # Errors
/// It has changed, is gone, or cannot be read.
pub fn check_unchanged(
    store: &Store,
    source: &SourceDigest,
    threads: usize,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<()> {
    let reading = SourceReading { threads, trusts_folder_times: false };
    if read_source(store, &source.path, reading, cancel, observer)?.digest == source.digest {
        return Ok(());
    }
    Err(Error::data(format!("`{}` changed while it was read", source.path.display()))
        .hint("run the same command again when nothing writes there"))
}

/// Digests of all files, in their order, and true if one of them was read. Files whose digest is not known are read on
/// `threads` threads, and get the fingerprints with which they were read.
fn hash_all(
    source: &Path,
    files: &mut [SourceFile],
    known: &KnownDigests,
    threads: usize,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<(Vec<RowKey>, bool)> {
    let mut digests: Vec<Option<RowKey>> = files.iter().map(|file| known_digest(known, file)).collect();
    let unknown: Vec<usize> = (0..files.len()).filter(|&i| digests[i].is_none()).collect();
    let total: u64 = unknown.iter().map(|&i| files[i].bytes).sum();
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let report = |read: u64| {
        let before = done.fetch_add(read, Ordering::Relaxed);
        let now = before + read;
        if before / PROGRESS_BYTES != now / PROGRESS_BYTES {
            let source = source.display().to_string();
            observer(&Event::Hashing { source, done_bytes: now, total_bytes: total });
        }
    };
    let listed = &*files;
    let work = || -> Result<Vec<(usize, SourceFile, RowKey)>> {
        let mut hashed = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while let Some(&i) = unknown.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (file, digest) = hash_file(source, &listed[i], &mut buffer, cancel, &report)?;
            hashed.push((i, file, digest));
        }
        Ok(hashed)
    };
    let hashed: Result<Vec<Vec<(usize, SourceFile, RowKey)>>> = scoped::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, unknown.len().max(1))).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(Error::internal("hashing panicked"))))
            .collect()
    });
    for (i, file, digest) in hashed?.into_iter().flatten() {
        (files[i], digests[i]) = (file, Some(digest));
    }
    let digests = digests.into_iter().collect::<Option<Vec<_>>>();
    Ok((digests.ok_or_else(|| Error::internal("a file was not hashed"))?, !unknown.is_empty()))
}

/// Digest of a file whose stamp is the known one.
fn known_digest(known: &KnownDigests, file: &SourceFile) -> Option<RowKey> {
    known.get(&file.name).filter(|(stamp, _)| *stamp == file.stamp).map(|(_, digest)| *digest)
}

/// Digest of a file, and its state before and after it was read.
fn hash_file(
    source: &Path,
    file: &SourceFile,
    buffer: &mut [u8],
    cancel: &CancelToken,
    report: &impl Fn(u64),
) -> Result<(SourceFile, RowKey)> {
    let unreadable = |error: std::io::Error| Error::io("read", &file.path, &error);
    for _ in 0..MAX_READS {
        let before = std::fs::metadata(&file.path).map_err(unreadable)?;
        let mut hasher = blake3::Hasher::new();
        let mut open = File::open(&file.path).map_err(unreadable)?;
        loop {
            cancel.check()?;
            let read = match open.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.map_err(unreadable)?,
            };
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            report(read as u64);
        }
        let after = std::fs::metadata(&file.path).map_err(unreadable)?;
        if FileStamp::of(&before) == FileStamp::of(&after) {
            let read = SourceFile::new(source, file.path.clone(), &before, listing::now());
            return Ok((read, RowKey::of_hash(&hasher.finalize())));
        }
    }
    Err(Error::data(format!("`{}` changes while it is read", file.path.display()))
        .hint("run the same command again when nothing writes to it"))
}
