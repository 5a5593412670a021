//! Objects below a URL that others wrote, such as the photographs of a bucket: their list, and reading one of them.

use std::future::ready;

use futures::TryStreamExt;
use object_store::path::Path as Name;
use object_store::{Error as StoreError, ObjectMeta, ObjectStoreExt as _};

use super::ObjectStorage;
use super::client::RetryPolicy;
use pairloom_base::error::{Error, Result, escape_line};

/// Object in a list.
#[derive(Debug, Clone, Copy)]
pub struct ListedObject<'n> {
    /// Name below the URL.
    pub name: &'n str,
    /// Stamp of its content.
    pub stamp: ObjectStamp,
}

/// Stamp of the content of an object: as long as it stays the same, so does the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectStamp {
    /// Digest of the size and the `ETag`, or without one of the time of the last change.
    digest: [u8; 16],
    /// Size.
    pub bytes: u64,
    /// Milliseconds since 1970 of the last change.
    changed: i64,
}

impl ObjectStamp {
    fn of(meta: &ObjectMeta) -> Self {
        let changed = meta.last_modified.timestamp_millis();
        let digest = digest(meta.size, &meta.e_tag.as_deref().map_or_else(|| changed.to_string(), plain_tag));
        Self { digest, bytes: meta.size, changed }
    }

    /// Bytes of the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.digest
    }

    /// True if an object of the list is still the same in this answer. `ETag`s decide if the list and the answer have one.
    /// Otherwise, size and time do: many `WebDAV` servers give the tag in answers only, and answers have whole seconds.
    fn is_of(&self, answer: &ObjectMeta) -> bool {
        let has_tag = self.digest != digest(self.bytes, &self.changed.to_string());
        match answer.e_tag.as_deref().filter(|_| has_tag) {
            Some(tag) => self.digest == digest(answer.size, &plain_tag(tag)),
            None => self.bytes == answer.size && answer.last_modified.timestamp_millis() <= self.changed,
        }
    }
}

/// Tag as all servers write it: lists of some have it without quotes.
fn plain_tag(tag: &str) -> String {
    tag.trim_start_matches("W/").trim_matches('"').to_owned()
}

fn digest(bytes: u64, version: &str) -> [u8; 16] {
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(format!("{bytes}\0{version}").as_bytes()).as_bytes()[..16]);
    digest
}

/// Answer to the request of an object in a list.
#[derive(Debug)]
pub enum ReadObject {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// It is gone, or has changed.
    Changed,
}

impl ObjectStorage {
    /// Lists all objects, in any order, and keeps what `of` makes of each.
    ///
    /// # Errors
    /// The server cannot be asked or does not allow it, or an object has a name that no path can have.
    pub fn list_objects<T>(&self, of: impl Fn(ListedObject<'_>) -> T) -> Result<Vec<T>> {
        let of = |meta: ObjectMeta| {
            let name = meta.location.as_ref();
            (!self.is_left_out(name)).then(|| of(ListedObject { name, stamp: ObjectStamp::of(&meta) }))
        };
        let of = &of;
        let list = |store: std::sync::Arc<dyn object_store::ObjectStore>| async move {
            store.list(None).try_filter_map(|meta| ready(Ok(of(meta)))).try_collect().await
        };
        match self.block_on(self.send_idempotent(RetryPolicy::Standard, list))? {
            Ok(kept) => Ok(kept),
            Err(StoreError::InvalidPath { source }) => {
                let message = format!("cannot list `{}`: {}", self.display_path(""), escape_line(&source.to_string()));
                Err(Error::data(message).hint("rename or remove this object, or name a prefix without it"))
            }
            Err(error) => Err(self.error("list", "", &error)),
        }
    }

    /// Reads an object that was listed with this stamp.
    ///
    /// # Errors
    /// The server cannot be asked or does not allow it.
    pub async fn read_listed(&self, name: &str, stamp: ObjectStamp) -> Result<ReadObject> {
        let Ok(object) = Name::parse(name) else { return Ok(ReadObject::Changed) };
        let object = &object;
        let read = |store: std::sync::Arc<dyn object_store::ObjectStore>| async move {
            let found = store.get(object).await?;
            // Before memory is reserved: the list has the size, too.
            if !stamp.is_of(&found.meta) {
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
