//! Objects below a URL that others wrote, such as the photographs of a bucket: their list, and reading one of them.

use futures::TryStreamExt;
use object_store::path::Path as Name;
use object_store::{Error as StoreError, ObjectMeta, ObjectStoreExt as _};

use super::client::RetryPolicy;
use super::storage::ObjectStorage;
use crate::error::{Error, Result};

/// Object in a list.
#[derive(Debug, Clone, Copy)]
pub struct ListedObject<'n> {
    /// Name below the URL.
    pub name: &'n str,
    /// Size.
    pub bytes: u64,
    /// Stamp of its content.
    pub stamp: ObjectStamp,
}

/// Stamp of the content of an object: as long as it stays the same, so does the content. A digest of the size and the
/// `ETag`, or without one of the time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStamp([u8; 16]);

impl ObjectStamp {
    fn of(meta: &ObjectMeta) -> Self {
        let size = meta.size.to_string();
        // Lists of some servers have the tag without quotes.
        let version = match &meta.e_tag {
            Some(tag) => tag.trim_start_matches("W/").trim_matches('"').to_owned(),
            None => meta.last_modified.timestamp_millis().to_string(),
        };
        let mut stamp = [0; 16];
        stamp.copy_from_slice(&blake3::hash(format!("{size}\0{version}").as_bytes()).as_bytes()[..16]);
        Self(stamp)
    }

    /// Bytes of the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Answer to the request of an object in a list.
#[derive(Debug)]
pub enum ReadObject {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// It is gone, or has another stamp.
    Changed,
}

impl ObjectStorage {
    /// Lists all objects, in any order, and keeps what `of` makes of each.
    ///
    /// # Errors
    /// The server cannot be asked or does not allow it, or an object has a name that no path can have.
    pub fn list_objects<T>(&self, of: impl Fn(ListedObject<'_>) -> T) -> Result<Vec<T>> {
        let of = &of;
        let list = |store: std::sync::Arc<dyn object_store::ObjectStore>| async move {
            let kept = store.list(None).map_ok(|meta| {
                let stamp = ObjectStamp::of(&meta);
                of(ListedObject { name: meta.location.as_ref(), bytes: meta.size, stamp })
            });
            kept.try_collect().await
        };
        match self.block_on(self.send_idempotent(RetryPolicy::Standard, list))? {
            Ok(kept) => Ok(kept),
            Err(StoreError::InvalidPath { source }) => {
                let message = format!("cannot list `{}`: {}", self.display_path(""), source.to_string().escape_debug());
                Err(Error::data(message).hint("rename or remove this object, or name a prefix without it"))
            }
            Err(error) => Err(self.error("list", "", &error)),
        }
    }

    /// Reads an object with this stamp.
    ///
    /// # Errors
    /// The server cannot be asked or does not allow it.
    pub(in crate::io) async fn read_listed(&self, name: &str, stamp: ObjectStamp) -> Result<ReadObject> {
        let Ok(object) = Name::parse(name) else { return Ok(ReadObject::Changed) };
        let object = &object;
        let read = |store: std::sync::Arc<dyn object_store::ObjectStore>| async move {
            let found = store.get(object).await?;
            // Before memory is reserved: the list has the size, too.
            if ObjectStamp::of(&found.meta) != stamp {
                return Ok(ReadObject::Changed);
            }
            Ok(ReadObject::Bytes(found.bytes().await?.into()))
        };
        match self.send_idempotent(RetryPolicy::Standard, read).await {
            Err(StoreError::NotFound { .. }) => Ok(ReadObject::Changed),
            Ok(read) => Ok(read),
            Err(error) => Err(self.error("read", name, &error)),
        }
    }
}
