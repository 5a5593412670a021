//! Results of an evaluation: rows of `metrics`, `summary`, `rankings` and `hubs`.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;

use super::callbacks::Callbacks;
use super::collection::{Direction, RetrievalTask};
use super::confidence_intervals::ConfidenceIntervals;
use super::direction_metrics::{DirectionHits, DirectionMetrics, MetricMean, MetricMeans, mean_of_pools};
use super::ranking::{MethodLabel, Rankings};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::measure::hubs::{DUPLICATED, hs_sum};
use pairloom_kernels::measure::metric::{MetricName, MetricUnit};
use pairloom_kernels::measure::recall::{RecallSummary, rsum};
use pairloom_tables as tables;
use pairloom_tables::metrics::MetricRow;
use pairloom_tables::rankings::RankingScope;
use pairloom_tables::{hubs, rankings, summary};

/// Protocol with the sizes of its first fold.
#[derive(Debug, Clone)]
pub(super) struct ProtocolPools<'p> {
    pub(super) protocol: &'p str,
    pub(super) folds: usize,
    pub(super) n_images: usize,
    pub(super) n_captions: usize,
}

/// Results of an evaluation: all protocols and methods.
#[derive(Debug)]
pub struct EvaluationResults {
    cutoffs: Vec<usize>,
    /// Cut-offs of sums as text, if they are not the usual ones.
    sum_label: Option<String>,
    metrics: Vec<MetricRow>,
    /// One row for each protocol and method, in their order. `hs_sum` is NaN if k-occurrences were not counted.
    pub summary: Vec<summary::SummaryRow>,
}

/// Protocol and method that rows are of.
#[derive(Clone, Copy)]
struct ProtocolMethod<'s> {
    pools: &'s ProtocolPools<'s>,
    label: &'s MethodLabel,
}

impl EvaluationResults {
    pub(super) fn new(cutoffs: &[usize]) -> Self {
        let list = cutoffs.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let sums = (cutoffs != tables::DEFAULT_CUTOFFS).then(|| format!("at {list}"));
        Self { cutoffs: cutoffs.to_vec(), sum_label: sums, metrics: Vec::new(), summary: Vec::new() }
    }

    /// The rows of `metrics`.
    ///
    /// # Errors
    /// None that depends on the results.
    pub fn metrics(&self) -> Result<RecordBatch> {
        tables::metrics::batch(&self.metrics)
    }

    /// The rows of `summary`.
    pub fn summary(&self) -> Result<RecordBatch> {
        summary::batch(&self.cutoffs, &self.summary)
    }

    /// Adds the recalls of a method on a protocol, image to text and text to image: means over the folds.
    pub(super) fn add_recalls(
        &mut self,
        pools: &ProtocolPools<'_>,
        label: &MethodLabel,
        means: [RecallSummary; 2],
        hs_sum: f64,
    ) {
        let rsum = rsum(&means[0], &means[1]);
        let [i2t, t2i] = means.map(|mean| {
            let known = |rank: f64| Some(rank).filter(|rank| !rank.is_nan());
            summary::DirectionSummary { recalls: mean.recalls, medr: known(mean.medr), meanr: known(mean.meanr) }
        });
        self.summary.push(summary::SummaryRow {
            protocol: pools.protocol.to_owned(),
            method: label.method.clone(),
            parameters: label.parameters.clone(),
            transductive: label.transductive,
            n_images: pools.n_images,
            n_captions: pools.n_captions,
            i2t,
            t2i,
            rsum,
            hs_sum,
        });
    }

