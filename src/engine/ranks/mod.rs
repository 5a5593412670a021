//! Many processes that run a stage together: the ranks.
//!
//! Rank 0 is the engine as it is with one process: it alone plans, claims, writes and tells. Every other rank is a
//! *follower*: the same program with the same command line, which reads the same pipeline file and then waits for jobs.
//!
//! ```text
//! rank 0                                   board                    rank 1, 2, …
//! (torchrun, SLURM: at its start;
//!  `ranks = N`: when the stage asks)
//!                                          hello/1                  ◄─ all stages and their settings
//! compares ───────────────────────────────►
//! the stage calls `Cx::ranks`: job/0 ─────► stage, key, parts ─────► runs the same `Run::run`, writes nothing
//!    │ gathers rows, adds up gradients ◄── model::collective ──────► │
//! the stage ends                           report/0/1               ◄─ how it ended there
//! … job/1 …
//! end ────────────────────────────────────► how the run ended ─────► bye/1, and the same exit code
//! ```
//!
//! The *board* is a store of keys at rank 0, or that of `torchrun`. The engine has none of its own: the program hands it
//! one ([`Boards`]), which is libtorch's.
//!
//! **When a rank ends before its time**, its connections close, so the others fail in the collective that they are in or
//! enter next; rank 0 also looks every 0.2 s at processes that it started and for last words at the board. The error
//! that counts is the one that made the others fail. Followers look as often whether rank 0 still wants their work, and end
//! by themselves when the board is gone.
//!
//! **Who may speak.** Ranks that Pairloom starts by itself meet at 127.0.0.1, and sign what they say with a token that
//! only their environment holds. `env://` has no such thing: with `torchrun` and SLURM, who reaches the port is trusted.

mod board;
mod environment;
mod message;
mod launch;
mod crew;
mod follow;
mod world;
mod together;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::time::Duration;

pub use board::{Board, Boards};
pub(super) use crew::{Crew, Shift};
pub use environment::Place;
pub use follow::{decline, follow};
pub(super) use message::description;
pub(super) use together::{Subject, Together};

/// How a run may use several processes.
#[derive(Debug, Clone)]
pub struct RankOptions {
    /// How they reach each other; without it, every stage runs in one process.
    pub boards: Option<&'static dyn Boards>,
    /// Which of the ranks this process is, if it was started as one of several.
    pub place: Option<Place>,
    /// The command that starts one more process like this.
    pub command: Vec<OsString>,
    /// How long one rank waits for another before that one counts as gone.
    pub patience: Duration,
    /// Ends the process at once, for when it cannot be stopped otherwise.
    pub give_up: Option<fn()>,
}

impl Default for RankOptions {
    fn default() -> Self {
        Self { boards: None, place: None, command: vec![], patience: Duration::from_mins(30), give_up: None }
    }
}

/// The threads of one of several processes that share a machine.
pub(super) fn share(threads: usize, processes: usize) -> usize {
    (threads / processes.max(1)).max(1)
}
