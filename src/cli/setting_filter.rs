//! Filter of runs by a setting: `--where fit.loss=max`.

use std::collections::BTreeSet;

use pairloom_base::error::{Error, Result};
use pairloom_base::suggest::closest_name;
use pairloom_store::flat_settings::{flatten, is_value};
use pairloom_store::record::RunRecord;

/// Condition on a setting of a stage.
#[derive(Debug)]
pub(super) struct SettingFilter<'t> {
    stage: &'t str,
    setting: &'t str,
    value: &'t str,
}

impl<'t> SettingFilter<'t> {
    /// Conditions of the form `STAGE.SETTING=VALUE` on `runs`.
    ///
    /// # Errors
    /// A condition has another form, or no run has such a setting.
    pub(super) fn parse_all(texts: &'t [String], runs: &[&RunRecord]) -> Result<Vec<Self>> {
        texts.iter().map(|text| Self::parse(text, runs)).collect()
    }

    fn parse(text: &'t str, runs: &[&RunRecord]) -> Result<Self> {
        let parts = text.split_once('=').and_then(|(name, value)| Some((name.trim().split_once('.')?, value.trim())));
        let Some(((stage, setting), value)) = parts else {
            return Err(Error::usage(format!("`--where {text}`: wanted `STAGE.SETTING=VALUE`"))
                .hint("for example `--where fit.loss=max`; `pairloom show RUN STAGE` lists settings"));
        };
        let filter = Self { stage, setting, value };
        // Runs without settings may have had it.
        let is_known = runs.iter().any(|run| filter.is_unknown(run) || filter.found(run, |_| true));
        if is_known || runs.is_empty() { Ok(filter) } else { Err(filter.unknown_setting(text, runs)) }
    }

    /// True if the run has this value of the setting.
    pub(super) fn holds(&self, run: &RunRecord) -> bool {
        self.found(run, |value| is_value(value, self.value))
    }

    /// True if the run has the stage, but its settings are not recorded.
    pub(super) fn is_unknown(&self, run: &RunRecord) -> bool {
        run.stage(self.stage).is_some_and(|stage| stage.identity.is_none())
    }

    fn found(&self, run: &RunRecord, is_wanted: impl Fn(&serde_json::Value) -> bool) -> bool {
        let identity = run.stage(self.stage).and_then(|stage| stage.identity.as_ref());
        identity.is_some_and(|identity| flatten(&identity.settings).get(self.setting).is_some_and(is_wanted))
    }

    fn unknown_setting(&self, text: &str, runs: &[&RunRecord]) -> Error {
        let Self { stage, setting, .. } = self;
        let stages = || runs.iter().flat_map(|run| &run.stages);
        if !stages().any(|of| of.name == *stage) {
            let error = Error::usage(format!("`--where {text}`: no run has a stage `{stage}`"));
            let names: BTreeSet<&str> = stages().map(|stage| stage.name.as_str()).collect();
            return match closest_name(stage, names) {
                Some(close) => error.hint(format!("did you mean `{close}.{setting}`?")),
                None => error.hint("`pairloom show RUN` lists the stages of a run"),
            };
        }
        let identities = stages().filter(|of| of.name == *stage).filter_map(|of| of.identity.as_ref());
        let settings: BTreeSet<String> = identities.flat_map(|of| flatten(&of.settings).into_keys()).collect();
        let error = Error::usage(format!("`--where {text}`: no run has a setting `{setting}` of the stage `{stage}`"));
        match closest_name(setting, settings.iter().map(String::as_str)) {
            Some(close) => error.hint(format!("did you mean `{stage}.{close}`?")),
            None => error.hint(format!("`pairloom show RUN {stage}` lists the settings of this stage")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use pairloom_store::Store;
    use pairloom_store::testing::{finished_run, stage};

    #[test]
    fn a_filter_compares_numbers_and_refuses_unknown_settings() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let settings = json!({ "learning_rate": 0.001, "loss": { "max": { "margin": 0.2 } } });
        let run = finished_run(&store, "20260101T000000.000Z-0001", "p.toml", &[stage("fit", "train", settings, &[])]);
        let holds = |text: &str| {
            let texts = [text.to_owned()];
            let filters = SettingFilter::parse_all(&texts, &[&run])?;
            Ok::<bool, Error>(filters.iter().all(|filter| filter.holds(&run)))
        };
        assert!(holds("fit.learning_rate=1e-3").unwrap() && holds("fit.loss=max").unwrap());
        assert!(holds("fit.loss.margin = 0.20").unwrap() && !holds("fit.loss=sum").unwrap());
        let hint = |text: &str| holds(text).unwrap_err().hint_text().unwrap().to_owned();
        assert_eq!(hint("fit.learningrate=1e-3"), "did you mean `fit.learning_rate`?");
        assert_eq!(hint("fitt.loss=max"), "did you mean `fit.loss`?");
        assert_eq!(hint("fit.seed=3"), "`pairloom show RUN fit` lists the settings of this stage");
        assert!(hint("loss").contains("--where fit.loss=max"));
    }
}
