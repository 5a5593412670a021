//! `test_significance`: significance tests of the differences between two evaluations, or between methods of one.
//! `rankings` → `significance_tests`.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use arrow::array::{Array, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::measure::bootstrap::{QueryValues, bootstrap_interval, randomisation_test};
use pairloom_stage::{Problem, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef};
use pairloom_tables::{self as tables, Nullable};

/// Names of the inputs.
const RANKINGS: &str = "rankings";
const AGAINST: &str = "against";

/// Tests whether two evaluations of the same queries differ by more than chance: two models, or two methods of one.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestSignificance {
    /// Rankings to compare. Each of their methods is compared.
    pub rankings: TableRef,
    /// Rankings of the same queries in another evaluation. Without it, methods of `rankings` are compared with each
    /// other.
    #[serde(default)]
    pub against: Option<TableRef>,
    /// Method of `against` that all methods are compared with, such as `nns`. If absent: with `against`, each method is
    /// compared with the same method with the same parameters; without `against`, all are compared with `nns`.
    #[serde(default)]
    pub baseline: Option<String>,
}

impl TestSignificance {
    /// Name of the method that all methods are compared with; `None` if each is compared with the same method of
    /// `against`.
    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref().or_else(|| self.against.is_none().then_some("nns"))
    }
}

impl Stage for TestSignificance {
    fn kind(&self) -> &'static str {
        "test_significance"
    }

    fn version(&self) -> u32 {
        3
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let table = tables::rankings::table(&[]);
        let against = self.against.iter().map(|from| StageInput::table(AGAINST, from, &table));
        std::iter::once(StageInput::table(RANKINGS, &self.rankings, &table)).chain(against).collect()
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::table("significance_tests", tables::significance_tests::table().schema(), 8192)]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.baseline.as_ref().is_some_and(|name| name.trim().is_empty()) {
            problems.push(Problem::new("baseline", "got an empty name").hint("leave it out, or name a method: `nns`"));
        }
        problems
    }
}

/// Row of `significance_tests`.
struct SignificanceRow<'f> {
    method: &'f MethodHits,
    baseline: &'f MethodHits,
    difference: Difference,
}

impl RunnableStage for TestSignificance {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let HitsTable { cutoffs, methods: ours } = read_hits(cx, RANKINGS)?;
        let theirs = self.against.is_some().then(|| read_hits(cx, AGAINST)).transpose()?;
        if let Some(theirs) = theirs.as_ref().filter(|theirs| theirs.cutoffs != cutoffs) {
            let message = format!("`rankings` has cut-offs {cutoffs:?}, `against` has {:?}", theirs.cutoffs);
            return Err(Error::data(message).hint("both evaluations must have the same `cutoffs`"));
        }
        let theirs = theirs.map(|theirs| theirs.methods);
        let mut pairs = Vec::new();
        let mut alone = Vec::new();
        for found in &ours {
            let baseline = self.counterpart(found, theirs.as_deref().unwrap_or(&ours))?;
            match baseline {
                Some(baseline) if !std::ptr::eq(found, baseline) => pairs.push((found, baseline)),
                Some(_) => {}
                None => alone.push(found),
            }
        }
        let place = |found: &MethodHits| format!("{} of protocol `{}`", found.method, found.protocol);
        if pairs.is_empty() {
            let list = |all: &[MethodHits]| all.iter().map(place).collect::<Vec<_>>().join(", ");
            let baseline_list = theirs.as_deref().map(|theirs| format!(", `against` has {}", list(theirs)));
            let message =
                format!("nothing to compare: `rankings` has {}{}", list(&ours), baseline_list.unwrap_or_default());
            return Err(Error::data(message)
                .hint("both must have a protocol in common; `baseline` names a method to compare all with"));
        }
        for found in alone {
            cx.warn(place(found), "is not in `against`, so it is not compared");
        }
        let mut rows = Vec::new();
        for (number, &(found, baseline)) in pairs.iter().enumerate() {
            let pair_differences = differences(&found.queries, &baseline.queries, &cutoffs, cx.cancel())
                .map_err(|error| error.context(format!("{} against {}", place(found), baseline.method)))?;
            rows.extend(pair_differences.into_iter().map(|difference| SignificanceRow {
                method: found,
                baseline,
                difference,
            }));
            cx.progress(number as u64 + 1, Some(pairs.len() as u64), "comparisons");
        }
        let evaluations = self.evaluations(cx)?;
        write(cx, &rows, &evaluations)
    }
}

