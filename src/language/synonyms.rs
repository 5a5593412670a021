//! What SPICE asks of words: synsets, and which attributes are colours, numbers and sizes.

use super::lexicon::Lexicon;
use super::tags::{Tag, closed};
use crate::kernels::text::spice::Words;

/// Colours, as SPICE's sub-score of colours counts them.
const COLORS: &[&str] = &[
    "amber",
    "aqua",
    "azure",
    "beige",
    "black",
    "blue",
    "bronze",
    "brown",
    "burgundy",
    "charcoal",
    "cream",
    "crimson",
    "cyan",
    "gold",
    "golden",
    "gray",
    "green",
    "grey",
    "indigo",
    "ivory",
    "lavender",
    "lilac",
    "magenta",
    "maroon",
    "mauve",
    "navy",
    "ochre",
    "olive",
    "orange",
    "peach",
    "pink",
    "purple",
    "red",
    "rose",
    "scarlet",
    "silver",
    "tan",
    "teal",
    "turquoise",
    "violet",
    "white",
    "yellow",
];

/// Sizes, as SPICE's sub-score of sizes counts them.
const SIZES: &[&str] = &[
    "big",
    "bigger",
    "biggest",
    "enormous",
    "gigantic",
    "giant",
    "gargantuan",
    "huge",
    "immense",
    "large",
    "larger",
    "largest",
    "little",
    "long",
    "massive",
    "mammoth",
    "medium",
    "mini",
    "miniature",
    "narrow",
    "short",
    "small",
    "smaller",
    "smallest",
    "tall",
    "thick",
    "thin",
    "tiny",
    "wide",
];

impl Words for Lexicon {
    fn synsets(&self, element: &str) -> Vec<u32> {
        self.shared_synsets(element).collect()
    }

    fn is_color(&self, attribute: &str) -> bool {
        COLORS.contains(&attribute)
    }

    fn is_count(&self, attribute: &str) -> bool {
        closed(attribute) == Some(Tag::Number)
    }

    fn is_size(&self, attribute: &str) -> bool {
        SIZES.contains(&attribute)
    }
}
