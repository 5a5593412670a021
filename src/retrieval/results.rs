//! Rows of `metrics` and `summary`.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;

use super::direction::Direction;
use super::intervals::Intervals;
use super::label::Label;
use super::means::{Mean, Means, of_pools};
use super::measure::Measured;
use crate::error::{Error, Result};
use crate::kernels::measure::hubs::hs_sum;
use crate::kernels::measure::interval::wilson_95;
use crate::kernels::measure::metric::{Name, Unit};
use crate::kernels::measure::recall::{Retrieval, rsum};
use crate::tables;
use crate::tables::metrics::Row;
use crate::tables::summary;

/// A protocol and the pools of its folds; their sizes are those of the first fold.
#[derive(Debug, Clone)]
pub(super) struct Pools<'p> {
    pub(super) protocol: &'p str,
    pub(super) folds: usize,
    pub(super) n_images: usize,
    pub(super) n_captions: usize,
}

/// Results of all protocols and methods.
#[derive(Debug)]
pub struct Results {
    cutoffs: Vec<usize>,
    /// Which cut-offs sums are made of, where they are not the usual ones.
    sums: Option<String>,
    metrics: Vec<Row>,
    /// One row a protocol and method, in their order. `hs_sum` is not a number where hubs were not counted.
    pub summary: Vec<summary::Row>,
}

/// A method on the pools of a protocol.
#[derive(Clone, Copy)]
struct Subject<'s> {
    pools: &'s Pools<'s>,
    label: &'s Label,
}

impl Results {
    pub(super) fn new(cutoffs: &[usize]) -> Self {
        let list = cutoffs.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let sums = (cutoffs != tables::CUTOFFS).then(|| format!("at {list}"));
        Self { cutoffs: cutoffs.to_vec(), sums, metrics: Vec::new(), summary: Vec::new() }
    }

    /// The rows of `metrics`.
    ///
    /// # Errors
    /// None that results could cause.
    pub fn metrics(&self) -> Result<RecordBatch> {
        tables::metrics::rows(&self.metrics)
    }

    /// The rows of `summary`.
    ///
    /// # Errors
    /// As [`Results::metrics`].
    pub fn summary(&self) -> Result<RecordBatch> {
        summary::rows(&self.cutoffs, &self.summary)
    }

