//! Settings of `score_captions`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_kernels::text::Tokenizer;
use pairloom_kernels::text::cider::OwnCaption;
use pairloom_language::scene_graph::{self, MissingPeriod};
use pairloom_stage::{Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables as tables;

/// Number of rows of a part of `caption_ngrams` or `scene_graphs`.
pub(super) const CAPTION_PART_ROWS: usize = 8192;
/// Number of rows of a part of `spice_scores`.
pub(super) const SCORE_PART_ROWS: usize = 65_536;

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
    pub(super) fn name(&self) -> &'static str {
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
        // Graphs of different parsers differ, so the parser is part of the key.
        if let Measure::Spice(_) = self.measure {
            settings["parser"] = scene_graph::PARSER_NAME.into();
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
            problems.push(Problem::new("pairs.top", "got 0, wanted at least 1"));
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
                let message = format!("got {images}, wanted 1 to {}", u32::MAX);
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
