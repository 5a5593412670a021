//! Families of models: what a training, an embedding and a search ask of any of them, and one folder or file each.
//!
//! To add one, write a file with a [`Family`](contract::Family) (its settings, its parameters) and a
//! [`Model`](model::Model) (encode, score, follow gradients back), or, where libtorch finds the gradients, a
//! [`Differentiable`](autograd::Differentiable) in its place; and a line in [`list`]. Nothing else knows a family by name.

pub mod data;
pub mod parameters;
pub mod rows;
pub mod encoded;
pub mod model;
pub mod autograd;
pub mod contract;
pub mod encode;
pub mod vse;
pub mod list;
mod create;
#[cfg(test)]
mod late;
#[cfg(test)]
mod late_tests;
