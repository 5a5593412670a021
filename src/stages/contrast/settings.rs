//! The settings of `contrast`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stage::{Input, Output, Problem, Stage, TableRef};
use crate::tables;

/// The inputs.
pub(super) const RANKINGS: &str = "rankings";
pub(super) const AGAINST: &str = "against";

/// Tests whether two evaluations of the same queries differ by more than chance: two models, or two methods of one.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contrast {
    /// What queries found. Each method of it is compared.
    pub rankings: TableRef,
    /// What the same queries found in another evaluation; that of `rankings` where not given.
    #[serde(default)]
    pub against: Option<TableRef>,
    /// The method of `against` that all are compared with, such as `nns`. Where not given, with `against` the same method with
    /// the same parameters, and without it `nns`.
    #[serde(default)]
    pub baseline: Option<String>,
}

impl Contrast {
    /// The method that all are compared with, if it is always the same.
    pub(super) fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref().or_else(|| self.against.is_none().then_some("nns"))
    }
}

impl Stage for Contrast {
    fn kind(&self) -> &'static str {
        "contrast"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        let schema = tables::rankings::table(&[]).schema();
        let against = self.against.iter().map(|from| Input::table(AGAINST, from, schema.clone()));
        std::iter::once(Input::table(RANKINGS, &self.rankings, schema.clone())).chain(against).collect()
    }

    fn outputs(&self) -> Vec<Output> {
        vec![Output::table("contrasts", tables::contrasts::table().schema(), 8192)]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.baseline.as_ref().is_some_and(|name| name.trim().is_empty()) {
            problems.push(Problem::new("baseline", "got an empty name").hint("leave it out, or name a method: `nns`"));
        }
        problems
    }
}
