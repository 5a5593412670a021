//! What a stage sees of the engine on a rank other than 0: it reads as everywhere, and what it writes goes nowhere.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;

use crate::engine::cache::LazyCache;
use crate::engine::cancel::Cancel;
use crate::engine::key::Identity;
use crate::engine::store::{Artefact, FileEntry};
use crate::engine::world::InputPort;
use crate::error::{Error, Result};
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::loader::Stalls;
use crate::stage::{Cancellation, Device, MapFn, ProduceFn, Progress, Ranks, Warning, World};

/// The world of a stage on a rank other than 0.
pub(super) struct FollowerWorld<'e> {
    pub stage: &'e str,
    pub identity: &'e Identity,
    pub inputs: BTreeMap<String, InputPort>,
    /// The state that rank 0 began with, and whose it is.
    pub state: Option<(Artefact, FileEntry)>,
    pub cache: &'e LazyCache<'e>,
    pub cancel: &'e Cancel,
    pub threads: usize,
    pub device: Device,
    pub ranks: Ranks,
}

impl FollowerWorld<'_> {
    fn no_such(&self, what: &str) -> Error {
        Error::internal(format!("stage `{}` declares no {what}", self.stage))
    }

    fn not_here(&self, what: &str) -> Error {
        Error::internal(format!("stage `{}` calls `{what}`, which does nothing between ranks", self.stage))
    }
}

impl World for FollowerWorld<'_> {
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        match self.inputs.get_mut(input) {
            Some(InputPort::Table(reader, _)) => reader.next(&mut || ()),
            _ => Err(self.no_such(&format!("table `{input}`"))),
        }
    }

    fn rewind(&mut self, input: &str) -> Result<()> {
        match self.inputs.get_mut(input) {
            Some(InputPort::Table(reader, _)) => reader.rewind(),
            _ => return Err(self.no_such(&format!("table `{input}`"))),
        }
        self.proceed()
    }

    fn shards(&mut self, input: &str) -> Result<Shards> {
        let Some(InputPort::Table(reader, _)) = self.inputs.get(input) else {
            return Err(self.no_such(&format!("table `{input}`")));
        };
        reader.shards(reader.parts(&mut || ())?, self.cache, self.cancel)
    }

    fn kept(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        self.proceed()?;
        self.cache.get()?.get(&self.identity.kept_name(name, settings))
    }

    fn keep(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        let name = self.identity.kept_name(name, settings);
        self.cache.get()?.get_or_make(&name, || Ok(batch), &|| self.cancel.proceed())
    }

    fn write(&mut self, _output: &str, _batch: RecordBatch) -> Result<()> {
        self.proceed()
    }

    fn map(&mut self, _input: &str, _output: &str, _rows: usize, _function: &MapFn<'_>) -> Result<()> {
        Err(self.not_here("map"))
    }

    fn produce(&mut self, _output: &str, _count: usize, _size: usize, _function: &ProduceFn<'_>) -> Result<()> {
        Err(self.not_here("produce"))
    }

    fn file(&mut self, input: &str, file: &str) -> Result<Bytes> {
        let Some(InputPort::Files { name, artefact, output, feed }) = self.inputs.get(input) else {
            return Err(self.no_such(&format!("files `{input}`")));
        };
        let files = feed.files(output, self.cancel, &mut || ())?;
        let entry = files.iter().find(|entry| entry.name == file);
        let entry = entry.ok_or_else(|| Error::data(format!("`{name}` has no file `{file}`")))?;
        artefact.read(&format!("{output}/{file}"), entry.bytes, &entry.digest)
    }

    fn put_file(&mut self, _output: &str, _name: &str, _content: Bytes) -> Result<()> {
        self.proceed()
    }

    fn source(&self, input: &str) -> Result<PathBuf> {
        match self.inputs.get(input) {
            Some(InputPort::Source(path)) => Ok(path.clone()),
            _ => Err(self.no_such(&format!("source `{input}`"))),
        }
    }

    fn root(&self, input: &str) -> Result<Option<PathBuf>> {
        match self.inputs.get(input) {
            Some(InputPort::Table(_, root)) => Ok(root.clone()),
            _ => Err(self.no_such(&format!("table `{input}`"))),
        }
    }

    fn state(&mut self) -> Result<Option<Bytes>> {
        let Some((artefact, file)) = &self.state else { return Ok(None) };
        artefact.read(&file.name, file.bytes, &file.digest).map(Some)
    }

    fn save(&mut self, _state: Bytes, _last: usize) -> Result<()> {
        self.proceed()
    }

    fn proceed(&self) -> Result<()> {
        self.cancel.proceed()
    }

    fn cancellation(&self) -> Cancellation {
        let cancel = self.cancel.clone();
        Arc::new(move || cancel.proceed())
    }

    fn warn(&mut self, _warning: Warning) {}

    fn progress(&mut self, _progress: Progress) {}

    fn stalled(&mut self, _stalls: Stalls) {}

    fn threads(&self) -> usize {
        self.threads
    }

    fn device(&self) -> Device {
        self.device
    }

    fn turn(&mut self) -> Result<()> {
        // Rank 0 waits for it.
        self.proceed()
    }

    fn ranks(&mut self, _wanted: usize) -> Result<Ranks> {
        Ok(self.ranks.clone())
    }
}
