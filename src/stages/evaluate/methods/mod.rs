//! The methods that `evaluate` can rank with: their settings, how tables name them, what they are made of.

mod settings;
mod name;
mod plan;

pub(super) use name::Given;
pub(super) use plan::{Learns, Plan};
pub use settings::{Distribution, Method};
