//! Models, losses and networks as plain data: settings of pipeline files, their checks, and what follows from them without
//! tensors.
//!
//! `model` computes on tensors what is described here. Programs without libtorch read and check pipeline files with this
//! module alone, so nothing here names a tensor.

pub mod setting_problems;
pub mod similarity;
pub mod precision;
pub mod networks;
pub mod input_spec;
pub mod loss;
pub mod family;
pub mod stages;
