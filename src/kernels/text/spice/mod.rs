//! SPICE: how much of what captions say is in the captions of an image.

pub mod graph;

pub use graph::SceneGraph;
