//! Read-only object store that checks what it reads of the parts of results, for readers of ranges such as SQL.
//!
//! A manifest has the digest of every block of a part. A range is read with the blocks around it, and these are checked.
//! A part of an older version has one digest, so it is read whole, once in the life of the store.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use az::SaturatingAs;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use serde::{Deserialize, Serialize};

use super::artefact::{Artefact, Manifest, Part, parse_checked};
use pairloom_base::error::Error;
use pairloom_storage::objects::ObjectStorage;

/// Parts of an artefact, by their names in it.
type PartsByName = HashMap<String, Part>;

/// Read-only object store that checks what it reads of the parts of results. Other objects are read as they are.
#[derive(Debug)]
pub struct VerifiedStore {
    objects: ObjectStorage,
    inner: Arc<dyn ObjectStore>,
    /// Parts of the artefacts that were read, by the prefix of the artefact.
    known: Mutex<BTreeMap<String, Arc<PartsByName>>>,
    /// Parts without digests of blocks that were read whole and are sound.
    sound: Mutex<HashSet<Path>>,
}

/// Place of a part: artefact and name in it.
struct PartPlace {
    artefact: Artefact,
    name: String,
    part: Part,
}

impl VerifiedStore {
    /// Store over these objects.
    pub(super) fn new(objects: &ObjectStorage) -> Self {
        let inner = Arc::clone(objects.inner());
        Self { objects: objects.clone(), inner, known: Mutex::default(), sound: Mutex::default() }
    }

    /// Part at `location`; `None` for other objects, and for parts of an artefact that is not complete.
    async fn part(&self, location: &Path) -> Result<Option<PartPlace>> {
        let names: Vec<_> = location.parts().collect();
        let Some([kind, key, table, file]) = names.last_chunk::<4>() else { return Ok(None) };
        if !file.as_ref().starts_with("part-") {
            return Ok(None);
        }
        let (prefix, name) =
            (format!("{}/{}", kind.as_ref(), key.as_ref()), format!("{}/{}", table.as_ref(), file.as_ref()));
        let artefact = Artefact::new(self.objects.clone(), prefix.clone());
        let known = lock(&self.known).get(&prefix).cloned();
        let parts = match known {
            Some(parts) => parts,
            None => {
                let manifest = Path::from(artefact.path("manifest.json"));
                let Some(manifest) = self.manifest(&manifest).await? else { return Ok(None) };
                let parts = manifest.tables.into_iter().flat_map(|(table, parts)| {
                    parts.into_iter().map(move |part| (Artefact::part_name(&table, part.index), part))
                });
                let parts: Arc<PartsByName> = Arc::new(parts.collect());
                lock(&self.known).insert(prefix, Arc::clone(&parts));
                parts
            }
        };
        Ok(parts.get(&name).map(|part| PartPlace { artefact, name, part: part.clone() }))
    }

    /// Reads a manifest; `None` if there is none. One that cannot be parsed is read a second time. Without a manifest, nothing
    /// could be checked.
    async fn manifest(&self, place: &Path) -> Result<Option<Manifest>> {
        let mut problem = String::new();
        for _ in 0..2 {
            let content = match self.inner.get(place).await {
                Ok(found) => found.bytes().await?,
                Err(StoreError::NotFound { .. }) => return Ok(None),
                Err(error) => return Err(error),
            };
            match parse_checked(&content) {
                Ok(manifest) => return Ok(Some(manifest)),
                Err(error) => problem = error.to_string(),
            }
        }
        let error = Error::data(format!("`{place}` is damaged: {problem}"))
            .hint("run the pipeline again: a run rebuilds damaged results");
        Err(StoreError::Generic { store: "results", source: Box::new(error) })
    }

