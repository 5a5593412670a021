//! Artefacts: results of stages, as objects of a store.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::key::Identity;
use crate::error::{Error, Result};
use crate::io::objects::{Objects, Version};
use crate::stage::Warning;

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
    /// The place whose objects have names that begin with `prefix`.
    pub(super) fn new(objects: Objects, prefix: String) -> Self {
        Self { objects, prefix }
    }

    /// The folder where it lies, unless it is at a URL.
    #[must_use]
    pub fn folder(&self) -> Option<PathBuf> {
        Some(self.objects.folder()?.join(&self.prefix))
    }

    /// Where one of its objects lies, or with no name it itself, for messages.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        self.objects.place(&self.name(name))
    }

    /// The path of one of its objects in the store underneath.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.objects.path(&self.name(name))
    }

    /// The name that one of its objects has in the store; without a name, what all of these begin with.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        if name.is_empty() { self.prefix.clone() } else { format!("{}/{name}", self.prefix) }
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
        let sizes = self.sizes()?;
        for (name, wanted) in parts.chain(files) {
            match sizes.get(&name) {
                Some(got) if *got == wanted => {}
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
                return Err(Error::data(format!("`{place}` was removed while it was needed"))
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
        Err(Error::data(format!("`{}` is damaged: {problem}", self.place(name)))
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
        let names = self.objects.list(&self.name(folder))?;
        Ok(names.iter().filter_map(|name| self.own(name)).collect())
    }

    /// Sizes of all its objects in bytes, by name.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sizes(&self) -> Result<BTreeMap<String, u64>> {
        let sizes = self.objects.sizes(&self.prefix)?;
        Ok(sizes.iter().filter_map(|(name, size)| Some((self.own(name)?, *size))).collect())
    }

    /// The name inside of the artefact that an object of the store has.
    fn own(&self, name: &str) -> Option<String> {
        name.strip_prefix(&self.prefix)?.strip_prefix('/').map(str::to_owned)
    }

    /// When an object was written, in seconds since 1970; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn written(&self, name: &str) -> Result<Option<f64>> {
        self.objects.written(&self.name(name))
    }

    /// Which content an object has now; `None` if there is no such object.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn version(&self, name: &str) -> Result<Option<Version>> {
        self.objects.version(&self.name(name))
    }

    /// Publishes an object in place of the one that was seen; says whether that was still there.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn replace(&self, name: &str, content: Bytes, seen: &Version) -> Result<bool> {
        Ok(self.objects.replace(&self.name(name), content, seen)?.is_some())
    }

    /// Removes an object.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete(&self, name: &str) -> Result<()> {
        self.objects.delete(&self.name(name))
    }

    /// Removes objects in any order.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn delete_all(&self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let names: Vec<String> = names.into_iter().map(|name| self.name(&name)).collect();
        self.objects.delete_all(&names)
    }

    /// Removes what a killed process left half-written.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn sweep(&self) -> Result<()> {
        self.objects.sweep(&self.prefix)
    }

    /// Removes everything but the lock or claim; the manifest first, so that nobody takes what is left for complete.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn clear(&self) -> Result<()> {
        self.delete("manifest.json")?;
        self.sweep()?;
        let kept = ["lock", "claim", "damaged"];
        self.delete_all(self.list("")?.into_iter().filter(|name| !kept.contains(&name.as_str())))?;
        // Last, so that a crash in between leaves no journal that is believed.
        self.delete("damaged")
    }

    /// Removes everything.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn remove(&self) -> Result<()> {
        self.clear()?;
        match self.folder() {
            Some(folder) => {
                std::fs::remove_dir_all(&folder).map_err(|error| Error::io("remove the folder", &folder, &error))
            }
            None => self.delete_all(self.list("")?),
        }
    }
}
