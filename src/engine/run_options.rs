//! Options of a run.

use std::sync::Arc;

use crate::cache::CacheOptions;
use crate::ranks::RankOptions;
use crate::sources::SourceReading;
use pairloom_base::runtime::{Device, RemoteTasks};
use pairloom_store::record::RunCommand;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Name of the pipeline file, for the record of the run.
    pub pipeline: String,
    /// Rest of the command line, for the record of the run.
    pub command: RunCommand,
    /// Number of threads that a stage may keep busy.
    pub threads: usize,
    /// Number of instances of stages of the matrix that run at the same time and share the threads.
    pub jobs: usize,
    /// True if a run goes on with the stages that do not follow from one that failed.
    pub keep_going: bool,
    /// True if folders with their former times count as unchanged, without a look at their files.
    pub trust_folder_times: bool,
    /// Maximum number of bytes in flight between threads.
    pub memory: u64,
    /// Device of the tensors.
    pub device: Device,
    /// Location and size of the cache of shards.
    pub cache: CacheOptions,
    /// Options for stages that run in several processes.
    pub ranks: RankOptions,
    /// Processes of a cluster that compute parts of a stage.
    pub remote: Option<Arc<dyn RemoteTasks>>,
}

impl RunOptions {
    /// Number of threads that an instance of a stage may keep busy.
    #[must_use]
    pub fn instance_threads(&self) -> usize {
        (self.threads / self.jobs.max(1)).max(1)
    }

    /// Way of reading sources at the start of a run.
    #[must_use]
    pub fn source_reading(&self) -> SourceReading {
        SourceReading { threads: self.threads, trusts_folder_times: self.trust_folder_times }
    }

    /// Identity of the pipeline, as [`RunCommand::pipeline_identity`] gives it.
    #[must_use]
    pub fn pipeline_identity(&self) -> &str {
        self.command.pipeline_identity(&self.pipeline)
    }
}