    /// Reads ranges of a part and checks the blocks that they are in.
    async fn read(&self, location: &Path, place: &PartPlace, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let bytes = place.part.bytes;
        let is_whole = place.part.blocks.is_empty();
        if let Some(outside) = ranges.iter().find(|range| range.end > bytes || range.start > range.end) {
            let message = format!("got the range {outside:?} of a part of {bytes} bytes");
            return Err(StoreError::Generic { store: "results", source: message.into() });
        }
        if is_whole && lock(&self.sound).contains(location) {
            return self.inner.get_ranges(location, ranges).await;
        }
        let spans: Vec<Range<u64>> = if is_whole { std::iter::once(0..bytes).collect() } else { spans(ranges, bytes) };
        let mut contents = self.inner.get_ranges(location, &spans).await?;
        for (span, content) in spans.iter().zip(&mut contents) {
            if damage(&place.part, span, content).is_some() {
                // A disk or a network may err once.
                *content = self.inner.get_range(location, span.clone()).await?;
                if let Some(problem) = damage(&place.part, span, content) {
                    return Err(place.mark_damaged(&problem));
                }
            }
        }
        if is_whole {
            lock(&self.sound).insert(location.clone());
        }
        let slice = |range: &Range<u64>| {
            let number = spans.partition_point(|span| span.start <= range.start).saturating_sub(1);
            let at = |position: u64| az::saturating_cast::<_, usize>(position - spans[number].start);
            contents[number].slice(at(range.start)..at(range.end))
        };
        Ok(ranges.iter().map(slice).collect())
    }
}

impl PartPlace {
    /// Marks the artefact, so that the next run builds it again, and returns the error of the read.
    fn mark_damaged(&self, problem: &str) -> StoreError {
        let marker = format!("`{}`: {problem}", self.name);
        let artefact = self.artefact.clone();
        // A thread of its own, as the calls of a store at a URL must not come from a thread of tokio. Best effort: a reader
        // may not be allowed to write, and the error is right all the same.
        let marking = std::thread::Builder::new()
            .name("mark damage".to_owned())
            .spawn(move || artefact.put("damaged", Bytes::from(marker)));
        let is_marked = marking.is_ok_and(|marking| matches!(marking.join(), Ok(Ok(()))));
        let place = self.artefact.display_path(&self.name);
        let hint = if is_marked {
            "run the pipeline again: it rebuilds damaged results"
        } else {
            "the store cannot be written from here; `pairloom verify` marks what a run then rebuilds"
        };
        let error = Error::data(format!("`{place}` is damaged: {problem}")).hint(hint);
        StoreError::Generic { store: "results", source: Box::new(error) }
    }
}

/// Ranges of whole blocks that contain all of `ranges`, in order and apart from each other.
fn spans(ranges: &[Range<u64>], bytes: u64) -> Vec<Range<u64>> {
    let mut around: Vec<Range<u64>> = ranges.iter().map(|range| BlockDigests::around(range, bytes)).collect();
    around.sort_by_key(|span| span.start);
    let mut spans: Vec<Range<u64>> = Vec::new();
    for span in around {
        match spans.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => spans.push(span),
        }
    }
    spans
}

