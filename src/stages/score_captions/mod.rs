//! `score_captions`: `captions` → `caption_similarity`, and the tables that it is computed from: `caption_ngrams` or
//! `scene_graphs`.
//!
//! φ(i, c) is the similarity of caption c to the captions of image i. `train` derives margins from it, and `evaluate`
//! derives graded relevance from it.

mod cider;
mod spice;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_base::runtime::{CancelToken, Resources};
use pairloom_kernels::text::cider::{CiderVariant, OwnCaption};
use pairloom_kernels::text::{CaptionSimilarity, Tokenizer};
use pairloom_language::scene_graph::{self, MissingPeriod};
use pairloom_stage::{
    MapInput, MapOutput, Problem, RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef,
};
use pairloom_tables as tables;

/// Number of rows of a part of `caption_ngrams` or `scene_graphs`.
const CAPTION_PART_ROWS: usize = 8192;
/// Number of rows of a part of `spice_scores`.
const SCORE_PART_ROWS: usize = 65_536;

/// Scores captions by their similarity to the captions of images.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoreCaptions {
    /// Captions that are scored, which are also the references of their images.
    pub captions: TableRef,
    /// Split whose captions are scored. Several splits are joined as in `train+restval`.
    #[serde(default = "default_split")]
    pub split: String,
    /// Measure of caption similarity, φ.
    pub measure: Measure,
    /// Image-caption pairs that are scored.
    #[serde(default)]
    pub pairs: PairSelection,
}

/// Measure of caption similarity, φ.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// CIDEr-D: clipped counts, and a penalty for differences in length.
    CiderD(CiderSettings),
    /// CIDEr: the cosine of tf-idf vectors.
    Cider(CiderSettings),
    /// SPICE-style: the F-score of scene graphs.
    Spice(SpiceSettings),
}

/// Image-caption pairs that are scored.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PairSelection {
    /// Every image of the split with every caption of the split.
    #[default]
    Dense,
    /// For each image of the split, the given number of captions of the split with the largest φ.
    Top(usize),
    /// Pairs of a table with the columns `image_id` and `caption_id`, such as `ratings` or `captions`. If the table has
    /// a column `split`, its rows of other splits are ignored.
    Table(TableRef),
    /// No pairs: only `caption_ngrams` or `scene_graphs` is written, from which `train` computes φ of each mini-batch.
    OnDemand,
}

/// Settings of CIDEr-D and CIDEr.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CiderSettings {
    /// Tokeniser of the captions.
    #[serde(default = "default_tokenizer")]
    pub tokenizer: Tokenizer,
    /// True if words are converted to lower case.
    #[serde(default = "default_lowercase")]
    pub lowercase: bool,
    /// Split over whose images document frequencies are counted; by default the scored split.
    #[serde(default)]
    pub document_frequency_split: Option<String>,
    /// True if all n-grams have the same weight, without document frequencies.
    #[serde(default)]
    pub uniform: bool,
    /// N in the weights ln N − ln df; by default the number of images that document frequencies are counted over.
    #[serde(default)]
    pub document_count: Option<u64>,
    /// Treatment of a caption among the references of its own image: kept, or left out.
    #[serde(default)]
    pub own_caption: OwnCaption,
}

/// Settings of SPICE.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpiceSettings {
    /// Scene graphs that another stage `score_captions` wrote; by default captions are parsed here.
    #[serde(default)]
    pub graphs: Option<TableRef>,
    /// Treatment of captions without a final period, such as `man riding a horse`.
    #[serde(default)]
    pub missing_period: MissingPeriod,
}

impl Measure {
    /// Name of the measure in tables.
    fn name(&self) -> &'static str {
        match self {
            Self::CiderD(_) => "cider_d",
            Self::Cider(_) => "cider",
            Self::Spice(_) => "spice",
        }
    }

    fn cider(&self) -> Option<(&'static str, &CiderSettings)> {
        match self {
            Self::CiderD(settings) => Some(("measure.cider_d", settings)),
            Self::Cider(settings) => Some(("measure.cider", settings)),
            Self::Spice(_) => None,
        }
    }
}

