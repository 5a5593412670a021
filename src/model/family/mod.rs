//! Families of models: the traits that training, embedding and search use, and a file or folder for each family.
//!
//! To add a family, write a file of its settings in [`spec::family`](pairloom_spec::family), and one here with a
//! [`Family`](contract::Family) (parameters) and a [`Model`](model::Model) (encode, score, backward), or a
//! [`Differentiable`](differentiable::Differentiable) if libtorch finds the gradients; then add a line in the list of each
//! of the two, [`registry`] here. No other code names a family.

pub mod buffer_updates;
mod allowed_values;
pub mod parameters;
pub mod image_rows;
pub mod encoded_items;
pub mod model;
mod random_draws;
pub mod caption_gru;
pub mod graph;
pub mod batch_norm;
mod score_blocks;
pub mod contract;
pub mod differentiable;
pub mod region_rows;
pub mod autograd;
mod autograd_family;
pub mod attention;
mod global_attention;
pub mod image_words;
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
mod create;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod rank_tests;
#[cfg(test)]
mod published_tests;
#[cfg(test)]
mod tests;

pub use pairloom_spec::input_spec;
