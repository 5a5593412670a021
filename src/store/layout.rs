//! Layout of a store in a folder or at a URL.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use object_store::ObjectStore;

use super::artefact::{Artefact, Manifest, parse_checked};
use super::key::Key;
use super::lock;
use super::process_identity::ProcessIdentity;
use super::verified_store::VerifiedStore;
use pairloom_base::error::{Error, Result};
use pairloom_storage::objects::{Location, ObjectStorage};

/// Version of the layout, which is the top folder of every store.
const LAYOUT: &str = "v1";

/// Folder with the leases of the runs that use the store, at a URL.
pub const LOCKS_FOLDER: &str = "holds";

/// Folder with the objects and results of searches that a cluster computes.
pub const SEARCH_FOLDER: &str = "searches";
/// Folder of the digests of files outside of the store.
pub const SOURCES_FOLDER: &str = "sources";

/// Name of the list of digests of the files at `path`, a file or folder outside of the store.
#[must_use]
pub fn source_list_name(path: &Path) -> String {
    source_object_name(path, "digests")
}

/// Name of the object with the times of the folders at and below `path`, a folder outside of the store.
#[must_use]
pub fn folder_times_name(path: &Path) -> String {
    source_object_name(path, "folders")
}

fn source_object_name(path: &Path, ending: &str) -> String {
    format!("{SOURCES_FOLDER}/{}.{ending}", &blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex()[..32])
}

/// Folder of the store's id, by which the processes of a cluster know it.
pub const CLUSTER_FOLDER: &str = "cluster";

/// A store of artefacts in a folder or at a URL.
#[derive(Debug, Clone)]
pub struct Store {
    objects: ObjectStorage,
    process_identity: ProcessIdentity,
    is_read_only: bool,
    /// Kind of the file system of the folder, if other machines may not see its locks.
    unshared_locks: Option<String>,
    /// Settings of clients of buckets, for sources in them.
    client_settings: ClientSettings,
}

/// Settings of clients of buckets, named like environment variables. Some are secrets.
#[derive(Clone, Default)]
struct ClientSettings(Arc<[(String, String)]>);

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} settings", self.0.len())
    }
}

