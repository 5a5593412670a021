//! Description of a VSRN model.

use serde::{Deserialize, Serialize};

use super::settings::VsrnSettings;
use crate::model::family::caption_gru::CaptionGru;
use crate::model::family::input_spec::InputSpec;

/// Description of a VSRN model, without parameters.
///
/// ```text
/// regions: linear → normalise → graph convolutions → normalise ─┬─► GRU over regions, last state ─► L2 norm
/// words:   word vectors → GRU, last state → L2 norm             └─► caption generator (training only)
/// ```
///
/// The score is the cosine of the two vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VsrnConfig {
    /// Description of the data that the model is for.
    #[serde(flatten)]
    pub data: InputSpec,
    /// Architecture.
    #[serde(flatten)]
    pub settings: VsrnSettings,
}

impl VsrnConfig {
    /// Word vectors and GRU of captions.
    pub(super) fn caption_gru(&self) -> CaptionGru {
        let &VsrnSettings { word_dim, embed_size, .. } = &self.settings;
        CaptionGru { word: word_dim, state: embed_size, bidirectional: false }
    }
}
