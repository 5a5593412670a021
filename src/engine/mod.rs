//! (to be replaced by the engine of main)

pub mod plan;
