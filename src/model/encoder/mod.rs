//! The two halves of a joint embedding, forwards and backwards, in steps that keep what their gradient needs.
//!
//! No graph is recorded: each step has its gradient beside it. That is what lets the embeddings of many ranks be gathered
//! between the two passes, and what makes the weight gradients of the GRU one product each.

pub mod packed;
pub mod gru;
pub mod images;
pub mod captions;
mod fused;
mod linear;
mod pool;
mod product;
mod recurrence;
mod unit;

pub use captions::CaptionOptions;
pub use pool::Pooling;
pub use product::Precision;