/// Evaluation that a result is of.
struct TestedEvaluation {
    key: String,
    /// Settings that differ from those of the other evaluation.
    settings: Option<String>,
}

impl TestSignificance {
    /// Evaluations of the methods and of the baselines.
    fn evaluations(&self, cx: &StageContext<'_>) -> Result<[TestedEvaluation; 2]> {
        let lineage = cx.lineage()?;
        let producer = |input: &str| {
            let found = lineage.producer(input)?;
            found.ok_or_else(|| Error::internal(format!("`{input}` is a source")))
        };
        let methods_producer = producer(RANKINGS)?;
        let baselines_producer = if self.against.is_some() { producer(AGAINST)? } else { methods_producer };
        Ok([(methods_producer, baselines_producer), (baselines_producer, methods_producer)]
            .map(|(own, other)| TestedEvaluation { key: own.key.clone(), settings: lineage.own_settings(own, other) }))
    }

    /// Finds the result that a result is compared with: of the same protocol, that of the baseline or of the same
    /// method.
    ///
    /// # Errors
    /// Several methods have the name of the baseline, or none has.
    fn counterpart<'f>(&self, found: &MethodHits, among: &'f [MethodHits]) -> Result<Option<&'f MethodHits>> {
        let same_protocol = among.iter().filter(|other| other.protocol == found.protocol);
        let Some(name) = self.baseline() else {
            return Ok(same_protocol.into_iter().find(|other| other.method == found.method));
        };
        let named: Vec<&MethodHits> = same_protocol.clone().filter(|other| other.method.name == name).collect();
        let there: Vec<String> = same_protocol.map(|other| other.method.to_string()).collect();
        match named.as_slice() {
            [one] => Ok(Some(one)),
            [] if there.is_empty() => Ok(None),
            [] => Err(Error::data(format!("no method is called `{name}`; there are {}", there.join(", ")))
                .hint("set `baseline` to one of them")),
            several => {
                let several: Vec<String> = several.iter().map(|other| other.method.to_string()).collect();
                Err(Error::data(format!("several methods are called `{name}`: {}", several.join(", ")))
                    .hint("evaluate the one to compare with by itself, and name its table as `against`"))
            }
        }
    }
}

fn write(cx: &mut StageContext<'_>, rows: &[SignificanceRow<'_>], evaluations: &[TestedEvaluation; 2]) -> Result<()> {
    let [own, baseline] = evaluations;
    let key = |evaluation: &TestedEvaluation| StringArray::from_iter_values(rows.iter().map(|_| &evaluation.key));
    let settings =
        |evaluation: &TestedEvaluation| Nullable(rows.iter().map(|_| evaluation.settings.as_deref()).collect());
    let text =
        |get: for<'r> fn(&'r SignificanceRow<'r>) -> &'r str| StringArray::from_iter_values(rows.iter().map(get));
    let parameters = |get: for<'r> fn(&'r SignificanceRow<'r>) -> &'r MethodHits| {
        Nullable(rows.iter().map(|row| get(row).method.parameters.as_deref()).collect())
    };
    let number =
        |get: fn(&Difference) -> f64| Float64Array::from_iter_values(rows.iter().map(|row| get(&row.difference)));
    let count = |get: fn(&Difference) -> usize| {
        let count = |row: &SignificanceRow<'_>| get(&row.difference).saturating_as::<i64>();
        Int64Array::from_iter_values(rows.iter().map(count))
    };
    let columns = tables::significance_tests::TableColumns {
        protocol: text(|row| &row.method.protocol),
        method: text(|row| &row.method.method.name),
        parameters: parameters(|row| row.method),
        baseline: text(|row| &row.baseline.method.name),
        baseline_parameters: parameters(|row| row.baseline),
        settings: settings(own),
        baseline_settings: settings(baseline),
        evaluation: key(own),
        baseline_evaluation: key(baseline),
        measure: text(|row| &row.difference.measure),
        value: number(|row| row.values[0]),
        baseline_value: number(|row| row.values[1]),
        difference: number(|row| row.values[0] - row.values[1]),
        ci95_low: number(|row| row.ci95.0),
        ci95_high: number(|row| row.ci95.1),
        p_value: number(|row| row.p_value),
        wins: count(|row| row.wins),
        losses: count(|row| row.losses),
        n_queries: count(|row| row.n_queries),
        n_images: count(|row| row.n_images),
    };
    cx.write("significance_tests", columns.into_batch()?)
}

