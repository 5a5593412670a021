//! Differences between two results of the same queries, with confidence intervals and paired significance tests.

use std::collections::HashMap;

use super::hits::{DIRECTIONS, QueryHits};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::measure::bootstrap::{QueryValues, bootstrap_interval, randomisation_test};

/// Number of bootstrap draws of a confidence interval.
const BOOTSTRAP_DRAWS: usize = 1000;
/// Level of confidence intervals.
const CONFIDENCE_LEVEL: f64 = 0.95;
/// Number of randomisations of a significance test; 10,000 with the observed results.
const RANDOMISATIONS: usize = 9_999;
/// Seed of all draws, fixed so that the same results give the same numbers.
const SEED: u64 = 0;

/// Difference between two results in one measure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Difference {
    pub(super) measure: String,
    /// Values of the result and of the baseline.
    pub(super) values: [f64; 2],
    pub(super) ci95: (f64, f64),
    pub(super) p_value: f64,
    pub(super) wins: usize,
    pub(super) losses: usize,
    pub(super) n_queries: usize,
    pub(super) n_images: usize,
}

/// Checks that both results have the same queries.
///
/// # Errors
/// A query is in only one of the results, or belongs to different images.
fn check_same_queries(hits: &[QueryHits], baseline_hits: &[QueryHits]) -> Result<()> {
    let missing = |from: &[QueryHits], of: &[QueryHits], name: &str| -> Option<Error> {
        let is_missing = |hits: &&QueryHits| from.binary_search_by_key(&hits.query, |other| other.query).is_err();
        let missing: TruncatedList = of.iter().filter(is_missing).map(|hits| hits.query).collect();
        let message = format!("{name} has no {}", missing.join(", "));
        (!missing.is_empty())
            .then(|| Error::data(message).hint("both must be evaluations of the same split of the same data set"))
    };
    if let Some(error) =
        missing(baseline_hits, hits, "the baseline").or_else(|| missing(hits, baseline_hits, "the result"))
    {
        return Err(error);
    }
    match hits.iter().zip(baseline_hits).find(|(one, other)| one.image != other.image) {
        Some((one, other)) => Err(Error::data(format!(
            "{} belongs to image {} in the result, but to image {} in the baseline",
            one.query, one.image, other.image
        ))),
        None => Ok(()),
    }
}

/// Compares two results in all measures: rsum, and each recall. A recall is the mean over folds of the percentage of
/// queries with a hit; rsum is the sum of the recalls at all cut-offs in both directions. An image and its captions are
/// resampled and swapped together, since they are not independent.
///
/// # Shapes
/// - `hits`, `baseline_hits`: hits of each query once, sorted by query
///
/// # Errors
/// The queries are not the same, or there are none. The run was cancelled.
pub(super) fn differences(
    hits: &[QueryHits],
    baseline_hits: &[QueryHits],
    cutoffs: &[usize],
    cancel: &CancelToken,
) -> Result<Vec<Difference>> {
    check_same_queries(hits, baseline_hits)?;
    let mut places = HashMap::new();
    let groups: Vec<usize> = hits
        .iter()
        .map(|hits| {
            let next = places.len();
            *places.entry(hits.image).or_insert(next)
        })
        .collect();
    let of = |direction| (0..cutoffs.len()).map(move |cutoff| (direction, cutoff));
    let recalls: Vec<(usize, usize)> = [0, 1].into_iter().flat_map(of).collect();
    let all = std::iter::once(("rsum".to_owned(), recalls.as_slice()));
    let name = |&(direction, cutoff): &(usize, usize)| format!("{}_r{}", DIRECTIONS[direction], cutoffs[cutoff]);
    let each = recalls.iter().map(|recall| (name(recall), std::slice::from_ref(recall)));
    let both = PairedHits { hits, baseline_hits, groups: &groups, images: places.len() };
    let difference = |(measure, recalls)| cancel.check().and_then(|()| both.difference(measure, recalls));
    all.chain(each).map(difference).collect()
}

/// Two results of the same queries, paired by query.
struct PairedHits<'b> {
    hits: &'b [QueryHits],
    baseline_hits: &'b [QueryHits],
    /// Index of the image of each query, from 0.
    groups: &'b [usize],
    images: usize,
}

impl PairedHits<'_> {
    /// Compares the results in the sum of some recalls: (direction, cut-off).
    #[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
    fn difference(&self, measure: String, recalls: &[(usize, usize)]) -> Result<Difference> {
        let mut values = [0.0; 2];
        let (mut wins, mut losses) = (0, 0);
        // Differences of all queries for each recall and fold; contributions of each query to the measure.
        let mut over_queries: Vec<(Vec<f64>, Vec<usize>)> = Vec::new();
        let mut shares: [Vec<f64>; 2] = Default::default();
        let mut groups = Vec::new();
        let mut queries_per_direction = [0; DIRECTIONS.len()];
        for &(direction, cutoff) in recalls {
            let mut folds: Vec<Vec<usize>> = Vec::new();
            for (place, hits) in self.hits.iter().enumerate().filter(|(_, hits)| hits.query.direction == direction) {
                match folds.last_mut() {
                    Some(fold) if self.hits[fold[0]].query.fold == hits.query.fold => fold.push(place),
                    _ => folds.push(vec![place]),
                }
            }
            if folds.is_empty() {
                return Err(Error::data(format!("no query of direction `{}`", DIRECTIONS[direction])));
            }
            queries_per_direction[direction] = folds.iter().map(Vec::len).sum();
            for fold in &folds {
                let hit = |results: &[QueryHits], place: usize| results[place].hits[cutoff];
                let percent = |hit: bool| if hit { 100.0 / folds.len() as f64 } else { 0.0 };
                for &place in fold {
                    let both = [hit(self.hits, place), hit(self.baseline_hits, place)];
                    wins += usize::from(both == [true, false]);
                    losses += usize::from(both == [false, true]);
                    shares.iter_mut().zip(both).for_each(|(shares, hit)| shares.push(percent(hit) / fold.len() as f64));
                    groups.push(self.groups[place]);
                }
                for (value, results) in values.iter_mut().zip([self.hits, self.baseline_hits]) {
                    let hits = fold.iter().filter(|&&place| hit(results, place)).count();
                    *value += 100.0 * hits as f64 / fold.len() as f64 / folds.len() as f64;
                }
                let difference =
                    |&place: &usize| percent(hit(self.hits, place)) - percent(hit(self.baseline_hits, place));
                let of = fold.iter().map(|&place| self.groups[place]).collect();
                over_queries.push((fold.iter().map(difference).collect(), of));
            }
        }
        let measures: Vec<_> = over_queries.iter().map(|(values, groups)| QueryValues { values, groups }).collect();
        let ci95 = bootstrap_interval(&measures, self.images, BOOTSTRAP_DRAWS, CONFIDENCE_LEVEL, SEED);
        let p_value = randomisation_test(&shares[0], &shares[1], &groups, RANDOMISATIONS, SEED);
        let (Some(ci95), Some(p_value)) = (ci95, p_value) else {
            return Err(Error::internal("no queries to compare"));
        };
        let n_queries = queries_per_direction.iter().sum();
        Ok(Difference { measure, values, ci95, p_value, wins, losses, n_queries, n_images: self.images })
    }
}
