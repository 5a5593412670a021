//! SPICE (Anderson, Fernando, Johnson, Gould: SPICE: Semantic Propositional Image Caption Evaluation, ECCV 2016): the
//! F-score of the scene-graph tuples of a caption against those of an image's references.
//!
//! The caller passes scene graphs and synsets, which need a dictionary. [`Spice`] has the formula. One step of the Java
//! tool is simplified: it merges the graphs of the references object by object; here matching tuples are merged.

pub mod graph;
pub mod score;
mod tuples;
mod dictionary;
#[cfg(test)]
mod tests;

pub use dictionary::SpiceDictionary;
pub use graph::SceneGraph;
pub use score::{Spice, SpiceBuilder, SpiceScores};
