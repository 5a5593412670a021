//! `ensemble`: several tables `scores`, or several pairs of embedding tables → one of each.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::StringArray;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result};
use pairloom_stage::{
    MapBlock, MapInput, MapOutput, Problem, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef,
};
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::TableShards;
use pairloom_tables::{Table, VectorColumn, caption_embeddings, image_embeddings, scored_captions, scores};

/// Number of rows of a part.
const PART_ROWS: usize = 256;

/// Combines models: the mean of their scores, or the concatenation of their vectors, whose cosine is the mean of the
/// cosines.
///
/// All tables must have the same rows in the same order, as those of models that were applied to the same images and
/// captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ensemble {
    /// Scores of each model, of `score_pairs`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<TableRef>,
    /// Captions of the scores of each model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scored_captions: Vec<TableRef>,
    /// Images in the joint space of each model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_embeddings: Vec<TableRef>,
    /// Captions in the joint space of each model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caption_embeddings: Vec<TableRef>,
    /// Weight of each model. Equal weights if absent; only their ratios matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
}

/// Setting and input of a kind of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CombinedTable {
    Scores,
    ScoredCaptions,
    ImageEmbeddings,
    CaptionEmbeddings,
}

impl CombinedTable {
    /// Name of the table and of the setting.
    fn name(self) -> &'static str {
        match self {
            Self::Scores => "scores",
            Self::ScoredCaptions => "scored_captions",
            Self::ImageEmbeddings => "image_embeddings",
            Self::CaptionEmbeddings => "caption_embeddings",
        }
    }

    fn table(self) -> Table {
        match self {
            Self::Scores => scores::table(),
            Self::ScoredCaptions => scored_captions::table(),
            Self::ImageEmbeddings => image_embeddings::table(),
            Self::CaptionEmbeddings => caption_embeddings::table(),
        }
    }

    /// Columns that must be equal in all tables.
    fn key_columns(self) -> &'static [&'static str] {
        match self {
            Self::Scores | Self::ImageEmbeddings => &["image_id"],
            Self::ScoredCaptions | Self::CaptionEmbeddings => &["caption_id", "image_id"],
        }
    }

    fn input(self, number: usize) -> String {
        format!("{}.{number}", self.name())
    }
}

impl Ensemble {
    /// Tables of each kind that are set.
    fn tables(&self) -> Vec<(CombinedTable, &[TableRef])> {
        let all = [
            (CombinedTable::Scores, &self.scores),
            (CombinedTable::ScoredCaptions, &self.scored_captions),
            (CombinedTable::ImageEmbeddings, &self.image_embeddings),
            (CombinedTable::CaptionEmbeddings, &self.caption_embeddings),
        ];
        all.into_iter()
            .filter(|(_, tables)| !tables.is_empty())
            .map(|(kind, tables)| (kind, tables.as_slice()))
            .collect()
    }

    /// Weights of the models, with the sum 1.
    fn shares(&self, models: usize) -> Vec<f64> {
        let weights = if self.weights.is_empty() { vec![1.0; models] } else { self.weights.clone() };
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / sum).collect()
    }
}

impl Stage for Ensemble {
    fn kind(&self) -> &'static str {
        "ensemble"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let inputs = |(kind, tables): (CombinedTable, &[TableRef])| {
            let input = |(number, from)| StageInput::table(kind.input(number), from, &kind.table());
            tables.iter().enumerate().map(input).collect::<Vec<_>>()
        };
        self.tables().into_iter().flat_map(inputs).collect()
    }

    fn outputs(&self) -> Vec<StageOutput> {
        self.tables()
            .into_iter()
            .map(|(kind, _)| StageOutput::table(kind.name(), kind.table().schema(), PART_ROWS))
            .collect()
    }

    fn check(&self) -> Vec<Problem> {
        let parts: Vec<CombinedTable> = self.tables().into_iter().map(|(kind, _)| kind).collect();
        let models = self.scores.len().max(self.image_embeddings.len());
        let forms = [
            [CombinedTable::Scores, CombinedTable::ScoredCaptions],
            [CombinedTable::ImageEmbeddings, CombinedTable::CaptionEmbeddings],
        ];
        if !forms.iter().any(|form| form.as_slice() == parts) {
            let message = "expected `scores` and `scored_captions`, or `image_embeddings` and `caption_embeddings`";
            return vec![Problem::new("scores", message).hint("`scores = [\"sgr.scores\", \"saf.scores\"]`")];
        }
        let mut problems = Vec::new();
        for (kind, tables) in self.tables() {
            if tables.len() != models || models < 2 {
                let message = format!("got {} tables, expected one for each of at least two models", tables.len());
                problems.push(Problem::new(kind.name(), message));
            }
        }
        if !self.weights.is_empty() && self.weights.len() != models {
            let message = format!("got {} weights for {models} models", self.weights.len());
            problems.push(Problem::new("weights", message));
        }
        for (number, weight) in
            self.weights.iter().enumerate().filter(|(_, weight)| !(weight.is_finite() && **weight > 0.0))
        {
            problems.push(Problem::new(format!("weights.{number}"), format!("got {weight}, expected more than 0")));
        }
        problems
    }
}

