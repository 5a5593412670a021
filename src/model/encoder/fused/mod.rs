//! Word vectors to the states of a GRU on the processor, with our own kernels instead of libtorch's.
//!
//! What libtorch cannot do, and what it costs it: the gates of a word position are a dozen passes over memory there, and one
//! here, right after the product, while it lies in the cache; the recurrent weights are rearranged for every word position
//! there, once a step here; and the f32 products of the library that it is built with use half of the vector width on
//! processors of other makers.
//!
//! The units of the state are dealt out to threads. A thread computes its units of every state, and from them all it needs for
//! its rows of every gradient; what the others must know of a position is published, in the form in which it is multiplied,
//! and then all wait for each other: once a position. A value depends on none of this: sums are in one order for any number
//! of threads.

mod backward;
mod forward;
mod share;

pub use backward::{Gradients, Pull};
pub use forward::Tape;
pub use share::Reading;
