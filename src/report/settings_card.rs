//! Card of a document: settings of a stage or facts of a run, some of them folded.

/// Card of settings.
#[derive(Debug)]
pub(super) struct SettingsCard {
    pub(super) title: String,
    /// Remark beside the title.
    pub(super) remark: String,
    /// Settings that are always visible.
    pub(super) open: Vec<SettingEntry>,
    /// Settings that HTML folds.
    pub(super) folded: Vec<SettingEntry>,
    /// Title of the folded settings.
    pub(super) folded_title: &'static str,
}

/// Setting with its value.
#[derive(Debug)]
pub(super) struct SettingEntry {
    pub(super) name: String,
    pub(super) value: String,
}

impl SettingEntry {
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self { name: name.to_owned(), value: value.to_owned() }
    }
}