impl Store {
    /// Opens the store in a local folder. Creates the folder if it does not exist.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open(folder: &Path) -> Result<Self> {
        Ok(Self::with_objects(ObjectStorage::local(&folder.join(LAYOUT))?, ProcessIdentity::new(None)))
    }

    /// Opens the store at a location: a folder, which is created if it does not exist, or a URL. `settings` of a URL
    /// are named like environment variables (`AWS_REGION`). `locks` is a local folder for the locks of leases at URLs.
    ///
    /// # Errors
    /// The folder cannot be created, or a setting is wrong. Does not connect to a server.
    pub fn at(location: &Location, settings: &[(String, String)], locks: Option<&Path>) -> Result<Self> {
        let locks = locks.filter(|_| matches!(location, Location::Url(_)));
        let objects = ObjectStorage::open(&location.join(LAYOUT), settings)?;
        Ok(Self::with_objects(objects, ProcessIdentity::new(locks)).with_client_settings(settings))
    }

    /// A store over these objects, for tests with a faulty object store.
    #[must_use]
    pub fn with_objects(objects: ObjectStorage, process_identity: ProcessIdentity) -> Self {
        let unshared_locks = objects.folder().and_then(lock::unshared_locks);
        Self {
            objects,
            process_identity,
            is_read_only: false,
            unshared_locks,
            client_settings: ClientSettings::default(),
        }
    }

    /// The same store with these settings for sources in buckets.
    #[must_use]
    pub fn with_client_settings(self, settings: &[(String, String)]) -> Self {
        Self { client_settings: ClientSettings(settings.into()), ..self }
    }

    /// Opens the objects of a source at a URL; `None` for a path. A list of them leaves out this store, which each run
    /// changes.
    ///
    /// # Errors
    /// The URL or a setting is wrong.
    pub fn objects_of_source(&self, path: &Path) -> Result<Option<ObjectStorage>> {
        match Location::parse(path.into())? {
            Location::Folder(_) => Ok(None),
            location @ Location::Url(_) => {
                let objects = ObjectStorage::open(&location, &self.client_settings.0)?;
                Ok(Some(objects.without(self.objects.location().name_below(&location).as_deref())))
            }
        }
    }

    /// Kind of the file system of a store in a folder whose locks other machines may not see. Two machines could then
    /// build the same artefact.
    #[must_use]
    pub fn unshared_locks(&self) -> Option<&str> {
        self.unshared_locks.as_deref()
    }

    /// The same store as on a file system whose locks other machines do not see, for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn with_unshared_locks(self) -> Self {
        Self { unshared_locks: Some("test".to_owned()), ..self }
    }

    /// A store without artefacts and runs, in memory: for a folder that is no store yet, and that stays as it is.
    #[must_use]
    pub fn empty(folder: &Path) -> Self {
        Self::with_objects(ObjectStorage::in_memory(folder), ProcessIdentity::new(None)).read_only()
    }

    /// The same store for a dry run, which does not save the digests of sources.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    /// True if nothing may be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Identity of this process, for others that use the store.
    #[must_use]
    pub fn process_identity(&self) -> &ProcessIdentity {
        &self.process_identity
    }

    /// Objects of the store.
    #[must_use]
    pub fn objects(&self) -> &ObjectStorage {
        &self.objects
    }

    /// Reads manifests by the names of their objects, several at a time: `None` for an absent one, an error for one that
    /// cannot be parsed.
    pub fn manifests(&self, objects: &[String]) -> Result<Vec<Option<Result<Manifest>>>> {
        self.objects.get_all_parsed(objects, |object, content| {
            parse_checked(content).map_err(|error| Error::data(format!("`{object}` is not a manifest: {error}")))
        })
    }

    /// Kind and key of all artefacts with a manifest, ordered by the names of their objects.
    pub fn complete_artefacts(&self) -> Result<Vec<(String, Key)>> {
        let objects = self.objects.list("")?;
        let artefact = |object: &String| match object.split('/').collect::<Vec<_>>()[..] {
            [kind, key, "manifest.json"] => Some((kind.to_owned(), serde_json::from_value(key.into()).ok()?)),
            _ => None,
        };
        Ok(objects.iter().filter_map(artefact).collect())
    }

    /// Keys of the artefacts of this kind with a manifest.
    pub fn complete_artefacts_of(&self, kind: &str) -> Result<Vec<Key>> {
        let objects = self.objects.list(kind)?;
        let key = |object: &String| match object.split('/').collect::<Vec<_>>()[..] {
            [_, key, "manifest.json"] => serde_json::from_value(key.into()).ok(),
            _ => None,
        };
        Ok(objects.iter().filter_map(key).collect())
    }

    /// Reads the manifests of artefacts, given by kind and key: `None` for an artefact that is not complete.
    pub fn manifests_of<'n>(
        &self,
        artefacts: impl IntoIterator<Item = (&'n str, &'n Key)>,
    ) -> Result<Vec<Option<Result<Manifest>>>> {
        let name = |(kind, key): (&str, &Key)| self.artefact(kind, key).name("manifest.json");
        self.manifests(&artefacts.into_iter().map(name).collect::<Vec<_>>())
    }

    /// Objects of the store for readers of ranges, read-only and with a check of what they read of results.
    #[must_use]
    pub fn verified_objects(&self) -> Arc<dyn ObjectStore> {
        Arc::new(VerifiedStore::new(&self.objects))
    }

    /// Handle of an artefact, which may be absent, unfinished or complete.
    #[must_use]
    pub fn artefact(&self, kind: &str, key: &Key) -> Artefact {
        Artefact::new(self.objects.clone(), format!("{kind}/{key}"))
    }
}
