//! Digests of files and folders outside of the store.
//!
//! A digest depends on names and contents, not on times or locations. A file is read again only if its size, times
//! (of content and of status), inode or device have changed. No program can set the time of the status, so content that
//! was replaced under its old size and time is seen too.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use std::thread as scoped;

use crate::engine::digest_list;
use crate::engine::event::{Event, Observer};
use crate::error::{Error, Result};
use crate::runtime::CancelToken;
use crate::stage::{FileKeys, RowKey};
use crate::store::{Store, source_list_name};

/// Number of bytes hashed between two progress events.
const PROGRESS_BYTES: u64 = 64 << 20;

/// Digest of a file (its content) or of a folder (the relative names and contents of all files in it and its
/// subfolders).
///
/// # Errors
/// There is nothing at `path`, or it cannot be read.
pub fn digest(
    store: &Store,
    path: &Path,
    threads: usize,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<String> {
    let path = path.canonicalize().map_err(|error| Error::io("read", path, &error))?;
    let mut files = list_files(&path, store.objects().folder(), cancel)?;
    let known = known_digests(store, &path)?;
    let (digests, is_new) = hash_all(&path, &mut files, &known, threads, cancel, observer)?;
    if is_new && !store.is_read_only() {
        let settled = files.iter().zip(&digests).filter(|(file, _)| file.is_settled);
        let list = digest_list::format(settled.map(|(file, digest)| (file.fingerprint.as_str(), digest.as_str())));
        store.objects().put(&source_list_name(&path), list.into())?;
    }
    let mut whole = blake3::Hasher::new();
    for (file, digest) in files.iter().zip(&digests) {
        whole.update(file.name.as_bytes());
        whole.update(&[0]);
        whole.update(digest.as_bytes());
    }
    Ok(whole.finalize().to_hex()[..32].to_owned())
}

/// Keys of the files of a folder whose digests are known since [`digest`]: those that had not changed for some seconds.
///
/// # Errors
/// The folder or the store cannot be read.
pub fn file_keys(store: &Store, path: &Path) -> Result<FileKeys> {
    let path = path.canonicalize().map_err(|error| Error::io("read", path, &error))?;
    let known = known_digests(store, &path)?;
    // A fingerprint begins with the digest of the name.
    let keys = known.iter().filter_map(|(fingerprint, digest)| {
        let (name, _) = fingerprint.split_once('\t')?;
        Some((RowKey::parse(name)?, RowKey::parse(digest)?))
    });
    Ok(FileKeys::new(keys))
}

/// Digests of the files at a path that the store knows, by their fingerprints.
fn known_digests(store: &Store, path: &Path) -> Result<HashMap<String, String>> {
    let list = store.objects().get(&source_list_name(path))?;
    Ok(list.map(|content| digest_list::parse(&content)).unwrap_or_default())
}

/// Checks that a source still has the digest with which a run began.
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
    if digest(store, &source.path, threads, cancel, observer)? == source.digest {
        return Ok(());
    }
    Err(Error::data(format!("`{}` changed while it was read", source.path.display()))
        .hint("run the same command again when nothing writes there"))
}

/// Digest of a source at the start of a run.
#[derive(Debug, Clone)]
pub struct SourceDigest {
    /// Path of the file or folder.
    pub path: PathBuf,
    /// Digest.
    pub digest: String,
}

struct SourceFile {
    /// Path relative to the folder; empty for a source that is a file.
    name: String,
    path: PathBuf,
    bytes: u64,
    /// Name, size, times, inode and device: as long as these stay the same, the content is assumed to be unchanged.
    fingerprint: String,
    /// True if the file was last changed so long before it was read that a later change has another time.
    is_settled: bool,
}

impl SourceFile {
    fn new(name: String, path: PathBuf, meta: &Metadata) -> Self {
        let fingerprint = fingerprint(&name, meta);
        Self { name, path, bytes: meta.len(), fingerprint, is_settled: is_settled(meta) }
    }
}

/// Longest time between two changes that a file system may give the same time: FAT counts in two seconds.
const TIME_RESOLUTION_SECONDS: i64 = 2;

/// Largest number of reads of a file that changes while it is read.
const MAX_READS: usize = 3;

