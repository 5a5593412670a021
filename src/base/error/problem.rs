//! Problems with settings.

/// Severity of a problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Severity {
    /// The setting is impossible: nothing runs.
    #[default]
    Error,
    /// The setting is possible, but implausible: the run goes on.
    Warning,
}

/// Problem with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the setting, dotted if nested; empty if the problem concerns the settings as a whole.
    pub setting: String,
    /// Message with the actual and the expected value.
    pub message: String,
    /// Hint for the user.
    pub hint: Option<String>,
    /// Severity of the problem.
    pub severity: Severity,
}

impl Problem {
    /// A problem with `setting`.
    pub fn new(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into(), hint: None, severity: Severity::Error }
    }

    /// A warning about `setting`: its value is possible, but implausible.
    pub fn warning(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::new(setting, message) }
    }

    /// True if the run goes on in spite of the problem.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.severity == Severity::Warning
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
