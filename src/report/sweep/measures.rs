//! Measures of the columns of a sweep's table, and the relevance whose NCS it shows.

use super::settings::{METRICS, RELEVANCE, ReportSweep};
use crate::page_data::{NcsSummary, ResultRow};
use pairloom_base::suggest::quoted_list;
use pairloom_retrieval::Direction;
use pairloom_stage::{KnownFacts, Problem, TableRef};
use pairloom_tables::metrics::NcsRelevances;

/// Measure of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepMeasure {
    /// Recall at the cut-off `k`, in percent. `place` is the place of `k` among the cut-offs.
    Recall { direction: usize, place: usize, k: usize },
    /// Median rank of a direction, from 1.
    MedianRank(usize),
    /// Mean rank of a direction, from 1.
    MeanRank(usize),
    /// Sum of the recalls.
    Rsum,
    /// Sum of the hubness skewness.
    HsSum,
    /// NCS at the cut-off `k`, in percent. `place` is the place of `k` among the cut-offs.
    Ncs { direction: usize, place: usize, k: usize },
    /// Sum of NCS.
    Nsum,
    /// Sum of NCS without the query's own matches.
    NsumNonGt,
    /// Images that are the best one of no caption (0), of one (1), or of at least this number, in percent. An image counts
    /// once for each of its captions.
    OccurrenceRate(i64),
}

impl SweepMeasure {
    /// Recalls of both directions, rsum, and hs-sum.
    pub(super) fn recalls(cutoffs: &[usize]) -> Vec<Self> {
        let recalls =
            |direction: usize| cutoffs.iter().enumerate().map(move |(place, &k)| Self::Recall { direction, place, k });
        recalls(0).chain(recalls(1)).chain([Self::Rsum, Self::HsSum]).collect()
    }

    /// Ranks of both directions.
    pub(super) fn ranks() -> Vec<Self> {
        (0..2).flat_map(|direction| [Self::MedianRank(direction), Self::MeanRank(direction)]).collect()
    }

    /// NCS of both directions, and their sums.
    pub(super) fn ncs(cutoffs: &[usize]) -> Vec<Self> {
        let ncs_at =
            |direction: usize| cutoffs.iter().enumerate().map(move |(place, &k)| Self::Ncs { direction, place, k });
        ncs_at(0).chain(ncs_at(1)).chain([Self::Nsum, Self::NsumNonGt]).collect()
    }

    /// k-occurrences that papers print.
    pub(super) fn occurrence_rates() -> Vec<Self> {
        [0, 1, 2, 5, 10].map(Self::OccurrenceRate).to_vec()
    }

    /// Value of a result; NaN where there is none.
    pub(super) fn value(self, result: &ResultRow) -> f64 {
        let ncs = |value: fn(&NcsSummary) -> f64| result.ncs.as_ref().map_or(f64::NAN, value);
        match self {
            Self::Ncs { direction, place, .. } => result.ncs.as_ref().map_or(f64::NAN, |ncs| ncs.at[direction][place]),
            Self::Nsum => ncs(|ncs| ncs.sum),
            Self::NsumNonGt => ncs(|ncs| ncs.sum_non_gt),
            Self::Recall { direction, place, .. } => result.directions[direction].recalls[place],
            Self::MedianRank(direction) => result.directions[direction].medr,
            Self::MeanRank(direction) => result.directions[direction].meanr,
            Self::Rsum => result.rsum,
            Self::HsSum => result.hs_sum,
            Self::OccurrenceRate(m) => {
                result.occurrence_rates.iter().find(|(count, _)| *count == m).map_or(f64::NAN, |(_, rate)| *rate)
            }
        }
    }

    /// Heading of the column.
    pub(super) fn heading(self) -> String {
        match self {
            Self::Recall { k, .. } => format!("R@{k}"),
            Self::MedianRank(_) => "med r".to_owned(),
            Self::MeanRank(_) => "mean r".to_owned(),
            Self::Rsum => "rsum".to_owned(),
            Self::HsSum => "hs-sum".to_owned(),
            Self::Ncs { k, .. } => format!("NCS@{k}"),
            Self::Nsum => "Nsum".to_owned(),
            Self::NsumNonGt => "Nsum(N)".to_owned(),
            Self::OccurrenceRate(m @ (0 | 1)) => m.to_string(),
            Self::OccurrenceRate(m) => format!("{m} or more"),
        }
    }

