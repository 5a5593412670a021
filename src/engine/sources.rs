//! Digests of files and folders outside of the store.
//!
//! A digest depends on names and contents, not on times or locations. A file is read again only if its size,
//! modification time or inode has changed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use std::thread as scoped;

use crate::engine::event::{Event, Observer};
use crate::error::{Error, Result};
use crate::runtime::CancelToken;
use crate::store::Store;

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
    let files = list_files(&path, store.objects().folder(), cancel)?;
    let cache_name = format!("sources/{}.tsv", &blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex()[..32]);
    let known = store.objects().get(&cache_name)?.map(|content| parse_known_digests(&content)).unwrap_or_default();
    let digests = hash_all(&path, &files, &known, threads, cancel, observer)?;
    let is_known = files.iter().zip(&digests).all(|(file, digest)| known.get(&file.fingerprint) == Some(digest));
    if !is_known && !store.is_read_only() {
        let mut text = String::new();
        for (file, digest) in files.iter().zip(&digests) {
            let _ = writeln!(text, "{}\t{digest}", file.fingerprint);
        }
        store.objects().put(&cache_name, text.into())?;
    }
    let mut whole = blake3::Hasher::new();
    for (file, digest) in files.iter().zip(&digests) {
        whole.update(file.name.as_bytes());
        whole.update(&[0]);
        whole.update(digest.as_bytes());
    }
    Ok(whole.finalize().to_hex()[..32].to_owned())
}

struct SourceFile {
    /// Path relative to the folder; empty for a source that is a file.
    name: String,
    path: PathBuf,
    bytes: u64,
    /// Name, size, modification time and inode: as long as these stay the same, the content is assumed to be unchanged.
    fingerprint: String,
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
        files.push(SourceFile {
            fingerprint: fingerprint(&name, &meta),
            name,
            path: entry.path().to_owned(),
            bytes: meta.len(),
        });
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
    format!("{name}\t{}\t{}.{:09}\t{}", meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ino())
}

fn parse_known_digests(content: &[u8]) -> HashMap<String, String> {
    let text = String::from_utf8_lossy(content);
    let lines = text.lines().filter_map(|line| line.rsplit_once('\t'));
    lines.map(|(stamp, digest)| (stamp.to_owned(), digest.to_owned())).collect()
}

/// Digests of all files, in their order. Files whose digest is not known are read on `threads` threads.
fn hash_all(
    source: &Path,
    files: &[SourceFile],
    known: &HashMap<String, String>,
    threads: usize,
    cancel: &CancelToken,
    observer: &Observer<'_>,
) -> Result<Vec<String>> {
    let unknown: Vec<usize> = (0..files.len()).filter(|&i| !known.contains_key(&files[i].fingerprint)).collect();
    let total: u64 = unknown.iter().map(|&i| files[i].bytes).sum();
    let next = AtomicUsize::new(0);
    let done = AtomicU64::new(0);
    let work = || -> Result<Vec<(usize, String)>> {
        let mut hashed = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while let Some(&i) = unknown.get(next.fetch_add(1, Ordering::Relaxed)) {
            let file = &files[i];
            let mut hasher = blake3::Hasher::new();
            let mut open = File::open(&file.path).map_err(|error| Error::io("read", &file.path, &error))?;
            loop {
                cancel.check()?;
                let read = open.read(&mut buffer).map_err(|error| Error::io("read", &file.path, &error))?;
                if read == 0 {
                    break;
                }
                hasher.update(&buffer[..read]);
                let before = done.fetch_add(read as u64, Ordering::Relaxed);
                let now = before + read as u64;
                if before / PROGRESS_BYTES != now / PROGRESS_BYTES {
                    let source = source.display().to_string();
                    observer(&Event::Hashing { source, done_bytes: now, total_bytes: total });
                }
            }
            hashed.push((i, hasher.finalize().to_hex()[..32].to_owned()));
        }
        Ok(hashed)
    };
    let hashed: Result<Vec<Vec<(usize, String)>>> = scoped::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, unknown.len().max(1))).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(Error::internal("hashing panicked"))))
            .collect()
    });
    let mut new: HashMap<usize, String> = hashed?.into_iter().flatten().collect();
    let all =
        files.iter().enumerate().map(|(i, file)| new.remove(&i).or_else(|| known.get(&file.fingerprint).cloned()));
    all.collect::<Option<Vec<_>>>().ok_or_else(|| Error::internal("a file was not hashed"))
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
