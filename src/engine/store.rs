//! Where artefacts lie.
//!
//! ```text
//! store/v1/
//!   extract/                                   kind of the stage
//!     0d1c…/                                   key: a hash of all that the content depends on
//!       features/part-00000.parquet            a table in parts, each published whole
//!       features/part-00001.parquet
//!       manifest.json                          written last: the artefact is complete
//!       journal/00000003.json                  while it is being built: what is committed
//!       state-00000002                         while it is being built: the stage's own state
//!       lock                                   held by the process that builds it
//!   train/93ab…/model/model.safetensors        files that are published together
//!   runs/20261121T070105-3f2a.json             what each run did
//!   sources/5c9e….tsv                          digests of files outside of the store, by size and time
//! ```
//!
//! A finished artefact is never modified, with one exception: when a part turns out damaged, a marker is put beside it,
//! and the next run builds the artefact again.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::engine::key::{Identity, Key};
use crate::error::{Error, Result};
use crate::io::objects::Objects;
use crate::stage::Warning;

/// Version of the layout: the first folder of every store.
const LAYOUT: &str = "v1";

/// A folder of artefacts.
#[derive(Debug, Clone)]
pub struct Store {
    objects: Objects,
}

impl Store {
    /// The store in a local folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(folder: &Path) -> Result<Self> {
        Ok(Self { objects: Objects::local(&folder.join(LAYOUT))? })
    }

    /// The store in `objects`: for tests that put a faulty store in between.
    #[must_use]
    pub fn over(objects: Objects) -> Self {
        Self { objects }
    }

    /// Its objects.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The place of an artefact, which may be absent, unfinished or complete.
    #[must_use]
    pub fn artefact(&self, kind: &str, key: &Key) -> Artefact {
        Artefact { objects: self.objects.clone(), prefix: format!("{kind}/{key}") }
    }
}

/// The place of an artefact.
#[derive(Debug, Clone)]
pub struct Artefact {
    objects: Objects,
    prefix: String,
}

/// A part of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its place in the table, from 0.
    pub index: usize,
    /// Rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of its bytes.
    pub digest: String,
}

/// A file of a files output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// BLAKE3 of its bytes.
    pub digest: String,
}

/// What a complete artefact holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What it was made of.
    pub identity: Identity,
    /// Its tables by name.
    pub tables: BTreeMap<String, Vec<Part>>,
    /// Its files by output.
    pub files: BTreeMap<String, Vec<FileEntry>>,
    /// What a person should know of it.
    pub warnings: Vec<Warning>,
    /// Wall time of the stage in the run that finished it, without waiting for producers.
    pub seconds: f64,
    /// When it was finished.
    pub finished: jiff::Timestamp,
    /// Version of Pairloom that finished it.
    pub pairloom: String,
}

impl Manifest {
    /// Rows of all tables.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.tables.values().flatten().map(|part| part.rows).sum()
    }

    /// Bytes of all parts and files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let parts = self.tables.values().flatten().map(|part| part.bytes);
        parts.chain(self.files.values().flatten().map(|file| file.bytes)).sum()
    }
}

/// Whether an artefact is there.
#[derive(Debug, Clone)]
pub enum Presence {
    /// There is none, or an unfinished one.
    Absent,
    /// It is complete, and every part has its size.
    Complete(Box<Manifest>),
    /// It is damaged, complete or not: what is wrong with it. It has to be built from its beginning.
    Damaged(String),
}

impl Artefact {
    /// Where it lies, for messages and locks.
    #[must_use]
    pub fn folder(&self) -> std::path::PathBuf {
        self.objects.place(&self.prefix)
    }

    /// Where one of its objects lies, for messages.
    #[must_use]
    pub fn place(&self, name: &str) -> std::path::PathBuf {
        self.objects.place(&self.name(name))
    }

    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Name of a part inside of the artefact.
    #[must_use]
    pub fn part_name(table: &str, index: usize) -> String {
        format!("{table}/part-{index:05}.parquet")
    }

