//! Reading of whole objects.

use std::sync::Arc;

use az::SaturatingAs;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use object_store::path::Path as Name;
use object_store::{Error as StoreError, GetOptions, GetRange, ObjectStore, ObjectStoreExt};

use super::client::{CONCURRENT_REQUESTS, MAX_REQUEST_BYTES};
use super::limited_client::MAX_OBJECT_BYTES;
use super::object_version::ObjectVersion;

/// Reads an object and its version.
pub(super) async fn read(
    store: Arc<dyn ObjectStore>,
    name: Name,
    at_url: bool,
) -> object_store::Result<(Bytes, ObjectVersion)> {
    let found = store.get(&name).await?;
    let meta = found.meta.clone();
    // Before memory is reserved for what the server claims.
    if at_url && meta.size > MAX_OBJECT_BYTES {
        let message = format!("it has {} bytes, wanted at most {MAX_OBJECT_BYTES}", meta.size);
        return Err(StoreError::Generic { store: "URL", source: message.into() });
    }
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