    /// Adds the recalls of a method on a protocol, image to text and text to image: means over the folds.
    pub(super) fn add_recalls(&mut self, pools: &Pools<'_>, label: &Label, means: [Retrieval; 2], hs_sum: f64) {
        let rsum = rsum(&means[0], &means[1]);
        let [i2t, t2i] = means.map(|of| {
            let known = |rank: f64| Some(rank).filter(|rank| !rank.is_nan());
            summary::Direction { recalls: of.recalls, medr: known(of.medr), meanr: known(of.meanr) }
        });
        self.summary.push(summary::Row {
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

    /// Adds a method on a protocol: what its folds gave, image to text and text to image. Every statistic is the mean over the
    /// folds.
    pub(super) fn add(
        &mut self,
        pools: &Pools<'_>,
        label: &Label,
        directions: &[Vec<Measured>; 2],
        intervals: Intervals,
    ) -> Result<()> {
        let retrieval = |folds: &[Measured]| folds.iter().map(|fold| fold.retrieval.clone()).collect::<Vec<_>>();
        let means = [mean(pools, &retrieval(&directions[0]))?, mean(pools, &retrieval(&directions[1]))?];
        let subject = Subject { pools, label };
        for (direction, folds) in Direction::BOTH.into_iter().zip(directions) {
            let own: Vec<&Means> = folds.iter().map(|fold| &fold.means).collect();
            self.add_means(subject, direction, None, &Means::over_folds(&own));
            let pools = |get: fn(&Measured) -> &Vec<(Name, f64)>| {
                of_pools(&folds.iter().map(|fold| get(fold).as_slice()).collect::<Vec<_>>())
            };
            for (name, value) in pools(|fold| &fold.of_ranks) {
                self.add_value(subject, direction.name(), name, None, value, folds[0].n_queries);
            }
            for (number, (relevance, _)) in folds[0].rated.iter().enumerate() {
                let rated: Vec<&Means> = folds.iter().map(|fold| &fold.rated[number].1).collect();
                self.add_means(subject, direction, Some(relevance), &Means::over_folds(&rated));
            }
            for (name, value) in pools(|fold| &fold.of_occurrences) {
                self.add_value(subject, direction.name(), name, None, value, folds[0].n_queries);
            }
        }
        let n_queries = directions.iter().map(|folds| folds[0].n_queries).sum();
        let cutoffs = &self.cutoffs;
        let skewness = directions.iter().flat_map(|folds| cutoffs.iter().map(|&k| skewness(folds, k)));
        let (rsum, hs_sum) = (rsum(&means[0], &means[1]), hs_sum(skewness));
        for (measure, value, interval) in [("rsum", rsum, intervals.rsum), ("hs_sum", hs_sum, intervals.hs_sum)] {
            let row = self.add_value(subject, "both", Name::new(measure, Unit::Number), None, value, n_queries);
            row.ci95 = interval;
            self.name_sum();
        }
        self.add_recalls(pools, label, means, hs_sum);
        Ok(())
    }

    /// Says of the last row, a sum, which cut-offs it is of.
    fn name_sum(&mut self) {
        if let (Some(sums), Some(row)) = (&self.sums, self.metrics.last_mut()) {
            row.variant = Some(row.variant.take().map_or_else(|| sums.clone(), |variant| format!("{variant} {sums}")));
        }
    }

    /// Adds what a graded relevance says of a protocol: its folds, image to text and text to image.
    ///
    /// Nsum is the sum of NCS at all cut-offs in both directions, for each way to compute NCS.
    pub(super) fn add_graded(
        &mut self,
        pools: &Pools<'_>,
        label: &Label,
        relevance: &str,
        directions: &[Vec<Means>; 2],
    ) {
        let subject = Subject { pools, label };
        let means = directions.each_ref().map(|folds| Means::over_folds(&folds.iter().collect::<Vec<_>>()));
        for (direction, means) in Direction::BOTH.into_iter().zip(&means) {
            self.add_means(subject, direction, Some(relevance), means);
        }
        let cutoffs = self.cutoffs.clone();
        for name in means[0].keys().filter(|name| name.measure == "ncs" && name.k == cutoffs.first().copied()) {
            // Text to image, the first images of a split are all that the published code knows.
            let narrow =
                Name { variant: name.variant.map(|variant| variant.trim_end_matches("_whole_split")), ..*name };
            let at = |(means, of): (&BTreeMap<Name, Mean>, &Name)| -> Vec<Option<Mean>> {
                cutoffs.iter().map(|&k| means.get(&Name { k: Some(k), ..*of }).copied()).collect()
            };
            let all: Option<Vec<Mean>> = means.iter().zip([name, &narrow]).flat_map(at).collect();
            if let Some(all) = all {
                let name = Name { measure: "nsum", k: None, ..*name };
                let sum = all.iter().map(|mean| mean.percent).sum();
                let n_queries = all[0].n_queries + all[cutoffs.len()].n_queries;
                self.add_value(subject, "both", name, Some(relevance), sum, n_queries);
                self.name_sum();
            }
        }
    }

    fn add_means(
        &mut self,
        subject: Subject<'_>,
        direction: Direction,
        relevance: Option<&str>,
        means: &BTreeMap<Name, Mean>,
    ) {
        for (&name, mean) in means {
            let row = self.add_value(subject, direction.name(), name, relevance, mean.percent, mean.n_queries);
            if name.unit == Unit::Proportion {
                row.ci95 = Some(wilson_95(mean.percent, mean.n_all));
            }
        }
    }

    fn add_value(
        &mut self,
        Subject { pools, label }: Subject<'_>,
        direction: &'static str,
        name: Name,
        relevance: Option<&str>,
        value: f64,
        n_queries: usize,
    ) -> &mut Row {
        let n_items = match direction {
            "i2t" => pools.n_captions,
            "t2i" => pools.n_images,
            _ => pools.n_captions + pools.n_images,
        };
        self.metrics.push(Row {
            protocol: pools.protocol.to_owned(),
            folds: pools.folds,
            method: label.method.clone(),
            parameters: label.parameters.clone(),
            bank: label.bank.clone(),
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

/// The mean of recalls and ranks over folds.
pub(super) fn mean(pools: &Pools<'_>, folds: &[Retrieval]) -> Result<Retrieval> {
    Retrieval::mean(folds).ok_or_else(|| Error::internal(format!("protocol `{}` has no folds", pools.protocol)))
}

/// The mean over the folds of the skewness at a cut-off; 0 of one in which nothing is found.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
fn skewness(folds: &[Measured], k: usize) -> f64 {
    let is_it = |name: &Name| name.measure == "hub_skewness" && name.k == Some(k);
    let of =
        |fold: &Measured| fold.of_occurrences.iter().find(|(name, _)| is_it(name)).map_or(0.0, |(_, value)| *value);
    folds.iter().map(of).sum::<f64>() / folds.len() as f64
}
