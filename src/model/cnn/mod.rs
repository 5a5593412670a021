//! Convolutional networks for images, with torchvision's names, shapes and values.
//!
//! A network is a description ([`Architecture`]: plain data, no tensors), from which follow the parameters it wants, how
//! random ones are drawn, and what it computes ([`Cnn`]). To add a network, write one function that describes it.

mod architecture;
mod catalog;
mod learning;
mod network;
mod random;
mod resnet;
mod squeezenet;

pub use architecture::{Architecture, Init, Layer, Parameter};
pub use catalog::Network;
pub use learning::Learning;
pub use network::{Cnn, IN_MODEL, Output};
pub use resnet::{resnet18, resnet34, resnet50, resnet101, resnet152};
pub use squeezenet::squeezenet1_0;
