//! Faulty object store for tests: writes fail after a number of them, as on a full disk, or the first read of each object is
//! wrong.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path as Folder;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, local::LocalFileSystem,
};

use pairloom_storage::objects::ObjectStorage;
use pairloom_store::{ProcessIdentity, Store};

/// A local object store in which every write after the first `writes_left` fails, as on a full disk.
#[derive(Debug)]
struct FaultyObjectStore {
    inner: LocalFileSystem,
    writes_left: Arc<AtomicIsize>,
    /// Objects that were read, if the first read of each is wrong.
    read: Option<Mutex<BTreeSet<Path>>>,
}

/// A store in `folder` in which the first `writes` writes succeed, and the counter of the remaining ones.
pub(super) fn store(folder: &Folder, writes: isize) -> (Store, Arc<AtomicIsize>) {
    let writes_left = Arc::new(AtomicIsize::new(writes));
    (faulty_store(folder, Arc::clone(&writes_left), None), writes_left)
}

/// A store in `folder` in which the first read of each part, manifest, entry of a journal and record of a run has a flipped bit.
pub(super) fn wrong_once_store(folder: &Folder) -> Store {
    faulty_store(folder, Arc::new(AtomicIsize::new(isize::MAX)), Some(Mutex::default()))
}

fn faulty_store(folder: &Folder, writes_left: Arc<AtomicIsize>, read: Option<Mutex<BTreeSet<Path>>>) -> Store {
    let folder = folder.join("v1");
    std::fs::create_dir_all(&folder).unwrap();
    let inner = LocalFileSystem::new_with_prefix(&folder).unwrap();
    let faulty = FaultyObjectStore { inner, writes_left, read };
    Store::with_objects(ObjectStorage::with_inner(Arc::new(faulty), &folder), ProcessIdentity::new(None))
}

impl FaultyObjectStore {
    /// True for the first read of an object, if first reads are wrong.
    fn is_wrong_read(&self, location: &Path) -> bool {
        let is_content =
            ["journal/", "part-", "manifest.json", "runs/"].iter().any(|part| location.as_ref().contains(part));
        let read = self.read.as_ref().filter(|_| is_content);
        read.is_some_and(|read| read.lock().unwrap().insert(location.clone()))
    }
}

impl fmt::Display for FaultyObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store that fails")
    }
}

#[async_trait::async_trait]
impl ObjectStore for FaultyObjectStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        if self.writes_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
            let source = Box::new(std::io::Error::from(std::io::ErrorKind::StorageFull));
            return Err(object_store::Error::Generic { store: "faulty", source });
        }
        self.inner.put_opts(location, payload, options).await
    }
    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let result = self.inner.get_opts(location, options).await?;
        if is_head || !self.is_wrong_read(location) {
            return Ok(result);
        }
        let (meta, range, attributes) = (result.meta.clone(), result.range.clone(), result.attributes.clone());
        let mut content = result.bytes().await?.to_vec();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        let payload = GetResultPayload::Stream(stream::once(async move { Ok(Bytes::from(content)) }).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }
    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut contents = self.inner.get_ranges(location, ranges).await?;
        if self.is_wrong_read(location) {
            let mut content = contents[0].to_vec();
            let middle = content.len() / 2;
            content[middle] ^= 1;
            contents[0] = content.into();
        }
        Ok(contents)
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
