//! Object storage for artefacts: named byte objects that are written atomically, in a folder or at a URL (`s3://`,
//! `gs://`, `az://`, `http(s)://`).
//!
//! ```text
//! Location ──► ObjectStorage: get, size, list, put, create, replace, delete ─► a folder: files and renames
//!  (a folder                                                              └─► a URL: clients of `object_store`, with
//!   or a URL)                                                                 retries and time-outs
//! ```
//!
//! Writes are atomic, so an object is either absent or complete. `put` writes in any case, `create` writes only if the
//! object is absent, and `replace` writes only if the object has a given version. Calls may come from several threads at
//! once, but not from a thread of tokio.
//!
//! In a folder each write and removal is on the disk when it returns (`durable_folder.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path as Name;
use object_store::{
    Error as StoreError, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, UpdateVersion,
};

use self::client::{CONCURRENT_REQUESTS, MAX_REQUEST_BYTES, RetryPolicy, UrlClient};
use self::durable_folder::{DurableFolder, FolderCalls, file_sizes};
use pairloom_base::error::{Error, Result};

pub use client::runtime;
pub use listed_object::{ListedObject, ObjectStamp, ReadObject};
pub use location::Location;

mod location;
mod listed_object;
mod client;
mod durable_folder;
mod storage_error;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod power_cut;
#[cfg(test)]
mod tests;

/// Maximum number of attempts of a conditional write whose outcome is unknown.
const MAX_WRITE_ATTEMPTS: u32 = 4;
/// Time limit for retries: a request that fails in the middle of a response is retried within this time from its start.
const MID_RESPONSE_RETRY_TIME: Duration = Duration::from_secs(4);

/// Storage of named byte objects, in a folder or at a URL.
#[derive(Debug, Clone)]
pub struct ObjectStorage {
    backend: Backend,
    policy: RetryPolicy,
    /// True if the objects are files, which can be listed without the client.
    has_files: bool,
    /// Prefix below which objects are no sources.
    left_out: Option<Arc<str>>,
}

/// Folder or URL of the objects.
#[derive(Debug, Clone)]
enum Backend {
    Folder(Arc<dyn ObjectStore>, PathBuf),
    Url(Arc<UrlClient>, Location),
}

impl ObjectStorage {
    /// Opens the storage at a location, without sending a request. A missing folder is created. The settings of a URL
    /// have the names of environment variables (`AWS_REGION`).
    ///
    /// # Errors
    /// The folder cannot be created, or a setting is wrong.
    pub fn open(location: &Location, settings: &[(String, String)]) -> Result<Self> {
        match location {
            Location::Folder(folder) => Self::local(folder),
            Location::Url(url) => {
                let client = Arc::new(UrlClient::new(url, settings)?);
                Ok(Self::new(Backend::Url(client, location.clone())))
            }
        }
    }

    /// Opens the storage in a local folder, which is created if missing. Writes and removals are on the disk when a call
    /// returns ([`DurableFolder`]).
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn local(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        let folder = folder.canonicalize().map_err(|error| Error::io("find the folder", folder, &error))?;
        let inner =
            DurableFolder::open(&folder).map_err(|error| storage_error::folder_error("open", &folder, &error))?;
        Ok(Self { has_files: true, ..Self::with_inner(Arc::new(inner), &folder) })
    }

    /// Empty storage in memory, in place of the folder `folder`, which need not exist.
    #[must_use]
    pub fn in_memory(folder: &Path) -> Self {
        Self::with_inner(Arc::new(InMemory::new()), folder)
    }

    /// Storage over `inner`, whose objects are in `folder`: for tests with a faulty store.
    pub fn with_inner(inner: Arc<dyn ObjectStore>, folder: &Path) -> Self {
        Self::new(Backend::Folder(inner, folder.to_owned()))
    }

    fn new(backend: Backend) -> Self {
        Self { backend, policy: RetryPolicy::Standard, has_files: false, left_out: None }
    }

    /// Storage in an existing folder that is written by these calls, for tests.
    ///
    /// # Panics
    /// The folder cannot be opened.
    #[doc(hidden)]
    pub fn with_calls(folder: &Path, calls: Arc<dyn FolderCalls>) -> Self {
        let inner = DurableFolder::with_calls(folder, calls).expect("an existing folder");
        Self { has_files: true, ..Self::with_inner(Arc::new(inner), folder) }
    }

