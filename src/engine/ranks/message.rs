//! What the ranks of a run tell each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Error, Kind, TruncatedList};
use crate::plan::Plan;
use crate::runtime::Meeting;
use crate::stage::{Origin, Stage};
use crate::store::key::{Identity, differences};
use crate::store::{FileEntry, Part};

/// The first message of every rank: what it would run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Hello {
    /// Every stage, or why there are none.
    pub plan: Result<Value, Failure>,
}

/// A stage that is to be run together.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    /// Its name.
    pub stage: String,
    /// What its result is made of, and so where its inputs and its state lie in the store.
    pub identity: Identity,
    /// The parts of its table inputs, by input.
    pub parts: BTreeMap<String, Vec<Part>>,
    /// The files of its files inputs, by input.
    pub files: BTreeMap<String, Vec<FileEntry>>,
    /// Its state when it begins.
    pub state: Option<FileEntry>,
    /// Where tensors are exchanged.
    pub meeting: Meeting,
}

/// How a job ended on a rank, or how the run ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Report {
    pub result: Result<(), Failure>,
}

/// An error on its way to another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Failure {
    kind: String,
    message: String,
    hint: Option<String>,
    peer: bool,
}

/// Kinds by the name that they have in messages.
const KINDS: [(&str, Kind); 6] = [
    ("expectation", Kind::Expectation),
    ("usage", Kind::Usage),
    ("data", Kind::Data),
    ("stage", Kind::Stage),
    ("interrupted", Kind::Interrupted),
    ("internal", Kind::Internal),
];

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let kind = KINDS.iter().find(|(_, kind)| *kind == error.kind()).map_or("internal", |(name, _)| name).to_owned();
        let hint = error.hint_text().map(str::to_owned);
        Self { kind, message: error.to_string(), hint, peer: error.is_peer() }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = KINDS.iter().find(|(name, _)| *name == failure.kind).map_or(Kind::Internal, |(_, kind)| *kind);
        let error = if failure.peer { Error::peer(failure.message) } else { Error::new(kind, failure.message) };
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// All that must be the same on all ranks: the stages with their settings, and what they read of each other. Where sources
/// lie may differ, as may threads and devices.
pub(crate) fn description<S: Stage>(plan: &Plan<S>) -> Value {
    let stages = plan.nodes().iter().map(|node| {
        let inputs = node.stage.inputs().into_iter().map(|input| {
            let from = match &input.origin {
                Origin::Table { from, .. } | Origin::Files { from } => json!(from.to_string()),
                Origin::Source(_) => Value::Null,
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

/// Says how another rank's description differs from that of rank 0, if it does.
pub(super) fn disagreement(rank: usize, own: &Value, other: &Value) -> Option<String> {
    let mut found = Vec::new();
    differences("", own, other, &mut found);
    let shown = |value: &Value| if value.is_null() { "nothing".to_owned() } else { value.to_string() };
    let texts: TruncatedList = found
        .iter()
        .map(|(path, own, other)| format!("`{path}` is {} on rank 0 and {} on rank {rank}", shown(own), shown(other)))
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_arrive_as_they_were() {
        for (_, kind) in KINDS {
            let text = serde_json::to_string(&Failure::from(&Error::new(kind, "broken").hint("mend it"))).unwrap();
            let back = Error::from(serde_json::from_str::<Failure>(&text).unwrap());
            assert_eq!((back.kind(), back.to_string().as_str(), back.hint_text()), (kind, "broken", Some("mend it")));
            assert!(!back.is_peer());
        }
        assert!(Error::from(Failure::from(&Error::peer("gone"))).is_peer());
    }

    #[test]
    fn a_disagreement_names_what_differs_with_both_values() {
        let own = json!({ "fit": { "train": { "loss": { "hal": { "gamma": 60.0 } }, "epochs": 3 } } });
        let mut other = own.clone();
        assert_eq!(disagreement(1, &own, &other), None);
        other["fit"]["train"]["loss"]["hal"]["gamma"] = json!(30.0);
        other["fit"]["train"]["batch"] = json!(64);
        assert_eq!(
            disagreement(2, &own, &other).unwrap(),
            "`fit.train.batch` is nothing on rank 0 and 64 on rank 2; `fit.train.loss.hal.gamma` is 60.0 on rank 0 and \
             30.0 on rank 2"
        );
        let many: Value = (0..30).map(|i| (i.to_string(), json!(1))).collect::<serde_json::Map<_, _>>().into();
        assert!(disagreement(1, &json!({}), &many).unwrap().ends_with("; and 10 more"));
    }
}
