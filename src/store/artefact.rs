//! Artefacts: results of stages, as objects in a store, and their verification. JSON objects have a checksum of what
//! follows it as first field, by which changed bytes are known:
//! `{"checksum":"<BLAKE3 of the rest, 64 digits>",<rest>`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};

use super::key::ArtefactIdentity;
use super::verified_store::BlockDigests;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_stage::{PartKey, Warning};
use pairloom_storage::objects::{ObjectStorage, ObjectVersion};

/// Folder of the keys of rows in an artefact.
pub const ROW_KEYS_FOLDER: &str = "row_keys";

/// Handle of an artefact, which may be absent, unfinished or complete.
#[derive(Debug, Clone)]
pub struct Artefact {
    pub(super) objects: ObjectStorage,
    prefix: String,
}

/// Part of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Index in the table, from 0.
    pub index: usize,
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of its bytes.
    pub digest: String,
    /// Digests of its blocks.
    #[serde(default, skip_serializing_if = "BlockDigests::is_empty")]
    pub blocks: BlockDigests,
    /// Key by which a later artefact takes it over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PartKey>,
}

/// File of a files output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Name of the file.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of its bytes.
    pub digest: String,
}

/// Content of a complete artefact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Identity of the artefact.
    pub identity: ArtefactIdentity,
    /// Parts of each table, by name of the table.
    pub tables: BTreeMap<String, Vec<Part>>,
    /// Files of each files output, by name of the output.
    pub files: BTreeMap<String, Vec<FileEntry>>,
    /// Keys of the rows of a table, by name of the table, if its rows have keys: 16 bytes for each row.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub row_keys: BTreeMap<String, FileEntry>,
    /// Warnings of the stage.
    pub warnings: Vec<Warning>,
    /// Wall time of the stage in the run that finished it, without waiting for producers.
    pub seconds: f64,
    /// Time at which it was finished.
    pub finished: jiff::Timestamp,
    /// Version of Pairloom that finished it.
    pub pairloom: String,
}

impl Manifest {
    /// Number of rows of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.values().flatten().map(|part| part.rows).sum()
    }

    /// Size of all parts and files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects().map(|(_, bytes, _)| bytes).sum()
    }

    /// Name in the artefact, size and digest of each part and file.
    pub fn objects(&self) -> impl Iterator<Item = (String, u64, &str)> {
        let parts = self.tables.iter().flat_map(|(table, parts)| {
            parts.iter().map(move |part| (Artefact::part_name(table, part.index), part.bytes, part.digest.as_str()))
        });
        let files = self.files.iter().flat_map(|(output, files)| files.iter().map(move |file| (output.as_str(), file)));
        let keys = self.row_keys.values().map(|file| (ROW_KEYS_FOLDER, file));
        let files = files.chain(keys);
        parts.chain(files.map(|(folder, file)| (format!("{folder}/{}", file.name), file.bytes, file.digest.as_str())))
    }
}

/// Presence of an artefact in the store.
#[derive(Debug, Clone)]
pub enum Presence {
    /// The artefact does not exist or is unfinished.
    Absent,
    /// The artefact is complete, and every part and file has the size in the manifest.
    Complete(Box<Manifest>),
    /// The artefact is damaged, complete or not, and must be built from the start. The text describes the damage.
    Damaged(String),
}

impl Artefact {
    /// The artefact whose objects are below `prefix`.
    pub(super) fn new(objects: ObjectStorage, prefix: String) -> Self {
        Self { objects, prefix }
    }