/// Damage of the content of a span of a part; `None` if it is sound.
fn damage(part: &Part, span: &Range<u64>, content: &Bytes) -> Option<String> {
    let expected = span.end - span.start;
    if content.len() as u64 != expected {
        return Some(format!("got {} bytes from {} on, expected {expected}", content.len(), span.start));
    }
    if part.blocks.is_empty() {
        let is_sound = blake3::hash(content).to_hex().as_str() == part.digest;
        return (!is_sound).then(|| "its digest differs from the recorded one".to_owned());
    }
    let position = part.blocks.first_damage(span.start, content)?;
    Some(format!("the digest of the block at {position} differs from the recorded one"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refusal of a write. A plan of anyone who reaches an executor may name any object.
fn refused(location: &Path) -> StoreError {
    StoreError::PermissionDenied { path: location.to_string(), source: "queries only read the store".into() }
}

impl fmt::Display for VerifiedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verified {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for VerifiedStore {
    async fn put_opts(&self, location: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(refused(location))
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(refused(location))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let place = if options.head { None } else { self.part(location).await? };
        let Some(place) = place else { return self.inner.get_opts(location, options).await };
        let requested = options.range.clone();
        let head = self.inner.get_opts(location, GetOptions { head: true, range: None, ..options }).await?;
        let range = match requested {
            None => 0..place.part.bytes,
            Some(range) => range
                .as_range(place.part.bytes)
                .map_err(|error| StoreError::Generic { store: "results", source: Box::new(error) })?,
        };
        let mut contents = self.read(location, &place, std::slice::from_ref(&range)).await?;
        let content = contents.pop().unwrap_or_default();
        let payload = GetResultPayload::Stream(async move { Ok(content) }.into_stream().boxed());
        Ok(GetResult { payload, meta: head.meta, range, attributes: head.attributes })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.part(location).await? {
            Some(place) => self.read(location, &place, ranges).await,
            None => self.inner.get_ranges(location, ranges).await,
        }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.map(|location| Err(refused(&location?))).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, to: &Path, _: CopyOptions) -> Result<()> {
        Err(refused(to))
    }
}

/// Bytes of a block; the last one may be shorter.
const BLOCK_BYTES: u64 = 256 << 10;

/// Bytes of the digest of a block, of the 32 of BLAKE3: these suffice to find damage.
const DIGEST_BYTES: usize = 16;

/// Digests of the blocks of a part, in hexadecimal one after another. Empty for a part of one block, whose digest is that
/// of the part, and for parts of older versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BlockDigests(String);

impl BlockDigests {
    /// Digests of the blocks of `content`.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let block = BLOCK_BYTES.saturating_as::<usize>();
        if content.len() <= block {
            return Self::default();
        }
        Self(content.chunks(block).map(digest).collect())
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Smallest range of whole blocks around `range`, in a part of `bytes` bytes.
    #[must_use]
    pub fn around(range: &Range<u64>, bytes: u64) -> Range<u64> {
        let start = range.start / BLOCK_BYTES * BLOCK_BYTES;
        start..(range.end.div_ceil(BLOCK_BYTES) * BLOCK_BYTES).min(bytes)
    }

    /// Position of the first damaged block of `content`, which are whole blocks from `start` on; `None` if all are sound.
    #[must_use]
    pub fn first_damage(&self, start: u64, content: &[u8]) -> Option<u64> {
        let first = start / BLOCK_BYTES;
        let damaged = content.chunks(BLOCK_BYTES.saturating_as()).zip(first..).find(|(block, number)| {
            let at = (number * 2).saturating_as::<usize>() * DIGEST_BYTES;
            self.0.get(at..at + 2 * DIGEST_BYTES) != Some(&digest(block))
        });
        damaged.map(|(_, number)| number * BLOCK_BYTES)
    }
}

fn digest(block: &[u8]) -> String {
    blake3::hash(block).to_hex()[..2 * DIGEST_BYTES].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_found_in_its_block() {
        let mut content: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
        let digests = BlockDigests::of(&content);
        let bytes = content.len() as u64;
        assert_eq!(digests.0.len(), 3 * 32, "two blocks of 262,144 bytes and a shorter one");
        assert_eq!(digests.first_damage(0, &content), None);
        assert_eq!(BlockDigests::around(&(300_000..300_001), bytes), 262_144..524_288);
        assert_eq!(BlockDigests::around(&(0..699_999), bytes), 0..bytes);
        assert_eq!(BlockDigests::around(&(600_000..700_000), bytes), 524_288..bytes);
        content[600_000] ^= 1;
        assert_eq!(digests.first_damage(262_144, &content[262_144..]), Some(524_288));
        assert_eq!(digests.first_damage(0, &content[..524_288]), None);
        assert_eq!(BlockDigests::of(&content[..262_144]), BlockDigests::default());
    }
}
