//! Collective operations of processes that train together: gathering rows and summing gradients.
//!
//! They use c10d, the collectives of libtorch: `TCPStore`, a key-value store through which ranks find each other, and
//! gloo, which connects every rank with every other. tch does not expose them, so `shim.cpp` wraps them in C functions.
//! `gloo/` declares the parts of gloo's headers that c10d's headers need and libtorch does not ship.
//!
//! If each rank computes on a GPU of its own, NCCL connects the GPUs directly (`nccl/`), and gloo only exchanges sizes
//! and detects lost ranks. Otherwise tensors of GPUs are copied through CPU memory.
//!
//! Ranks with a token (`secret.rs`) refuse processes without it; connections are not encrypted. Without a token, as with
//! `torchrun`, every process that reaches a port can disturb a training.
//! Ports are opened only at the address of this machine through which the store is reached, so at `127.0.0.1` if all
//! ranks are on one machine.

mod secret;
mod ffi;
mod store;
mod nccl;
mod group;
mod sum;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

pub use group::CollectiveGroup;
pub use store::TcpStore;
