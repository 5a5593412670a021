//! Problems of settings of models and losses.

/// Problems of settings as (name of the setting, message).
pub type SettingProblems = Vec<(String, String)>;