    /// Folder of the artefact; `None` at a URL.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        Some(self.objects.folder()?.join(&self.prefix))
    }

    /// Path or URL of one of its objects, or, for an empty name, of the artefact; for messages.
    #[must_use]
    pub fn display_path(&self, name: &str) -> String {
        self.objects.display_path(&self.name(name))
    }

    /// Path of one of its objects in the underlying object store.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.objects.full_name(&self.name(name))
    }

    /// Name of one of its objects in the store; for an empty name, the common prefix of these names.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        if name.is_empty() { self.prefix.clone() } else { format!("{}/{name}", self.prefix) }
    }

    /// Name of a part within the artefact.
    #[must_use]
    pub fn part_name(table: &str, index: usize) -> String {
        format!("{table}/part-{index:05}.parquet")
    }

    /// Checks whether the artefact exists and is undamaged. Checks the sizes of all parts and files, but not their
    /// content.
    pub fn presence(&self) -> Result<Presence> {
        if let Some(marker) = self.objects.get(&self.name("damaged"))? {
            return Ok(Presence::Damaged(String::from_utf8_lossy(&marker).into_owned()));
        }
        let Some(manifest) = self.parsed("manifest.json", parse_checked::<Manifest>)? else {
            return Ok(Presence::Absent);
        };
        let Ok(manifest) = manifest else {
            // The journal is removed after the manifest is on the disk. Where it is still there, it has all the manifest had.
            let has_journal = !self.list("journal")?.is_empty();
            let damage = Presence::Damaged("`manifest.json` is not a manifest".to_owned());
            return Ok(if has_journal { Presence::Absent } else { damage });
        };
        let sizes = self.sizes()?;
        for (name, expected, _) in manifest.objects() {
            match sizes.get(&name) {
                Some(got) if *got == expected => {}
                Some(got) => return Ok(Presence::Damaged(format!("`{name}` has {got} bytes, expected {expected}"))),
                None => return Ok(Presence::Damaged(format!("`{name}` is missing"))),
            }
        }
        Ok(Presence::Complete(Box::new(manifest)))
    }

    /// Reads the manifest; `None` if there is none that can be parsed. Does not check parts.
    pub fn manifest(&self) -> Result<Option<Manifest>> {
        Ok(self.parsed("manifest.json", parse_checked)?.and_then(std::result::Result::ok))
    }

    /// Reads and parses an object; `None` if it does not exist. One that cannot be parsed is read a second time: a disk or a
    /// network may err once.
    pub fn parsed<T, E>(
        &self,
        name: &str,
        parse: impl Fn(&[u8]) -> std::result::Result<T, E>,
    ) -> Result<Option<std::result::Result<T, E>>> {
        self.objects.get_parsed(&self.name(name), parse)
    }

    /// Reads an object and checks its size and digest. One that is damaged is read a second time.
    ///
    /// # Errors
    /// The object was removed together with the artefact; or it is missing or damaged. In the latter cases the artefact
    /// is marked as damaged, and the next run builds it again.
    pub fn read(&self, name: &str, bytes: u64, digest: &str) -> Result<Bytes> {
        let read = || -> Result<std::result::Result<Bytes, Option<String>>> {
            Ok(match self.objects.get(&self.name(name))? {
                None => Err(None),
                Some(content) if content.len() as u64 != bytes => {
                    Err(Some(format!("it has {} bytes, expected {bytes}", content.len())))
                }
                Some(content) if blake3::hash(&content).to_hex().as_str() != digest => {
                    Err(Some("its digest differs from the recorded one".to_owned()))
                }
                Some(content) => Ok(content),
            })
        };
        // A disk or a network may err once.
        let problem = match read()? {
            Ok(content) => return Ok(content),
            Err(_) => match read()? {
                Ok(content) => return Ok(content),
                Err(problem) => problem,
            },
        };
        // A process that removes or rebuilds an artefact deletes its manifest first, so this is no damage.
        if problem.is_none() && self.objects.size(&self.name("manifest.json"))?.is_none() {
            let place = self.display_path(name);
            return Err(
                Error::data(format!("`{place}` was removed while it was needed")).hint("run the same command again")
            );
        }
        let problem = problem.unwrap_or_else(|| "it is missing".to_owned());
        let marker = format!("`{name}`: {problem}");
        // Best effort: without the marker the error below is still right, and the size check finds most damage.
        let _ = self.objects.put(&self.name("damaged"), Bytes::from(marker));
        Err(Error::data(format!("`{}` is damaged: {problem}", self.display_path(name)))
            .hint("run the same command again: it rebuilds damaged results"))
    }

    /// Returns true if an object exists and has this digest. Reads it, and reads it again if it has another one.
    pub fn has_digest(&self, name: &str, digest: &str) -> Result<bool> {
        let read = || -> Result<bool> {
            Ok(self.get(name)?.is_some_and(|content| blake3::hash(&content).to_hex().as_str() == digest))
        };
        Ok(read()? || read()?)
    }

    /// Reads an object without checks; `None` if it does not exist.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.objects.get(&self.name(name))
    }

    /// Size of an object in bytes; `None` if it does not exist.
    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        self.objects.size(&self.name(name))
    }

    /// Publishes an object. Replaces an older one.
    pub fn put(&self, name: &str, content: Bytes) -> Result<()> {
        self.objects.put(&self.name(name), content)
    }

    /// Publishes an object with the content of another object of the store. Both become names of one file, where the store
    /// and the file system allow it.
    pub fn put_linked(&self, name: &str, content: Bytes, object: &str) -> Result<()> {
        if self.objects.link(object, &self.name(name))? { Ok(()) } else { self.put(name, content) }
    }

    /// Reads an object of another artefact of the store without checks; `None` if it does not exist.
    pub fn get_object(&self, object: &str) -> Result<Option<Bytes>> {
        self.objects.get(object)
    }

    /// Publishes an object if none of this name exists. Returns true if it did.
    pub fn create(&self, name: &str, content: Bytes) -> Result<bool> {
        self.objects.create(&self.name(name), content)
    }

    /// Lists the names of the objects in one of its folders, sorted.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        let names = self.objects.list(&self.name(folder))?;
        Ok(names.iter().filter_map(|name| self.own(name)).collect())
    }

    /// Lists the sizes of all its objects in bytes, by name.
    pub fn sizes(&self) -> Result<BTreeMap<String, u64>> {
        let sizes = self.objects.sizes(&self.prefix)?;
        Ok(sizes.iter().filter_map(|(name, size)| Some((self.own(name)?, *size))).collect())
    }

    /// Name of an object of the store within the artefact.
    fn own(&self, name: &str) -> Option<String> {
        name.strip_prefix(&self.prefix)?.strip_prefix('/').map(str::to_owned)
    }

    /// Modification time of an object in seconds since 1970; `None` if it does not exist.
    pub fn modified_time(&self, name: &str) -> Result<Option<f64>> {
        self.objects.modified_seconds(&self.name(name))
    }

    /// Current version of an object; `None` if it does not exist.
    pub fn version(&self, name: &str) -> Result<Option<ObjectVersion>> {
        self.objects.version(&self.name(name))
    }

    /// Replaces an object if it still has the version `seen`. Returns true if it did.
    pub fn replace(&self, name: &str, content: Bytes, seen: &ObjectVersion) -> Result<bool> {
        Ok(self.objects.replace(&self.name(name), content, seen)?.is_some())
    }

    /// Removes an object.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.objects.delete(&self.name(name))
    }

    /// Removes objects, in any order.
    pub fn delete_all(&self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let names: Vec<String> = names.into_iter().map(|name| self.name(&name)).collect();
        self.objects.delete_all(&names)
    }

    /// Removes partially written files of killed processes.
    pub fn remove_partial_writes(&self) -> Result<()> {
        self.objects.remove_unfinished_writes(&self.prefix)
    }

    /// Removes everything but the lock or claim. Starts with the manifest, so that no process takes the rest for
    /// complete.
    pub fn clear(&self) -> Result<()> {
        self.delete("manifest.json")?;
        self.remove_partial_writes()?;
        let kept = ["lock", "claim", "builder", "damaged"];
        self.delete_all(self.list("")?.into_iter().filter(|name| !kept.contains(&name.as_str())))?;
        // The marker goes last: after a crash in between, the rest of the journal must not be used.
        self.delete("damaged")
    }

    /// Removes everything. Links in a folder are removed, and what they lead to stays.
    pub fn remove(&self) -> Result<()> {
        let Some(folder) = self.folder() else {
            self.clear()?;
            return self.delete_all(self.list("")?);
        };
        self.delete("manifest.json")?;
        std::fs::remove_dir_all(&folder).map_err(|error| Error::io("remove the folder", &folder, &error))
    }

    /// True if its folder is in the store itself, not reached by a link that leads elsewhere. At a URL there are no links.
    #[must_use]
    pub fn is_in_store(&self) -> bool {
        let (Some(store), Some(folder)) = (self.objects.folder(), self.folder()) else { return true };
        let is_inside = |store: PathBuf, folder: PathBuf| folder == store.join(&self.prefix);
        store
            .canonicalize()
            .ok()
            .zip(folder.canonicalize().ok())
            .is_some_and(|(store, folder)| is_inside(store, folder))
    }
}

