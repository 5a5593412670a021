//! The curves of a training and of ranks.

use super::course;
use super::document::{Block, Section};
use super::elements::{Epoch, Step};
use super::figure::Figure;
use crate::error::Result;

/// The section, where there is a curve to draw.
pub(super) fn section(steps: &[Step], epochs: &[Epoch], ranks: Option<Figure>) -> Result<Option<Section>> {
    let figures = [
        course::losses(steps)?,
        course::gradient_norms(steps)?,
        course::learning_rates(steps)?,
        course::validation(epochs)?,
        course::recalls(epochs)?,
        ranks,
    ];
    let figures: Vec<_> = figures.into_iter().flatten().collect();
    Ok((!figures.is_empty()).then(|| Section::new("Curves", vec![Block::Figures(figures)])))
}