impl RunnableStage for Ensemble {
    /// Memory: a few parts of each table; the tables are memory-mapped.
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        for (kind, from) in self.tables() {
            let tables = (0..from.len()).map(|number| cx.shards(&kind.input(number)));
            let tables = tables.collect::<Result<Vec<_>>>()?;
            let tables: Vec<JoinedRows> =
                tables.into_iter().zip(from).map(|(table, from)| JoinedRows::new(table, from)).collect();
            let rows = tables[0].len();
            if let Some(other) = tables.iter().find(|table| table.len() != rows) {
                let message = format!("`{}` has {} rows, `{}` has {rows}", other.name, other.len(), tables[0].name);
                return Err(different_rows(message));
            }
            let shares = self.shares(from.len());
            cx.map(MapInput::Range(rows), kind.name(), PART_ROWS, &|block| combine(kind, &tables, &shares, block))?;
        }
        Ok(())
    }
}

/// Table as a sequence of rows over its shards.
struct JoinedRows {
    name: String,
    shards: TableShards,
    /// Row of the first row of each shard, and at the end the number of rows.
    starts: Vec<usize>,
}

impl JoinedRows {
    fn new(shards: TableShards, from: &TableRef) -> Self {
        let mut starts = vec![0];
        for shard in 0..shards.len() {
            starts.push(starts[shard] + shards.rows(shard));
        }
        Self { name: from.to_string(), shards, starts }
    }

    fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Calls `visit` for every shard with rows of `range`, and those rows of the shard.
    fn visit(
        &self,
        range: &Range<usize>,
        mut visit: impl FnMut(&Arc<Shard>, Range<usize>) -> Result<()>,
    ) -> Result<()> {
        for (shard, start) in self.starts[..self.shards.len()].iter().enumerate() {
            let (first, end) = (range.start.max(*start), range.end.min(self.starts[shard + 1]));
            if first < end {
                visit(&self.shards.open(shard)?, first - start..end - start)?;
            }
        }
        Ok(())
    }

    fn ids(&self, column: &str, range: &Range<usize>) -> Result<Vec<i64>> {
        let mut found = Vec::with_capacity(range.len());
        self.visit(range, |shard, mut rows| {
            let ids = shard.ids(column)?;
            rows.try_for_each(|row| ids.value(row).map(|id| found.push(id)))
        })?;
        Ok(found)
    }

    fn texts(&self, column: &str, range: &Range<usize>) -> Result<StringArray> {
        let mut found = Vec::with_capacity(range.len());
        self.visit(range, |shard, mut rows| {
            let texts = shard.texts(column)?;
            rows.try_for_each(|row| texts.value(row).map(|text| found.push(text.to_owned())))
        })?;
        Ok(found.into())
    }

    /// Vectors of rows, row-major, and their width.
    fn vectors(&self, column: &str, range: &Range<usize>) -> Result<(Vec<f32>, usize)> {
        let (mut found, mut width) = (Vec::new(), 0);
        self.visit(range, |shard, mut rows| {
            let vectors = shard.vectors(column)?;
            width = vectors.width();
            rows.try_for_each(|row| vectors.row(row).map(|row| found.extend_from_slice(row)))
        })?;
        Ok((found, width))
    }
}