/// Reads all parts and files of a complete artefact, and returns the errors of those that are damaged or missing. The
/// artefact is then marked, so that the next run builds it again. `progress` gets the bytes of each object.
pub fn verify_artefact(artefact: &Artefact, manifest: &Manifest, progress: &dyn Fn(u64)) -> Result<Vec<Error>> {
    let mut damage = Vec::new();
    for (name, bytes, digest) in manifest.objects() {
        match artefact.read(&name, bytes, digest) {
            Ok(_) => {}
            Err(error) if error.category() == ErrorCategory::Data => damage.push(error),
            Err(error) => return Err(error),
        }
        progress(bytes);
    }
    Ok(damage)
}

// Builds that do not know the field of the checksum ignore it in a struct. They
// take an entry of a journal for damaged, because it is an enum.

const START: &[u8] = b"{\"checksum\":\"";
const END: &[u8] = b"\",";
const CHECKSUM_DIGITS: usize = 2 * blake3::OUT_LEN;

/// JSON of a struct that has fields, with its checksum.
///
/// # Errors
/// The value is no JSON object.
pub fn with_checksum(value: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value).map_err(|error| Error::internal(error.to_string()))?;
    let rest = json.strip_prefix(b"{").ok_or_else(|| Error::internal("only objects have a checksum"))?;
    Ok([START, blake3::hash(rest).to_hex().as_bytes(), END, rest].concat())
}

