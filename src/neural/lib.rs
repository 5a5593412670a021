//! Running of the stages that compute with tensors: one file or folder a stage. `pairloom_spec::stages` has their settings.
//!
//! [`run_stage`] runs a stage of any kind. Open it first.
//!
//! **Invariant:** a stage does not use another stage; they share tables.
//!
//! **Invariant:** a stage calls `wait_for_exclusive` after all its inputs are complete, never before. Otherwise it could wait for
//! a stage that waits for it.

use pairloom_base::error::Result;
use pairloom_registry::AnyStage;
use pairloom_stage::StageContext;

pub mod extract;
pub mod train;
pub mod import_model;
pub mod embed;
pub mod score_pairs;
pub mod compute_attention;
pub mod evaluate;
mod model_input;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod published_chain_tests;
#[cfg(test)]
mod engine_tests;

/// Runs a stage of any kind.
pub fn run_stage(stage: &AnyStage, cx: &mut StageContext<'_>) -> Result<()> {
    match stage {
        AnyStage::Extract(stage) => extract::run(stage, cx),
        AnyStage::Train(stage) => train::run(stage, cx),
        AnyStage::ImportModel(stage) => import_model::run(stage, cx),
        AnyStage::Embed(stage) => embed::run(stage, cx),
        AnyStage::ScorePairs(stage) => score_pairs::run(stage, cx),
        AnyStage::ComputeAttention(stage) => compute_attention::run(stage, cx),
        AnyStage::Evaluate(stage) => evaluate::run(stage, cx),
        AnyStage::Ingest(_)
        | AnyStage::ScoreCaptions(_)
        | AnyStage::BuildConcepts(_)
        | AnyStage::ImportRegions(_)
        | AnyStage::ImportFeatures(_)
        | AnyStage::ImportArrays(_)
        | AnyStage::Ensemble(_)
        | AnyStage::TestSignificance(_)
        | AnyStage::Correlate(_)
        | AnyStage::Report(_) => stage.run_without_tensors(cx),
    }
}
