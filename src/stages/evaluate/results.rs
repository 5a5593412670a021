//! Rows of `metrics` and `summary`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};

use super::label::{self, Label};
use super::means::{Mean, Means, Name};
use super::rows::{Direction, floats, int, ints, texts};
use crate::error::{Error, Result};
use crate::kernels::measure::hubs::{Hubs, NeighbourTable, hs_sum};
use crate::kernels::measure::interval::wilson_95;
use crate::kernels::measure::recall::{CUTOFFS, Retrieval, rsum};
use crate::tables;

/// A protocol and the pools of its folds; their sizes are those of the first fold.
#[derive(Debug, Clone)]
pub(super) struct Pools {
    pub(super) protocol: String,
    pub(super) folds: usize,
    pub(super) n_images: usize,
    pub(super) n_captions: usize,
}

/// What one direction of one fold gave.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    /// Median and mean rank are not numbers where a matching gave sets.
    pub(super) retrieval: Retrieval,
    /// Hubs at each of [`CUTOFFS`]; `None` where nothing is found.
    pub(super) hubs: [Option<Hubs>; 3],
    /// How many queries have an item as their nearest; and with a row of the items for each of their own queries.
    pub(super) found_by: [NeighbourTable; 2],
    /// Recall and other measures of the queries' own matches.
    pub(super) means: Means,
    /// The same of pairs that people rated, by the name of the relevance.
    pub(super) rated: Vec<(String, Means)>,
    pub(super) n_queries: usize,
}

/// Results of all protocols.
#[derive(Debug, Default)]
pub(super) struct Results {
    metrics: Vec<Metric>,
    summaries: Vec<Summary>,
}

/// A row of `summary`.
#[derive(Debug)]
struct Summary {
    pools: Pools,
    label: Label,
    directions: [Retrieval; 2],
    rsum: f64,
    hs_sum: f64,
}

#[derive(Debug)]
struct Metric {
    label: Label,
    protocol: String,
    folds: usize,
    direction: &'static str,
    name: Name,
    relevance: Option<String>,
    value: f64,
    interval: Option<(f64, f64)>,
    n_queries: usize,
    n_items: usize,
}

impl Results {
    /// Adds a method on a protocol: what its folds gave, image to text and text to image. Every statistic is the mean over the
    /// folds; `intervals` are those of rsum and of hs-sum.
    pub(super) fn add(
        &mut self,
        pools: &Pools,
        label: &Label,
        directions: &[Vec<Measured>; 2],
        intervals: [Option<(f64, f64)>; 2],
    ) -> Result<()> {
        let mean = |folds: &[Measured]| {
            let retrievals: Vec<Retrieval> = folds.iter().map(|fold| fold.retrieval).collect();
            Retrieval::mean(&retrievals)
                .ok_or_else(|| Error::internal(format!("protocol `{}` has no folds", pools.protocol)))
        };
        let means = [mean(&directions[0])?, mean(&directions[1])?];
        let subject = (pools, label);
        for ((direction, folds), retrieval) in Direction::BOTH.into_iter().zip(directions).zip(means) {
            let own: Vec<&Means> = folds.iter().map(|fold| &fold.means).collect();
            self.add_means(subject, direction, None, &Means::over_folds(&own));
            let ranks = [("medr", retrieval.medr), ("meanr", retrieval.meanr)];
            for (measure, value) in ranks.into_iter().filter(|(_, value)| !value.is_nan()) {
                self.add_value(subject, direction.name(), Name::new(measure, None), None, value, folds[0].n_queries);
            }
            for (number, (relevance, _)) in folds[0].rated.iter().enumerate() {
                let rated: Vec<&Means> = folds.iter().map(|fold| &fold.rated[number].1).collect();
                self.add_means(subject, direction, Some(relevance), &Means::over_folds(&rated));
            }
            self.add_hubs(subject, direction, folds);
        }
        let n_queries = directions.iter().map(|folds| folds[0].n_queries).sum();
        let skewness = directions.iter().flat_map(|folds| CUTOFFS.iter().enumerate().map(|(k, _)| skewness(folds, k)));
        let (rsum, hs_sum) = (rsum(&means[0], &means[1]), hs_sum(skewness));
        for ((measure, value), interval) in [("rsum", rsum), ("hs_sum", hs_sum)].into_iter().zip(intervals) {
            self.add_value(subject, "both", Name::new(measure, None), None, value, n_queries);
            if let Some(metric) = self.metrics.last_mut() {
                metric.interval = interval;
            }
        }
        let (pools, label) = (pools.clone(), label.clone());
        self.summaries.push(Summary { pools, label, directions: means, rsum, hs_sum });
        Ok(())
    }

