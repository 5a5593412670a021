//! Running of a stage of any kind.

use super::{compute_attention, embed, evaluate, extract, import_model, score_pairs, train};
use pairloom_base::error::Result;
use pairloom_registry::AnyStage;
use pairloom_stage::StageContext;

/// Runs a stage of any kind.
///
/// # Errors
/// Any error of the stage.
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
