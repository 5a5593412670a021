//! Setting for images whose file is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Treatment of images whose file is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// Stops with an error that names all of them.
    #[default]
    Fail,
    /// Leaves such images and their captions out, with a warning for each image.
    Skip,
}
