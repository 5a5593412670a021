//! Sections of searches as tasks of other processes, whose objects and results travel through the store.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::{SEARCH_FOLDER, Store};
use pairloom_base::error::Result;
use pairloom_base::runtime::{RemoteTasks, random_hex};

/// Name of an object of searches: the folder of the process that published it, and the digest of its content.
#[must_use]
pub fn object_name(folder: &str, digest: &str) -> String {
    format!("{}/{digest}", objects_folder(folder))
}

/// Folder of the objects of a process.
fn objects_folder(folder: &str) -> String {
    format!("{SEARCH_FOLDER}/objects/{folder}")
}

/// Name of the result of a section.
#[must_use]
pub fn result_name(job: &str, section: usize) -> String {
    format!("{SEARCH_FOLDER}/results/{job}/{section}")
}

/// Folder of the results of a job.
fn results_folder(job: &str) -> String {
    format!("{SEARCH_FOLDER}/results/{job}")
}

/// Runner of sections in other processes, which read and write the objects of a store.
pub trait SectionRunner: Debug + Send + Sync {
    /// Runs sections of a job whose objects are in `folder`, and waits for them. Calls `report` often.
    ///
    /// # Errors
    /// The first error of `report`; a section failed; the processes cannot be reached.
    fn run_sections(
        &self,
        folder: &str,
        job: &str,
        sections: &[usize],
        report: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()>;
}

/// Tasks of processes that have one store. An interrupted evaluation goes on from the sections that are there.
#[derive(Debug)]
pub struct SearchTasks {
    store: Store,
    runner: Box<dyn SectionRunner>,
    /// Folder of the objects of this process.
    folder: String,
    /// Objects that this process has published.
    published: Mutex<BTreeSet<String>>,
    /// Operations that this process has computed, each noted once.
    computed_here: Mutex<BTreeSet<String>>,
    note: OperationNote,
}

/// Receiver of the operations that the process of a run computes.
struct OperationNote(Box<dyn Fn(&str) + Send + Sync>);

impl Debug for OperationNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OperationNote")
    }
}

impl SearchTasks {
    /// Tasks over `store`, whose sections `runner` runs. Calls `note` with each operation that this process computes.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(
        store: Store,
        runner: Box<dyn SectionRunner>,
        note: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self> {
        let folder = random_hex::<8>()?;
        let (published, computed_here) = (Mutex::default(), Mutex::default());
        Ok(Self { store, runner, folder, published, computed_here, note: OperationNote(Box::new(note)) })
    }

    /// Sections that have a result.
    fn finished(&self, job: &str) -> Result<BTreeSet<usize>> {
        let folder = results_folder(job);
        let names = self.store.objects().list(&folder)?;
        Ok(names.iter().filter_map(|name| name.rsplit('/').next()?.parse().ok()).collect())
    }
}

impl RemoteTasks for SearchTasks {
    fn publish(&self, content: Vec<u8>) -> Result<String> {
        let digest = blake3::hash(&content).to_hex().to_string();
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if !published.contains(&digest) {
            self.store.objects().create(&object_name(&self.folder, &digest), Bytes::from(content))?;
            published.insert(digest.clone());
        }
        Ok(digest)
    }

    fn run(&self, job: &str, tasks: usize, report: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        let finished = self.finished(job)?;
        report(finished.len())?;
        let missing: Vec<usize> = (0..tasks).filter(|task| !finished.contains(task)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut report_finished = || report(self.finished(job)?.len());
        self.runner.run_sections(&self.folder, job, &missing, &mut report_finished)?;
        report(tasks)
    }

    fn result(&self, job: &str, task: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.store.objects().get(&result_name(job, task))?.map(Vec::from))
    }

    fn remove_result(&self, job: &str, task: usize) -> Result<()> {
        self.store.objects().delete(&result_name(job, task))
    }

    fn note_computed_here(&self, operation: &str) {
        if self.computed_here.lock().unwrap_or_else(PoisonError::into_inner).insert(operation.to_owned()) {
            (self.note.0)(operation);
        }
    }

    fn finish(&self, job: &str, tasks: usize) -> Result<()> {
        let objects = self.store.objects();
        let results: Vec<String> = (0..tasks).map(|task| result_name(job, task)).collect();
        objects.delete_all(&results)?;
        self.published.lock().unwrap_or_else(PoisonError::into_inner).remove(job);
        objects.delete(&object_name(&self.folder, job))?;
        objects.remove_empty_folder(&results_folder(job));
        Ok(())
    }
}

impl Drop for SearchTasks {
    fn drop(&mut self) {
        // The vectors serve all searches of a run. What cannot be removed is left to garbage collection.
        let published = std::mem::take(self.published.get_mut().unwrap_or_else(PoisonError::into_inner));
        let names: Vec<String> = published.iter().map(|digest| object_name(&self.folder, digest)).collect();
        let _ = self.store.objects().delete_all(&names);
        self.store.objects().remove_empty_folder(&objects_folder(&self.folder));
    }
}
