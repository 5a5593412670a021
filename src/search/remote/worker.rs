//! Worker that computes sections of search jobs.

use std::sync::{Arc, Mutex, PoisonError};

use super::job::{PublishedRequest, SearchJob};
use super::vectors::PublishedVectors;
use crate::checkpoint::{SearchProgress, seal};
use crate::scan::{KnownColumns, Scan, ScanOverrides, find_section, stripe_count};
use crate::scores::{ScoreFunction, VectorScores};
use pairloom_base::error::{Error, Result};

/// Jobs and sources of scores that a worker keeps.
const KEPT: usize = 2;

/// Worker that computes sections of search jobs. For further sections it keeps the last two jobs, with the best rows of
/// every column so far, and the vectors of the last two sources.
///
/// # Cost
/// Memory: the vectors of both sides, and a packed copy of the columns, for each source; 16·k bytes and some 40 more for
/// every column of a job; for each section that is computed at the same time what
/// [`Search::find`](crate::Search::find) needs on one thread.
#[derive(Debug, Default)]
pub struct SearchWorker {
    jobs: Mutex<Vec<(String, Arc<StartedJob>)>>,
    sources: Mutex<Vec<(SourceName, Arc<VectorScores<'static>>)>>,
}

/// Job of which the worker may have computed sections.
#[derive(Debug)]
struct StartedJob {
    job: SearchJob,
    known: KnownColumns,
}

/// Everything that a source of scores depends on.
#[derive(Debug, Clone, PartialEq)]
struct SourceName {
    score_function: ScoreFunction,
    vectors: [PublishedVectors; 2],
}

impl SearchWorker {
    /// Computes a section of a job on one thread. `read` returns the content of a published object, whose name is the
    /// digest of its content.
    ///
    /// # Errors
    /// The error of `read`; the first error of `progress`; the object is no job of this build, or has no such section.
    pub fn compute(
        &self,
        name: &str,
        section: usize,
        read: &mut dyn FnMut(&str) -> Result<Vec<u8>>,
        progress: &mut dyn SearchProgress,
    ) -> Result<Vec<u8>> {
        let started = kept(&self.jobs, &name.to_owned(), || {
            Ok(StartedJob { job: SearchJob::decode(&read(name)?)?, known: KnownColumns::default() })
        })?;
        let StartedJob { job, known } = &*started;
        let description = &job.description;
        let source = SourceName { score_function: description.score_function, vectors: description.vectors.clone() };
        let scores = kept(&self.sources, &source, || {
            let [rows, columns] = &description.vectors;
            let (rows, columns) = (rows.read("rows", read)?, columns.read("columns", read)?);
            VectorScores::from_owned(rows, columns, description.score_function)
        })?;
        let all = stripe_count(description.vectors[0].count);
        let Some(stripes) = description.sections.get(section).filter(|own| own.start <= own.end && own.end <= all)
        else {
            let sections = description.sections.len();
            return Err(Error::data(format!("got section {section}, but the job has {sections} of {all} stripes")));
        };
        let scan = Scan { scores: &*scores, threads: 1, overrides: ScanOverrides::default() };
        let requests = job.requests.each_ref().map(PublishedRequest::as_request);
        let payload = find_section(&scan, requests.each_ref(), stripes.clone(), known, progress)?;
        let sealed = seal(&result_name(name, section), payload);
        Ok(sealed.into_iter().flat_map(i32::to_le_bytes).collect())
    }
}

/// Name of the result of a section.
pub fn result_name(job: &str, section: usize) -> String {
    format!("{job} section {section}")
}

/// The kept value of this name, or a new one. Others wait for it.
fn kept<N: PartialEq + Clone, T>(
    all: &Mutex<Vec<(N, Arc<T>)>>,
    name: &N,
    make: impl FnOnce() -> Result<T>,
) -> Result<Arc<T>> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, value)) = all.iter().find(|(known, _)| known == name) {
        return Ok(Arc::clone(value));
    }
    // Before the next one is made, which takes memory.
    all.truncate(KEPT - 1);
    let value = Arc::new(make()?);
    all.insert(0, (name.clone(), Arc::clone(&value)));
    Ok(value)
}
