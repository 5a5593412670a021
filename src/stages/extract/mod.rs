//! `extract`: `images` → `features`.

mod settings;

pub use settings::{Extract, Network, OnUndecodable, Pooling, Weights};
