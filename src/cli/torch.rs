//! What only a program with libtorch can do, passed in by `pairloom-torch`.

use crate::engine::ranks::RendezvousBackend;
use crate::registry::AnyStage;
use crate::stage::RunStage;

/// Functions that need libtorch. A program that never constructs this is linked without libtorch.
#[derive(Debug, Clone, Copy)]
pub struct TorchFunctions {
    /// Runs a stage of any kind: [`crate::neural::run_stage`].
    pub run_stage: RunStage<AnyStage>,
    /// Rendezvous of the ranks.
    pub rendezvous: &'static dyn RendezvousBackend,
}
