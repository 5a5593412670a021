//! SPICE (Anderson, Fernando, Johnson, Gould: SPICE: Semantic Propositional Image Caption Evaluation, ECCV 2016): the
//! F-score of what a caption says against what the captions of an image say, as tuples of their scene graphs.
//!
//! Graphs and synsets are values passed in; making them needs dictionaries. [`Spice`] has the formula. Of the Java tool's
//! ways one is simplified: it merges the graphs of the references object by object, here tuples that match are merged.

pub mod graph;
pub mod score;
mod vocabulary;
mod words;
#[cfg(test)]
mod tests;

pub use graph::SceneGraph;
pub use score::{Scores, Spice, SpiceBuilder};
pub use words::Words;
