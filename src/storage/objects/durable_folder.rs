//! Object store in a folder whose writes survive a power cut.
//!
//! A write returns when the object is on the disk, in this order:
//!
//! ```text
//! write NAME#1 ─► sync NAME#1 ─► rename to NAME, or link as NAME ─► sync the folder, and new folders above it
//! ```
//!
//! A copy of an object is a second name of its file, made in the same order.
//!
//! So whatever is written after it, such as the entry of a journal, refers to something that exists. Removals are on the
//! disk when the call returns, too: objects that are removed after others never outlast them.
//!
//! The order is that of POSIX, which promises nothing that was not synced. It holds on file systems whose `fsync` waits
//! for the disk: ext4, XFS, Btrfs, ZFS, and NFS by default. It does not hold if the disk confirms what is only in its
//! cache, or where `fsync` is switched off (`eatmydata`, some container volumes).
//!
//! The calls of the file system are a trait, so that tests can record them. Here are also the files of such a folder: their
//! sizes as objects, and what killed processes and removed objects leave behind.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::fs::{self, DirEntry, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{
    CopyMode, CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::objects::ObjectStorage;
use pairloom_base::error::{self, Error};

/// Name of the store in errors of `object_store`.
const STORE: &str = "folder";

/// Object store in a folder whose writes survive a power cut. Reads are those of `object_store`.
#[derive(Debug)]
pub struct DurableFolder {
    files: Arc<LocalFileSystem>,
    root: PathBuf,
    calls: Arc<dyn FolderCalls>,
    /// Folders whose own names are known to be on the disk.
    durable: Mutex<HashSet<PathBuf>>,
}

impl DurableFolder {
    /// Opens the store in an existing folder.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn open(root: &Path) -> Result<Self> {
        Self::with_calls(root, Arc::new(SystemCalls))
    }

    /// As [`DurableFolder::open`], with other calls of the file system.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn with_calls(root: &Path, calls: Arc<dyn FolderCalls>) -> Result<Self> {
        let files = Arc::new(LocalFileSystem::new_with_prefix(root)?);
        Ok(Self { files, root: root.to_owned(), calls, durable: Mutex::new(HashSet::new()) })
    }

    /// Writes a file under a name that nobody reads, and syncs it.
    fn stage(&self, path: &Path, payload: &PutPayload) -> io::Result<(PathBuf, Metadata)> {
        let (mut file, staged) = with_staged_name(path, |staged| self.calls.create(staged))?;
        let mut write = || {
            for piece in payload {
                self.calls.write(&mut file, &staged, piece)?;
            }
            self.calls.sync_file(&file, &staged)?;
            file.metadata()
        };
        match write() {
            Ok(metadata) => Ok((staged, metadata)),
            Err(error) => {
                // The first error says more. What stays is removed as an unfinished write.
                let _ = self.calls.remove(&staged);
                Err(error)
            }
        }
    }

    fn put(&self, path: &Path, payload: &PutPayload, is_new: bool) -> io::Result<Metadata> {
        let (staged, metadata) = self.stage(path, payload)?;
        let named = if is_new { self.calls.link(&staged, path) } else { self.calls.rename(&staged, path) };
        if is_new || named.is_err() {
            // It does no harm if the second name stays.
            let _ = self.calls.remove(&staged);
        }
        named?;
        self.sync_names(path)?;
        Ok(metadata)
    }

    /// Gives the file `from` a second name. A file that has this name loses it.
    fn link(&self, from: &Path, path: &Path) -> io::Result<()> {
        if from.symlink_metadata()?.is_symlink() {
            return Err(io::Error::new(ErrorKind::Unsupported, "a link leads to a place of somebody else's"));
        }
        // Whoever copied the store may not have waited for the disk.
        self.calls.sync_file(&File::open(from)?, from)?;
        let ((), staged) = with_staged_name(path, |staged| self.calls.link(from, staged))?;
        let named = self.calls.rename(&staged, path);
        // Nothing is renamed if both names were those of one file already.
        let _ = self.calls.remove(&staged);
        named?;
        self.sync_names(path)
    }

    /// Waits until the name of a file is on the disk, and the names of the folders above it.
    fn sync_names(&self, path: &Path) -> io::Result<()> {
        let Some(folder) = path.parent() else { return Ok(()) };
        self.calls.sync_folder(folder)?;
        let mut below = folder;
        // The folder of the store was made with the folder around it.
        let top = self.root.parent().and_then(Path::parent);
        while let Some(above) = below.parent().filter(|_| Some(below) != top) {
            if self.durable.lock().unwrap_or_else(PoisonError::into_inner).contains(below) {
                break;
            }
            match self.calls.sync_folder(above) {
                // A folder outside of the store may be closed to this user.
                Err(error) if error.kind() == ErrorKind::PermissionDenied && !above.starts_with(&self.root) => {}
                result => result?,
            }
            self.durable.lock().unwrap_or_else(PoisonError::into_inner).insert(below.to_owned());
            below = above;
        }
        Ok(())
    }
}

