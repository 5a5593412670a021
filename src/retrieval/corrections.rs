//! Corrections of the scores of a pool.

use pairloom_kernels::hubness::method::Correction;
use pairloom_kernels::hubness::shift::ShiftCorrection;

/// Corrections of both directions: image to text, text to image.
pub(super) enum Corrections {
    /// Shifts of the items, and of the queries to make scores of different queries comparable.
    Shifts([ShiftCorrection; 2]),
    /// Corrections of whole rows of scores.
    Rows([Box<dyn Correction>; 2]),
}
