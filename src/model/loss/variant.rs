//! Formula of a paper or computation of its published code, where they differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which of two that differ: the formulas of a paper or its published code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// The formulas.
    #[default]
    Paper,
    /// The formula of the published code, to reproduce its results.
    Official,
}
