//! `correlate`: correlation of scores with human ratings. `ratings`, any `caption_similarity` → `correlations`.
//!
//! Each rating counts, as published for Flickr8k-Expert, where three people rated each pair: Anderson, Fernando, Johnson,
//! Gould, "SPICE", ECCV 2016; Hessel et al., EMNLP 2021, appendix A (16,992 ratings, tau-c).

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use arrow::array::{Float64Array, Int64Array, StringArray};
use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_kernels::measure::correlation::{is_constant, kendall, pearson, spearman};
use pairloom_stage::{Problem, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef};
use pairloom_storage::image_names::shown_name;
use pairloom_tables::caption_similarity::rows;
use pairloom_tables::{self as tables, Nullable};

/// Name of the set of all rated pairs in results.
const ALL_PAIRS: &str = "all";

/// Correlates scores of caption-image pairs with human ratings. Each rating counts: a pair that three people rated counts
/// three times.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Correlate {
    /// Human ratings of pairs.
    pub ratings: TableRef,
    /// Scores. Each has a row for all pairs and one for each set of `pairs`.
    pub scores: Vec<Score>,
    /// Sets of rated pairs by name, in addition to `all`: `{ non_gt = { sampling = "c2i_intrasim" } }`.
    #[serde(default)]
    pub pairs: BTreeMap<String, PairSet>,
}

/// Score of pairs: φ from a table, or a binary score that is 1 for the pairs of one sampling.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// Name in results: `CIDEr-D`.
    pub name: String,
    /// Table `caption_similarity` with φ of every rated pair.
    pub similarity: Option<TableRef>,
    /// Sampling of the pairs with score 1; others score 0. The pairs of `c2i_original` are captions with their own
    /// images.
    pub sampling: Option<String>,
    /// Published values of Pearson's r, by set of pairs: `{ all = 0.734, non_gt = 0.453 }`.
    #[serde(default)]
    pub published: BTreeMap<String, f64>,
}

/// Set of rated pairs.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairSet {
    /// Sampling of the pairs in the set.
    pub sampling: String,
}

/// Name of the input with the similarity of a score.
fn similarity_input(score: usize) -> String {
    format!("scores.{score}.similarity")
}

impl Score {
    fn check(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.name.trim().is_empty() {
            problems.push(
                Problem::new(format!("{at}.name"), "got an empty name").hint("the name identifies it in results"),
            );
        }
        let one = "set `similarity`, a table, or `sampling`, the kind of pairs that score 1";
        match (&self.similarity, &self.sampling) {
            (None, None) => problems.push(Problem::new(at, "has neither `similarity` nor `sampling`").hint(one)),
            (Some(_), Some(_)) => {
                problems.push(Problem::new(at, "has both `similarity` and `sampling`, expected one").hint(one));
            }
            _ => {}
        }
        problems
    }
}

impl Stage for Correlate {
    fn kind(&self) -> &'static str {
        "correlate"
    }

    fn version(&self) -> u32 {
        2
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let mut inputs = vec![StageInput::table("ratings", &self.ratings, &tables::ratings::table())];
        for (number, score) in self.scores.iter().enumerate() {
            let table = tables::caption_similarity::table();
            inputs.extend(
                score.similarity.as_ref().map(|from| StageInput::table(similarity_input(number), from, &table)),
            );
        }
        inputs
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![StageOutput::table("correlations", tables::correlations::table().schema(), 8192)]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.scores.is_empty() {
            problems.push(Problem::new("scores", "got an empty list, expected at least one score"));
        }
        if self.pairs.contains_key(ALL_PAIRS) {
            let message = format!("`{ALL_PAIRS}` is reserved for all rated pairs");
            problems.push(Problem::new(format!("pairs.{ALL_PAIRS}"), message));
        }
        let known: BTreeSet<&str> = std::iter::once(ALL_PAIRS).chain(self.pairs.keys().map(String::as_str)).collect();
        for (number, score) in self.scores.iter().enumerate() {
            let at = format!("scores.{number}");
            problems.extend(score.check(&at));
            if self.scores[..number].iter().any(|earlier| earlier.name == score.name) {
                let message = format!("the name `{}` appears twice", score.name);
                problems.push(Problem::new(format!("{at}.name"), message));
            }
            for name in score.published.keys().filter(|name| !known.contains(name.as_str())) {
                let there: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                let message = format!("`{name}` is no set of pairs; there are {}", there.join(", "));
                problems.push(Problem::new(format!("{at}.published.{name}"), message));
            }
        }
        problems
    }
}

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
            std::iter::once((ALL_PAIRS, None)).chain(self.pairs.iter().map(|(name, set)| (name.as_str(), Some(set))));
        let sets: Vec<(&str, Vec<usize>)> =
            sets.map(|(name, set)| Ok((name, pair_indices(&rated, name, set)?))).collect::<Result<_>>()?;
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
                    rated.samplings.iter().map(|other| if other == sampling { 1.0 } else { 0.0 }).collect()
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
fn pair_indices(rated: &RatedPairs, name: &str, set: Option<&PairSet>) -> Result<Vec<usize>> {
    let Some(set) = set else { return Ok((0..rated.ratings.len()).collect()) };
    check_sampling(rated, &set.sampling).map_err(|error| error.context(format!("`pairs.{name}`")))?;
    Ok((0..rated.ratings.len()).filter(|&place| rated.samplings[place] == set.sampling).collect())
}

