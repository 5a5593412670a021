//! Corrections of the scores of a pool.

use crate::kernels::hubness::method::Correction;
use crate::kernels::hubness::shift::Shift;

/// The corrections of images that look for captions, and the other way round.
pub(super) enum Corrections {
    /// A number of each item is taken off, and one of each query, which makes scores of different queries comparable.
    Shifts([Shift; 2]),
    /// Rows of scores are corrected.
    Rows([Box<dyn Correction>; 2]),
}
