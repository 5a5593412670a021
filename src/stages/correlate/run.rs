//! Run of `correlate`: correlates every score with the ratings, on every set of pairs.
//!
//! Each rating counts, as published for Flickr8k-Expert, where three people rated each pair: Anderson, Fernando, Johnson,
//! Gould, "SPICE", ECCV 2016; Hessel et al., EMNLP 2021, appendix A (16,992 ratings, tau-c).

use std::collections::BTreeSet;

use arrow::array::{Float64Array, Int64Array, StringArray};
use az::SaturatingAs;

use super::rated_pairs::RatedPairs;
use super::settings::{ALL_PAIRS, Correlate, PairSet, similarity_input};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_kernels::measure::correlation::{is_constant, pearson, spearman};
use pairloom_kernels::measure::kendall::kendall;
use pairloom_stage::{RunnableStage, StageContext};
use pairloom_storage::image_names::shown_name;
use pairloom_tables::{self as tables, Nullable};

/// Row of `correlations`.
struct CorrelationRow {
    score: String,
    pairs: String,
    n_pairs: usize,
    n_ratings: usize,
    /// Pearson, Spearman, tau-b, tau-c.
    coefficients: [f64; 4],
    published: Option<f64>,
}

impl RunnableStage for Correlate {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let rated = RatedPairs::read(cx)?;
        let sets =
            std::iter::once((ALL_PAIRS, None)).chain(self.pairs.iter().map(|(name, of)| (name.as_str(), Some(of))));
        let sets: Vec<(&str, Vec<usize>)> =
            sets.map(|(name, of)| Ok((name, pair_indices(&rated, name, of)?))).collect::<Result<_>>()?;
        for (name, set) in &sets {
            if is_constant(&select(&rated.ratings, set)) {
                let message =
                    format!("all ratings of `{name}` ({}) are the same, so no correlation is defined", set.len());
                return Err(Error::data(message));
            }
        }
        let mut rows = Vec::new();
        for (number, score) in self.scores.iter().enumerate() {
            let values = match &score.sampling {
                Some(sampling) => {
                    check_sampling(&rated, sampling)?;
                    rated.samplings.iter().map(|of| if of == sampling { 1.0 } else { 0.0 }).collect()
                }
                None => rated.similarities(cx, &similarity_input(number))?,
            };
            for (name, set) in &sets {
                cx.check_cancelled()?;
                let (values, ratings) = (select(&values, set), select(&rated.ratings, set));
                let constant = is_constant(&values);
                if constant {
                    let message = format!("is {} for all of `{name}`: its correlation is set to 0", values[0]);
                    cx.warn(format!("score `{}`", score.name), message);
                }
                let tau = kendall(&values, &ratings);
                let coefficients = [
                    pearson(&values, &ratings),
                    spearman(&values, &ratings),
                    tau.map(|tau| tau.tau_b),
                    tau.map(|tau| tau.tau_c),
                ];
                rows.push(CorrelationRow {
                    score: score.name.clone(),
                    pairs: (*name).to_owned(),
                    n_pairs: set.iter().map(|&place| rated.pair_of[place]).collect::<BTreeSet<_>>().len(),
                    n_ratings: set.len(),
                    coefficients: coefficients.map(|coefficient| coefficient.unwrap_or(0.0)),
                    published: score.published.get(*name).copied(),
                });
            }
            cx.progress(number as u64 + 1, Some(self.scores.len() as u64), "scores");
        }
        write(cx, &rows)
    }
}

/// Indices of the ratings of a set of pairs.
fn pair_indices(rated: &RatedPairs, name: &str, of: Option<&PairSet>) -> Result<Vec<usize>> {
    let Some(of) = of else { return Ok((0..rated.ratings.len()).collect()) };
    check_sampling(rated, &of.sampling).map_err(|error| error.context(format!("`pairs.{name}`")))?;
    Ok((0..rated.ratings.len()).filter(|&place| rated.samplings[place] == of.sampling).collect())
}

fn check_sampling(rated: &RatedPairs, wanted: &str) -> Result<()> {
    if rated.samplings.iter().any(|sampling| sampling == wanted) {
        return Ok(());
    }
    let there: BTreeSet<&str> = rated.samplings.iter().map(String::as_str).collect();
    let there: TruncatedList = there.into_iter().map(|sampling| format!("`{}`", shown_name(sampling))).collect();
    Err(Error::data(format!("no pair of `ratings` has the sampling `{wanted}`; there are {}", there.join(", "))))
}

fn select(values: &[f64], places: &[usize]) -> Vec<f64> {
    places.iter().map(|&place| values[place]).collect()
}

fn write(cx: &mut StageContext<'_>, rows: &[CorrelationRow]) -> Result<()> {
    let texts = |get: fn(&CorrelationRow) -> &str| StringArray::from_iter_values(rows.iter().map(get));
    let count = |get: fn(&CorrelationRow) -> usize| {
        Int64Array::from_iter_values(rows.iter().map(|row| get(row).saturating_as::<i64>()))
    };
    let coefficient = |i: usize| Float64Array::from_iter_values(rows.iter().map(|row| row.coefficients[i]));
    let columns = tables::correlations::TableColumns {
        score: texts(|row| &row.score),
        pairs: texts(|row| &row.pairs),
        n_pairs: count(|row| row.n_pairs),
        n_ratings: count(|row| row.n_ratings),
        pearson: coefficient(0),
        spearman: coefficient(1),
        kendall_b: coefficient(2),
        kendall_c: coefficient(3),
        published: Nullable(rows.iter().map(|row| row.published).collect()),
    };
    cx.write("correlations", columns.into_batch()?)
}