    /// Adds the metrics of a method on a protocol: those of its folds, image to text and text to image. Every value is
    /// the mean over the folds.
    pub(super) fn add(
        &mut self,
        pools: &ProtocolPools<'_>,
        label: &MethodLabel,
        directions: &[Vec<DirectionMetrics>; 2],
        intervals: ConfidenceIntervals,
    ) -> Result<()> {
        let recalls = |folds: &[DirectionMetrics]| folds.iter().map(|fold| fold.recalls.clone()).collect::<Vec<_>>();
        let means = [mean(pools, &recalls(&directions[0]))?, mean(pools, &recalls(&directions[1]))?];
        let subject = ProtocolMethod { pools, label };
        for (direction, folds) in Direction::BOTH.into_iter().zip(directions) {
            let own: Vec<&MetricMeans> = folds.iter().map(|fold| &fold.means).collect();
            self.add_means(subject, direction, None, &MetricMeans::mean_over_folds(&own));
            let pools = |get: fn(&DirectionMetrics) -> &Vec<(MetricName, f64)>| {
                mean_of_pools(&folds.iter().map(|fold| get(fold).as_slice()).collect::<Vec<_>>())
            };
            for (name, value) in pools(|fold| &fold.rank_metrics) {
                self.add_value(subject, direction.name(), name, None, value, folds[0].n_queries);
            }
            for (number, (relevance, _)) in folds[0].binary_relevance.iter().enumerate() {
                let relevance_means: Vec<&MetricMeans> =
                    folds.iter().map(|fold| &fold.binary_relevance[number].1).collect();
                self.add_means(subject, direction, Some(relevance), &MetricMeans::mean_over_folds(&relevance_means));
            }
            for (name, value) in pools(|fold| &fold.occurrence_metrics) {
                self.add_value(subject, direction.name(), name, None, value, folds[0].n_queries);
            }
        }
        let n_queries = directions.iter().map(|folds| folds[0].n_queries).sum();
        let cutoffs = &self.cutoffs;
        let hs_sum = |variant| {
            hs_sum(directions.iter().flat_map(|folds| cutoffs.iter().map(move |&k| skewness(folds, k, variant))))
        };
        let has_rows =
            directions.iter().flatten().all(|fold| fold_skewness(fold, cutoffs[0], Some(DUPLICATED)).is_some());
        let duplicated = has_rows.then(|| hs_sum(Some(DUPLICATED)));
        let (rsum, hs_sum) = (rsum(&means[0], &means[1]), hs_sum(None));
        for (measure, value, interval) in [("rsum", rsum, intervals.rsum), ("hs_sum", hs_sum, intervals.hs_sum)] {
            let row =
                self.add_value(subject, "both", MetricName::new(measure, MetricUnit::Number), None, value, n_queries);
            row.ci95 = interval;
            self.label_last_sum();
        }
        if let Some(value) = duplicated {
            let name = MetricName { variant: Some(DUPLICATED), ..MetricName::new("hs_sum", MetricUnit::Number) };
            self.add_value(subject, "both", name, None, value, n_queries);
            self.label_last_sum();
        }
        self.add_recalls(pools, label, means, hs_sum);
        Ok(())
    }

    /// Adds the cut-offs to the variant of the last row, a sum, if they are not the usual ones.
    fn label_last_sum(&mut self) {
        if let (Some(sums), Some(row)) = (&self.sum_label, self.metrics.last_mut()) {
            row.variant = Some(row.variant.take().map_or_else(|| sums.clone(), |variant| format!("{variant} {sums}")));
        }
    }

    /// Adds the graded measures of a method on a protocol: those of its folds, image to text and text to image.
    ///
    /// Nsum is the sum of NCS at all cut-offs in both directions, for each variant of NCS.
    pub(super) fn add_graded(
        &mut self,
        pools: &ProtocolPools<'_>,
        label: &MethodLabel,
        relevance: &str,
        directions: &[Vec<MetricMeans>; 2],
    ) {
        let subject = ProtocolMethod { pools, label };
        let means = directions.each_ref().map(|folds| MetricMeans::mean_over_folds(&folds.iter().collect::<Vec<_>>()));
        for (direction, means) in Direction::BOTH.into_iter().zip(&means) {
            self.add_means(subject, direction, Some(relevance), means);
        }
        let cutoffs = self.cutoffs.clone();
        for name in means[0].keys().filter(|name| name.measure == "ncs" && name.k == cutoffs.first().copied()) {
            // For text to image the published code uses only the first images of a split.
            let narrow =
                MetricName { variant: name.variant.map(|variant| variant.trim_end_matches("_whole_split")), ..*name };
            let at = |(means, name): (&BTreeMap<MetricName, MetricMean>, &MetricName)| -> Vec<Option<MetricMean>> {
                cutoffs.iter().map(|&k| means.get(&MetricName { k: Some(k), ..*name }).copied()).collect()
            };
            let all: Option<Vec<MetricMean>> = means.iter().zip([name, &narrow]).flat_map(at).collect();
            if let Some(all) = all {
                let name = MetricName { measure: "nsum", k: None, ..*name };
                let sum = all.iter().map(|mean| mean.percent).sum();
                let n_queries = all[0].n_queries + all[cutoffs.len()].n_queries;
                self.add_value(subject, "both", name, Some(relevance), sum, n_queries);
                self.label_last_sum();
            }
        }
    }

    fn add_means(
        &mut self,
        subject: ProtocolMethod<'_>,
        direction: Direction,
        relevance: Option<&str>,
        means: &BTreeMap<MetricName, MetricMean>,
    ) {
        for (&name, mean) in means {
            let row = self.add_value(subject, direction.name(), name, relevance, mean.percent, mean.n_queries);
            row.ci95 = mean.ci95;
        }
    }

