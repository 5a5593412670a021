//! SPICE (Anderson, Fernando, Johnson, Gould: SPICE: Semantic Propositional Image Caption Evaluation, ECCV 2016): the
//! F-score of what a caption says against what the captions of an image say, as tuples of their scene graphs.

pub mod graph;
pub mod score;
mod vocabulary;

pub use graph::SceneGraph;
pub use score::{Scores, Spice, SpiceBuilder, Words};
