//! What processes that train together do together: gather rows, add up gradients, hand bytes around.
//!
//! The work is done by c10d, the collectives inside libtorch: a store of keys over TCP, where ranks find each other, and
//! gloo, which connects each with each. tch offers neither, so `shim.cpp` does, in C. What these classes need of gloo's
//! headers, which libtorch does not ship, is declared in `gloo/`.
//!
//! Tensors of a GPU pass through the memory of the processor. NCCL, which connects GPUs directly, is not used: gradients of
//! the models here are some 50 MB a step.
//!
//! Nothing here asks who the other side is: as with `torchrun`, whoever reaches a port can spoil a training. Ports are
//! opened at the one address of this machine through which the store is reached, so at `127.0.0.1` where all ranks are on
//! one machine.

mod ffi;
mod store;
mod group;
mod sum;
#[cfg(test)]
mod tests;

pub use group::Group;
pub use store::KeyStore;