    /// Direction, for a measure of one.
    pub(super) fn direction(self) -> Option<usize> {
        match self {
            Self::Recall { direction, .. }
            | Self::Ncs { direction, .. }
            | Self::MedianRank(direction)
            | Self::MeanRank(direction) => Some(direction),
            Self::OccurrenceRate(_) => Some(1),
            Self::Rsum | Self::HsSum | Self::Nsum | Self::NsumNonGt => None,
        }
    }

    /// Column of the table `published`.
    pub(super) fn published_column(self) -> String {
        let column = |direction: usize, measure: &str| format!("{}_{measure}", Direction::BOTH[direction].name());
        match self {
            Self::Recall { direction, k, .. } => column(direction, &format!("r{k}")),
            Self::MedianRank(direction) => column(direction, "medr"),
            Self::MeanRank(direction) => column(direction, "meanr"),
            Self::Rsum => "rsum".to_owned(),
            Self::HsSum => "hs_sum".to_owned(),
            Self::Ncs { direction, k, .. } => column(direction, &format!("ncs{k}")),
            Self::Nsum => "nsum".to_owned(),
            Self::NsumNonGt => "nsum_non_gt".to_owned(),
            Self::OccurrenceRate(m) => format!("k_occurrence_rate_{m}"),
        }
    }

    /// Distance from the ideal value, up to a constant: the smaller the better. `None` for a measure without an ideal.
    pub(super) fn cost(self, value: f64) -> Option<f64> {
        Some(match self {
            Self::Recall { .. } | Self::Rsum | Self::Ncs { .. } | Self::Nsum | Self::NsumNonGt => -value,
            Self::MedianRank(_) | Self::MeanRank(_) => value,
            Self::HsSum => value.abs(),
            // Fewer items of one number of queries are more of another.
            Self::OccurrenceRate(_) => return None,
        })
    }

    /// Text of a value, with the decimals of papers.
    pub(super) fn text(self, value: f64) -> String {
        if self == Self::HsSum { format!("{value:.2}") } else { format!("{value:.1}") }
    }
}

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

/// Problem of metrics that have NCS by the relevances `there`: they lack `chosen`, or without it, have several.
fn ncs_problem(metrics: &TableRef, chosen: Option<&str>, there: &[&str]) -> Option<Problem> {
    let names = quoted_list(there.iter().copied());
    let (setting, message, hint) = match chosen {
        Some(_) if there.is_empty() => {
            (METRICS, format!("`{metrics}` has no NCS"), "`evaluate` measures it for a `relevance` with a `similarity`")
        }
        Some(chosen) if !there.contains(&chosen) => (
            RELEVANCE,
            format!("`{metrics}` has no NCS by `{chosen}`; it has NCS by {names}"),
            "`sweep.relevance` is the name of a relevance of `evaluate`",
        ),
        None if there.len() > 1 => (
            RELEVANCE,
            format!("`{metrics}` has NCS by {names}, expected one"),
            "name the relevance: `sweep.relevance`",
        ),
        _ => return None,
    };
    Some(Problem::new(setting, message).hint(hint))
}

impl ReportSweep {
    /// Problem of the first metrics without the NCS that is shown.
    pub(crate) fn check_ncs(&self, known: &KnownFacts) -> Option<Problem> {
        let mut shown = self.relevance.as_deref();
        for metrics in &self.metrics {
            let Some(NcsRelevances(there)) = known.get(metrics) else { continue };
            let there: Vec<&str> = there.iter().map(String::as_str).collect();
            match shown_relevance(metrics, self.relevance.as_deref(), shown, &there) {
                Ok(relevance) => shown = relevance,
                Err(problem) => return Some(problem),
            }
        }
        None
    }
}
