//! Section of the curves of a training and of ranks.

use super::document::{PageBlock, Section};
use super::figure::Figure;
use super::page_data::{TrainingStep, ValidationEpoch};
use super::training_plots;
use pairloom_base::error::Result;

/// Section of all curves that have data.
pub(super) fn section(
    steps: &[TrainingStep],
    epochs: &[ValidationEpoch],
    ranks: Option<Figure>,
) -> Result<Option<Section>> {
    let figures = [
        training_plots::losses(steps)?,
        training_plots::gradient_norms(steps)?,
        training_plots::learning_rates(steps)?,
        training_plots::validation(epochs)?,
        training_plots::recalls(epochs)?,
        ranks,
    ];
    let figures: Vec<_> = figures.into_iter().flatten().collect();
    Ok((!figures.is_empty()).then(|| Section::new("Curves", vec![PageBlock::Figures(figures)])))
}
