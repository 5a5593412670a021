//! Runs the stage with the measure of its settings.

use super::settings::{Measure, PairSelection, ScoreCaptions};
use super::{cider, pairs, spice};
use pairloom_base::error::Result;
use pairloom_kernels::text::cider::CiderVariant;
use pairloom_stage::{RunnableStage, StageContext};

use super::similarity_rows::SelectedPairs;
use super::split_captions::SplitCaptions;

impl RunnableStage for ScoreCaptions {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        match &self.measure {
            Measure::CiderD(settings) => cider::run(self, CiderVariant::CiderD, settings, cx),
            Measure::Cider(settings) => cider::run(self, CiderVariant::Cider, settings, cx),
            Measure::Spice(settings) => spice::run(self, settings, cx),
        }
    }
}

impl ScoreCaptions {
    /// Returns the pairs that the setting `pairs` selects; `None` for none.
    pub(super) fn selected_pairs(
        &self,
        cx: &mut StageContext<'_>,
        corpus: &SplitCaptions,
    ) -> Result<Option<SelectedPairs>> {
        Ok(match &self.pairs {
            PairSelection::Dense => Some(SelectedPairs::Dense),
            PairSelection::Top(m) => Some(SelectedPairs::Top(*m)),
            PairSelection::Table(_) => Some(SelectedPairs::Pairs(pairs::read_pairs(cx, corpus, &self.split)?)),
            PairSelection::OnDemand => None,
        })
    }
}
