//! Functions that need libtorch, passed in by `pairloom-torch`.

use crate::engine::event::Observer;
use crate::engine::ranks::{RankEnvironment, RendezvousBackend};
use crate::engine::run_options::RunOptions;
use crate::engine::run_record::RunSummary;
use crate::error::Result;
use crate::plan::Plan;
use crate::runtime::CancelToken;
use crate::stages::AnyStage;
use crate::store::Store;

/// Functions that need libtorch. A program that never constructs this is linked without libtorch.
#[derive(Debug, Clone, Copy)]
pub struct TorchFunctions {
    /// Runs a plan: [`crate::engine::run::execute`].
    pub execute: ExecuteFn,
    /// Runs stages as a rank above 0: [`crate::engine::ranks::run_follower`].
    pub run_follower: RunFollowerFn,
    /// Rendezvous of the ranks: [`super::TorchRendezvous`].
    pub rendezvous: &'static dyn RendezvousBackend,
}

type ExecuteFn = fn(&Plan<AnyStage>, &Store, &RunOptions, &CancelToken, &Observer<'_>) -> Result<RunSummary>;
type RunFollowerFn = fn(&Plan<AnyStage>, &Store, &RunOptions, &RankEnvironment, &CancelToken) -> Result<()>;