fn is_settled(meta: &Metadata) -> bool {
    meta.mtime().max(meta.ctime()) + TIME_RESOLUTION_SECONDS < jiff::Timestamp::now().as_second()
}

/// Lists all files at or below `path`, sorted by name. The store is left out if it lies there.
fn list_files(path: &Path, store: Option<&Path>, cancel: &CancelToken) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for entry in
        walkdir::WalkDir::new(path).follow_links(true).into_iter().filter_entry(|entry| Some(entry.path()) != store)
    {
        cancel.check()?;
        let entry = entry.map_err(|error| unreadable_entry(path, &error))?;
        if entry.file_type().is_dir() {
            continue;
        }
        let meta = entry
            .metadata()
            .map_err(|error| Error::data(format!("cannot read `{}`: {error}", entry.path().display())))?;
        if !meta.is_file() {
            // A pipe or a device may never end.
            return Err(Error::data(format!("`{}` is neither a file nor a folder", entry.path().display()))
                .hint("move it out of the folder"));
        }
        let relative = entry.path().strip_prefix(path).unwrap_or(entry.path());
        let name = relative.to_string_lossy().into_owned();
        files.push(SourceFile::new(name, entry.path().to_owned(), &meta));
    }
    files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
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

fn fingerprint(name: &str, meta: &Metadata) -> String {
    // A name may contain any character, also newlines and tabs; its hash does not.
    let name = &blake3::hash(name.as_bytes()).to_hex()[..32];
    let (content, status) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
    let (size, device, inode) = (meta.len(), meta.dev(), meta.ino());
    format!("{name}\t{size}\t{}.{:09}\t{}.{:09}\t{device}\t{inode}", content.0, content.1, status.0, status.1)
}

/// Digests of all files, in their order, and true if one of them was read. Files whose digest is not known are read on
/// `threads` threads, and get the fingerprints with which they were read.
fn hash_all(
    source: &Path,
    files: &mut [SourceFile],
    known: &HashMap<String, String>,
    threads: usize,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<(Vec<String>, bool)> {
    let unknown: Vec<usize> = (0..files.len()).filter(|&i| !known.contains_key(&files[i].fingerprint)).collect();
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
    let work = || -> Result<Vec<(usize, SourceFile, String)>> {
        let mut hashed = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while let Some(&i) = unknown.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (file, digest) = hash_file(&listed[i], &mut buffer, cancel, &report)?;
            hashed.push((i, file, digest));
        }
        Ok(hashed)
    };
    let hashed: Result<Vec<Vec<(usize, SourceFile, String)>>> = scoped::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, unknown.len().max(1))).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(Error::internal("hashing panicked"))))
            .collect()
    });
    let mut digests: Vec<Option<String>> = files.iter().map(|file| known.get(&file.fingerprint).cloned()).collect();
    for (i, file, digest) in hashed?.into_iter().flatten() {
        (files[i], digests[i]) = (file, Some(digest));
    }
    let digests = digests.into_iter().collect::<Option<Vec<_>>>();
    Ok((digests.ok_or_else(|| Error::internal("a file was not hashed"))?, !unknown.is_empty()))
}

