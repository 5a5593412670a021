//! Problems with settings.

/// Problem with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the setting, dotted if nested; empty if the problem concerns the settings as a whole.
    pub setting: String,
    /// Message with the actual and the expected value.
    pub message: String,
    /// Hint for the user.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem with `setting`.
    pub fn new(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into(), hint: None }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