/// Columns that identify a pair.
fn pair_columns() -> SchemaRef {
    let id = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![id("image_id"), id("caption_id")]))
}

fn default_split() -> String {
    "test".to_owned()
}

fn default_tokenizer() -> Tokenizer {
    Tokenizer::Ptb
}

fn default_lowercase() -> bool {
    true
}

impl Stage for ScoreCaptions {
    fn kind(&self) -> &'static str {
        "score_captions"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        // Graphs of different parsers and words of different tokenisers differ, so these are part of the key.
        match self.measure.cider() {
            Some((_, cider)) => {
                if let Some(revision) = cider.tokenizer.revision() {
                    settings["tokenizer_revision"] = revision.into();
                }
            }
            None => settings["parser"] = scene_graph::PARSER_NAME.into(),
        }
        settings
    }

    fn inputs(&self) -> Vec<StageInput> {
        let mut inputs = vec![StageInput::table("captions", &self.captions, &tables::captions::table())];
        if let Measure::Spice(SpiceSettings { graphs: Some(graphs), .. }) = &self.measure {
            inputs.push(StageInput::table("measure.spice.graphs", graphs, &tables::scene_graphs::table()));
        }
        if let PairSelection::Table(pairs) = &self.pairs {
            inputs.push(StageInput::any_table("pairs.table", pairs, pair_columns()));
        }
        inputs
    }

    fn outputs(&self) -> Vec<StageOutput> {
        let mut outputs = Vec::new();
        match &self.measure {
            Measure::CiderD(_) | Measure::Cider(_) => {
                outputs.push(StageOutput::table(
                    "caption_ngrams",
                    tables::caption_ngrams::table().schema(),
                    CAPTION_PART_ROWS,
                ));
            }
            Measure::Spice(spice) => {
                if spice.graphs.is_none() {
                    outputs.push(StageOutput::table(
                        "scene_graphs",
                        tables::scene_graphs::table().schema(),
                        CAPTION_PART_ROWS,
                    ));
                }
                if let PairSelection::Table(_) = self.pairs {
                    let schema = tables::spice_scores::table().schema();
                    outputs.push(StageOutput::table("spice_scores", schema, SCORE_PART_ROWS));
                }
            }
        }
        if !matches!(self.pairs, PairSelection::OnDemand) {
            // Parts are limited by their number of values, see `PART_VALUES`.
            outputs.push(StageOutput::table("caption_similarity", tables::caption_similarity::table().schema(), 1024));
        }
        outputs
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.split.trim().is_empty() {
            problems.push(Problem::new("split", "got an empty name"));
        }
        if let PairSelection::Top(0) = self.pairs {
            problems.push(Problem::new("pairs.top", "got 0, expected at least 1"));
        }
        if let (PairSelection::OnDemand, Measure::Spice(SpiceSettings { graphs: Some(_), .. })) =
            (&self.pairs, &self.measure)
        {
            problems.push(
                Problem::new("pairs", "nothing to do: the graphs are given, and no pairs are selected")
                    .hint("use the given graphs in `train` directly"),
            );
        }
        if let Some((name, cider)) = self.measure.cider() {
            if let Some(images) = cider.document_count.filter(|images| !(1..=u64::from(u32::MAX)).contains(images)) {
                let message = format!("got {images}, expected 1 to {}", u32::MAX);
                problems.push(Problem::new(format!("{name}.document_count"), message));
            }
            if cider.uniform && (cider.document_count.is_some() || cider.document_frequency_split.is_some()) {
                let message =
                    "got `uniform` with `document_count` or `document_frequency_split`, which have no effect then";
                problems.push(Problem::new(name, message));
            }
        }
        problems
    }
}

