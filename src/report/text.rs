//! Texts and thumbnails of a document.

/// Part of a sentence. Markdown shows all kinds alike.
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

/// Text, with an optional thumbnail (JPEG) that HTML shows instead.
#[derive(Debug, Clone, Default)]
pub(super) struct PageLabel {
    pub(super) text: String,
    pub(super) picture: Option<Vec<u8>>,
}

impl<T: Into<String>> From<T> for PageLabel {
    fn from(text: T) -> Self {
        Self { text: text.into(), picture: None }
    }
}
