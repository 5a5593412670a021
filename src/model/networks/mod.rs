//! Image networks with the names, shapes and values of torchvision, timm and `open_clip`.
//!
//! An [`Architecture`] is plain data without tensors. Parameter specifications, their initialisation and the
//! computation ([`ImageNetwork`]) follow from it. CONTRIBUTING.md has what a new network takes. A module of the user's ([`TorchScriptModule`]) is no architecture: its file has
//! the code that computes it.

mod architecture;
mod catalog;
mod clip;
mod finetuning;
mod inception_resnet_v2;
mod inference;
mod layer;
mod mobilenet_v2;
mod network;
mod packed_products;
mod parameter_spec;
mod random;
mod resnet;
mod squeezenet;
mod text_encoder;
mod text_tower;
mod torchscript;
mod transformer;
mod vgg;
#[cfg(test)]
mod clip_golden_tests;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;

pub use architecture::{Architecture, FilePart, LayerOutput, NetworkInput};
pub use catalog::Network;
pub use finetuning::NetworkTape;
pub use layer::{Convolution, Layer};
pub use network::{ImageNetwork, MODEL_PREFIX, NetworkOutput};
pub use parameter_spec::{NetworkInit, NetworkParameterSpec};
pub use text_encoder::TextEncoder;
pub use text_tower::TextTower;
pub use torchscript::{ModuleOutput, TorchScriptModule};