    /// Storage over `inner` as if at a URL, for tests.
    pub fn at_url(inner: &Arc<dyn ObjectStore>, location: &Location) -> Self {
        Self::new(Backend::Url(Arc::new(UrlClient::single(inner)), location.clone()))
    }

    /// The same objects, of which lists of sources leave out those below a prefix.
    #[must_use]
    pub fn without(self, prefix: Option<&str>) -> Self {
        Self { left_out: prefix.map(|prefix| format!("{prefix}/").into()), ..self }
    }

    /// True if an object is below the prefix that is left out.
    fn is_left_out(&self, name: &str) -> bool {
        self.left_out.as_ref().is_some_and(|prefix| name.starts_with(&**prefix))
    }

    /// Location of the objects.
    #[must_use]
    pub fn location(&self) -> Location {
        match &self.backend {
            Backend::Folder(_, folder) => Location::Folder(folder.clone()),
            Backend::Url(_, location) => location.clone(),
        }
    }

    /// The same storage with the short retry policy: errors are returned within about five seconds.
    #[must_use]
    pub fn with_short_timeout(&self) -> Self {
        Self { policy: RetryPolicy::Short, ..self.clone() }
    }

    /// Underlying store, for asynchronous readers. Its objects have their [full names](Self::full_name).
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn ObjectStore> {
        match &self.backend {
            Backend::Folder(inner, _) => inner,
            Backend::Url(client, _) => client.bucket(),
        }
    }

    /// Full name of an object in the underlying store.
    #[must_use]
    pub fn full_name(&self, name: &str) -> String {
        match &self.backend {
            Backend::Folder(..) => name.to_owned(),
            Backend::Url(client, _) => client.full_name(name),
        }
    }

