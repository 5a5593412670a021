//! The synchronous view of a store of objects.
//!
//! An object is either absent or complete: `put` replaces it in one step, `create` fails where it exists already, and
//! `replace` where it is no longer the one that was seen. Every call may be made from several threads at once, but not
//! from a thread of tokio.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{
    Error as Fault, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};

use crate::error::{Error, Result};
use crate::io::objects::client::{self, Client, Patience, REQUEST};
use crate::io::objects::{Location, fault};

/// Requests of one call that are under way at once.
const REQUESTS: usize = 8;
/// Times that a conditional write is tried when nobody knows what became of it.
const WRITES: u32 = 4;
/// Time within which a failure is no sign of a server that is gone.
const QUICK: Duration = Duration::from_secs(4);

/// Named byte objects.
#[derive(Debug, Clone)]
pub struct Objects {
    base: Base,
    patience: Patience,
}

/// What objects lie in.
#[derive(Debug, Clone)]
enum Base {
    Folder(Arc<dyn ObjectStore>, PathBuf),
    Url(Arc<Client>, Location),
}

/// Which of the contents that an object had in the course of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    tag: Option<String>,
    generation: Option<String>,
}

impl Objects {
    /// The objects at a place: a folder, which is made if it is not there, or a URL, whose settings are named as in the
    /// environment (`AWS_REGION`). Nothing is asked of a server yet.
    ///
    /// # Errors
    /// The folder cannot be made; a setting is wrong.
    pub fn open(location: &Location, settings: &[(String, String)]) -> Result<Self> {
        match location {
            Location::Folder(folder) => Self::local(folder),
            Location::Url(url) => {
                let client = Arc::new(Client::new(url, settings)?);
                Ok(Self { base: Base::Url(client, location.clone()), patience: Patience::Usual })
            }
        }
    }

