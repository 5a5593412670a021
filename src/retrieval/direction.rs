//! The two directions of retrieval.

/// Direction of retrieval: from image to text or from text to image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Images are queries, captions are items.
    ImageToText,
    /// Captions are queries, images are items.
    TextToImage,
}

impl Direction {
    /// Both directions, in the order of all arrays with an entry for each direction.
    pub const BOTH: [Self; 2] = [Self::ImageToText, Self::TextToImage];

    /// Name in tables: `i2t`, `t2i`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageToText => "i2t",
            Self::TextToImage => "t2i",
        }
    }
}
