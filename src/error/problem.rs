//! Problems with settings.

/// Something wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The setting at fault, dotted when nested; empty for all of them together.
    pub setting: String,
    /// Message with the value that was got and the one that was wanted.
    pub message: String,
    /// Hint at what to try.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem with `setting`.
    pub fn new(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into(), hint: None }
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
