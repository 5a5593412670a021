//! The settings of `evaluate`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// Ranks embeddings and measures retrieval.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluate {
    /// Images in the joint space.
    pub images: TableRef,
    /// Captions in the joint space.
    pub captions: TableRef,
    /// Name of the data set, the first part of the protocol's name in results: `coco`, `f30k`.
    pub dataset: String,
    /// The split that is ranked.
    #[serde(default = "test")]
    pub split: String,
    /// Which pools are ranked.
    #[serde(default = "all")]
    pub protocols: Vec<Protocol>,
}

/// Which pool of images and captions a query is ranked in, and so what the first part of a result's name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The whole split (`coco-5k`, `f30k-1k`; 1,000 images of COCO are `coco-1k-single`).
    All,
    /// The mean over five consecutive blocks of 1,000 images (`coco-1k-five-fold`).
    FiveFold,
    /// The first 1,000 images (`coco-1k-first-fold`).
    FirstFold,
}

fn test() -> String {
    "test".to_owned()
}

fn all() -> Vec<Protocol> {
    vec![Protocol::All]
}

impl Stage for Evaluate {
    fn kind(&self) -> &'static str {
        "evaluate"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        vec![
            Input::table("images", &self.images, tables::image_embeddings::table().schema()),
            Input::table("captions", &self.captions, tables::caption_embeddings::table().schema()),
        ]
    }

    fn outputs(&self) -> Vec<Output> {
        vec![
            Output::table("rankings", tables::rankings::table().schema(), 8192),
            Output::table("metrics", tables::metrics::table().schema(), 8192),
            Output::table("summary", tables::summary::table().schema(), 8192),
        ]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (setting, value) in [("dataset", &self.dataset), ("split", &self.split)] {
            if value.trim().is_empty() {
                problems.push(Problem::new(setting, "got an empty name"));
            }
        }
        if self.protocols.is_empty() {
            problems.push(
                Problem::new("protocols", "got an empty list, wanted at least one protocol")
                    .hint("leave it out for `all`"),
            );
        }
        for (i, protocol) in self.protocols.iter().enumerate() {
            if self.protocols[..i].contains(protocol) {
                problems.push(Problem::new("protocols", format!("`{}` stands there twice", protocol.name())));
            }
        }
        problems
    }
}
