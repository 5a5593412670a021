//! Matrix of a pipeline file: axes over whose values stages are repeated. Profiles: named sets of settings.
//!
//! ```text
//! [matrix.…] ─► axes and values ─► combinations ─► instances of each stage, with their settings and references
//!                axes.rs            combinations.rs   expand.rs, reference.rs
//! [profile.…] ───────────────────────────────────────► settings of all instances
//!                profile.rs                            expand.rs checks the names of stages and instances
//! ```

mod axes;
mod combinations;
mod expand;
mod profile;
mod reference;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod mistake_tests;

pub(super) use axes::{Condition, EXCEPT, Matrix, ONLY};
pub(super) use combinations::{Combinations, Covered};
pub(super) use expand::{Expansion, StageInstance};
pub(super) use profile::{Profile, Profiles};
