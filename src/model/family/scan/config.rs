//! Description of a SCAN model.

use serde::{Deserialize, Serialize};

use super::settings::ScanSettings;
use crate::model::family::caption_gru::CaptionGru;
use crate::model::family::input_spec::InputSpec;

/// Description of a SCAN model, without parameters.
///
/// Regions: linear → L2 norm. Words: word vectors → GRU, both directions averaged → L2 norm. `<start>` and `<end>` are
/// words. The score is stacked cross attention between the regions of an image and the words of a caption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanConfig {
    /// Description of the data that the model is for.
    #[serde(flatten)]
    pub data: InputSpec,
    /// Architecture.
    #[serde(flatten)]
    pub settings: ScanSettings,
}

impl ScanConfig {
    /// Word vectors and GRU of captions.
    pub(super) fn caption_gru(&self) -> CaptionGru {
        let &ScanSettings { word_dim, embed_size, bidirectional, .. } = &self.settings;
        CaptionGru { word: word_dim, state: embed_size, bidirectional }
    }
}