    /// Adds what Nₖ says of one direction: means over the folds.
    #[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
    fn add_hubs(&mut self, subject: (&Pools, &Label), direction: Direction, folds: &[Measured]) {
        let mean = |get: &dyn Fn(&Measured) -> f64| folds.iter().map(get).sum::<f64>() / folds.len() as f64;
        let mut add = |name: Name, value: f64| {
            self.add_value(subject, direction.name(), name, None, value, folds[0].n_queries);
        };
        for (place, &k) in
            CUTOFFS.iter().enumerate().filter(|&(place, _)| folds.iter().all(|fold| fold.hubs[place].is_some()))
        {
            let of = |get: fn(&Hubs) -> f64| mean(&|fold: &Measured| fold.hubs[place].as_ref().map_or(0.0, get));
            for (measure, value) in [
                ("hub_skewness", of(|hubs| hubs.skewness)),
                ("robin_hood", of(|hubs| hubs.robin_hood)),
                ("antihub_rate", 100.0 * of(|hubs| hubs.antihub_rate)),
                ("hub_rate", 100.0 * of(|hubs| hubs.hub_rate)),
                ("hub_occurrence", 100.0 * of(|hubs| hubs.hub_occurrence)),
                ("hub_gini", of(|hubs| hubs.gini)),
                ("largest_hub", of(|hubs| hubs.largest as f64)),
            ] {
                add(Name::new(measure, Some(k)), value);
            }
        }
        let duplicated = folds.iter().any(|fold| fold.found_by[1] != fold.found_by[0]);
        let tables = 1 + usize::from(duplicated);
        for (place, m) in [0, 1, 2, 5, 10].into_iter().enumerate() {
            for (variant, table) in [(None, 0), (Some("duplicated"), 1)].into_iter().take(tables) {
                let share = |fold: &Measured| {
                    let of = &fold.found_by[table];
                    let count = [of.none, of.one, of.two, of.five, of.ten][place];
                    100.0 * count as f64 / of.items.max(1) as f64
                };
                add(Name { variant, m: Some(m), ..Name::new("found_by", Some(1)) }, mean(&share));
            }
        }
    }

    /// Adds what a graded relevance says of a protocol: its folds, image to text and text to image.
    ///
    /// Nsum is the sum of NCS at 1, 5 and 10 in both directions, for each way to compute NCS.
    pub(super) fn add_graded(&mut self, pools: &Pools, label: &Label, relevance: &str, directions: &[Vec<Means>; 2]) {
        let subject = (pools, label);
        let means = directions.each_ref().map(|folds| Means::over_folds(&folds.iter().collect::<Vec<_>>()));
        for (direction, means) in Direction::BOTH.into_iter().zip(&means) {
            self.add_means(subject, direction, Some(relevance), means);
        }
        for name in means[0].keys().filter(|name| name.measure == "ncs" && name.k == Some(CUTOFFS[0])) {
            // Text to image, the first images of a split are all that the published code knows.
            let narrow =
                Name { variant: name.variant.map(|variant| variant.trim_end_matches("_whole_split")), ..*name };
            let at = |(means, of): (&BTreeMap<Name, Mean>, &Name)| {
                CUTOFFS.map(|k| means.get(&Name { k: Some(k), ..*of }).copied())
            };
            let six: Option<Vec<Mean>> = means.iter().zip([name, &narrow]).flat_map(at).collect();
            if let Some(six) = six {
                let name = Name { measure: "nsum", k: None, ..*name };
                let sum = six.iter().map(|mean| mean.percent).sum();
                let n_queries = six[0].n_queries + six[CUTOFFS.len()].n_queries;
                self.add_value(subject, "both", name, Some(relevance), sum, n_queries);
            }
        }
    }