    /// Folder of the objects; `None` if they are at a URL.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.backend {
            Backend::Folder(_, folder) => Some(folder),
            Backend::Url(..) => None,
        }
    }

    /// Path or URL of an object, for messages.
    #[must_use]
    pub fn display_path(&self, name: &str) -> String {
        match &self.backend {
            Backend::Folder(_, folder) => folder.join(name).display().to_string(),
            Backend::Url(_, location) if name.is_empty() => location.to_string(),
            Backend::Url(_, location) => format!("{location}/{name}"),
        }
    }

    /// Reads an object; `None` if it is absent.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.block_on(self.read(name))?
    }

    /// Reads several objects, concurrently; `None` for those that are absent.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get_all(&self, names: &[String]) -> Result<Vec<Option<Bytes>>> {
        let reads = stream::iter(names.iter().map(|name| self.read(name)));
        self.block_on(reads.buffered(CONCURRENT_REQUESTS).try_collect())?
    }

    /// Asynchronous [`ObjectStorage::get`].
    async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.read_version(name).await?.map(|(content, _)| content))
    }

    /// Reads an object and its version; `None` if it is absent.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get_version(&self, name: &str) -> Result<Option<(Bytes, ObjectVersion)>> {
        self.block_on(self.read_version(name))?
    }

    async fn read_version(&self, name: &str) -> Result<Option<(Bytes, ObjectVersion)>> {
        let object = Name::from(name);
        let at_url = self.folder().is_none();
        let read = |store| read(store, object.clone(), at_url);
        match self.send_idempotent(RetryPolicy::Standard, read).await {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error("read", name, &error)),
        }
    }

    /// Size of an object in bytes; `None` if it is absent.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        match self.head(name)? {
            Ok(meta) => Ok(Some(meta.size)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error("read", name, &error)),
        }
    }

    /// Time of the last write of an object in seconds since 1970; `None` if it is absent.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn modified_seconds(&self, name: &str) -> Result<Option<f64>> {
        match self.head(name)? {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
            Ok(meta) => Ok(Some(meta.last_modified.timestamp_millis() as f64 / 1000.0)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error("read", name, &error)),
        }
    }

    /// Current version of an object; `None` if it is absent.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn version(&self, name: &str) -> Result<Option<ObjectVersion>> {
        match self.head(name)? {
            Ok(meta) => Ok(Some(ObjectVersion { tag: meta.e_tag, generation: meta.version })),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.error("read", name, &error)),
        }
    }

    /// Writes an object atomically, replacing an existing one.
    ///
    /// # Errors
    /// The store cannot be written; then the object is unchanged.
    pub fn put(&self, name: &str, content: Bytes) -> Result<()> {
        let object = Name::from(name);
        let (object, content) = (&object, &content);
        let put =
            |store: Arc<dyn ObjectStore>| async move { store.put(object, PutPayload::from(content.clone())).await };
        let wrote = self.block_on(self.send_idempotent(retry_policy(content), put))?;
        wrote.map(drop).map_err(|error| self.error("write", name, &error))
    }

    /// Gives the file of the object `from` a second name, atomically, in place of an object of this name. Returns false if
    /// that failed, as where objects are no files of a folder, or the file system has no hard links: the caller then writes
    /// the object.
    ///
    /// # Errors
    /// The client cannot be started.
    pub fn link(&self, from: &str, name: &str) -> Result<bool> {
        let Backend::Folder(inner, _) = &self.backend else { return Ok(false) };
        if !self.has_files {
            return Ok(false);
        }
        let (from, name) = (Name::from(from), Name::from(name));
        Ok(self.block_on(inner.copy(&from, &name))?.is_ok())
    }

    /// Writes an object atomically if it is absent. Returns true if it was written.
    ///
    /// At a URL the response to a successful write may get lost. So an existing object with the same content counts as
    /// written by this call; writers that must be distinguished need distinct contents.
    ///
    /// # Errors
    /// The store cannot be written; then the object stays absent.
    pub fn create(&self, name: &str, content: Bytes) -> Result<bool> {
        Ok(self.create_version(name, content)?.is_some())
    }

    /// As [`ObjectStorage::create`]; returns the version that was written.
    ///
    /// # Errors
    /// As [`ObjectStorage::create`].
    pub fn create_version(&self, name: &str, content: Bytes) -> Result<Option<ObjectVersion>> {
        self.block_on(self.conditional_put(name, content, PutMode::Create))?
    }

    /// Replaces an object atomically if it still has the version `seen`; `None` if it has another version or is absent.
    /// Not supported for objects in a folder.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn replace(&self, name: &str, content: Bytes, seen: &ObjectVersion) -> Result<Option<ObjectVersion>> {
        let ObjectVersion { tag, generation } = seen.clone();
        self.block_on(self.conditional_put(
            name,
            content,
            PutMode::Update(UpdateVersion { e_tag: tag, version: generation }),
        ))?
    }

    async fn conditional_put(&self, name: &str, content: Bytes, mode: PutMode) -> Result<Option<ObjectVersion>> {
        let object = &Name::from(name);
        let mut tries = 0;
        loop {
            let options = PutOptions::from(mode.clone());
            let payload = PutPayload::from(content.clone());
            let policy = retry_policy(&content);
            let begun = tokio::time::Instant::now();
            let wrote = self.recorded(self.store_for(policy).put_opts(object, payload, options)).await;
            let time_of_write = begun.elapsed();
            tries += 1;
            let error = match wrote {
                Ok(wrote) => return Ok(Some(ObjectVersion { tag: wrote.e_tag, generation: wrote.version })),
                Err(error) => error,
            };
            let refused = matches!(error, StoreError::AlreadyExists { .. } | StoreError::Precondition { .. });
            if refused && self.folder().is_some() {
                return Ok(None);
            }
            if !refused && (self.folder().is_some() || !matches!(error, StoreError::Generic { .. })) {
                return Err(self.error("write", name, &error));
            }
            // The response got lost, or a retry followed a successful request: compare with the object in the store.
            let there = match self
                .send_idempotent(RetryPolicy::Standard, |store| async move { store.head(object).await })
                .await
            {
                Ok(meta) if meta.size == content.len() as u64 => self.read_version(name).await?,
                Ok(_) if refused => return Ok(None),
                Ok(_) | Err(StoreError::NotFound { .. }) => None,
                // The one that was retried for longer says more.
                Err(last) => {
                    let error = if begun.elapsed() > 2 * time_of_write { last } else { error };
                    return Err(self.error("write", name, &error));
                }
            };
            match there {
                Some((found, version)) if found == content => return Ok(Some(version)),
                Some(_) if refused => return Ok(None),
                // The object that was to be replaced has been removed.
                None if refused && matches!(mode, PutMode::Update(_)) => return Ok(None),
                _ if tries < MAX_WRITE_ATTEMPTS => tokio::time::sleep(Duration::from_millis(100) * tries).await,
                _ => return Err(self.error("write", name, &error)),
            }
        }
    }

    /// Sorted names of all objects below `prefix`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.sizes(prefix)?.into_keys().collect())
    }

    /// Sizes in bytes of all objects below `prefix`, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sizes(&self, prefix: &str) -> Result<BTreeMap<String, u64>> {
        if let Some(folder) = self.folder().filter(|_| self.has_files) {
            return file_sizes(folder, prefix);
        }
        let below = Name::from(prefix);
        let below = (!below.as_ref().is_empty()).then_some(&below);
        let list = |store: Arc<dyn ObjectStore>| async move {
            store.list(below).map_ok(|meta| (meta.location.to_string(), meta.size)).try_collect().await
        };
        match self.block_on(self.send_idempotent(RetryPolicy::Standard, list))? {
            Ok(sizes) => Ok(sizes),
            Err(error) => Err(self.error("list", prefix, &error)),
        }
    }

    /// Removes an object. An absent object is no error.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.block_on(self.remove(name))?
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let object = Name::from(name);
        let object = &object;
        match self.send_idempotent(RetryPolicy::Standard, |store| async move { store.delete(object).await }).await {
            Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.error("remove", name, &error)),
        }
    }

    /// Removes objects in any order. Absent objects are no error.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete_all(&self, names: &[String]) -> Result<()> {
        let Backend::Folder(inner, folder) = &self.backend else {
            let removals = stream::iter(names.iter().map(|name| self.remove(name)));
            return self.block_on(removals.buffer_unordered(CONCURRENT_REQUESTS).try_collect())?;
        };
        // One call, so that a folder is synced once.
        let names: Vec<_> = names.iter().map(|name| Ok(Name::from(name.as_str()))).collect();
        let removals = inner.delete_stream(stream::iter(names).boxed()).collect::<Vec<_>>();
        let failed = self.block_on(removals)?.into_iter().filter_map(std::result::Result::err);
        let mut failed = failed.filter(|error| !matches!(error, StoreError::NotFound { .. }));
        failed.next().map_or(Ok(()), |error| Err(storage_error::folder_error("remove from", folder, &error)))
    }

    fn head(&self, name: &str) -> Result<object_store::Result<ObjectMeta>> {
        let object = Name::from(name);
        let object = &object;
        self.block_on(self.send_idempotent(RetryPolicy::Standard, |store| async move { store.head(object).await }))
    }

    /// Sends an idempotent request. `object_store` retries failures before a response begins; failures in the middle of
    /// a response are retried here, within [`MID_RESPONSE_RETRY_TIME`].
    async fn send_idempotent<T, F: Future<Output = object_store::Result<T>>>(
        &self,
        policy: RetryPolicy,
        call: impl Fn(Arc<dyn ObjectStore>) -> F,
    ) -> object_store::Result<T> {
        let begun = tokio::time::Instant::now();
        let mut pause = Duration::from_millis(100);
        loop {
            let answer = self.recorded(call(Arc::clone(self.store_for(policy)))).await;
            let broken = answer.as_ref().is_err_and(storage_error::is_connection_error) && self.folder().is_none();
            if !broken || begun.elapsed() > MID_RESPONSE_RETRY_TIME {
                return answer;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Store for a request with policy `policy`.
    fn store_for(&self, policy: RetryPolicy) -> &Arc<dyn ObjectStore> {
        match &self.backend {
            Backend::Folder(inner, _) => inner,
            Backend::Url(client, _) if self.policy == RetryPolicy::Short => client.client_for(RetryPolicy::Short),
            Backend::Url(client, _) => client.client_for(policy),
        }
    }

    /// Result of a request. The client learns from it whether the server answers.
    async fn recorded<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> object_store::Result<T> {
        let begun = tokio::time::Instant::now();
        let result = request.await;
        if let Backend::Url(client, _) = &self.backend {
            client.record_result(begun.elapsed(), &result);
        }
        result
    }

    /// Blocks until `work` is done: on this thread for files, on the runtime of the clients for requests.
    ///
    /// # Errors
    /// The runtime of the clients cannot be started.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        match self.backend {
            Backend::Folder(..) => Ok(futures::executor::block_on(work)),
            Backend::Url(..) => Ok(runtime()?.block_on(work)),
        }
    }

    fn error(&self, doing: &str, name: &str, error: &StoreError) -> Error {
        match &self.backend {
            Backend::Folder(_, folder) => storage_error::folder_error(doing, &folder.join(name), error),
            Backend::Url(..) => storage_error::url_error(doing, &self.display_path(name), error),
        }
    }
}