fn check_sampling(rated: &RatedPairs, expected: &str) -> Result<()> {
    if rated.samplings.iter().any(|sampling| sampling == expected) {
        return Ok(());
    }
    let there: BTreeSet<&str> = rated.samplings.iter().map(String::as_str).collect();
    let there: TruncatedList = there.into_iter().map(|sampling| format!("`{}`", shown_name(sampling))).collect();
    Err(Error::data(format!("no pair of `ratings` has the sampling `{expected}`; there are {}", there.join(", "))))
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

/// Ratings in the order of the table. A pair has several if several people rated it.
#[derive(Debug, Default)]
struct RatedPairs {
    ratings: Vec<f64>,
    samplings: Vec<String>,
    /// Index of the pair of each rating.
    pair_of: Vec<usize>,
    /// (`image_id`, `caption_id`) of each pair, in the order of their first ratings.
    ids: Vec<(i64, i64)>,
    /// Pairs of each image: (`caption_id`, index of the pair), sorted.
    pairs_by_image: BTreeMap<i64, Vec<(i64, usize)>>,
}

impl RatedPairs {
    /// Reads all ratings.
    ///
    /// # Errors
    /// A rating that is not finite, or no rating at all.
    fn read(cx: &mut StageContext<'_>) -> Result<Self> {
        let mut this = Self::default();
        let (mut places, mut faults) = (HashMap::new(), TruncatedList::default());
        while let Some(batch) = cx.read_next("ratings")? {
            let (captions, images) =
                (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
            let (ratings, samplings) =
                (tables::float_column(&batch, "rating")?, tables::text_column(&batch, "sampling")?);
            for row in 0..batch.num_rows() {
                let (caption_id, image_id, rating) = (captions.value(row), images.value(row), ratings.value(row));
                if !rating.is_finite() {
                    let row = this.ratings.len();
                    faults.push(format!("row {row}: the rating is {rating}, expected a finite number"));
                }
                this.ratings.push(rating);
                this.samplings.push(samplings.value(row).to_owned());
                let next = this.ids.len();
                let pair = *places.entry((image_id, caption_id)).or_insert(next);
                if pair == next {
                    this.ids.push((image_id, caption_id));
                    this.pairs_by_image.entry(image_id).or_default().push((caption_id, pair));
                }
                this.pair_of.push(pair);
            }
        }
        if !faults.is_empty() {
            return Err(Error::data(format!("`ratings` cannot be used: {}", faults.join("; "))));
        }
        if this.ratings.is_empty() {
            return Err(Error::data("`ratings` has no rows, so there is nothing to correlate with"));
        }
        for pairs in this.pairs_by_image.values_mut() {
            pairs.sort_unstable();
        }
        Ok(this)
    }

    /// Reads φ of the pair of every rating from a `caption_similarity`, dense or not. The table is streamed; only φ of
    /// rated pairs is kept.
    ///
    /// # Errors
    /// A pair without φ or with two, or φ that is not finite.
    fn similarities(&self, cx: &mut StageContext<'_>, input: &str) -> Result<Vec<f64>> {
        let mut found: Vec<Option<f64>> = vec![None; self.ids.len()];
        let mut faults = TruncatedList::default();
        while let Some(batch) = cx.read_next(input)? {
            for row in rows(&batch)? {
                let Some(pairs) = self.pairs_by_image.get(&row.image_id) else { continue };
                for (caption_id, &phi) in row.caption_ids.iter().zip(row.similarities) {
                    let Ok(at) = pairs.binary_search_by_key(caption_id, |pair| pair.0) else { continue };
                    let fault =
                        |what: String| format!("caption_id {caption_id} with image_id {}: {what}", row.image_id);
                    if !phi.is_finite() {
                        faults.push(fault(format!("φ is {phi}, expected a finite number")));
                    }
                    if found[pairs[at].1].replace(f64::from(phi)).is_some() {
                        faults.push(fault("φ appears twice".to_owned()));
                    }
                }
            }
        }
        if !faults.is_empty() {
            return Err(Error::data(format!("`{input}` cannot be used: {}", faults.join("; "))));
        }
        let lacking: TruncatedList = self
            .ids
            .iter()
            .zip(&found)
            .filter(|(_, phi)| phi.is_none())
            .map(|((image_id, caption_id), _)| format!("caption_id {caption_id} with image_id {image_id}"))
            .collect();
        if !lacking.is_empty() {
            let (n, all) = (lacking.len(), self.ids.len());
            return Err(Error::data(format!("`{input}` lacks {n} of {all} rated pairs: {}", lacking.join("; "))).hint(
                "`score_captions` writes φ of these pairs with `pairs = { table = … }`, and of all pairs with `pairs = \"dense\"`",
            ));
        }
        Ok(self.pair_of.iter().filter_map(|&pair| found[pair]).collect())
    }
}