/// Directions, in the order of [`QueryKey::direction`].
const DIRECTIONS: [&str; 2] = ["i2t", "t2i"];

/// Key of a query in a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueryKey {
    fold: i64,
    /// Index in [`DIRECTIONS`].
    direction: usize,
    id: i64,
}

impl fmt::Display for QueryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = ["image", "caption"][self.direction];
        write!(f, "{what} {} of fold {}", self.id, self.fold)
    }
}

/// Hits of one query.
#[derive(Debug, Clone, PartialEq)]
struct QueryHits {
    query: QueryKey,
    image: i64,
    /// For each cut-off k, true if a match is among the first k items.
    hits: Vec<bool>,
}

/// Name of a method with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MethodName {
    name: String,
    parameters: Option<String>,
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parameters {
            Some(parameters) => write!(f, "`{}` ({parameters})", self.name),
            None => write!(f, "`{}`", self.name),
        }
    }
}

/// Hits of the queries of a protocol by a method.
#[derive(Debug)]
struct MethodHits {
    protocol: String,
    method: MethodName,
    /// Hits of each query once, sorted by query.
    queries: Vec<QueryHits>,
}

/// Hits of all queries of a `rankings` table.
#[derive(Debug)]
struct HitsTable {
    /// Cut-offs, ascending.
    cutoffs: Vec<usize>,
    /// Hits by protocol and method, in the order of their first row.
    methods: Vec<MethodHits>,
}

/// Reads the hits of a `rankings` table of a stage.
///
/// # Errors
/// No columns of hits, an unknown direction, or a query with two rows.
fn read_hits(cx: &mut StageContext<'_>, input: &str) -> Result<HitsTable> {
    collect_hits(input, std::iter::from_fn(|| cx.read_next(input).transpose()))
}

