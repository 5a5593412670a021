//! Messages between the ranks of a run, and the key-value store that carries them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::environment::RankEnvironment;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::runtime::{CancelToken, ErrorMessage, Rendezvous};
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
                let value_of = |values: &'v serde_json::Map<String, Value>| values.get(name).unwrap_or(&Value::Null);
                differences(&path, value_of(ones), value_of(others), found);
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
        drop(Error::from(error).to_string());
    }
}

/// Time between two checks for a message.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout of one attempt to connect. Cancellation is checked between attempts.
const CONNECT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for connecting to rank 0 if rank 0 started this process: its store is there before the process is.
const LOCAL_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Key-value store that all ranks reach.
pub trait RendezvousStore: Send + Sync {
    /// Sets the value of a key.
    ///
    /// # Errors
    /// The server of the store does not answer.
    fn put(&self, key: &str, value: &[u8]) -> Result<()>;

    /// Returns the value of a key; `None` if it is not set.
    ///
    /// # Errors
    /// The server of the store does not answer.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;
}

/// Opens key-value stores. The engine has no implementation; the program passes it one (that of libtorch).
pub trait RendezvousBackend: Debug + Sync {
    /// Starts a store for all ranks and returns it with its port; port 0 chooses a free one. Listens at the address of
    /// `host`. If this machine lacks that address and `any_address` is set, it listens at all addresses.
    ///
    /// # Errors
    /// The port is in use, or the address cannot be bound.
    fn serve(
        &self,
        host: &str,
        port: u16,
        timeout: Duration,
        any_address: bool,
    ) -> Result<(Box<dyn RendezvousStore>, u16)>;

    /// Connects to the store of rank 0.
    ///
    /// # Errors
    /// No server answers.
    fn connect(&self, host: &str, port: u16, timeout: Duration) -> Result<Box<dyn RendezvousStore>>;
}

/// Typed messages in a key-value store. The keys have a prefix that belongs to one group of ranks.
///
/// If the group has a token, messages are signed with a keyed hash, and messages without a valid signature are ignored.
pub(super) struct MessageStore {
    store: Box<dyn RendezvousStore>,
    prefix: String,
    key: Option<[u8; 32]>,
}

impl MessageStore {
    /// Messages in `store` with this prefix, signed if there is a token.
    pub fn new(store: Box<dyn RendezvousStore>, prefix: &str, token: Option<&str>) -> Self {
        let key = token.map(|token| blake3::derive_key("pairloom 2026 messages of ranks", token.as_bytes()));
        Self { store, prefix: prefix.to_owned(), key }
    }

    /// Prefix of the keys of this group.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Connects to rank 0. Retries until the timeout.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    pub fn connect(
        backend: &dyn RendezvousBackend,
        environment: &RankEnvironment,
        timeout: Duration,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let begun = Instant::now();
        let timeout = if environment.is_launched_here { LOCAL_CONNECT_TIMEOUT.min(timeout) } else { timeout };
        loop {
            cancel.check()?;
            match backend.connect(&environment.host, environment.port, CONNECT_ATTEMPT_TIMEOUT) {
                Ok(store) => return Ok(Self::new(store, &environment.prefix, environment.token.as_deref())),
                Err(error) if error.is_peer() && begun.elapsed() < timeout => std::thread::sleep(POLL_INTERVAL),
                Err(error) => {
                    let (host, port) = (&environment.host, environment.port);
                    return Err(error.context(format!("no rank 0 at `{host}:{port}`")));
                }
            }
        }
    }

    /// Writes a message.
    pub fn put(&self, name: &str, message: &impl Serialize) -> Result<()> {
        let name = format!("{}/{name}", self.prefix);
        let text = serde_json::to_vec(message).map_err(|error| Error::internal(error.to_string()))?;
        let mut content = self.signature(&name, &text);
        content.extend(text);
        self.store.put(&name, &content)
    }

    /// Reads the message with this name; `None` if there is none.
    pub fn get<M: DeserializeOwned>(&self, name: &str) -> Result<Option<M>> {
        let name = format!("{}/{name}", self.prefix);
        let Some(content) = self.store.get(&name)? else { return Ok(None) };
        let signature_len = if self.key.is_some() { blake3::OUT_LEN } else { 0 };
        let Some((signature, text)) = content.split_at_checked(signature_len) else { return Ok(None) };
        if !self.is_signed(&name, text, signature) {
            return Ok(None);
        }
        let wrong = |error| Error::peer(format!("`{name}` is not a message of this program: {error}"));
        serde_json::from_slice(text).map(Some).map_err(wrong)
    }

    fn signature(&self, name: &str, text: &[u8]) -> Vec<u8> {
        self.key.map_or_else(Vec::new, |key| keyed_hash(&key, name, text).as_bytes().to_vec())
    }

    fn is_signed(&self, name: &str, text: &[u8], signature: &[u8]) -> bool {
        // `blake3::Hash` compares in constant time.
        self.key.is_none_or(|key| {
            blake3::Hash::from_slice(signature).is_ok_and(|hash| hash == keyed_hash(&key, name, text))
        })
    }
}

/// Signature of a message. It includes the name, so that a message cannot be moved to another name.
fn keyed_hash(key: &[u8; 32], name: &str, text: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(text);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

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

    #[derive(Default, Clone)]
    struct InMemoryStore(Arc<Mutex<HashMap<String, Vec<u8>>>>);

    impl RendezvousStore for InMemoryStore {
        fn put(&self, key: &str, value: &[u8]) -> Result<()> {
            self.0.lock().unwrap().insert(key.to_owned(), value.to_vec());
            Ok(())
        }
        fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
            Ok(self.0.lock().unwrap().get(key).cloned())
        }
    }

    #[test]
    fn messages_without_a_valid_signature_are_ignored() {
        let shelf = InMemoryStore::default();
        let with = |token: Option<&str>| MessageStore::new(Box::new(shelf.clone()), "run", token);
        let (ours, stranger, open) = (with(Some("secret")), with(Some("guess")), with(None));
        for (speaker, heard) in [(&stranger, None), (&open, None), (&ours, Some(7_u64))] {
            speaker.put("job", &7_u64).unwrap();
            assert_eq!(ours.get::<u64>("job").unwrap(), heard);
        }
        // A valid message under another name, one that was cut, and one that was changed.
        let content = shelf.get("run/job").unwrap().unwrap();
        for (name, content) in
            [("end", content.clone()), ("job", content[..20].to_vec()), ("job", [&content[..32], b"8"].concat())]
        {
            shelf.put(&format!("run/{name}"), &content).unwrap();
            assert_eq!(ours.get::<u64>(name).unwrap(), None, "{name}");
        }
        assert_eq!(ours.get::<u64>("nothing").unwrap(), None);
    }

    #[test]
    fn a_message_of_another_type_is_an_error() {
        let messages = MessageStore::new(Box::new(InMemoryStore::default()), "run", None);
        messages.put("job", &"text").unwrap();
        assert!(messages.get::<u64>("job").unwrap_err().is_peer());
    }
}
