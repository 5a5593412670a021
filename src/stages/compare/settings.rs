//! The settings of `compare`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernels::text::Tokenizer;
use crate::kernels::text::cider::OwnCaption;
use crate::language::scene_graph::{self, UnfinishedCaption};
use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// Rows of a part of `caption_ngrams` and of `scene_graphs`.
pub(super) const CAPTION_PART_ROWS: usize = 8192;
/// Rows of a part of `spice_scores`.
pub(super) const SCORE_PART_ROWS: usize = 65_536;

/// Compares captions with the captions of images.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The captions: those compared, and those of the images that they are compared with.
    pub captions: TableRef,
    /// The split that is compared; several as one are written `train+restval`.
    #[serde(default = "test")]
    pub split: String,
    /// What φ is.
    pub measure: Measure,
    /// Which pairs of image and caption are compared.
    #[serde(default)]
    pub form: CompareForm,
}

/// What φ is: one of these.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Measure {
    /// CIDEr-D: clipped counts, and a penalty for another length.
    CiderD(CiderSettings),
    /// CIDEr: the cosine of tf-idf vectors.
    Cider(CiderSettings),
    /// SPICE-style: the F-score of scene graphs.
    Spice(SpiceSettings),
}

/// Which pairs of image and caption are compared.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CompareForm {
    /// Every image of the split with every caption of the split.
    #[default]
    Dense,
    /// For each image of the split the captions of the split with the largest φ: how many.
    Top(usize),
    /// The pairs of a table with the columns `image_id` and `caption_id`, such as `ratings` or `captions`; where it has a
    /// column `split` too, those of the split.
    Pairs(TableRef),
    /// None: only what φ follows from is written, for a trainer that asks for the pairs of each mini-batch.
    OnDemand,
}

/// Settings of CIDEr-D and CIDEr.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CiderSettings {
    /// How captions are cut into words.
    #[serde(default = "ptb")]
    pub tokenizer: Tokenizer,
    /// Whether words are compared in lower case.
    #[serde(default = "yes")]
    pub lowercase: bool,
    /// The split whose images count for document frequencies; the one that is compared where not given.
    #[serde(default)]
    pub document_frequency: Option<String>,
    /// Every n-gram weighs the same; there are no document frequencies.
    #[serde(default)]
    pub uniform: bool,
    /// N of the weights ln N - ln df; the number of images that document frequencies are counted over where not given.
    #[serde(default)]
    pub images: Option<u64>,
    /// The place of a caption among the references of its own image: kept, or left out.
    #[serde(default)]
    pub own_caption: OwnCaption,
}

/// Settings of SPICE.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpiceSettings {
    /// Scene graphs that an earlier comparison wrote; parsed here where not given.
    #[serde(default)]
    pub graphs: Option<TableRef>,
    /// How a caption without a final period is read, such as `man riding a horse`.
    #[serde(default)]
    pub unfinished: UnfinishedCaption,
}

impl Measure {
    /// As tables say it.
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

/// The columns that name a pair.
fn pair_columns() -> SchemaRef {
    let id = |name| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![id("image_id"), id("caption_id")]))
}

fn test() -> String {
    "test".to_owned()
}

fn ptb() -> Tokenizer {
    Tokenizer::Ptb
}

fn yes() -> bool {
    true
}

impl Stage for Compare {
    fn kind(&self) -> &'static str {
        "compare"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        // Graphs of another parser are other graphs.
        if let Measure::Spice(_) = self.measure {
            settings["parser"] = scene_graph::NAME.into();
        }
        settings
    }

    fn inputs(&self) -> Vec<Input> {
        let mut inputs = vec![Input::table("captions", &self.captions, tables::captions::table().schema())];
        if let Measure::Spice(SpiceSettings { graphs: Some(graphs), .. }) = &self.measure {
            inputs.push(Input::table("measure.spice.graphs", graphs, tables::scene_graphs::table().schema()));
        }
        if let CompareForm::Pairs(pairs) = &self.form {
            inputs.push(Input::table("form.pairs", pairs, pair_columns()));
        }
        inputs
    }

    fn outputs(&self) -> Vec<Output> {
        let mut outputs = Vec::new();
        match &self.measure {
            Measure::CiderD(_) | Measure::Cider(_) => {
                outputs.push(Output::table(
                    "caption_ngrams",
                    tables::caption_ngrams::table().schema(),
                    CAPTION_PART_ROWS,
                ));
            }
            Measure::Spice(spice) => {
                if spice.graphs.is_none() {
                    outputs.push(Output::table(
                        "scene_graphs",
                        tables::scene_graphs::table().schema(),
                        CAPTION_PART_ROWS,
                    ));
                }
                if let CompareForm::Pairs(_) = self.form {
                    let schema = tables::spice_scores::table().schema();
                    outputs.push(Output::table("spice_scores", schema, SCORE_PART_ROWS));
                }
            }
        }
        if !matches!(self.form, CompareForm::OnDemand) {
            // Parts hold a number of values rather than of rows: see the work of the stage.
            outputs.push(Output::table("caption_similarity", tables::caption_similarity::table().schema(), 1024));
        }
        outputs
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.split.trim().is_empty() {
            problems.push(Problem::new("split", "got an empty name"));
        }
        if let CompareForm::Top(0) = self.form {
            problems.push(Problem::new("form.top", "got 0, wanted at least 1"));
        }
        if let (CompareForm::OnDemand, Measure::Spice(SpiceSettings { graphs: Some(_), .. })) =
            (&self.form, &self.measure)
        {
            problems.push(
                Problem::new("form", "there is nothing to do: the graphs are there, and no pairs are asked for")
                    .hint("give the trainer the graphs themselves"),
            );
        }
        if let Some((name, cider)) = self.measure.cider() {
            if let Some(images) = cider.images.filter(|images| !(1..=u64::from(u32::MAX)).contains(images)) {
                let message = format!("got {images}, wanted 1 to {}", u32::MAX);
                problems.push(Problem::new(format!("{name}.images"), message));
            }
            if cider.uniform && (cider.images.is_some() || cider.document_frequency.is_some()) {
                let message = "got `uniform` with `images` or `document_frequency`, which mean nothing then";
                problems.push(Problem::new(name, message));
            }
        }
        problems
    }
}
