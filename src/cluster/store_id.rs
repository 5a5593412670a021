//! Store of an executor: the id, by which it knows that it reads the store of a query, and the registry, which has no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use datafusion::common::exec_err;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result as SqlResult};
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use object_store::ObjectStore;
use tokio::sync::Notify;
use url::Url;

use super::build_option::store_of_sender;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::random_hex;
use pairloom_query::store_url;
use pairloom_store::{CLUSTER_FOLDER, Store};

/// Name of the object with the id.
fn object() -> String {
    format!("{CLUSTER_FOLDER}/store-id")
}

/// Id of a store, which is made if it has none. It is empty for a store that cannot be written.
///
/// # Errors
/// The store cannot be read.
pub(super) fn id_of_store(store: &Store) -> Result<String> {
    let objects = store.objects();
    if objects.get(&object())?.is_none() {
        // Of two processes one creates it. A reader of a store needs no right to write.
        let _ = objects.create(&object(), Bytes::from(random_hex::<16>()?));
    }
    known_id(store)
}

/// Id of a store, empty without one.
fn known_id(store: &Store) -> Result<String> {
    let content = store.objects().get(&object())?;
    Ok(content.map_or_else(String::new, |content| String::from_utf8_lossy(&content).into_owned()))
}

/// Comparison of the store of an executor with that of each query.
#[derive(Debug)]
pub(super) struct StoreCheck {
    store: Store,
    is_wrong: AtomicBool,
    found_wrong: Notify,
}

impl StoreCheck {
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), is_wrong: AtomicBool::new(false), found_wrong: Notify::new() }
    }

    /// Compares the store with that of the sender of a task.
    ///
    /// # Errors
    /// They differ, or the store cannot be read. The scheduler gives the task to another executor.
    pub fn check(&self, options: &ConfigOptions) -> SqlResult<()> {
        let wanted = store_of_sender(options);
        if wanted.is_empty() {
            return Ok(());
        }
        // Requests to a store wait on threads of their own, which a thread of tokio must not do.
        let known = std::thread::scope(|scope| scope.spawn(|| known_id(&self.store)).join());
        let failed = |message: String| DataFusionError::IoError(std::io::Error::other(message));
        match known {
            Ok(Ok(id)) if id == wanted => Ok(()),
            Ok(Ok(_)) => {
                self.is_wrong.store(true, Ordering::Relaxed);
                self.found_wrong.notify_one();
                Err(failed(self.error().to_string()))
            }
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("reading the id of the store panicked".to_owned())),
        }
    }

    /// Result of the comparisons so far.
    ///
    /// # Errors
    /// A task wanted another store.
    pub fn result(&self) -> Result<()> {
        if self.is_wrong.load(Ordering::Relaxed) { Err(self.error()) } else { Ok(()) }
    }

    /// Waits until a task wants another store.
    pub async fn is_wrong(&self) -> Error {
        while !self.is_wrong.load(Ordering::Relaxed) {
            self.found_wrong.notified().await;
        }
        self.error()
    }

    fn error(&self) -> Error {
        let place = self.store.objects().display_path("");
        Error::usage(format!("a query reads another store than `{place}`, which this executor reads"))
            .hint("start the executor with the store of the queries: `--store` or `PAIRLOOM_STORE`")
    }
}

/// Registry of the store alone. Files of the machine and other servers cannot be read, whatever a plan names.
#[derive(Debug)]
pub(super) struct StoreRegistry {
    url: ObjectStoreUrl,
    store: Arc<dyn ObjectStore>,
}

impl StoreRegistry {
    /// Registry of an executor, which reads `store`. A scheduler decodes plans and reads nothing, so its store is empty.
    pub fn new(store: &Store) -> SqlResult<Self> {
        Ok(Self { url: ObjectStoreUrl::parse(store_url())?, store: store.verified_objects() })
    }
}

impl ObjectStoreRegistry for StoreRegistry {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn deregister_store(&self, url: &Url) -> SqlResult<Arc<dyn ObjectStore>> {
        Err(DataFusionError::Execution(format!("`{url}` is not removed")))
    }

    fn get_store(&self, url: &Url) -> SqlResult<Arc<dyn ObjectStore>> {
        let wanted: &Url = self.url.as_ref();
        if url.scheme() != wanted.scheme() {
            return exec_err!("a cluster reads its store only, got `{url}`");
        }
        if url.host_str() != wanted.host_str() {
            return exec_err!("got tables at `{url}`, expected `{wanted}`: all processes need one build of Pairloom");
        }
        Ok(Arc::clone(&self.store))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionConfig;
    use futures::executor::block_on;
    use object_store::ObjectStoreExt;
    use object_store::path::Path;

    use super::super::build_option::sending;
    use super::*;

    #[test]
    fn a_task_of_another_store_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| Store::open(&folder.path().join(name)).unwrap());
        let [own_id, other_id] = [&own, &other].map(|store| id_of_store(store).unwrap());
        assert_eq!((own_id.len(), id_of_store(&own).unwrap() == own_id, own_id == other_id), (32, true, false));
        let check = StoreCheck::new(&own);
        let received = |id: &str| check.check(sending(SessionConfig::new(), id).options());
        received(&own_id).unwrap();
        received("").unwrap();
        assert!(!check.is_wrong.load(Ordering::Relaxed));
        let error = received(&other_id).unwrap_err();
        assert!(matches!(&error, DataFusionError::IoError(_)), "{error:?}");
        assert!(error.to_string().contains("a query reads another store than"), "{error}");
        assert!(check.is_wrong.load(Ordering::Relaxed));
    }

    #[test]
    fn only_the_store_is_read_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        store.objects().put("table", "rows".into()).unwrap();
        let registry = StoreRegistry::new(&store).unwrap();
        let url = Url::parse(store_url()).unwrap();
        let found = registry.get_store(&url.join("table").unwrap()).unwrap();
        let name = Path::from("table");
        assert_eq!(block_on(async { found.get(&name).await.unwrap().bytes().await.unwrap() }), "rows");
        assert!(block_on(found.put(&name, "others".into())).is_err());
        assert!(block_on(found.delete(&name)).is_err());
        assert!(block_on(found.copy(&name, &Path::from("copy"))).is_err());
        assert_eq!(store.objects().get("table").unwrap().unwrap(), "rows");
        for other in ["file:///etc/passwd", "http://example.org/", "s3://bucket/x", "pairloom://other/table"] {
            let error = registry.get_store(&Url::parse(other).unwrap()).unwrap_err().to_string();
            assert!(error.contains("reads its store only") || error.contains("one build of Pairloom"), "{error}");
        }
    }
}