/// Collects the hits of the rows of a `rankings` table, which is called `name` in messages.
///
/// # Errors
/// No columns of hits, an unknown direction, or a query with two rows.
fn collect_hits(name: &str, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<HitsTable> {
    let mut table = HitsTable { cutoffs: Vec::new(), methods: Vec::new() };
    for batch in batches {
        table.add(name, &batch?)?;
    }
    for found in &mut table.methods {
        found.queries.sort_unstable_by_key(|hits| hits.query);
        if let Some(twice) = found.queries.windows(2).find(|pair| pair[0].query == pair[1].query) {
            let (query, MethodHits { protocol, method, .. }) = (twice[0].query, &*found);
            return Err(Error::data(format!("`{name}` has {query} twice in protocol `{protocol}`, method {method}")));
        }
    }
    Ok(table)
}

impl HitsTable {
    fn add(&mut self, table: &str, batch: &RecordBatch) -> Result<()> {
        let text = |name: &str| tables::text_column(batch, name);
        let (protocols, names, parameters) = (text("protocol")?, text("method")?, text("parameters")?);
        let directions = text("direction")?;
        let number = |name: &str| tables::int_column(batch, name);
        let (folds, ids, images) = (number("fold")?, number("query_id")?, number("image_id")?);
        self.cutoffs = tables::rankings::cutoffs(&batch.schema());
        if self.cutoffs.is_empty() {
            return Err(Error::data(format!("`{table}` has no column of hits, expected one such as `hit_1`")));
        }
        let hits = self.cutoffs.iter().map(|&k| hit_column(batch, k)).collect::<Result<Vec<_>>>()?;
        let all = &mut self.methods;
        let mut last: Option<usize> = None;
        for row in 0..batch.num_rows() {
            let is_it = |found: &MethodHits| {
                let own = parameters.is_valid(row).then(|| parameters.value(row));
                let MethodName { name, parameters } = &found.method;
                found.protocol == protocols.value(row) && name == names.value(row) && parameters.as_deref() == own
            };
            // Rows of one method are consecutive, so nearly every row belongs to the method of the row before.
            let place = last.filter(|&last| is_it(&all[last])).or_else(|| all.iter().position(is_it));
            let place = place.unwrap_or_else(|| {
                let name = names.value(row).to_owned();
                let parameters = parameters.is_valid(row).then(|| parameters.value(row).to_owned());
                let method = MethodName { name, parameters };
                all.push(MethodHits { protocol: protocols.value(row).to_owned(), method, queries: Vec::new() });
                all.len() - 1
            });
            last = Some(place);
            let direction = directions.value(row);
            let direction = DIRECTIONS.iter().position(|name| *name == direction).ok_or_else(|| {
                Error::data(format!("`{table}` has direction `{direction}`, expected one of {DIRECTIONS:?}"))
            })?;
            all[place].queries.push(QueryHits {
                query: QueryKey { fold: folds.value(row), direction, id: ids.value(row) },
                image: images.value(row),
                hits: hits.iter().map(|hits| hits.value(row)).collect(),
            });
        }
        Ok(())
    }
}

fn hit_column(batch: &RecordBatch, k: usize) -> Result<&BooleanArray> {
    let name = format!("hit_{k}");
    let column = batch.column_by_name(&name).and_then(|column| column.as_boolean_opt());
    column.ok_or_else(|| Error::internal(format!("no boolean column `{name}`")))
}

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
struct Difference {
    measure: String,
    /// Values of the result and of the baseline.
    values: [f64; 2],
    ci95: (f64, f64),
    p_value: f64,
    wins: usize,
    losses: usize,
    n_queries: usize,
    n_images: usize,
}

/// Checks that both results have the same queries.
///
/// # Errors
/// A query is in only one of the results, or belongs to different images.
fn check_same_queries(hits: &[QueryHits], baseline_hits: &[QueryHits]) -> Result<()> {
    let missing = |from: &[QueryHits], others: &[QueryHits], name: &str| -> Option<Error> {
        let is_missing = |hits: &&QueryHits| from.binary_search_by_key(&hits.query, |other| other.query).is_err();
        let missing: TruncatedList = others.iter().filter(is_missing).map(|hits| hits.query).collect();
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
fn differences(
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
    let recalls_at = |direction| (0..cutoffs.len()).map(move |cutoff| (direction, cutoff));
    let recalls: Vec<(usize, usize)> = [0, 1].into_iter().flat_map(recalls_at).collect();
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
                let groups = fold.iter().map(|&place| self.groups[place]).collect();
                over_queries.push((fold.iter().map(difference).collect(), groups));
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

/// Difference in rsum between two rankings of the same queries by the same method.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingComparison {
    /// Evaluation protocol.
    pub protocol: String,
    /// Method with its parameters.
    pub method: String,
    /// rsum in the first and in the second table.
    pub rsum: [f64; 2],
    /// Paired bootstrap interval of the difference, second minus first, 95 %.
    pub ci95: (f64, f64),
    /// p-value of the paired randomisation test over images.
    pub p_value: f64,
    /// Number of images.
    pub n_images: usize,
}

/// Compares two `rankings` tables, each given as batches. Methods and protocols of only one table are left out.
///
/// Cost: 10,000 randomisations and 1,000 bootstrap draws over the images for each method.
///
/// # Errors
/// The tables have other cut-offs or other queries, or columns are missing.
pub fn compare_rankings(
    first: impl Iterator<Item = Result<RecordBatch>>,
    second: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Vec<RankingComparison>> {
    let (first, second) = (collect_hits("first", first)?, collect_hits("second", second)?);
    if first.cutoffs != second.cutoffs {
        let message = format!("the first has cut-offs {:?}, the second {:?}", first.cutoffs, second.cutoffs);
        return Err(Error::data(message));
    }
    let mut found = Vec::new();
    for ours in &second.methods {
        let same = first.methods.iter().find(|method| method.protocol == ours.protocol && method.method == ours.method);
        let Some(theirs) = same else { continue };
        let all = differences(&ours.queries, &theirs.queries, &second.cutoffs, &CancelToken::new())?;
        let rsum = all.into_iter().next().ok_or_else(|| Error::internal("no measure was compared"))?;
        found.push(RankingComparison {
            protocol: ours.protocol.clone(),
            method: ours.method.to_string(),
            rsum: [rsum.values[1], rsum.values[0]],
            ci95: rsum.ci95,
            p_value: rsum.p_value,
            n_images: rsum.n_images,
        });
    }
    Ok(found)
}
