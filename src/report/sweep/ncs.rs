//! Check of the relevance whose NCS a sweep shows.

use super::settings::{METRICS, RELEVANCE, ReportSweep};
use pairloom_base::suggest::quoted_list;
use pairloom_stage::{Problem, TableRef};

/// Relevance whose NCS is shown, after metrics that have NCS by the relevances `there`. `set` is that of the settings, and
/// `known` the same or that of earlier metrics. Without `known` it is the one that is there.
pub(super) fn shown_relevance<'r>(
    metrics: &TableRef,
    set: Option<&str>,
    known: Option<&'r str>,
    there: &[&'r str],
) -> Result<Option<&'r str>, Problem> {
    let problem = ncs_problem(metrics, set, there).or_else(|| ncs_problem(metrics, known, there));
    problem.map_or_else(|| Ok(known.or(there.first().copied())), Err)
}

/// Problem of metrics that have NCS by the relevances `there`: they lack `wanted`, or without it, have several.
fn ncs_problem(metrics: &TableRef, wanted: Option<&str>, there: &[&str]) -> Option<Problem> {
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
    pub fn check_ncs<'s>(&'s self, relevances_of: &dyn Fn(&TableRef) -> Option<Vec<&'s str>>) -> Option<Problem> {
        let mut known = self.relevance.as_deref();
        for metrics in &self.metrics {
            let Some(there) = relevances_of(metrics) else { continue };
            match shown_relevance(metrics, self.relevance.as_deref(), known, &there) {
                Ok(relevance) => known = relevance,
                Err(problem) => return Some(problem),
            }
        }
        None
    }
}
