//! Digests of files and folders outside of the store.
//!
//! A digest depends on names and contents, not on times or locations. A file is read again only if its size, times
//! (of content and of status), inode or device have changed. No program can set the time of the status, so content that
//! was replaced under its old size and time is seen too. A source in a bucket is known by the list of its objects.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread as scoped;

use blake3::OUT_LEN;

use self::listing::{FileStamp, FolderTimes, Listing, SourceFile, relative_name};
use crate::event::{Event, Observer};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::{FileKeys, RowKey, object_key};
use pairloom_storage::objects::ObjectStorage;
use pairloom_store::{Store, source_list_name};

mod listing;
#[cfg(test)]
mod tests;

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
        return read_bucket(&objects);
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
        let list = format_digest_list(settled.map(|(file, digest)| [file.name, file.stamp, *digest]));
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
    Ok(list.map(|content| parse_digest_list(&content)).unwrap_or_default())
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

/// Lists the objects of a source, 32 bytes of memory each.
fn read_bucket(objects: &ObjectStorage) -> Result<SourceContent> {
    let url = objects.display_path("");
    let mut files = objects.list_objects(|object| {
        let key = object_key(&url, object.name, object.stamp.as_bytes());
        (RowKey::of(object.name.as_bytes()), key)
    })?;
    if files.is_empty() {
        let error = Error::data(format!("there is no object below `{url}`"));
        return Err(error.hint(
            "is the prefix right? It is a whole folder name: `s3://bucket/photos` has `photos/1.jpg`, and not \
             `photos-2026/1.jpg`",
        ));
    }
    files.sort_unstable();
    let mut whole = blake3::Hasher::new();
    for (name, key) in &files {
        whole.update(&name.to_bytes()).update(&key.to_bytes());
    }
    Ok(SourceContent { digest: whole.finalize().to_hex()[..32].to_owned(), files: Some(files) })
}

/// Stamp and content of each file, by the key of its path.
type KnownDigests = HashMap<RowKey, (RowKey, RowKey)>;

/// Number of bytes of the record of a file in a list of known digests.
const RECORD: usize = 3 * RowKey::BYTES;

/// Formats a list of known digests: for each file three keys, of its path in the source, of its stamp, and of its content.
fn format_digest_list(files: impl Iterator<Item = [RowKey; 3]>) -> Vec<u8> {
    seal(files.flatten().flat_map(RowKey::to_bytes).collect())
}

/// Parses a list. One that is cut or damaged, or that an older version wrote, is empty: its files are read again.
fn parse_digest_list(content: &[u8]) -> KnownDigests {
    let (records, _) = unseal(content).unwrap_or_default().as_chunks::<RECORD>();
    let keys = records.iter().map(|record| {
        let (keys, _) = record.as_chunks::<{ RowKey::BYTES }>();
        (RowKey::from_bytes(keys[0]), (RowKey::from_bytes(keys[1]), RowKey::from_bytes(keys[2])))
    });
    keys.collect()
}

/// Content, then its checksum.
fn seal(mut content: Vec<u8>) -> Vec<u8> {
    let checksum = blake3::hash(&content);
    content.extend_from_slice(checksum.as_bytes());
    content
}

/// Content before a checksum; `None` if it is cut or damaged, or was never sealed.
fn unseal(sealed: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = sealed.split_last_chunk::<OUT_LEN>()?;
    (blake3::hash(content) == *checksum).then_some(content)
}

/// Content of a source.
#[derive(Debug, Clone)]
pub struct SourceContent {
    /// Digest of a file (its content), of a folder (the relative names and contents of all files in it and its
    /// subfolders), or of the list of objects in a bucket.
    pub digest: String,
    /// Keys of the path and of the content of each file or object; `None` if no file was looked at.
    pub files: Option<Vec<(RowKey, RowKey)>>,
}
