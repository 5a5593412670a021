//! The work of `correlate`: every score with every set of pairs.

use std::collections::BTreeSet;

use arrow::array::{Float64Array, Int64Array, StringArray};
use az::SaturatingAs;

use super::pairs::RatedPairs;
use super::settings::{ALL, Correlate, Pairs, input};
use crate::error::{Error, Result};
use crate::kernels::measure::correlation::{is_constant, pearson, spearman};
use crate::kernels::measure::kendall::kendall;
use crate::stage::{Cx, Run};
use crate::tables::{self, Optional};

/// A row of `correlations`.
struct Row {
    score: String,
    pairs: String,
    n: usize,
    /// Pearson, Spearman, tau-b, tau-c.
    coefficients: [f64; 4],
    published: Option<f64>,
}

impl Run for Correlate {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let rated = RatedPairs::read(cx)?;
        let sets = std::iter::once((ALL, None)).chain(self.pairs.iter().map(|(name, of)| (name.as_str(), Some(of))));
        let sets: Vec<(&str, Vec<usize>)> =
            sets.map(|(name, of)| Ok((name, members(&rated, name, of)?))).collect::<Result<_>>()?;
        for (name, set) in &sets {
            if is_constant(&pick(&rated.ratings, set)) {
                let message =
                    format!("all of `{name}` ({} pairs) have one rating, so nothing can agree with it", set.len());
                return Err(Error::data(message));
            }
        }
        let mut rows = Vec::new();
        for (number, score) in self.scores.iter().enumerate() {
            let values = match &score.sampling {
                Some(sampling) => {
                    sampling_exists(&rated, sampling)?;
                    rated.samplings.iter().map(|of| if of == sampling { 1.0 } else { 0.0 }).collect()
                }
                None => rated.similarities(cx, &input(number))?,
            };
            for (name, set) in &sets {
                cx.proceed()?;
                let (values, ratings) = (pick(&values, set), pick(&rated.ratings, set));
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
                rows.push(Row {
                    score: score.name.clone(),
                    pairs: (*name).to_owned(),
                    n: set.len(),
                    coefficients: coefficients.map(|coefficient| coefficient.unwrap_or(0.0)),
                    published: score.published.get(*name).copied(),
                });
            }
            cx.progress(number as u64 + 1, Some(self.scores.len() as u64));
        }
        write(cx, &rows)
    }
}

/// Places of the pairs of a set.
fn members(rated: &RatedPairs, name: &str, of: Option<&Pairs>) -> Result<Vec<usize>> {
    let Some(of) = of else { return Ok((0..rated.ratings.len()).collect()) };
    sampling_exists(rated, &of.sampling).map_err(|error| error.context(format!("`pairs.{name}`")))?;
    Ok((0..rated.ratings.len()).filter(|&place| rated.samplings[place] == of.sampling).collect())
}

fn sampling_exists(rated: &RatedPairs, wanted: &str) -> Result<()> {
    if rated.samplings.iter().any(|sampling| sampling == wanted) {
        return Ok(());
    }
    let there: BTreeSet<&str> = rated.samplings.iter().map(String::as_str).collect();
    let there: Vec<String> = there.iter().map(|sampling| format!("`{sampling}`")).collect();
    Err(Error::data(format!("no pair of `ratings` has the sampling `{wanted}`; there are {}", there.join(", "))))
}

fn pick(values: &[f64], places: &[usize]) -> Vec<f64> {
    places.iter().map(|&place| values[place]).collect()
}

fn write(cx: &mut Cx<'_>, rows: &[Row]) -> Result<()> {
    let texts = |get: fn(&Row) -> &str| StringArray::from_iter_values(rows.iter().map(get));
    let coefficient = |i: usize| Float64Array::from_iter_values(rows.iter().map(|row| row.coefficients[i]));
    let columns = tables::correlations::Columns {
        score: texts(|row| &row.score),
        pairs: texts(|row| &row.pairs),
        n: Int64Array::from_iter_values(rows.iter().map(|row| row.n.saturating_as::<i64>())),
        pearson: coefficient(0),
        spearman: coefficient(1),
        kendall_b: coefficient(2),
        kendall_c: coefficient(3),
        published: Optional(rows.iter().map(|row| row.published).collect()),
    };
    cx.write("correlations", columns.into_batch()?)
}
