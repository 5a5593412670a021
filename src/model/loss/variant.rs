//! Choice between the formula of a paper and that of its published code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Variant of a formula: the paper's, or that of its published code, where they differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormulaVariant {
    /// Formula of the paper.
    #[default]
    Paper,
    /// Formula of the published code, to reproduce its results.
    Official,
}