/// Makes a file under a name beside `path` that nobody reads, and its folder if that is missing.
fn with_staged_name<T>(path: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    let mut number = 1;
    loop {
        let mut staged = path.as_os_str().to_owned();
        staged.push(format!("#{number}"));
        match make(Path::new(&staged)) {
            Ok(made) => return Ok((made, staged.into())),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
                Some(folder) if !folder.exists() => fs::create_dir_all(folder)?,
                _ => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
}

/// Removes files, and syncs the folders that they were in. The result of a file that does not exist is an error.
fn remove_all(files: &LocalFileSystem, calls: &dyn FolderCalls, names: Vec<Name>) -> Vec<Result<Name>> {
    let mut folders = BTreeSet::new();
    let mut results = Vec::with_capacity(names.len());
    for name in names {
        let removed = files.path_to_filesystem(&name).and_then(|path| {
            calls.remove(&path).map_err(|error| store_error(&path, error))?;
            folders.extend(path.parent().map(Path::to_owned));
            Ok(name)
        });
        results.push(removed);
    }
    for folder in folders {
        match calls.sync_folder(&folder) {
            // Another process may have removed the folder since, with all that was in it.
            Err(error) if error.kind() != ErrorKind::NotFound => results.push(Err(store_error(&folder, error))),
            _ => {}
        }
    }
    results
}

/// Error of `object_store` for an error of the system.
fn store_error(path: &Path, error: io::Error) -> StoreError {
    let (path, source) = (path.display().to_string(), Box::new(error));
    match source.kind() {
        ErrorKind::NotFound => StoreError::NotFound { path, source },
        ErrorKind::AlreadyExists => StoreError::AlreadyExists { path, source },
        _ => StoreError::Generic { store: STORE, source },
    }
}

/// Version of a file: inode, time and size, as `object_store` computes it when it reads.
fn tag(metadata: &Metadata) -> String {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    let microseconds = since.unwrap_or_default().as_micros();
    format!("{:x}-{microseconds:x}-{:x}", metadata.ino(), metadata.len())
}

impl fmt::Display for DurableFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableFolder({})", self.root.display())
    }
}

#[async_trait::async_trait]
impl ObjectStore for DurableFolder {
    async fn put_opts(&self, location: &Name, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let is_new = match options.mode {
            PutMode::Overwrite => false,
            PutMode::Create => true,
            PutMode::Update(_) => return Err(unsupported("replacing a version")),
        };
        let path = self.files.path_to_filesystem(location)?;
        let metadata = self.put(&path, &payload, is_new).map_err(|error| store_error(&path, error))?;
        Ok(PutResult { e_tag: Some(tag(&metadata)), version: None })
    }

    async fn put_multipart_opts(&self, _: &Name, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unsupported("writing in pieces"))
    }

    async fn get_opts(&self, location: &Name, options: GetOptions) -> Result<GetResult> {
        self.files.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Name, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.files.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Name>>) -> BoxStream<'static, Result<Name>> {
        let (files, calls) = (Arc::clone(&self.files), Arc::clone(&self.calls));
        let removal = async move {
            let names = locations.try_collect().await?;
            Ok::<_, StoreError>(remove_all(&files, calls.as_ref(), names))
        };
        stream::once(removal).flat_map(|results| stream::iter(results.unwrap_or_else(|error| vec![Err(error)]))).boxed()
    }

    fn list(&self, prefix: Option<&Name>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Name>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    /// Gives the file of an object a second name. A write replaces the file of a name, so the other name keeps its content.
    async fn copy_opts(&self, from: &Name, to: &Name, options: CopyOptions) -> Result<()> {
        if !matches!(options.mode, CopyMode::Overwrite) {
            return Err(unsupported("copying to a new name"));
        }
        let (from, to) = (self.files.path_to_filesystem(from)?, self.files.path_to_filesystem(to)?);
        self.link(&from, &to).map_err(|error| store_error(&to, error))
    }
}

fn unsupported(operation: &str) -> StoreError {
    StoreError::NotImplemented { operation: operation.to_owned(), implementer: STORE.to_owned() }
}

/// Calls that change a folder. Each is one call of the operating system, or a loop of one.
pub trait FolderCalls: fmt::Debug + Send + Sync {
    /// Creates a file that must not exist.
    ///
    /// # Errors
    /// The file exists, its folder does not, or the system refuses.
    fn create(&self, path: &Path) -> io::Result<File>;

    /// Appends bytes to a file that was created at `path`.
    ///
    /// # Errors
    /// The system refuses, as on a full disk.
    fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Waits until the content of a file is on the disk.
    ///
    /// # Errors
    /// The disk failed. What is on it is unknown then, also after a second call without an error.
    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()>;

