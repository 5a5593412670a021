//! WordNet as the dictionary of SPICE: synsets, and the words for colours, numbers and sizes.

use super::lexicon::Lexicon;
use super::tags::{COLORS, PosTag, closed_class_tag, list_contains};
use pairloom_kernels::text::spice::SpiceDictionary;

/// Words for sizes, as in SPICE's F-score of sizes.
const SIZES: &str = "\
    big bigger biggest enormous gigantic giant gargantuan huge immense large larger largest little long massive \
    mammoth medium mini miniature narrow short small smaller smallest tall thick thin tiny wide";

impl SpiceDictionary for Lexicon {
    fn synsets(&self, element: &str) -> Vec<u32> {
        self.shared_synsets(element).collect()
    }

    fn is_color(&self, attribute: &str) -> bool {
        list_contains(COLORS, attribute)
    }

    fn is_count(&self, attribute: &str) -> bool {
        closed_class_tag(attribute) == Some(PosTag::Number)
    }

    fn is_size(&self, attribute: &str) -> bool {
        list_contains(SIZES, attribute)
    }
}