    /// Whether it is there. Looks at the size of every part, at the content of none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn presence(&self) -> Result<Presence> {
        if let Some(marker) = self.objects.get(&self.name("damaged"))? {
            return Ok(Presence::Damaged(String::from_utf8_lossy(&marker).into_owned()));
        }
        let Some(content) = self.objects.get(&self.name("manifest.json"))? else { return Ok(Presence::Absent) };
        let Ok(manifest) = serde_json::from_slice::<Manifest>(&content) else {
            return Ok(Presence::Damaged("`manifest.json` is not a manifest".to_owned()));
        };
        let parts = manifest
            .tables
            .iter()
            .flat_map(|(table, parts)| parts.iter().map(move |part| (Self::part_name(table, part.index), part.bytes)));
        let files = manifest
            .files
            .iter()
            .flat_map(|(output, files)| files.iter().map(move |file| (format!("{output}/{}", file.name), file.bytes)));
        for (name, wanted) in parts.chain(files) {
            match self.objects.size(&self.name(&name))? {
                Some(got) if got == wanted => {}
                Some(got) => return Ok(Presence::Damaged(format!("`{name}` has {got} bytes, wanted {wanted}"))),
                None => return Ok(Presence::Damaged(format!("`{name}` is gone"))),
            }
        }
        Ok(Presence::Complete(Box::new(manifest)))
    }

    /// The manifest, if there is one that can be read; parts are not looked at.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn manifest(&self) -> Result<Option<Manifest>> {
        let content = self.objects.get(&self.name("manifest.json"))?;
        Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    /// The bytes of an object, which must have this size and digest.
    ///
    /// # Errors
    /// It is gone, or damaged: then the artefact is marked, and the next run builds it again.
    pub fn read(&self, name: &str, bytes: u64, digest: &str) -> Result<Bytes> {
        let problem = match self.objects.get(&self.name(name))? {
            // Whoever removes or rebuilds an artefact takes its manifest away first: that is not damage.
            None if self.objects.size(&self.name("manifest.json"))?.is_none() => {
                let place = self.place(name);
                return Err(Error::data(format!("`{}` was removed while it was needed", place.display()))
                    .hint("run the same command again"));
            }
            None => "it is gone".to_owned(),
            Some(content) if content.len() as u64 != bytes => format!("it has {} bytes, wanted {bytes}", content.len()),
            Some(content) if blake3::hash(&content).to_hex().as_str() != digest => {
                "its content is not what was written (another digest)".to_owned()
            }
            Some(content) => return Ok(content),
        };
        let marker = format!("`{name}`: {problem}");
        // Best effort: without the marker the message below is still right, and the size check finds most damage.
        let _ = self.objects.put(&self.name("damaged"), Bytes::from(marker));
        Err(Error::data(format!("`{}` is damaged: {problem}", self.place(name).display()))
            .hint("run the same command again: it builds what is damaged anew"))
    }

    /// An object as it is; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.objects.get(&self.name(name))
    }

    /// The size of an object in bytes; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn size(&self, name: &str) -> Result<Option<u64>> {
        self.objects.size(&self.name(name))
    }

    /// Publishes an object, in place of an older one.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put(&self, name: &str, content: Bytes) -> Result<()> {
        self.objects.put(&self.name(name), content)
    }

    /// Publishes an object if there is none of this name; says whether it did.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn create(&self, name: &str, content: Bytes) -> Result<bool> {
        self.objects.create(&self.name(name), content)
    }

    /// Names of objects in one of its folders, sorted.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = if folder.is_empty() { self.prefix.clone() } else { self.name(folder) };
        let names = self.objects.list(&prefix)?;
        Ok(names
            .into_iter()
            .filter_map(|name| name.strip_prefix(&self.prefix)?.strip_prefix('/').map(str::to_owned))
            .collect())
    }

    /// Removes an object.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.objects.delete(&self.name(name))
    }

    /// Removes what a killed process left half-written.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn sweep(&self) -> Result<()> {
        self.objects.sweep(&self.prefix)
    }

    /// Removes everything but the lock; the manifest first, so that nobody takes what is left for complete.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn clear(&self) -> Result<()> {
        self.delete("manifest.json")?;
        self.sweep()?;
        for name in self.list("")? {
            if name != "lock" && name != "damaged" {
                self.delete(&name)?;
            }
        }
        // Last, so that a crash in between leaves no journal that is believed.
        self.delete("damaged")
    }
}
