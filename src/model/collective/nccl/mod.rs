//! NCCL, which connects GPUs directly: the functions of its library, who may use it, and what is done with it.
//!
//! NCCL's C interface has been stable since version 2.4, so nothing is built against it: its functions, and the five of the
//! CUDA runtime that are wanted beside them, are looked up when a rank computes on a GPU (`library.rs`). A CUDA libtorch
//! brings both along.
//!
//! Either all ranks use it or none (`agreement.rs`). NCCL serves one rank for each GPU, so ranks that share a GPU exchange
//! tensors over gloo, through the memory of the processor.
//!
//! libtorch computes on the *legacy default stream* of a GPU unless told otherwise, and tch never tells it. What NCCL does is
//! put on the same stream: behind the kernels that make a tensor, and before those that read the result.
//!
//! All calls of a communicator are made by one thread of its own (`communicator.rs`): a call may wait for another rank
//! that is gone, as the first one of a kind does to connect, and whoever waits in it cannot be cancelled.
//!
//! Tests run against functions that work on the memory of the processor (`stand_in.rs`). They show the order of calls, counts,
//! types, padding, cancellation and agreement. They show nothing of a real GPU: neither that streams order NCCL's work
//! behind libtorch's, nor how NCCL fails, nor how fast it is.

mod library;
mod gpu;
mod agreement;
mod communicator;
#[cfg(test)]
mod stand_in;
#[cfg(test)]
mod tests;

pub(super) use agreement::{Messages, agree};
pub(super) use communicator::Communicator;
pub(super) use gpu::Gpu;
