//! Fused GRU on the CPU, from word vectors to states, with this project's kernels instead of libtorch's.
//!
//! Faster than libtorch for three reasons. The gates of a word position take one pass right after the product, while it
//! is in the cache, instead of a dozen passes over memory. The recurrent weights are packed once per step instead of
//! once per word position. And the f32 products of the library behind libtorch use half of the vector width on
//! non-Intel CPUs.
//!
//! The units of the state are distributed to threads. A thread computes its units of every state, and its rows of every
//! gradient. At each position every thread publishes its states, packed for the product, and waits for the others.
//! Results do not depend on the number of threads, because sums are always in the same order.

mod backward;
mod forward;
mod partition;
mod spare;

pub use backward::{FusedStateGradient, GradientBuffers};
pub use forward::FusedTape;
pub use partition::FusedInput;
