//! Image networks with the names, shapes and values of torchvision, timm and `open_clip`.
//!
//! [`spec::networks`](pairloom_spec::networks) has them as plain data. Here are their weights and the computation
//! ([`ImageNetwork`]). CONTRIBUTING.md has what a new network takes. A module of the user's ([`TorchScriptModule`]) is no
//! architecture: its file has the code that computes it.

mod finetuning;
mod inference;
mod network;
mod torchscript;
mod transformer;
#[cfg(test)]
mod clip_golden_tests;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;

pub use finetuning::NetworkTape;
pub use network::{ImageNetwork, MODEL_PREFIX, NetworkOutput};
pub use torchscript::{ModuleOutput, TorchScriptModule};
pub use transformer::TextEncoder;
