//! Messages between the ranks of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use pairloom_base::error::TruncatedList;
use pairloom_base::runtime::{ErrorMessage, Rendezvous};
use pairloom_stage::plan::Plan;
use pairloom_stage::{InputOrigin, Stage};
use pairloom_store::key::ArtefactIdentity;
use pairloom_store::{FileEntry, Part};

/// First message of every rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HelloMessage {
    /// Description of the plan, or the error because of which there is none.
    pub plan: Result<Value, ErrorMessage>,
}

/// Stage that all ranks are to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RankJob {
    /// Name of the stage.
    pub stage: String,
    /// Identity of its artefact. It locates inputs and state in the store.
    pub identity: ArtefactIdentity,
    /// Parts of the table inputs, by input.
    pub parts: BTreeMap<String, Vec<Part>>,
    /// Files of the files inputs, by input.
    pub files: BTreeMap<String, Vec<FileEntry>>,
    /// State from which the stage resumes, if any.
    pub state: Option<FileEntry>,
    /// Numbers of committed parts, by table.
    pub committed: BTreeMap<String, usize>,
    /// Rendezvous for the exchange of tensors.
    pub rendezvous: Rendezvous,
}

/// Result of a job on a rank, or of the run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ResultMessage {
    pub result: Result<(), ErrorMessage>,
}

/// Description of a plan, which must be the same on all ranks: the stages, their settings and their connections. Paths
/// of sources, threads and devices may differ between ranks.
pub(crate) fn plan_description<S: Stage>(plan: &Plan<S>) -> Value {
    let stages = plan.stages().iter().map(|node| {
        let inputs = node.stage.inputs().into_iter().map(|input| {
            let from = match &input.origin {
                InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. } => json!(from.to_string()),
                InputOrigin::Source(_) => Value::Null,
            };
            (input.name, from)
        });
        let inputs: serde_json::Map<String, Value> = inputs.collect();
        let mut whole = json!({ "inputs": inputs, "code": node.stage.version() });
        whole[node.stage.kind()] = node.stage.settings();
        (node.name.clone(), whole)
    });
    Value::Object(stages.collect())
}

/// Lists the differences between the plan of another rank and that of rank 0; `None` if they are the same.
pub(super) fn describe_differences(rank: usize, own: &Value, other: &Value) -> Option<String> {
    let mut found = Vec::new();
    differences("", own, other, &mut found);
    let shown = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    let texts: TruncatedList = found
        .iter()
        .map(|(path, own, other)| format!("`{path}` is {} on rank 0 and {} on rank {rank}", shown(own), shown(other)))
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Collects the values that differ between `one` and `other`, with their dotted paths; null stands for a missing value.
fn differences<'v>(path: &str, one: &'v Value, other: &'v Value, found: &mut Vec<(String, &'v Value, &'v Value)>) {
    match (one, other) {
        (Value::Object(ones), Value::Object(others)) => {
            let mut names: Vec<_> = ones.keys().chain(others.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                let of = |values: &'v serde_json::Map<String, Value>| values.get(name).unwrap_or(&Value::Null);
                differences(&path, of(ones), of(others), found);
            }
        }
        _ if one == other => {}
        _ => found.push((path.to_owned(), one, other)),
    }
}

/// Parses bytes from another process as each of the messages, for fuzzing.
pub fn parse_rank_messages(bytes: &[u8]) {
    if let Ok(HelloMessage { plan: Ok(plan) }) = serde_json::from_slice(bytes) {
        drop(describe_differences(1, &json!({ "fit": { "train": { "epochs": 3 } } }), &plan));
    }
    drop(serde_json::from_slice::<RankJob>(bytes));
    if let Ok(ResultMessage { result: Err(error) }) = serde_json::from_slice(bytes) {
        drop(pairloom_base::error::Error::from(error).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_listed_with_both_values() {
        let own = json!({ "fit": { "train": { "loss": { "hal": { "gamma": 60.0 } }, "epochs": 3 } } });
        let mut other = own.clone();
        assert_eq!(describe_differences(1, &own, &other), None);
        other["fit"]["train"]["loss"]["hal"]["gamma"] = json!(30.0);
        other["fit"]["train"]["batch_size"] = json!(64);
        assert_eq!(
            describe_differences(2, &own, &other).unwrap(),
            "`fit.train.batch_size` is nothing on rank 0 and 64 on rank 2; `fit.train.loss.hal.gamma` is 60.0 on rank 0 and \
             30.0 on rank 2"
        );
        let many: Value = (0..30).map(|i| (i.to_string(), json!(1))).collect::<serde_json::Map<_, _>>().into();
        assert!(describe_differences(1, &json!({}), &many).unwrap().ends_with("; and 10 more"));
    }
}
