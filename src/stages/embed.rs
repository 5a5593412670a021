//! `embed`: `model`, `features`, `captions` → `image_embeddings`, `caption_embeddings`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::stage::{Cx, Input, Output, Problem, Run, Stage, TableRef};
use crate::tables;

/// Rows of a part.
const PART_ROWS: usize = 4096;

/// Embeds images and captions with a trained model.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embed {
    /// The model.
    pub model: TableRef,
    /// Feature vectors of the images.
    pub features: TableRef,
    /// The captions.
    pub captions: TableRef,
    /// Splits that are embedded; all of them when empty.
    #[serde(default)]
    pub splits: Vec<String>,
}

impl Stage for Embed {
    fn kind(&self) -> &'static str {
        "embed"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        vec![
            Input::files("model", &self.model),
            Input::table("features", &self.features, tables::features::table().schema()),
            Input::table("captions", &self.captions, tables::captions::table().schema()),
        ]
    }

    fn outputs(&self) -> Vec<Output> {
        vec![
            Output::table("image_embeddings", tables::image_embeddings::table().schema(), PART_ROWS),
            Output::table("caption_embeddings", tables::caption_embeddings::table().schema(), PART_ROWS),
        ]
    }

    fn check(&self) -> Vec<Problem> {
        vec![]
    }
}

impl Run for Embed {
    fn run(&self, _cx: &mut Cx<'_>) -> Result<()> {
        Err(Error::internal("embed is being written"))
    }
}
