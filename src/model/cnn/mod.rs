//! Convolutional neural networks (CNNs) for images, with torchvision's names, shapes and values.
//!
//! An [`Architecture`] is plain data without tensors. Parameter specifications, their initialisation and the
//! computation ([`Cnn`]) follow from it. To add a CNN, write one function that returns its architecture.

mod architecture;
mod catalog;
mod finetuning;
mod network;
mod random;
mod resnet;
mod squeezenet;

pub use architecture::{Architecture, CnnInit, CnnParameterSpec, Layer};
pub use catalog::Network;
pub use finetuning::CnnTape;
pub use network::{Cnn, CnnOutput, MODEL_PREFIX};
pub use resnet::{resnet18, resnet34, resnet50, resnet101, resnet152};
pub use squeezenet::squeezenet1_0;