    fn add_value(
        &mut self,
        ProtocolMethod { pools, label }: ProtocolMethod<'_>,
        direction: &'static str,
        name: MetricName,
        relevance: Option<&str>,
        value: f64,
        n_queries: usize,
    ) -> &mut MetricRow {
        let n_items = match direction {
            "i2t" => pools.n_captions,
            "t2i" => pools.n_images,
            _ => pools.n_captions + pools.n_images,
        };
        self.metrics.push(MetricRow {
            protocol: pools.protocol.to_owned(),
            folds: pools.folds,
            method: label.method.clone(),
            parameters: label.parameters.clone(),
            query_bank: label.bank.clone(),
            transductive: label.transductive,
            direction,
            measure: name.measure,
            relevance: relevance.map(str::to_owned),
            variant: name.variant.map(str::to_owned),
            ground_truth: name.ground_truth,
            m: name.m,
            k: name.k,
            value,
            ci95: None,
            n_queries,
            n_items,
        });
        self.metrics.last_mut().expect("a row was added")
    }
}

/// Mean of recalls and ranks over folds.
pub(super) fn mean(pools: &ProtocolPools<'_>, folds: &[RecallSummary]) -> Result<RecallSummary> {
    RecallSummary::mean(folds).ok_or_else(|| Error::internal(format!("protocol `{}` has no folds", pools.protocol)))
}

/// Mean over the folds of the skewness at a cut-off; a fold without k-occurrences counts as 0.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
fn skewness(folds: &[DirectionMetrics], k: usize, variant: Option<&str>) -> f64 {
    folds.iter().map(|fold| fold_skewness(fold, k, variant).unwrap_or(0.0)).sum::<f64>() / folds.len() as f64
}

/// Skewness of a fold at a cut-off, if its k-occurrences are known.
fn fold_skewness(fold: &DirectionMetrics, k: usize, variant: Option<&str>) -> Option<f64> {
    let is_it = |name: &MetricName| name.measure == "hub_skewness" && name.k == Some(k) && name.variant == variant;
    fold.occurrence_metrics.iter().find(|(name, _)| is_it(name)).map(|(_, value)| *value)
}

/// Default number of items of every ranking in the table `rankings`.
pub const DEFAULT_RANKING_DEPTH: usize = 10;
/// Number of queries whose rows are written together.
const QUERIES: usize = 512;

/// Columns of the table `rankings` that depend on settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankingColumns<'c> {
    /// Cut-offs of the columns `hit_K`.
    pub(super) cutoffs: &'c [usize],
    /// Number of items of each ranking.
    pub(super) depth: usize,
}

/// Writes the rankings of the queries that have a match.
pub(super) fn write_rankings(
    callbacks: &mut dyn Callbacks,
    columns: RankingColumns<'_>,
    scope: &RankingScope<'_>,
    task: &RetrievalTask<'_>,
    ranked: &Rankings,
    direction_hits: &DirectionHits,
) -> Result<()> {
    let mut rows = Vec::new();
    let mut hits = direction_hits.hits.iter().peekable();
    for (query, matches) in task.matches.iter().enumerate() {
        // A query without matches has no row.
        if let Some(hits) = hits.next_if(|_| !matches.is_empty()) {
            let top = &ranked.top[query][..columns.depth.min(ranked.top[query].len())];
            let rank = ranked.ranks.get(query).copied().flatten();
            rows.push(rankings::RankingRow {
                query_id: task.query_ids[query],
                image_id: task.image_ids[task.image_of[query]],
                hits: hits.clone(),
                // Kernels count the items before the match.
                rank: rank.map(|rank| rank.rank + 1),
                rank_optimistic: rank.map(|rank| rank.optimistic + 1),
                rank_pessimistic: rank.map(|rank| rank.pessimistic + 1),
                top_ids: top.iter().map(|best| task.item_ids[best.item]).collect(),
                top_scores: top.iter().map(|best| best.score).collect(),
            });
        }
        if rows.len() == QUERIES || query + 1 == task.query_ids.len() {
            callbacks.add_rankings(rankings::batch(columns.cutoffs, scope, &rows)?)?;
            rows.clear();
        }
    }
    Ok(())
}

/// Writes Nₖ of every item at each cut-off.
pub(super) fn write_hubs(
    callbacks: &mut dyn Callbacks,
    cutoffs: &[usize],
    scope: &RankingScope<'_>,
    task: &RetrievalTask<'_>,
    counts: &[(usize, Vec<usize>)],
) -> Result<()> {
    let own = task.matches_per_item();
    let row = |(item, &item_id): (usize, &i64)| hubs::HubRow {
        item_id,
        k_occurrences: counts.iter().map(|(_, item_counts)| item_counts[item]).collect(),
        matches: own[item],
    };
    let rows: Vec<hubs::HubRow> = task.item_ids.iter().enumerate().map(row).collect();
    callbacks.add_hubs(hubs::batch(cutoffs, scope, &rows)?)
}