fn retry_policy(content: &Bytes) -> RetryPolicy {
    if content.len() as u64 > MAX_REQUEST_BYTES { RetryPolicy::Large } else { RetryPolicy::Standard }
}

/// Reads an object and its version.
async fn read(store: Arc<dyn ObjectStore>, name: Name, at_url: bool) -> object_store::Result<(Bytes, ObjectVersion)> {
    let found = store.get(&name).await?;
    let meta = found.meta.clone();
    let version = ObjectVersion { tag: meta.e_tag.clone(), generation: meta.version };
    let content = match meta.e_tag {
        // A large object is read by several requests, each with a time-out of its own, for the same version.
        Some(tag) if at_url && meta.size > MAX_REQUEST_BYTES => {
            drop(found);
            read_ranges(store, name, meta.size, tag).await?
        }
        _ => found.bytes().await?,
    };
    Ok((content, version))
}

/// Reads a large object in ranges, several at once.
async fn read_ranges(store: Arc<dyn ObjectStore>, name: Name, size: u64, tag: String) -> object_store::Result<Bytes> {
    let starts = (0..size).step_by(MAX_REQUEST_BYTES.saturating_as::<usize>());
    let pieces = starts.map(move |start| {
        let range = Some(GetRange::Bounded(start..(start + MAX_REQUEST_BYTES).min(size)));
        let options = GetOptions { range, if_match: Some(tag.clone()), ..GetOptions::default() };
        let (store, name) = (Arc::clone(&store), name.clone());
        async move { store.get_opts(&name, options).await?.bytes().await }
    });
    let mut pieces = stream::iter(pieces).buffered(CONCURRENT_REQUESTS);
    let mut content = BytesMut::with_capacity(size.saturating_as::<usize>());
    while let Some(piece) = pieces.next().await {
        content.extend_from_slice(&piece?);
    }
    Ok(content.freeze())
}

