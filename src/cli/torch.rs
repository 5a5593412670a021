//! What only a program with libtorch can do, passed in by `pairloom-torch`.

use pairloom_engine::ranks::RendezvousBackend;
use pairloom_registry::AnyStage;
use pairloom_stage::RunStage;

/// Functions that need libtorch. A program that never constructs this is linked without libtorch.
#[derive(Debug, Clone, Copy)]
pub struct TorchFunctions {
    /// Runs a stage of any kind: [`pairloom_neural::run_stage`].
    pub run_stage: RunStage<AnyStage>,
    /// Rendezvous of the ranks.
    pub rendezvous: &'static dyn RendezvousBackend,
}
