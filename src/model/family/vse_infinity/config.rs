//! Description of a VSE∞ model.

use serde::{Deserialize, Serialize};

use super::settings::VseInfinitySettings;
use crate::model::family::caption_gru::CaptionGru;
use crate::model::family::input_spec::InputSpec;

/// Description of a VSE∞ model, without parameters.
///
/// ```text
/// regions: x ─► fc(x) + mlp(x) ─► pooling operator ─► L2 norm      mlp: linear → batch norm → ReLU → linear
/// words:   word vectors ─► GRU, both directions averaged ─► pooling operator ─► L2 norm
/// ```
///
/// The score is the cosine of the two vectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VseInfinityConfig {
    /// Description of the data that the model is for.
    #[serde(flatten)]
    pub data: InputSpec,
    /// Architecture.
    #[serde(flatten)]
    pub settings: VseInfinitySettings,
}

impl VseInfinityConfig {
    /// Word vectors and GRU of captions.
    pub(super) fn caption_gru(&self) -> CaptionGru {
        let &VseInfinitySettings { word_dim, embed_size, bidirectional, .. } = &self.settings;
        CaptionGru { word: word_dim, state: embed_size, bidirectional }
    }
}