/// Digest of a file, and its state before and after it was read.
fn hash_file(
    file: &SourceFile,
    buffer: &mut [u8],
    cancel: &CancelToken,
    report: &impl Fn(u64),
) -> Result<(SourceFile, String)> {
    let unreadable = |error: std::io::Error| Error::io("read", &file.path, &error);
    for _ in 0..MAX_READS {
        let before = std::fs::metadata(&file.path).map_err(unreadable)?;
        let mut hasher = blake3::Hasher::new();
        let mut open = File::open(&file.path).map_err(unreadable)?;
        loop {
            cancel.check()?;
            let read = open.read(buffer).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            report(read as u64);
        }
        let after = std::fs::metadata(&file.path).map_err(unreadable)?;
        if fingerprint(&file.name, &before) == fingerprint(&file.name, &after) {
            let read = SourceFile::new(file.name.clone(), file.path.clone(), &before);
            return Ok((read, hasher.finalize().to_hex()[..32].to_owned()));
        }
    }
    Err(Error::data(format!("`{}` changes while it is read", file.path.display()))
        .hint("run the same command again when nothing writes to it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest_of(store: &Store, path: &Path) -> String {
        digest(store, path, 2, &CancelToken::new(), &|_| {}).unwrap()
    }

    #[test]
    fn a_digest_depends_on_names_and_contents_and_not_on_times_or_locations() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        let one = folder.path().join("one");
        let two = folder.path().join("two");
        for place in [&one, &two] {
            std::fs::create_dir_all(place.join("sub")).unwrap();
            std::fs::write(place.join("sub/b.txt"), "b").unwrap();
            std::fs::write(place.join("a.txt"), "a").unwrap();
        }
        let before = digest_of(&store, &one);
        assert_eq!(before, digest_of(&store, &two));
        std::fs::write(one.join("a.txt"), "a").unwrap();
        assert_eq!(before, digest_of(&store, &one), "touched, not changed");
        std::fs::write(one.join("a.txt"), "c").unwrap();
        assert_ne!(before, digest_of(&store, &one), "content changed");
        std::fs::rename(two.join("a.txt"), two.join("z.txt")).unwrap();
        assert_ne!(before, digest_of(&store, &two), "name changed");
    }

    #[test]
    fn content_of_the_same_size_time_and_inode_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "one").unwrap();
        // Long ago, so that its digest is kept.
        let file = File::options().write(true).open(&path).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        file.set_modified(time).unwrap();
        let before = digest_of(&store, &path);
        std::fs::write(&path, "two").unwrap();
        file.set_modified(time).unwrap();
        assert_ne!(before, digest_of(&store, &path));
    }

    #[test]
    fn a_file_that_was_just_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "one").unwrap();
        digest_of(&store, &path);
        let list = store.objects().list("sources").unwrap();
        let kept = digest_list::parse(&store.objects().get(&list[0]).unwrap().unwrap());
        assert!(kept.is_empty(), "another write within the resolution of the clock would have the same time");
    }

    #[test]
    fn a_change_since_the_start_of_a_run_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "one").unwrap();
        let source = SourceDigest { path: path.clone(), digest: digest_of(&store, &path) };
        let check = || check_unchanged(&store, &source, 1, &CancelToken::new(), &|_| {});
        check().unwrap();
        std::fs::write(&path, "two").unwrap();
        assert!(check().unwrap_err().to_string().ends_with("a.txt` changed while it was read"));
        std::fs::write(&path, "one").unwrap();
        check().unwrap();
    }

    #[test]
    fn a_store_inside_of_a_source_is_ignored_and_a_pipe_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        std::fs::write(folder.path().join("a.txt"), "a").unwrap();
        let before = digest_of(&store, folder.path());
        assert_eq!(before, digest_of(&store, folder.path()));
        let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
        assert!(made.success());
        let error = digest(&store, folder.path(), 1, &CancelToken::new(), &|_| {}).unwrap_err();
        assert!(error.to_string().contains("pipe"), "{error}");
    }

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("store")).unwrap();
        let source = folder.path().join("source");
        let refused = |name: &str, target: &Path| {
            std::fs::create_dir(&source).unwrap();
            std::os::unix::fs::symlink(target, source.join(name)).unwrap();
            let error = digest(&store, &source, 1, &CancelToken::new(), &|_| {}).unwrap_err();
            std::fs::remove_dir_all(&source).unwrap();
            assert!(error.hint_text().unwrap().contains("mend or remove"), "{error}");
            error.to_string()
        };
        let message = refused("self.jpg", Path::new("self.jpg"));
        assert!(message.contains("source/self.jpg`: Too many levels of symbolic links"), "{message}");
        assert!(refused("gone.jpg", Path::new("none.jpg")).contains("source/gone.jpg`: No such file"));
        let message = refused("up", &source);
        assert!(
            message.contains("source/up`: the link leads to `") && message.ends_with("a folder above it"),
            "{message}"
        );
    }

    #[test]
    fn a_missing_source_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let error = digest(&store, &folder.path().join("nothing"), 1, &CancelToken::new(), &|_| {}).unwrap_err();
        assert_eq!(error.category(), crate::error::ErrorCategory::Data);
        assert!(error.to_string().contains("nothing"), "{error}");
    }
}
