//! Image networks as plain data, with the names, shapes and order of torchvision, timm and `open_clip`.
//!
//! [`Network`] lists them. An [`Architecture`] is the layers of one; the specifications of its parameters and the input
//! that it takes follow from it. `model` computes it.

mod architecture;
mod catalog;
mod clip;
mod inception_resnet_v2;
mod layer;
mod mobilenet_v2;
mod resnet;
mod squeezenet;
mod vgg;

pub use architecture::{Architecture, FilePart, LayerOutput, NetworkInput, TextTower};
pub use catalog::Network;
pub use clip::ClipSizes;
pub use layer::{Convolution, Layer, NetworkInit, NetworkParameterSpec, parameter_name};
