//! Settings of pipeline files as plain data: models, losses, networks, and the stages that compute with tensors.
//!
//! - [`stages`]: the settings of `extract`, `train`, `embed`, `evaluate` and the others. Open it first.
//! - [`loss`]: one file a loss, with its formula and paper. [`family`]: one file a family of models. [`networks`]: the layers of
//!   each image network.
//!
//! Each has its checks beside it. `pairloom-model` computes on tensors what is described here, and `pairloom-neural` runs the
//! stages.
//!
//! **Invariant:** nothing here names a tensor, so `check`, `plan`, `runs` and `report` build without libtorch.

pub mod setting_problems;
pub mod similarity;
pub mod precision;
pub mod networks;
pub mod input_spec;
pub mod loss;
pub mod family;
pub mod stages;
