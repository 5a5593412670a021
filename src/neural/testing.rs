//! Stages of this module, and those whose results they read, on the host of the tests.

use super::{compute_attention, embed, evaluate, extract, import_model, score_pairs, train};
use crate::error::Result;
use crate::spec::stages::compute_attention::ComputeAttention;
use crate::spec::stages::embed::Embed;
use crate::spec::stages::evaluate::Evaluate;
use crate::spec::stages::extract::Extract;
use crate::spec::stages::import_model::ImportModel;
use crate::spec::stages::score_pairs::ScorePairs;
use crate::spec::stages::train::Train;
use crate::stage::{RunStage, RunnableStage};
use crate::stage_testing::InMemoryHost;
use crate::stages::build_concepts::BuildConcepts;

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
