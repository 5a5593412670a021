//! Texts of a document, and pictures in their place.

/// A piece of a sentence. Markdown shows all alike.
#[derive(Debug)]
pub(super) enum Span {
    Plain(String),
    Strong(String),
    Code(String),
}

impl Span {
    pub(super) fn text(&self) -> &str {
        let (Self::Plain(text) | Self::Strong(text) | Self::Code(text)) = self;
        text
    }
}

/// A text, and the picture that HTML shows for it: a small JPEG.
#[derive(Debug, Clone, Default)]
pub(super) struct Label {
    pub(super) text: String,
    pub(super) picture: Option<Vec<u8>>,
}

impl<T: Into<String>> From<T> for Label {
    fn from(text: T) -> Self {
        Self { text: text.into(), picture: None }
    }
}
