//! The one interface through which artefacts are read and written: named byte objects, published whole.
//!
//! A thin, synchronous view of [`object_store`]: a local folder today, and any of its stores by the same calls.
//! An object is either absent or complete: `put` replaces it in one step, `create` fails where it exists already.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, executor::block_on};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use crate::error::{Error, Result};

/// Named byte objects.
#[derive(Debug, Clone)]
pub struct Objects {
    inner: Arc<dyn ObjectStore>,
    /// For messages, and for what needs a real folder (locks).
    folder: PathBuf,
}

impl Objects {
    /// The objects of a local folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn local(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        let folder = folder.canonicalize().map_err(|error| Error::io("find the folder", folder, &error))?;
        let inner = LocalFileSystem::new_with_prefix(&folder).map_err(|error| fault("open", &folder, &error))?;
        Ok(Self { inner: Arc::new(inner), folder })
    }

    /// The objects of `inner`, which lie in `folder`: for tests that put a faulty store in between.
    pub fn wrapping(inner: Arc<dyn ObjectStore>, folder: &Path) -> Self {
        Self { inner, folder: folder.to_owned() }
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.inner
    }

    /// The folder of the objects.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where an object lies, for messages.
    #[must_use]
    pub fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The content of an object; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let read = async { self.inner.get(&Name::from(name)).await?.bytes().await };
        match block_on(read) {
            Ok(content) => Ok(Some(content)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(fault("read", &self.place(name), &error)),
        }
    }

    /// The size of an object in bytes; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        match block_on(self.inner.head(&Name::from(name))) {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(fault("read", &self.place(name), &error)),
        }
    }

    /// Publishes an object whole, in place of an older one.
    ///
    /// # Errors
    /// The store cannot be written; then the object is as it was.
    pub fn put(&self, name: &str, content: Bytes) -> Result<()> {
        let wrote = block_on(self.inner.put(&Name::from(name), PutPayload::from(content)));
        wrote.map(drop).map_err(|error| fault("write", &self.place(name), &error))
    }

    /// Publishes an object whole if there is none of this name; says whether it did.
    ///
    /// # Errors
    /// The store cannot be written; then there is no such object.
    pub fn create(&self, name: &str, content: Bytes) -> Result<bool> {
        let options = PutOptions::from(PutMode::Create);
        match block_on(self.inner.put_opts(&Name::from(name), PutPayload::from(content), options)) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(fault("write", &self.place(name), &error)),
        }
    }

    /// Names of all objects below `prefix`, sorted.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let prefix = Name::from(prefix);
        let listed = block_on(self.inner.list(Some(&prefix)).collect::<Vec<_>>());
        let names = listed.into_iter().map(|meta| Ok(meta?.location.to_string()));
        let mut names = names
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| fault("list", &self.place(prefix.as_ref()), &error))?;
        names.sort_unstable();
        Ok(names)
    }

    /// Removes what killed processes left half-written below `prefix`: files that were to be renamed and are not objects.
    /// Nobody else may write there meanwhile.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn sweep(&self, prefix: &str) -> Result<()> {
        let folder = self.place(prefix);
        for entry in walkdir::WalkDir::new(&folder).into_iter().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy();
            // `object_store` writes `NAME#1` and renames it to `NAME`.
            let staged =
                name.rsplit_once('#').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
            if staged && entry.file_type().is_file() {
                std::fs::remove_file(entry.path()).map_err(|error| Error::io("remove", entry.path(), &error))?;
            }
        }
        Ok(())
    }

    /// Removes an object; fine if there is none.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete(&self, name: &str) -> Result<()> {
        match block_on(self.inner.delete(&Name::from(name))) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(fault("remove", &self.place(name), &error)),
        }
    }
}

/// The error of a store, with the place, and with the operating system's error where there is one underneath.
fn fault(doing: &str, place: &Path, error: &object_store::Error) -> Error {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return Error::io(doing, place, io);
        }
        cause = inner.source();
    }
    Error::stage(format!("cannot {doing} `{}`: {error}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_absent_or_whole() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::local(folder.path()).unwrap();
        assert_eq!(objects.get("a/b").unwrap(), None);
        assert_eq!(objects.size("a/b").unwrap(), None);
        objects.put("a/b", Bytes::from_static(b"one")).unwrap();
        assert!(!objects.create("a/b", Bytes::from_static(b"two")).unwrap());
        assert!(objects.create("a/c", Bytes::from_static(b"three")).unwrap());
        assert_eq!(objects.get("a/b").unwrap().unwrap(), "one");
        assert_eq!(objects.size("a/c").unwrap(), Some(5));
        assert_eq!(objects.list("a").unwrap(), ["a/b", "a/c"]);
        objects.delete("a/b").unwrap();
        objects.delete("a/b").unwrap();
        assert_eq!(objects.list("").unwrap(), ["a/c"]);
    }
}
