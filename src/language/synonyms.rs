//! What SPICE asks of words: synsets, and which attributes are colours, numbers and sizes.

use super::lexicon::Lexicon;
use super::tags::{COLORS, Tag, among, closed};
use crate::kernels::text::spice::Words;

/// Sizes, as SPICE's sub-score of sizes counts them.
const SIZES: &str = "\
    big bigger biggest enormous gigantic giant gargantuan huge immense large larger largest little long massive \
    mammoth medium mini miniature narrow short small smaller smallest tall thick thin tiny wide";

impl Words for Lexicon {
    fn synsets(&self, element: &str) -> Vec<u32> {
        self.shared_synsets(element).collect()
    }

    fn is_color(&self, attribute: &str) -> bool {
        among(COLORS, attribute)
    }

    fn is_count(&self, attribute: &str) -> bool {
        closed(attribute) == Some(Tag::Number)
    }

    fn is_size(&self, attribute: &str) -> bool {
        among(SIZES, attribute)
    }
}