    /// Waits until the names in a folder are on the disk.
    ///
    /// # Errors
    /// The disk failed.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Renames a file, replacing another.
    ///
    /// # Errors
    /// The system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, which must be free.
    ///
    /// # Errors
    /// The name is taken, or the system refuses.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the name of a file.
    ///
    /// # Errors
    /// There is none, or the system refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// Calls of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemCalls;

impl FolderCalls for SystemCalls {
    fn create(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    fn write(&self, file: &mut File, _path: &Path, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync_file(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        match File::open(folder).and_then(|folder| folder.sync_all()) {
            // Some network file systems cannot sync a folder. They promise nothing, and there is nothing else to call.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
            result => result,
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

impl ObjectStorage {
    /// Removes unfinished writes of killed processes below `prefix`: files that have not been renamed to their object.
    /// Other processes must not write there meanwhile. At a URL there is nothing to remove.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove_unfinished_writes(&self, prefix: &str) -> error::Result<()> {
        let Some(folder) = self.folder() else { return Ok(()) };
        for entry in walkdir::WalkDir::new(folder.join(prefix)).into_iter().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy();
            // `object_store` writes to `NAME#1` and renames it to `NAME`.
            if is_unfinished(&name) && entry.file_type().is_file() {
                fs::remove_file(entry.path()).map_err(|error| Error::io("remove", entry.path(), &error))?;
            }
        }
        Ok(())
    }

    /// Removes a folder without objects. A store that is no folder has none, and a folder with objects stays.
    pub fn remove_empty_folder(&self, name: &str) {
        if let Some(folder) = self.folder() {
            // It only tidies up.
            let _ = fs::remove_dir(folder.join(name));
        }
    }
}

/// Sizes in bytes of all files below `root/prefix`, by their path from `root`. Unfinished writes are left out, and so are
/// files that are removed meanwhile. A missing folder has no files.
///
/// The client of `object_store` asks the system five times for each file, which takes most of the time of a listing of
/// ten thousand files. This asks once.
///
/// # Errors
/// A folder cannot be read.
pub(super) fn file_sizes(root: &Path, prefix: &str) -> error::Result<BTreeMap<String, u64>> {
    let mut sizes = BTreeMap::new();
    add_folder(&root.join(prefix), prefix.trim_matches('/'), &mut sizes)?;
    Ok(sizes)
}

fn add_folder(folder: &Path, name: &str, sizes: &mut BTreeMap<String, u64>) -> error::Result<()> {
    let failed = |error: io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Ok(()),
        _ => Err(Error::io("list", folder, &error)),
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return failed(error),
    };
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return failed(error),
        };
        // Names of objects are text.
        let Ok(file) = entry.file_name().into_string() else { continue };
        let below = if name.is_empty() { file.clone() } else { format!("{name}/{file}") };
        match size_of(&entry) {
            Ok(Some(size)) if !is_unfinished(&file) => {
                sizes.insert(below, size);
            }
            Ok(Some(_)) => {}
            Ok(None) => add_folder(&entry.path(), &below, sizes)?,
            Err(error) => failed(error)?,
        }
    }
    Ok(())
}

/// Size of a file; `None` for a folder. A link counts as what it leads to.
fn size_of(entry: &DirEntry) -> io::Result<Option<u64>> {
    let kind = entry.file_type()?;
    if kind.is_dir() {
        return Ok(None);
    }
    let metadata = if kind.is_symlink() { fs::metadata(entry.path())? } else { entry.metadata()? };
    Ok(metadata.is_file().then_some(metadata.len()))
}

/// Returns true for the name of a file that was not renamed yet: `object_store` writes to `NAME#1`.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_last_object() {
        let folder = tempfile::tempdir().unwrap();
        let objects = ObjectStorage::local(folder.path()).unwrap();
        objects.put("searches/results/1/0", "list".into()).unwrap();
        objects.remove_empty_folder("searches/results/1");
        assert_eq!(objects.get("searches/results/1/0").unwrap().unwrap(), "list");
        objects.delete("searches/results/1/0").unwrap();
        objects.remove_empty_folder("searches/results/1");
        assert!(!folder.path().join("searches/results/1").exists() && folder.path().join("searches/results").exists());
        objects.remove_empty_folder("absent");
    }

    #[test]
    fn files_are_listed_as_the_client_lists_them() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        write("runs/a.json", "1");
        write("runs/a.json#2", "unfinished");
        write("runs-b/c", "12");
        write("train/key/model/x y.bin", "123");
        fs::create_dir(folder.path().join("empty")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("train/key"), folder.path().join("link")).unwrap();
        let plain = ObjectStorage::local(folder.path()).unwrap();
        let client = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
        let by_client = ObjectStorage::with_inner(Arc::new(client), folder.path());
        for prefix in ["", "runs", "train/key", "runs/a.json", "nothing"] {
            let sizes = file_sizes(folder.path(), prefix).unwrap();
            assert_eq!(sizes, by_client.sizes(prefix).unwrap(), "{prefix}");
            assert_eq!(sizes, plain.sizes(prefix).unwrap(), "{prefix}");
        }
        let all = file_sizes(folder.path(), "").unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(all["link/model/x y.bin"], 3);
    }
}
