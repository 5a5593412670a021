//! NCCL: collective operations directly between GPUs.
//!
//! The C interface of NCCL has been stable since version 2.4, so the crate does not link it. Its functions, and five of
//! the CUDA runtime, are looked up at run time when a rank computes on a GPU (`library.rs`). A CUDA build of libtorch
//! ships both libraries.
//!
//! Either all ranks use NCCL or none (`negotiation.rs`). NCCL requires a separate GPU for each rank, so ranks that
//! share a GPU exchange tensors over gloo, through CPU memory.
//!
//! libtorch computes on the *legacy default stream* of a GPU by default, and tch does not change that. NCCL operations
//! are enqueued on the same stream: after the kernels that compute a tensor, and before those that read the result.
//!
//! Each communicator has a thread that makes all its calls (`communicator.rs`). A call may block on a lost rank, for
//! example the first call of an operation, which opens connections; a thread in such a call cannot be cancelled.
//!
//! Tests use a fake NCCL in CPU memory (`testing.rs`). They cover the order of calls, counts, types, padding,
//! cancellation and negotiation. `benches/gpu.py` runs a training over NCCL between two processes on one GPU. Not covered:
//! failures of NCCL, and speed.

mod library;
mod gpu;
mod negotiation;
mod communicator;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(super) use communicator::Communicator;
pub(super) use gpu::Gpu;
pub(super) use negotiation::{RankExchange, negotiate};
