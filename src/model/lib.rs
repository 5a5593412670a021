//! Models, training steps and losses on tensors (`tch`, libtorch).

pub mod device;
pub mod malloc;
pub mod threads;
pub mod collective;
pub mod safetensors_file;
mod tensor_slices;
mod autograd_node;
pub mod networks;
pub mod encoder;
pub mod similarity;
pub mod family;
pub mod loss;
pub mod memory_bank;
pub mod adam;
pub mod training_state;
pub mod step;
pub mod trained_model;
pub mod rows_encoder;
#[cfg(test)]
mod libtorch_search_tests;
pub mod device_search;
pub mod pair_scores;

pub use safetensors_file::parse as parse_safetensors;
pub use training_state::parse_checkpoint;