impl RunnableStage for ScoreCaptions {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        match &self.measure {
            Measure::CiderD(settings) => cider::run(self, CiderVariant::CiderD, settings, cx),
            Measure::Cider(settings) => cider::run(self, CiderVariant::Cider, settings, cx),
            Measure::Spice(settings) => spice::run(self, settings, cx),
        }
    }
}

impl ScoreCaptions {
    /// Returns the pairs that the setting `pairs` selects; `None` for none.
    fn selected_pairs(&self, cx: &mut StageContext<'_>, corpus: &SplitCaptions) -> Result<Option<SelectedPairs>> {
        Ok(match &self.pairs {
            PairSelection::Dense => Some(SelectedPairs::Dense),
            PairSelection::Top(m) => Some(SelectedPairs::Top(*m)),
            PairSelection::Table(_) => Some(SelectedPairs::Pairs(read_pairs(cx, corpus, &self.split)?)),
            PairSelection::OnDemand => None,
        })
    }
}

/// Reads the pairs, grouped by image. Images are in the order of `corpus`, the captions of an image in that of the
/// table. A pair that several rows have, such as several ratings, is scored once. If the table has a column `split`, rows
/// of other splits are ignored.
///
/// # Errors
/// The image or caption of a pair is not in the split. The error names all such rows.
fn read_pairs(cx: &mut StageContext<'_>, corpus: &SplitCaptions, split: &str) -> Result<Vec<(usize, Vec<usize>)>> {
    let index = |ids: &[i64]| ids.iter().enumerate().map(|(i, &id)| (id, i)).collect::<HashMap<_, _>>();
    let (images, captions) = (index(&corpus.image_ids), index(&corpus.caption_ids));
    let mut requested: Vec<Vec<usize>> = vec![Vec::new(); corpus.image_ids.len()];
    let mut seen: HashSet<(usize, usize)> = HashSet::new();
    let (mut mistakes, mut first_row) = (ValidationErrors::in_table("pairs.table"), 0);
    while let Some(batch) = cx.read_next("pairs.table")? {
        let (image_ids, caption_ids) =
            (tables::int_column(&batch, "image_id")?, tables::int_column(&batch, "caption_id")?);
        // The table may hold several splits, as `captions` does.
        let splits = batch.column_by_name("split").map(|_| tables::text_column(&batch, "split")).transpose()?;
        for row in 0..batch.num_rows() {
            if splits.is_some_and(|splits| !split.split('+').any(|one| one == splits.value(row))) {
                continue;
            }
            let (number, image_id, caption_id) = (first_row + row, image_ids.value(row), caption_ids.value(row));
            let mut problem = |message: String| mistakes.add(format_args!("row {number}"), message);
            match (images.get(&image_id), captions.get(&caption_id)) {
                (Some(&image), Some(&caption)) => {
                    if seen.insert((image, caption)) {
                        requested[image].push(caption);
                    }
                }
                (None, _) => problem(format!("no image_id {image_id} in split `{split}`")),
                (_, None) => problem(format!("no caption_id {caption_id} in split `{split}`")),
            }
        }
        first_row += batch.num_rows();
    }
    mistakes.hint(
        "captions and pairs must come from the same data set and split; `split = \"train+test\"` scores the captions of \
         both together",
    );
    mistakes.into_result()?;
    if requested.iter().all(Vec::is_empty) {
        return Err(Error::data(format!("the table of pairs has no rows of split `{split}`")));
    }
    Ok(requested.into_iter().enumerate().filter(|(_, captions)| !captions.is_empty()).collect())
}

/// Captions of one split. Images and captions are numbered from 0: images in the order of their first caption, captions
/// image by image and in the order of the table.
#[derive(Debug, Default)]
struct SplitCaptions {
    pub image_ids: Vec<i64>,
    pub caption_ids: Vec<i64>,
    pub texts: Vec<String>,
    /// Index of the first caption of each image, followed by the number of captions.
    pub first_caption: Vec<usize>,
}

impl SplitCaptions {
    /// Returns the image of every caption.
    pub fn image_of(&self) -> Vec<usize> {
        let counts = self.first_caption.windows(2).map(|ends| ends[1] - ends[0]);
        counts.enumerate().flat_map(|(image, count)| std::iter::repeat_n(image, count)).collect()
    }

