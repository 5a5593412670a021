//! Description of an SGR or SAF model.

use serde::{Deserialize, Serialize};

use super::settings::SgrafSettings;
use crate::model::family::caption_gru::CaptionGru;
use crate::model::family::input_spec::InputSpec;

/// Description of an SGR or SAF model, without parameters.
///
/// ```text
/// regions: linear → L2 norm ─┬─► global vector of the image   ─► global alignment ─┐
/// words:   GRU → L2 norm ────┼─► global vector of the caption ─►                   ├─► SGR or SAF ─► linear ─► sigmoid
///                            └─► attention of each word to the regions ─► an alignment for each word ─┘
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SgrafConfig {
    /// Description of the data that the model is for.
    #[serde(flatten)]
    pub data: InputSpec,
    /// Architecture.
    #[serde(flatten)]
    pub settings: SgrafSettings,
}

impl SgrafConfig {
    /// Word vectors and GRU of captions.
    pub(super) fn caption_gru(&self) -> CaptionGru {
        let &SgrafSettings { word_dim, embed_size, bidirectional, .. } = &self.settings;
        CaptionGru { word: word_dim, state: embed_size, bidirectional }
    }
}
