//! Tests of the engine that need libtorch: ranks that exchange tensors, and power cuts while a training runs.

mod power;
mod ranks;
