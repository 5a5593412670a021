//! What processes that train together do together: gather rows, and add up gradients.
//!
//! Processes meet through c10d, the collectives inside libtorch: a store of keys over TCP, where ranks find each other, and
//! gloo, which connects each with each. tch offers neither, so `shim.cpp` does, in C. What these classes need of gloo's
//! headers, which libtorch does not ship, is declared in `gloo/`.
//!
//! Where each rank computes on a GPU of its own, NCCL connects these directly (`nccl/`), and gloo is left with sizes and
//! with finding out who is gone. Otherwise tensors of a GPU pass through the memory of the processor.
//!
//! Nothing here asks who the other side is: as with `torchrun`, whoever reaches a port can spoil a training. Ports are
//! opened at the one address of this machine through which the store is reached, so at `127.0.0.1` where all ranks are on
//! one machine.

mod ffi;
mod store;
mod nccl;
mod group;
mod sum;
#[cfg(test)]
pub(super) mod tests;

pub use group::Group;
pub use store::KeyStore;