    fn add_means(
        &mut self,
        subject: (&Pools, &Label),
        direction: Direction,
        relevance: Option<&str>,
        means: &BTreeMap<Name, Mean>,
    ) {
        for (&name, mean) in means {
            self.add_value(subject, direction.name(), name, relevance, mean.percent, mean.n_queries);
            if let Some(metric) = self.metrics.last_mut().filter(|_| name.measure == "recall") {
                metric.interval = Some(wilson_95(mean.percent, mean.n_all));
            }
        }
    }

    fn add_value(
        &mut self,
        (pools, label): (&Pools, &Label),
        direction: &'static str,
        name: Name,
        relevance: Option<&str>,
        value: f64,
        n_queries: usize,
    ) {
        let n_items = match direction {
            "i2t" => pools.n_captions,
            "t2i" => pools.n_images,
            _ => pools.n_captions + pools.n_images,
        };
        self.metrics.push(Metric {
            label: label.clone(),
            protocol: pools.protocol.clone(),
            folds: pools.folds,
            direction,
            name,
            relevance: relevance.map(str::to_owned),
            value,
            interval: None,
            n_queries,
            n_items,
        });
    }

    /// The rows of `metrics`.
    pub(super) fn metrics(&self) -> Result<RecordBatch> {
        let rows = &self.metrics;
        let labels = rows.iter().map(|row| &row.label);
        let [method, parameters] = label::methods(labels.clone());
        let optional = |get: &dyn Fn(&Metric) -> Option<usize>| -> ArrayRef {
            Arc::new(rows.iter().map(|row| get(row).map(int)).collect::<Int64Array>())
        };
        tables::batch(
            &tables::metrics::table().schema(),
            vec![
                texts(rows, |row| &row.protocol),
                ints(rows, |row| row.folds),
                method,
                parameters,
                label::banks(labels.clone()),
                label::transductive(labels),
                texts(rows, |row| row.direction),
                texts(rows, |row| row.name.measure),
                Arc::new(rows.iter().map(|row| row.relevance.as_deref()).collect::<StringArray>()),
                Arc::new(rows.iter().map(|row| row.name.variant).collect::<StringArray>()),
                Arc::new(rows.iter().map(|row| row.name.ground_truth).collect::<BooleanArray>()),
                optional(&|row| row.name.m),
                optional(&|row| row.name.k),
                floats(rows, |row| row.value),
                Arc::new(rows.iter().map(|row| row.interval.map(|(low, _)| low)).collect::<Float64Array>()),
                Arc::new(rows.iter().map(|row| row.interval.map(|(_, high)| high)).collect::<Float64Array>()),
                ints(rows, |row| row.n_queries),
                ints(rows, |row| row.n_items),
            ],
        )
    }

    /// The rows of `summary`.
    pub(super) fn summary(&self) -> Result<RecordBatch> {
        let rows = &self.summaries;
        let labels = rows.iter().map(|row| &row.label);
        let [method, parameters] = label::methods(labels.clone());
        let mut columns = vec![
            texts(rows, |row| &row.pools.protocol),
            method,
            parameters,
            label::transductive(labels),
            ints(rows, |row| row.pools.n_images),
            ints(rows, |row| row.pools.n_captions),
        ];
        for side in [0, 1] {
            for value in [
                |r: &Retrieval| r.r1,
                |r: &Retrieval| r.r5,
                |r: &Retrieval| r.r10,
                |r: &Retrieval| r.medr,
                |r: &Retrieval| r.meanr,
            ] {
                let known = |row: &Summary| Some(value(&row.directions[side])).filter(|value| !value.is_nan());
                columns.push(Arc::new(rows.iter().map(known).collect::<Float64Array>()) as ArrayRef);
            }
        }
        columns.extend([floats(rows, |row| row.rsum), floats(rows, |row| row.hs_sum)]);
        tables::batch(&tables::summary::table().schema(), columns)
    }
}

/// The mean over the folds of the skewness at a place of [`CUTOFFS`].
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
fn skewness(folds: &[Measured], place: usize) -> f64 {
    folds.iter().map(|fold| fold.hubs[place].map_or(0.0, |hubs| hubs.skewness)).sum::<f64>() / folds.len() as f64
}
