//! The two directions of retrieval.

/// Direction of a retrieval: images look for captions, or captions for images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// An image looks for captions.
    ImageToText,
    /// A caption looks for images.
    TextToImage,
}

impl Direction {
    /// Both, in the order of all that is there for each.
    pub const BOTH: [Self; 2] = [Self::ImageToText, Self::TextToImage];

    /// The direction in tables: `i2t`, `t2i`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageToText => "i2t",
            Self::TextToImage => "t2i",
        }
    }
}
