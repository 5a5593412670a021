//! Images that captions name and no file holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Treatment of an image that captions name and no file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// Stop, naming all of them.
    #[default]
    Fail,
    /// Leave the image and its captions out, with a warning for each.
    Skip,
}