/// Combines the rows of a block.
fn combine(kind: CombinedTable, tables: &[JoinedRows], shares: &[f64], block: &MapBlock) -> Result<MapOutput> {
    let (first, range) = (&tables[0], &block.range);
    for column in kind.key_columns() {
        let expected = first.ids(column, range)?;
        for table in &tables[1..] {
            let own = table.ids(column, range)?;
            if let Some(row) = (0..own.len()).find(|&row| own[row] != expected[row]) {
                let (got, expected) = (own[row], expected[row]);
                let place = range.start + row;
                let message =
                    format!("row {place} of `{}` has {column} {got}, `{}` has {expected}", table.name, first.name);
                return Err(different_rows(message));
            }
        }
    }
    let (image_id, split) = (first.ids("image_id", range)?.into(), first.texts("split", range)?);
    let batch = match kind {
        CombinedTable::Scores => {
            let scores = mean(tables, shares, range)?;
            scores::TableColumns { image_id, split, scores }.into_batch()?
        }
        CombinedTable::ScoredCaptions => {
            let caption_id = first.ids("caption_id", range)?.into();
            scored_captions::TableColumns { caption_id, image_id, split }.into_batch()?
        }
        CombinedTable::ImageEmbeddings => {
            let embedding = concatenation(tables, shares, range)?;
            image_embeddings::TableColumns { image_id, split, embedding }.into_batch()?
        }
        CombinedTable::CaptionEmbeddings => {
            let (embedding, tokenizer) = (concatenation(tables, shares, range)?, first.texts("tokenizer", range)?);
            let caption_id = first.ids("caption_id", range)?.into();
            caption_embeddings::TableColumns { caption_id, image_id, split, tokenizer, embedding }.into_batch()?
        }
    };
    Ok(MapOutput::new(batch))
}

/// Error about models that were applied to other rows.
fn different_rows(message: String) -> Error {
    Error::data(message).hint("all models must be applied to the same images and captions")
}

/// Weighted mean of the scores, summed in f64.
fn mean(tables: &[JoinedRows], shares: &[f64], range: &Range<usize>) -> Result<VectorColumn> {
    let (mut sums, mut width) = (Vec::new(), 0);
    for (table, share) in tables.iter().zip(shares) {
        let (values, own) = table.vectors("scores", range)?;
        if sums.is_empty() {
            (sums, width) = (vec![0.0f64; values.len()], own);
        }
        if own != width {
            let (name, other) = (&table.name, &tables[0].name);
            return Err(different_rows(format!("`{name}` has scores of {own} captions, `{other}` of {width}")));
        }
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += share * f64::from(value));
    }
    #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
    VectorColumn::new(sums.into_iter().map(|sum| sum as f32).collect(), width)
}

