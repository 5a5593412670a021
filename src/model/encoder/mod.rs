//! Image and caption encoders of VSE++ with hand-written gradients.
//!
//! No graph of libtorch is recorded; each layer has its backward pass beside it. So the embeddings of several ranks can be
//! gathered between the two passes, and each weight gradient of the GRU is one matrix product.

pub mod packed_captions;
pub mod sequence_states;
mod word_states;
pub mod gru;
mod graph_gru;
pub mod images;
pub mod captions;
mod fused;
mod linear;
mod differentiable_linear;
mod pooling;
mod matmul;
mod recurrence;
mod state_gradient;
mod normalize;
mod product_choice;

pub use captions::CaptionOptions;
pub use differentiable_linear::differentiable_linear;
pub use linear::forward as matmul_transposed;
pub use matmul::{MatmulPrecision, PrecisionProducts};
pub use pooling::CaptionPooling;
pub use product_choice::is_libtorch_faster;
