//! Stages of this module, and those whose results they read, on the host of the tests.

use super::{compute_attention, embed, evaluate, extract, import_model, score_pairs, train};
use pairloom_base::error::Result;
use pairloom_spec::stages::compute_attention::ComputeAttention;
use pairloom_spec::stages::embed::Embed;
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_spec::stages::extract::Extract;
use pairloom_spec::stages::import_model::ImportModel;
use pairloom_spec::stages::score_pairs::ScorePairs;
use pairloom_spec::stages::train::Train;
use pairloom_stage::{RunStage, RunnableStage};
use pairloom_stage_testing::InMemoryHost;
use pairloom_stages::build_concepts::BuildConcepts;

/// Stage with the function that runs it.
pub(super) trait TestedStage: Sized {
    const RUN: RunStage<Self>;
}

impl TestedStage for Extract {
    const RUN: RunStage<Self> = extract::run;
}
impl TestedStage for Train {
    const RUN: RunStage<Self> = train::run;
}
impl TestedStage for ImportModel {
    const RUN: RunStage<Self> = import_model::run;
}
impl TestedStage for Embed {
    const RUN: RunStage<Self> = embed::run;
}
impl TestedStage for ScorePairs {
    const RUN: RunStage<Self> = score_pairs::run;
}
impl TestedStage for ComputeAttention {
    const RUN: RunStage<Self> = compute_attention::run;
}
impl TestedStage for Evaluate {
    const RUN: RunStage<Self> = evaluate::run;
}
impl TestedStage for BuildConcepts {
    const RUN: RunStage<Self> = RunnableStage::run;
}

/// Host that runs these stages.
pub(super) trait RunOnHost {
    fn run_stage<S: TestedStage>(&mut self, stage: &S) -> Result<()>;
}

impl RunOnHost for InMemoryHost {
    fn run_stage<S: TestedStage>(&mut self, stage: &S) -> Result<()> {
        self.run_with(S::RUN, stage)
    }
}