impl ObjectStorage {
    /// Reads and parses an object; `None` if it is absent. One that cannot be parsed is read a second time: a disk or a network
    /// may err once.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get_parsed<T, E>(
        &self,
        name: &str,
        parse: impl Fn(&[u8]) -> std::result::Result<T, E>,
    ) -> Result<Option<std::result::Result<T, E>>> {
        match self.get(name)?.map(|content| parse(&content)) {
            Some(Err(_)) => Ok(self.get(name)?.map(|content| parse(&content))),
            known => Ok(known),
        }
    }

    /// Reads and parses several objects as [`ObjectStorage::get_parsed`], concurrently.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get_all_parsed<T, E>(
        &self,
        names: &[String],
        parse: impl Fn(&str, &[u8]) -> std::result::Result<T, E>,
    ) -> Result<Vec<Option<std::result::Result<T, E>>>> {
        let contents = self.get_all(names)?;
        let parsed = names.iter().zip(contents).map(|(name, content)| {
            Ok(match content.map(|content| parse(name, &content)) {
                Some(Err(_)) => self.get(name)?.map(|content| parse(name, &content)),
                known => known,
            })
        });
        parsed.collect()
    }
}

/// Version of an object's content: `ETag` and generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    tag: Option<String>,
    generation: Option<String>,
}
