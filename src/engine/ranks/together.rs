//! From a stage's wish for several processes to a job that they work on.

use std::sync::Arc;

use serde_json::Value;

use super::crew::{Crew, Shift};
use super::message::Job;
use super::{RankOptions, share};
use crate::engine::inputs::{Complete, Inputs};
use crate::engine::reader::Waiting;
use crate::error::{Error, Result};
use crate::runtime::Resources;
use crate::store::FileEntry;
use crate::store::key::Identity;

/// Ranks that may be started for each processor of this machine.
const MOST: usize = 4;

/// The processes that a run may use.
pub(crate) struct Together<'e> {
    pub options: &'e RankOptions,
    /// What every rank must agree to.
    pub description: Value,
    /// Those that the program was started as.
    pub crew: Option<Arc<Crew>>,
}

/// What the job is about.
pub(crate) struct Subject<'s> {
    pub identity: &'s Identity,
    pub inputs: &'s Inputs,
    pub state: Option<FileEntry>,
}

impl Together<'_> {
    /// Has `wanted` processes begin with a stage, or with 1 those that the program was started as; gives the hold on them and
    /// how many threads are each one's, or nothing for one process. Waits, telling of it with `waiting`, until all inputs are complete.
    pub fn begin(
        &self,
        wanted: usize,
        subject: Subject<'_>,
        resources: &Resources,
        waiting: Waiting<'_>,
    ) -> Result<Option<(Shift, usize)>> {
        let launched = self.launched(wanted)?;
        if launched.is_none() && self.crew.is_none() {
            return Ok(None);
        }
        let stop = &resources.cancel;
        let Complete { parts, files } = subject.inputs.complete(stop, waiting)?;
        waiting("other ranks");
        let crew = match (launched, &self.crew) {
            (None, Some(crew)) => Arc::clone(crew),
            (of, _) => Crew::launch(self.options, of.unwrap_or(1), &self.description, stop)?,
        };
        let job = |meeting| Job {
            stage: subject.inputs.stage.clone(),
            identity: subject.identity.clone(),
            parts,
            files,
            state: subject.state,
            meeting,
        };
        let threads = share(resources.threads, crew.locals());
        Ok(Some((crew.begin(job, stop)?, threads)))
    }

    /// How many processes are to be started for a stage, if it needs other ones than there are.
    fn launched(&self, wanted: usize) -> Result<Option<usize>> {
        if wanted <= 1 {
            return Ok(None);
        }
        if let Some(crew) = &self.crew {
            let of = crew.of();
            return if wanted == of {
                Ok(None)
            } else {
                Err(Error::usage(format!("the stage wants {wanted} ranks, and this program was started as {of}"))
                    .hint(format!("leave out `ranks`, or start {wanted}")))
            };
        }
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        if wanted > MOST * processors {
            return Err(Error::usage(format!(
                "{wanted} ranks, wanted at most {}: {MOST} for each of the {processors} processors here",
                MOST * processors
            ))
            .hint("start more on several machines, with `torchrun` or `srun`"));
        }
        Ok(Some(wanted))
    }
}