    /// Applies `function` to every text, on the threads of the stage.
    pub fn parallel_map<T: Send>(&self, resources: &Resources, function: impl Fn(&str) -> T + Sync) -> Result<Vec<T>> {
        let size = self.texts.len().div_ceil(resources.threads.max(1)).max(1);
        let mapped = |text: &String| resources.cancel.check().map(|()| function(text));
        let mapped = &mapped;
        std::thread::scope(|scope| {
            let chunks: Vec<_> = self
                .texts
                .chunks(size)
                .map(|chunk| scope.spawn(move || chunk.iter().map(mapped).collect::<Result<Vec<T>>>()))
                .collect();
            let mut all = Vec::with_capacity(self.texts.len());
            for chunk in chunks {
                all.extend(chunk.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(all)
        })
    }
}

/// Reads the captions of each of these splits. `train+restval` is a split of the captions of both.
///
/// # Errors
/// A caption identifier occurs twice, a split has no captions, or an image is in two splits.
fn read_splits<const N: usize>(cx: &mut StageContext<'_>, splits: [&str; N]) -> Result<[SplitCaptions; N]> {
    let mut rows: [Vec<(usize, i64, String)>; N] = std::array::from_fn(|_| Vec::new());
    let mut images: [Vec<i64>; N] = std::array::from_fn(|_| Vec::new());
    let mut numbers: HashMap<i64, (usize, usize)> = HashMap::new();
    let mut seen: HashMap<i64, usize> = HashMap::new();
    let (mut mistakes, mut others) = (ValidationErrors::in_table("captions"), BTreeSet::new());
    let mut first_row = 0;
    while let Some(batch) = cx.read_next("captions")? {
        let (caption_ids, image_ids) =
            (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        let (split, text) = (tables::text_column(&batch, "split")?, tables::text_column(&batch, "text")?);
        for row in 0..batch.num_rows() {
            let Some(index) = splits.iter().position(|parts| parts.split('+').any(|one| one == split.value(row)))
            else {
                others.insert(split.value(row).to_owned());
                continue;
            };
            let (number, caption_id, image_id) = (first_row + row, caption_ids.value(row), image_ids.value(row));
            if let Some(earlier) = seen.insert(caption_id, number) {
                mistakes.add(
                    format_args!("row {number}"),
                    format_args!("caption_id {caption_id} is also in row {earlier}"),
                );
            }
            let (first_index, image) = *numbers.entry(image_id).or_insert_with(|| {
                images[index].push(image_id);
                (index, images[index].len() - 1)
            });
            if first_index != index {
                let (here, before) = (splits[index], splits[first_index]);
                let message = format!("image_id {image_id} is in split `{here}` here and in `{before}` before");
                mistakes.add(format_args!("row {number}"), message);
                continue;
            }
            rows[index].push((image, caption_id, text.value(row).to_owned()));
        }
        first_row += batch.num_rows();
    }
    mistakes.into_result()?;
    if let Some(empty) = rows.iter().position(Vec::is_empty) {
        others.extend((0..N).filter(|&i| !rows[i].is_empty()).map(|i| splits[i].to_owned()));
        let others: Vec<String> = others.iter().map(|name| format!("`{name}`")).collect();
        let there = if others.is_empty() { "no rows at all".to_owned() } else { others.join(", ") };
        return Err(Error::data(format!("no captions of split `{}`; there are {there}", splits[empty])));
    }
    let mut images = images.into_iter();
    Ok(rows.map(|rows| group_by_image(images.next().unwrap_or_default(), rows)))
}

fn group_by_image(image_ids: Vec<i64>, mut rows: Vec<(usize, i64, String)>) -> SplitCaptions {
    rows.sort_by_key(|&(image, ..)| image);
    let first_caption = (0..=image_ids.len()).map(|image| rows.partition_point(|&(other, ..)| other < image)).collect();
    let mut corpus = SplitCaptions { image_ids, first_caption, ..SplitCaptions::default() };
    for (_, caption_id, text) in rows {
        corpus.caption_ids.push(caption_id);
        corpus.texts.push(text);
    }
    corpus
}

/// Maximum number of values of a part. A crash costs at most one part of work, and a few parts are in memory at once.
const PART_VALUES: usize = 2_000_000;

/// Pairs that are scored.
#[derive(Debug)]
enum SelectedPairs {
    /// Every image with all captions.
    Dense,
    /// Every image with this number of captions of the largest φ.
    Top(usize),
    /// Given images, each with the given captions.
    Pairs(Vec<(usize, Vec<usize>)>),
}

/// Measure and tokeniser of φ, which every row names.
#[derive(Debug, Clone, Copy)]
struct MeasureInfo<'t> {
    pub measure: &'static str,
    pub tokenizer: &'t str,
}

/// Writes φ of the selected pairs.
///
/// Memory: `similarity`, and a few parts of two million values.
fn write_similarities<S: CaptionSimilarity>(
    cx: &mut StageContext<'_>,
    corpus: &SplitCaptions,
    similarity: &S,
    selected: &SelectedPairs,
    info: MeasureInfo<'_>,
) -> Result<()> {
    let (count, values) = match selected {
        SelectedPairs::Dense => (corpus.image_ids.len(), corpus.caption_ids.len()),
        SelectedPairs::Top(m) => (corpus.image_ids.len(), *m),
        SelectedPairs::Pairs(pairs) => {
            (pairs.len(), pairs.iter().map(|(_, captions)| captions.len()).max().unwrap_or(1))
        }
    };
    let size = (PART_VALUES / values.max(1)).clamp(1, 1024);
    let cancel = cx.cancel().clone();
    // Scratch memory is reused by later blocks, on any thread.
    let idle: Mutex<Vec<S::Scratch>> = Mutex::default();
    cx.map(MapInput::Range(count), "caption_similarity", size, &|numbers| {
        let mut scratch = lock(&idle).pop().unwrap_or_default();
        let range = numbers.range.clone();
        let batch = similarity_batch(corpus, similarity, selected, info, range, &mut scratch, &cancel)?;
        lock(&idle).push(scratch);
        Ok(MapOutput::new(batch))
    })?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn similarity_batch<S: CaptionSimilarity>(
    corpus: &SplitCaptions,
    similarity: &S,
    selected: &SelectedPairs,
    info: MeasureInfo<'_>,
    range: Range<usize>,
    scratch: &mut S::Scratch,
    cancel: &CancelToken,
) -> Result<RecordBatch> {
    let n_rows = range.len();
    let (mut image_ids, mut caption_ids, mut values) = (Vec::with_capacity(n_rows), Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(n_rows);
    for row in range {
        cancel.check()?;
        let before = values.len();
        let image = match selected {
            SelectedPairs::Dense => {
                values.resize(before + corpus.caption_ids.len(), 0.0);
                similarity.row(row, scratch, &mut values[before..]);
                caption_ids.extend_from_slice(&corpus.caption_ids);
                row
            }
            SelectedPairs::Top(m) => {
                for (caption, value) in similarity.top_captions(row, *m, scratch) {
                    caption_ids.push(corpus.caption_ids[caption]);
                    values.push(to_f32(value));
                }
                row
            }
            SelectedPairs::Pairs(pairs) => {
                let (image, captions) = &pairs[row];
                for &caption in captions {
                    caption_ids.push(corpus.caption_ids[caption]);
                    values.push(to_f32(similarity.pair(*image, caption)));
                }
                *image
            }
        };
        image_ids.push(corpus.image_ids[image]);
        lengths.push(values.len() - before);
    }
    tables::caption_similarity::batch(image_ids, &lengths, caption_ids, values, info.measure, info.tokenizer)
}

#[expect(clippy::cast_possible_truncation, reason = "tables hold f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}
