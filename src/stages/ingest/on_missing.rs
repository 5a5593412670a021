//! Settings for images whose file is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_stage::Problem;

/// Treatment of images whose file is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMissing {
    /// Stops with an error that names all of them.
    #[default]
    Fail,
    /// Leaves such images and their captions out, with a warning for each image. `max_skipped` limits their share; one image at
    /// least must be left.
    Skip,
}

/// Default of `max_skipped`: the largest share of images that may be left out.
pub(super) fn default_max_skipped() -> f64 {
    0.1
}

/// Returns true for the default of a setting that was added later: leaving it out keeps the keys of older results.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
pub(super) fn is_default_max_skipped(share: &f64) -> bool {
    *share == default_max_skipped()
}

/// Checks the setting `max_skipped` of a form.
pub(super) fn max_skipped_problem(form: &str, on_missing: OnMissing, share: f64) -> Option<Problem> {
    let setting = format!("{form}.max_skipped");
    if !(0.0..=1.0).contains(&share) {
        return Some(Problem::new(setting, format!("got {share}, wanted 0 to 1")));
    }
    (share != default_max_skipped() && on_missing == OnMissing::Fail).then(|| {
        Problem::new(setting, "it limits the images that are left out, but none are")
            .hint("set `on_missing = \"skip\"` too")
    })
}
