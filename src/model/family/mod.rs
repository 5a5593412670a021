//! Families of models: the traits that training, embedding and search use, and a file or folder for each family.
//!
//! To add a family, write a file of its settings in [`spec::family`](pairloom_spec::family), and one here with a
//! [`Family`](model::Family) (parameters) and a [`Model`](model::Model) (encode, score, backward), or a
//! [`Differentiable`](autograd::Differentiable) if libtorch finds the gradients; then add a line in the list of each
//! of the two, [`registry`] here. No other code names a family.

pub mod parameters;
pub mod image_rows;
pub mod model;
pub mod graph;
pub mod batch_norm;
pub mod autograd;
pub mod attention;
pub mod concept_graph;
pub mod encode;
pub mod published;
pub mod vse;
pub mod scan;
pub mod vsrn;
pub mod sgraf;
pub mod vse_infinity;
pub mod cvse;
pub mod late;
pub mod registry;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod rank_tests;
#[cfg(test)]
mod published_tests;
#[cfg(test)]
mod tests;
