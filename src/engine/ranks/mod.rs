//! Ranks: several processes that run a stage together.
//!
//! Rank 0 is the engine, as with one process: only rank 0 plans, claims, writes and reports. Every other rank is a
//! *follower*: the same program with the same command line, which reads the same pipeline file and then waits for jobs.
//!
//! ```text
//! rank 0                                   key-value store          rank 1, 2, …
//! (torchrun, SLURM: launched together;
//!  `ranks = N`: launched by the stage)
//!                                          hello/1                  ◄─ all stages and their settings
//! compares ───────────────────────────────►
//! `StageContext::process_group`: job/0 ────► stage, key, parts ─────► runs the same stage, writes nothing
//!    │ gathers rows, sums gradients ◄───── model::collective ──────► │
//!    │ commits mapped blocks in order ◄─── store ◄────────────────── every n-th block of `StageContext::map`
//! the stage ends                           report/0/1               ◄─ result of the job there
//! … job/1 …
//! end ────────────────────────────────────► result of the run ─────► bye/1, and the same exit code
//! ```
//!
//! The key-value store is at rank 0, or it is that of `torchrun`. The engine has no implementation of its own; the
//! program passes it that of libtorch ([`RendezvousBackend`]).
//!
//! **Failures.** When a rank ends early, its connections close, so the others fail in their current or next collective
//! operation. Every 0.2 s rank 0 also checks the processes that it launched and the reports in the store. The run fails
//! with the root cause, not with a consequence of it on another rank. Followers check as often whether rank 0 has
//! stopped the job, and end by themselves when the store does not answer.
//!
//! **Security.** Ranks that Pairloom launches use a store at 127.0.0.1, sign their messages with a token that is only in
//! their environment, and prove to each other that they know it before they exchange rows (`model::collective`). With
//! `torchrun` and SLURM people set the token (`PAIRLOOM_RANK_TOKEN`); without it every process that reaches the port is
//! trusted, and the store listens at no other address than the one that was named.

mod environment;
mod message;
mod shared_parts;
mod worker_group;
mod follower;

use std::ffi::OsString;
use std::time::Duration;

pub use environment::RankEnvironment;
pub use follower::{report_startup_error, run_follower};
pub(super) use message::plan_description;
pub use message::{RendezvousBackend, RendezvousStore, parse_rank_messages};
pub(super) use shared_parts::{SharedPart, SharedParts};
pub(super) use worker_group::{JobRequest, RankCoordinator, RunningJob, WorkerGroup};

/// Options for stages that run in several processes.
#[derive(Debug, Clone)]
pub struct RankOptions {
    /// Opens key-value stores; without it, every stage runs in one process.
    pub backend: Option<&'static dyn RendezvousBackend>,
    /// Rank of this process, if the program was launched as several processes.
    pub environment: Option<RankEnvironment>,
    /// Command that launches another rank.
    pub command: Vec<OsString>,
    /// Time after which a silent rank counts as lost.
    pub timeout: Duration,
    /// Ends the process at once, if a job cannot be stopped otherwise.
    pub abort_process: Option<fn()>,
}

impl Default for RankOptions {
    fn default() -> Self {
        Self {
            backend: None,
            environment: None,
            command: vec![],
            timeout: Duration::from_mins(30),
            abort_process: None,
        }
    }
}

/// Threads of each of several processes that share a machine.
pub(super) fn threads_per_process(threads: usize, processes: usize) -> usize {
    (threads / processes.max(1)).max(1)
}
