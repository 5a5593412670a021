//! Check of the relevance whose NCS a sweep shows.

use super::settings::{METRICS, RELEVANCE, ReportSweep};
use crate::stage::{Problem, TableRef};
use crate::suggest::quoted_list;

/// Problem of metrics that have NCS by the relevances `there`: they lack `wanted`, or without it, have several.
pub(super) fn ncs_problem(metrics: &TableRef, wanted: Option<&str>, there: &[&str]) -> Option<Problem> {
    let names = quoted_list(there.iter().copied());
    let (setting, message, hint) = match wanted {
        Some(_) if there.is_empty() => {
            (METRICS, format!("`{metrics}` has no NCS"), "`evaluate` measures it for a `relevance` with a `similarity`")
        }
        Some(wanted) if !there.contains(&wanted) => (
            RELEVANCE,
            format!("`{metrics}` has no NCS by `{wanted}`; it has NCS by {names}"),
            "`sweep.relevance` is the name of a relevance of `evaluate`",
        ),
        None if there.len() > 1 => {
            (RELEVANCE, format!("`{metrics}` has NCS by {names}, wanted one"), "name the relevance: `sweep.relevance`")
        }
        _ => return None,
    };
    Some(Problem::new(setting, message).hint(hint))
}

impl ReportSweep {
    /// Problem of the first metrics without the NCS that is shown. `relevances_of` finds the relevances that a table of
    /// metrics has NCS by, if they are known.
    pub(crate) fn check_ncs<'s>(&self, relevances_of: &dyn Fn(&TableRef) -> Option<Vec<&'s str>>) -> Option<Problem> {
        let wanted = self.relevance.as_deref();
        let mut all = self.metrics.iter().filter_map(|metrics| Some((metrics, relevances_of(metrics)?)));
        // Without a setting, the relevance of the first metrics is that of all.
        let first = all.clone().next().and_then(|(_, there)| there.first().copied());
        all.find_map(|(metrics, there)| {
            ncs_problem(metrics, wanted, &there).or_else(|| ncs_problem(metrics, wanted.or(first), &there))
        })
    }
}
