//! Settings of `test_significance`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_stage::{Problem, Stage, StageInput, StageOutput, TableRef};
use pairloom_tables as tables;

/// Names of the inputs.
pub(super) const RANKINGS: &str = "rankings";
pub(super) const AGAINST: &str = "against";

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
    pub(super) fn baseline(&self) -> Option<&str> {
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
