//! Coordinator: starts a job on the ranks when a stage requests a process group.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::message::RankJob;
use super::worker_group::{RunningJob, WorkerGroup};
use super::{RankOptions, threads_per_process};
use crate::inputs::{CompleteInputs, StageInputs};
use crate::reader::OnWait;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::Resources;
use pairloom_store::FileEntry;
use pairloom_store::key::ArtefactIdentity;

/// Maximum number of ranks to launch for each CPU of this machine.
const MAX_RANKS_PER_PROCESSOR: usize = 4;

/// Coordinator of the ranks of a run.
pub(crate) struct RankCoordinator<'e> {
    pub options: &'e RankOptions,
    /// Description of the plan, which must be the same on all ranks.
    pub description: Value,
    /// Ranks that the program was launched as, if there are several.
    pub worker_group: Option<Arc<WorkerGroup>>,
}

/// Identity, inputs and state of a stage that requests a process group.
pub(crate) struct JobRequest<'s> {
    pub identity: &'s ArtefactIdentity,
    pub inputs: &'s StageInputs,
    pub state: Option<FileEntry>,
    /// Numbers of committed parts, by table.
    pub committed: BTreeMap<String, usize>,
}

impl RankCoordinator<'_> {
    /// Starts a stage on `world_size` ranks, or, if that is 1, on those that the program was launched as. Returns the
    /// job and the number of threads of each rank; `None` if there is one process. Waits until all inputs are complete,
    /// and calls `waiting` if it has to wait.
    pub fn start_job(
        &self,
        world_size: usize,
        request: JobRequest<'_>,
        resources: &Resources,
        waiting: OnWait<'_>,
    ) -> Result<Option<(RunningJob, usize)>> {
        let launched = self.ranks_to_launch(world_size)?;
        if launched.is_none() && self.worker_group.is_none() {
            return Ok(None);
        }
        let stop = &resources.cancel;
        let CompleteInputs { parts, files } = request.inputs.wait_until_complete(stop, waiting)?;
        waiting("other ranks");
        let group = match (launched, &self.worker_group) {
            (None, Some(group)) => Arc::clone(group),
            (launched, _) => WorkerGroup::launch(self.options, launched.unwrap_or(1), &self.description, stop)?,
        };
        let job = |rendezvous| RankJob {
            stage: request.inputs.stage.clone(),
            identity: request.identity.clone(),
            parts,
            files,
            state: request.state,
            committed: request.committed,
            rendezvous,
        };
        let threads = threads_per_process(resources.threads, group.local_world_size());
        Ok(Some((group.start_job(job, stop)?, threads)))
    }

    /// Number of ranks to launch for a stage; `None` if the stage runs on those that are there.
    fn ranks_to_launch(&self, world_size: usize) -> Result<Option<usize>> {
        if world_size <= 1 {
            return Ok(None);
        }
        if let Some(group) = &self.worker_group {
            let launched = group.world_size();
            return if world_size == launched {
                Ok(None)
            } else {
                Err(Error::usage(format!(
                    "the stage requests {world_size} ranks, but the program was launched as {launched}"
                ))
                .hint(format!("leave out `ranks`, or launch {world_size} ranks")))
            };
        }
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        if world_size > MAX_RANKS_PER_PROCESSOR * cpus {
            return Err(Error::usage(format!(
                "{world_size} ranks, wanted at most {}: {MAX_RANKS_PER_PROCESSOR} for each of the {cpus} CPUs of this machine",
                MAX_RANKS_PER_PROCESSOR * cpus
            ))
            .hint("launch more ranks on several machines, with `torchrun` or `srun`"));
        }
        Ok(Some(world_size))
    }
}