/// Parses JSON, and checks its checksum. Objects of older versions have none.
///
/// # Errors
/// The checksum is another one, or the text is not JSON of such a value.
pub fn parse_checked<T: DeserializeOwned>(content: &[u8]) -> serde_json::Result<T> {
    let after_start = content.strip_prefix(START).and_then(|rest| rest.split_at_checked(CHECKSUM_DIGITS));
    let Some((checksum, rest)) = after_start else { return serde_json::from_slice(content) };
    match rest.strip_prefix(END) {
        Some(rest) if blake3::hash(rest).to_hex().as_bytes() == checksum => {
            // The checksum is left out: an enum may have one field only.
            serde_json::from_slice(&[&b"{"[..], rest].concat())
        }
        _ => Err(serde_json::Error::custom("it was changed after it was written: its checksum differs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_is_known_or_changes_nothing() {
        #[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        struct Scored {
            rsum: u32,
            of: BTreeMap<String, String>,
        }
        let value = Scored { rsum: 231, of: BTreeMap::from([("a".to_owned(), "b".to_owned())]) };
        let content = with_checksum(&value).unwrap();
        assert_eq!(parse_checked::<Scored>(&content).unwrap(), value);
        assert_eq!(serde_json::from_slice::<Scored>(&content).unwrap(), value);
        assert_eq!(parse_checked::<Scored>(br#"{"rsum": 231, "of": {"a": "b"}}"#).unwrap(), value);
        for bit in 0..8 * content.len() {
            let mut changed = content.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // A change of the name of the field makes it an object without a checksum.
            match parse_checked::<Scored>(&changed) {
                Ok(read) => assert!(read == value && bit / 8 < START.len(), "{bit}"),
                Err(error) => assert!(bit / 8 < START.len() || error.to_string().contains("checksum"), "{error}"),
            }
        }
    }
}