    /// The objects of a local folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn local(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
        let folder = folder.canonicalize().map_err(|error| Error::io("find the folder", folder, &error))?;
        let inner =
            LocalFileSystem::new_with_prefix(&folder).map_err(|error| fault::of_folder("open", &folder, &error))?;
        Ok(Self::wrapping(Arc::new(inner), &folder))
    }

    /// The objects of `inner`, which lie in `folder`: for tests that put a faulty store in between.
    pub fn wrapping(inner: Arc<dyn ObjectStore>, folder: &Path) -> Self {
        Self { base: Base::Folder(inner, folder.to_owned()), patience: Patience::Usual }
    }

    /// The objects of `inner` as if they lay at a URL: for tests.
    pub fn at_url(inner: &Arc<dyn ObjectStore>, location: &Location) -> Self {
        Self { base: Base::Url(Arc::new(Client::of(inner)), location.clone()), patience: Patience::Usual }
    }

    /// The same objects for somebody who would rather have an error within some five seconds than wait.
    #[must_use]
    pub fn in_haste(&self) -> Self {
        Self { patience: Patience::Short, ..self.clone() }
    }

    /// The store underneath, for readers that bring their own threads. It knows objects by their [`Objects::path`].
    #[must_use]
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        match &self.base {
            Base::Folder(inner, _) => inner,
            Base::Url(client, _) => client.whole(),
        }
    }

    /// The name of an object in the store underneath.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        match &self.base {
            Base::Folder(..) => name.to_owned(),
            Base::Url(client, _) => client.path(name),
        }
    }

    /// The folder of the objects, unless they lie at a URL.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.base {
            Base::Folder(_, folder) => Some(folder),
            Base::Url(..) => None,
        }
    }

    /// Where an object lies, for messages.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        match &self.base {
            Base::Folder(_, folder) => folder.join(name).display().to_string(),
            Base::Url(_, location) if name.is_empty() => location.to_string(),
            Base::Url(_, location) => format!("{location}/{name}"),
        }
    }

    /// The content of an object; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.wait(self.read(name))?
    }

    /// As [`Objects::get`], for tasks of the store's own threads.
    pub(super) async fn read(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.read_version(name).await?.map(|(content, _)| content))
    }

    /// The content of an object, and which content that is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get_version(&self, name: &str) -> Result<Option<(Bytes, Version)>> {
        self.wait(self.read_version(name))?
    }

    async fn read_version(&self, name: &str) -> Result<Option<(Bytes, Version)>> {
        let object = Name::from(name);
        let at_url = self.folder().is_none();
        let read = |store| read(store, object.clone(), at_url);
        match self.ask(Patience::Usual, read).await {
            Ok(found) => Ok(Some(found)),
            Err(Fault::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fault("read", name, &error)),
        }
    }

    /// The size of an object in bytes; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        match self.head(name)? {
            Ok(meta) => Ok(Some(meta.size)),
            Err(Fault::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fault("read", name, &error)),
        }
    }

    /// When an object was written, in seconds since 1970; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn written(&self, name: &str) -> Result<Option<f64>> {
        match self.head(name)? {
            #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
            Ok(meta) => Ok(Some(meta.last_modified.timestamp_millis() as f64 / 1000.0)),
            Err(Fault::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fault("read", name, &error)),
        }
    }

    /// Which content an object has now; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn version(&self, name: &str) -> Result<Option<Version>> {
        match self.head(name)? {
            Ok(meta) => Ok(Some(Version { tag: meta.e_tag, generation: meta.version })),
            Err(Fault::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fault("read", name, &error)),
        }
    }

    /// Publishes an object whole, in place of an older one.
    ///
    /// # Errors
    /// The store cannot be written; then the object is as it was.
    pub fn put(&self, name: &str, content: Bytes) -> Result<()> {
        let object = Name::from(name);
        let (object, content) = (&object, &content);
        let put =
            |store: Arc<dyn ObjectStore>| async move { store.put(object, PutPayload::from(content.clone())).await };
        let wrote = self.wait(self.ask(patience(content), put))?;
        wrote.map(drop).map_err(|error| self.fault("write", name, &error))
    }

    /// Publishes an object whole if there is none of this name; says whether it did.
    ///
    /// At a URL an answer may get lost after the object was written. So one that is there already with this very content
    /// counts as created: contents that must be told apart hold something that tells them apart.
    ///
    /// # Errors
    /// The store cannot be written; then there is no such object.
    pub fn create(&self, name: &str, content: Bytes) -> Result<bool> {
        Ok(self.create_version(name, content)?.is_some())
    }

    /// As [`Objects::create`]; gives the version that was written.
    ///
    /// # Errors
    /// As [`Objects::create`].
    pub fn create_version(&self, name: &str, content: Bytes) -> Result<Option<Version>> {
        self.wait(self.write_if(name, content, PutMode::Create))?
    }

    /// Publishes an object whole in place of the one that was seen; `None` if another one is there by now, or none.
    /// Objects of a folder cannot be replaced like that.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn replace(&self, name: &str, content: Bytes, seen: &Version) -> Result<Option<Version>> {
        let Version { tag, generation } = seen.clone();
        self.wait(self.write_if(name, content, PutMode::Update(UpdateVersion { e_tag: tag, version: generation })))?
    }

    async fn write_if(&self, name: &str, content: Bytes, mode: PutMode) -> Result<Option<Version>> {
        let object = &Name::from(name);
        let mut tries = 0;
        loop {
            let options = PutOptions::from(mode.clone());
            let payload = PutPayload::from(content.clone());
            let patience = patience(&content);
            let wrote = self.learned(patience, self.whom(patience).put_opts(object, payload, options).await);
            tries += 1;
            let error = match wrote {
                Ok(wrote) => return Ok(Some(Version { tag: wrote.e_tag, generation: wrote.version })),
                Err(error) => error,
            };
            let refused = matches!(error, Fault::AlreadyExists { .. } | Fault::Precondition { .. });
            if refused && self.folder().is_some() {
                return Ok(None);
            }
            if !refused && (self.folder().is_some() || !matches!(error, Fault::Generic { .. })) {
                return Err(self.fault("write", name, &error));
            }
            // An answer got lost, or the request was sent again after it had succeeded: see what is there.
            let there = match self.ask(Patience::Usual, |store| async move { store.head(object).await }).await {
                Ok(meta) if meta.size == content.len() as u64 => self.read_version(name).await?,
                Ok(_) if refused => return Ok(None),
                Ok(_) | Err(Fault::NotFound { .. }) => None,
                Err(_) => return Err(self.fault("write", name, &error)),
            };
            match there {
                Some((found, version)) if found == content => return Ok(Some(version)),
                Some(_) if refused => return Ok(None),
                // It vanished in between, and was replaced by nothing: what was to be replaced is no more.
                None if refused && matches!(mode, PutMode::Update(_)) => return Ok(None),
                _ if tries < WRITES => tokio::time::sleep(Duration::from_millis(100) * tries).await,
                _ => return Err(self.fault("write", name, &error)),
            }
        }
    }

    /// Names of all objects below `prefix`, sorted.
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
        let below = Name::from(prefix);
        let below = (!below.as_ref().is_empty()).then_some(&below);
        let list = |store: Arc<dyn ObjectStore>| async move {
            store.list(below).map_ok(|meta| (meta.location.to_string(), meta.size)).try_collect().await
        };
        match self.wait(self.ask(Patience::Usual, list))? {
            Ok(sizes) => Ok(sizes),
            Err(error) => Err(self.fault("list", prefix, &error)),
        }
    }

    /// Removes what killed processes left half-written below `prefix`: files that were to be renamed and are not objects.
    /// Nobody else may write there meanwhile. At a URL there are none.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn sweep(&self, prefix: &str) -> Result<()> {
        let Some(folder) = self.folder() else { return Ok(()) };
        for entry in walkdir::WalkDir::new(folder.join(prefix)).into_iter().filter_map(Result::ok) {
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
        self.wait(self.remove(name))?
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let object = Name::from(name);
        let object = &object;
        match self.ask(Patience::Usual, |store| async move { store.delete(object).await }).await {
            Ok(()) | Err(Fault::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.fault("remove", name, &error)),
        }
    }

    /// Removes objects in any order; fine if some are not there.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete_all(&self, names: &[String]) -> Result<()> {
        let at_once = if self.folder().is_some() { 1 } else { REQUESTS };
        let removals = stream::iter(names.iter().map(|name| self.remove(name)));
        self.wait(removals.buffer_unordered(at_once).try_collect())?
    }

    fn head(&self, name: &str) -> Result<object_store::Result<ObjectMeta>> {
        let object = Name::from(name);
        let object = &object;
        self.wait(self.ask(Patience::Usual, |store| async move { store.head(object).await }))
    }

    /// Asks the store what may be asked twice. `object_store` tries again what fails before an answer begins; what fails
    /// in the middle of one is tried again here, for as long as that takes no time.
    async fn ask<T, F: Future<Output = object_store::Result<T>>>(
        &self,
        patience: Patience,
        call: impl Fn(Arc<dyn ObjectStore>) -> F,
    ) -> object_store::Result<T> {
        let begun = tokio::time::Instant::now();
        let mut pause = Duration::from_millis(100);
        loop {
            let answer = self.learned(patience, call(Arc::clone(self.whom(patience))).await);
            let broken = answer.as_ref().is_err_and(fault::is_of_transport) && self.folder().is_none();
            if !broken || begun.elapsed() > QUICK {
                return answer;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Whom to ask now.
    fn whom(&self, patience: Patience) -> &Arc<dyn ObjectStore> {
        match &self.base {
            Base::Folder(inner, _) => inner,
            Base::Url(client, _) => client.ask(self.least(patience)),
        }
    }

    fn learned<T>(&self, patience: Patience, result: object_store::Result<T>) -> object_store::Result<T> {
        if let Base::Url(client, _) = &self.base {
            client.learn(self.least(patience), &result);
        }
        result
    }

    fn least(&self, patience: Patience) -> Patience {
        if self.patience == Patience::Short { Patience::Short } else { patience }
    }

    /// Runs to the end: files on this thread, requests with the threads of the store.
    fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        match self.base {
            Base::Folder(..) => Ok(futures::executor::block_on(work)),
            Base::Url(..) => Ok(client::runtime()?.block_on(work)),
        }
    }

    fn fault(&self, doing: &str, name: &str, error: &Fault) -> Error {
        match &self.base {
            Base::Folder(_, folder) => fault::of_folder(doing, &folder.join(name), error),
            Base::Url(..) => fault::of_url(doing, &self.place(name), error),
        }
    }
}

fn patience(content: &Bytes) -> Patience {
    if content.len() as u64 > REQUEST { Patience::Large } else { Patience::Usual }
}

/// The content of an object, and which one that is.
async fn read(store: Arc<dyn ObjectStore>, name: Name, at_url: bool) -> object_store::Result<(Bytes, Version)> {
    let found = store.get(&name).await?;
    let meta = found.meta.clone();
    let version = Version { tag: meta.e_tag.clone(), generation: meta.version };
    let content = match meta.e_tag {
        // Several requests, each within its time-out, and all for the same content.
        Some(tag) if at_url && meta.size > REQUEST => {
            drop(found);
            ranges(store, name, meta.size, tag).await?
        }
        _ => found.bytes().await?,
    };
    Ok((content, version))
}

/// The content of a large object, some of its ranges at once.
async fn ranges(store: Arc<dyn ObjectStore>, name: Name, size: u64, tag: String) -> object_store::Result<Bytes> {
    let starts = (0..size).step_by(REQUEST.saturating_as::<usize>());
    let pieces = starts.map(move |start| {
        let range = Some(GetRange::Bounded(start..(start + REQUEST).min(size)));
        let options = GetOptions { range, if_match: Some(tag.clone()), ..GetOptions::default() };
        let (store, name) = (Arc::clone(&store), name.clone());
        async move { store.get_opts(&name, options).await?.bytes().await }
    });
    let mut pieces = stream::iter(pieces).buffered(REQUESTS);
    let mut content = BytesMut::with_capacity(size.saturating_as::<usize>());
    while let Some(piece) = pieces.next().await {
        content.extend_from_slice(&piece?);
    }
    Ok(content.freeze())
}
