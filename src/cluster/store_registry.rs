//! Registry of the one object store that an executor reads.

use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use object_store::ObjectStore;
use url::Url;

use pairloom_query::store_url;
use pairloom_store::Store;

/// Registry of the store alone. Files of the machine and other servers cannot be read, whatever a plan names.
#[derive(Debug)]
pub(super) struct StoreRegistry {
    url: ObjectStoreUrl,
    store: Arc<dyn ObjectStore>,
}

impl StoreRegistry {
    /// Registry of an executor, which reads `store`. A scheduler decodes plans and reads nothing, so its store is empty.
    pub fn new(store: &Store) -> Result<Self> {
        Ok(Self { url: ObjectStoreUrl::parse(store_url())?, store: store.verified_objects() })
    }
}

impl ObjectStoreRegistry for StoreRegistry {
    fn register_store(&self, _: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        Err(DataFusionError::Execution(format!("`{url}` is not removed")))
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let wanted: &Url = self.url.as_ref();
        if url.scheme() != wanted.scheme() {
            return exec_err!("a cluster reads its store only, got `{url}`");
        }
        if url.host_str() != wanted.host_str() {
            return exec_err!("got tables at `{url}`, wanted `{wanted}`: all processes need one build of Pairloom");
        }
        Ok(Arc::clone(&self.store))
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use object_store::ObjectStoreExt;
    use object_store::path::Path;

    use super::*;

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