/// Vectors of all models after each other, each times the square root of the weight of its model.
fn concatenation(tables: &[JoinedRows], shares: &[f64], range: &Range<usize>) -> Result<VectorColumn> {
    let sides = tables.iter().map(|table| table.vectors("embedding", range)).collect::<Result<Vec<_>>>()?;
    let width = sides.iter().map(|(_, width)| width).sum();
    let mut values = Vec::with_capacity(range.len() * width);
    for row in 0..range.len() {
        for ((vectors, width), share) in sides.iter().zip(shares) {
            #[expect(clippy::cast_possible_truncation, reason = "vectors are f32")]
            let factor = share.sqrt() as f32;
            values.extend(vectors[row * width..(row + 1) * width].iter().map(|value| value * factor));
        }
    }
    VectorColumn::new(values, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables::{self as tables, repeated};

    fn stage(text: &str) -> Ensemble {
        toml::from_str(text).expect("settings")
    }

    fn score_rows(ids: &[i64], values: &[f32]) -> arrow::array::RecordBatch {
        let scores = VectorColumn::new(values.to_vec(), values.len() / ids.len()).expect("whole rows");
        let (image_id, split) = (ids.to_vec().into(), repeated("test", ids.len()));
        scores::TableColumns { image_id, split, scores }.into_batch().expect("scores")
    }

    fn captions(ids: &[i64]) -> arrow::array::RecordBatch {
        let image_id = ids.iter().map(|id| id / 10).collect::<Vec<_>>().into();
        let (caption_id, split) = (ids.to_vec().into(), repeated("test", ids.len()));
        scored_captions::TableColumns { caption_id, image_id, split }.into_batch().expect("captions")
    }

    const SCORES: &str =
        "scores = [\"a.scores\", \"b.scores\"]\nscored_captions = [\"a.scored_captions\", \"b.scored_captions\"]";

    /// The tables of one model are cut into other parts than those of the other.
    fn host(other: &[i64], other_captions: &[i64]) -> InMemoryHost {
        let mut host = InMemoryHost::default();
        let parts = vec![score_rows(&[7], &[0.5, 0.25]), score_rows(&[8], &[1.0, 0.0])];
        host.input_tables.insert("scores.0".to_owned(), parts);
        host.input_tables.insert("scores.1".to_owned(), vec![score_rows(other, &[0.1, 0.65, 0.2, 0.4])]);
        host.input_tables.insert("scored_captions.0".to_owned(), vec![captions(&[70, 80])]);
        host.input_tables.insert("scored_captions.1".to_owned(), vec![captions(other_captions)]);
        host
    }

    #[test]
    fn scores_are_averaged_by_weight() {
        let mut found = host(&[7, 8], &[70, 80]);
        found.run(&stage(&format!("{SCORES}\nweights = [3, 1]"))).expect("an ensemble");
        let scores = found.output("scores");
        let (values, width) = tables::vector_column(&scores, "scores").expect("scores");
        assert_eq!(width, 2);
        for (got, expected) in values.iter().zip([0.4, 0.35, 0.8, 0.1]) {
            assert!((got - expected).abs() < 1e-7, "{values:?}");
        }
        assert_eq!(found.output("scored_captions"), captions(&[70, 80]));
        let error = host(&[7, 9], &[70, 80]).run(&stage(SCORES)).expect_err("other images").to_string();
        assert_eq!(error, "row 1 of `b.scores` has image_id 9, `a.scores` has 8");
        let error = host(&[7, 8], &[70, 81]).run(&stage(SCORES)).expect_err("other captions").to_string();
        assert_eq!(error, "row 1 of `b.scored_captions` has caption_id 81, `a.scored_captions` has 80");
    }

    /// The cosine of the concatenated vectors is the mean of the cosines 0.6 and 0.
    #[test]
    fn vectors_are_concatenated() {
        let mut host = InMemoryHost::default();
        let image = |values: &[f32]| {
            let embedding = VectorColumn::new(values.to_vec(), values.len()).expect("a vector");
            let (image_id, split) = (vec![1i64].into(), repeated("test", 1));
            image_embeddings::TableColumns { image_id, split, embedding }.into_batch().expect("an image")
        };
        let caption = |values: &[f32]| {
            let embedding = VectorColumn::new(values.to_vec(), values.len()).expect("a vector");
            let (caption_id, image_id, split) = (vec![5i64].into(), vec![1i64].into(), repeated("test", 1));
            let tokenizer = repeated("ptb", 1);
            let columns = caption_embeddings::TableColumns { caption_id, image_id, split, tokenizer, embedding };
            columns.into_batch().expect("a caption")
        };
        let inputs = [
            ("image_embeddings.0", image(&[1.0, 0.0])),
            ("image_embeddings.1", image(&[0.0, 1.0, 0.0])),
            ("caption_embeddings.0", caption(&[0.6, 0.8])),
            ("caption_embeddings.1", caption(&[1.0, 0.0, 0.0])),
        ];
        for (name, batch) in inputs {
            host.input_tables.insert(name.to_owned(), vec![batch]);
        }
        let text = "image_embeddings = [\"a.image_embeddings\", \"b.image_embeddings\"]\n\
                    caption_embeddings = [\"a.caption_embeddings\", \"b.caption_embeddings\"]";
        assert_eq!(stage(text).check(), []);
        host.run(&stage(text)).expect("an ensemble");
        let [image, caption] = ["image_embeddings", "caption_embeddings"].map(|table| {
            let batch = host.output(table);
            tables::vector_column(&batch, "embedding").expect("a vector").0.to_vec()
        });
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        assert!((product(&image, &caption) - 0.3).abs() < 1e-6 && (product(&image, &image) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn tables_that_make_no_ensemble_are_refused() {
        let settings = |text: &str| stage(text).check().into_iter().map(|problem| problem.setting).collect::<Vec<_>>();
        assert_eq!(settings(""), ["scores"]);
        assert_eq!(settings("scores = [\"a.scores\"]"), ["scores"]);
        let one = "scores = [\"a.scores\"]\nscored_captions = [\"a.scored_captions\"]";
        assert_eq!(settings(one), ["scores", "scored_captions"]);
        assert_eq!(settings(&format!("{SCORES}\nweights = [1, 2, 3]")), ["weights"]);
        assert_eq!(settings(&format!("{SCORES}\nweights = [1, 0]")), ["weights.1"]);
        assert_eq!(settings(&format!("{SCORES}\nimage_embeddings = [\"a.image_embeddings\"]")), ["scores"]);
    }
}
