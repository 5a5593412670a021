//! Work of several processes: groups that run one stage together, tasks that other processes run, the URL of their
//! scheduler, and errors as messages between them.

use std::fmt::Debug;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Error, ErrorCategory, Result};

/// Largest number of processes of a group.
pub const MAX_RANKS: usize = 1_024;

/// A process in the group of processes that run a stage together. `pairloom_model::collective` connects them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessGroup {
    /// Rank of this process, from 0. Only rank 0 writes results.
    pub rank: usize,
    /// Number of processes in the group.
    pub world_size: usize,
    /// Rank of this process among those on its machine. It chooses the GPU.
    pub local_rank: usize,
    /// Rendezvous of the group; `None` for a single process.
    pub rendezvous: Option<Rendezvous>,
}

impl ProcessGroup {
    /// A group of one process.
    #[must_use]
    pub fn single() -> Self {
        Self { rank: 0, world_size: 1, local_rank: 0, rendezvous: None }
    }
}

/// Address of the key-value store through which the processes of a stage find each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendezvous {
    /// Name or address of the machine that serves the store.
    pub host: String,
    /// Port of the store.
    pub port: u16,
    /// Prefix of the keys of this group in the store.
    pub prefix: String,
    /// Time after which a silent process counts as lost.
    pub timeout: Duration,
    /// Secret of the processes, by which they know each other. It is never sent.
    #[serde(skip)]
    pub token: Option<String>,
    /// Name by which NCCL tells the machine of this process from others (`NCCL_HOSTID`), instead of its address.
    #[serde(skip)]
    pub nccl_host_id: Option<String>,
}

/// Runner of numbered tasks in other processes.
///
/// A job is an object that is named by the digest of its content. The result of a task is a function of the job and the
/// number of the task. So a result that exists is never computed again.
pub trait RemoteTasks: Debug + Send + Sync {
    /// Publishes an object that the processes read. Its name is the digest of its content.
    ///
    /// # Errors
    /// The object cannot be written.
    fn publish(&self, content: Vec<u8>) -> Result<String>;

    /// Runs the tasks `0..tasks` of a job that lack a result, and waits for them. Calls `report` often, with the number of
    /// tasks that have a result.
    ///
    /// # Errors
    /// The first error of `report`; a task failed; the processes cannot be reached.
    fn run(&self, job: &str, tasks: usize, report: &mut dyn FnMut(usize) -> Result<()>) -> Result<()>;

    /// Reads the result of a task; `None` if there is none.
    ///
    /// # Errors
    /// The result cannot be read.
    fn result(&self, job: &str, task: usize) -> Result<Option<Vec<u8>>>;

    /// Removes a result that is damaged.
    ///
    /// # Errors
    /// The result cannot be removed.
    fn remove_result(&self, job: &str, task: usize) -> Result<()>;

    /// Notes an operation that this process computes, because its parts depend on each other.
    fn note_computed_here(&self, operation: &str);

    /// Ends a job: removes it and the results of its tasks `0..tasks`.
    ///
    /// # Errors
    /// An object cannot be removed.
    fn finish(&self, job: &str, tasks: usize) -> Result<()>;
}

/// Port of a scheduler, if its URL names none.
const DEFAULT_PORT: u16 = 50050;

/// URL of a scheduler: `http://HOST:PORT`, or `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterUrl {
    /// Name or address of the machine.
    pub host: String,
    /// Port of the scheduler.
    pub port: u16,
}

impl FromStr for ClusterUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let message = || format!("got `{text}`, expected the URL of a scheduler: `http://HOST:PORT`");
        let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&whole).map_err(|_| message())?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none();
        match url.host_str() {
            Some(host) if url.scheme() == "http" && is_plain => {
                // `url` leaves out the default port of the scheme.
                let has_port = whole.trim_end_matches('/').ends_with(":80");
                let port = url.port().unwrap_or(if has_port { 80 } else { DEFAULT_PORT });
                Ok(Self { host: host.to_owned(), port })
            }
            _ => Err(message()),
        }
    }
}

impl std::fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

/// An error, as sent to another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ErrorMessage {
    kind: String,
    message: String,
    hint: Option<String>,
    peer: bool,
}

/// Error categories by their names in messages.
const KINDS: [(&str, ErrorCategory); 6] = [
    ("expectation", ErrorCategory::Expectation),
    ("usage", ErrorCategory::Usage),
    ("data", ErrorCategory::Data),
    ("stage", ErrorCategory::Stage),
    ("interrupted", ErrorCategory::Interrupted),
    ("internal", ErrorCategory::Internal),
];

impl From<&Error> for ErrorMessage {
    fn from(error: &Error) -> Self {
        let kind =
            KINDS.iter().find(|(_, kind)| *kind == error.category()).map_or("internal", |(name, _)| name).to_owned();
        let hint = error.hint_text().map(str::to_owned);
        Self { kind, message: error.to_string(), hint, peer: error.is_peer() }
    }
}

impl From<ErrorMessage> for Error {
    fn from(failure: ErrorMessage) -> Self {
        let kind =
            KINDS.iter().find(|(name, _)| *name == failure.kind).map_or(ErrorCategory::Internal, |(_, kind)| *kind);
        let error = if failure.peer { Error::peer(failure.message) } else { Error::new(kind, failure.message) };
        match failure.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_port() {
        let parsed = |text: &str| text.parse::<ClusterUrl>().map(|url| url.to_string());
        assert_eq!(parsed("http://head:50051"), Ok("http://head:50051".to_owned()));
        assert_eq!(parsed("head:80"), Ok("http://head:80".to_owned()));
        assert_eq!(parsed("http://[::1]:7/"), Ok("http://[::1]:7".to_owned()));
        assert_eq!(parsed("10.0.0.1"), Ok("http://10.0.0.1:50050".to_owned()));
        for wrong in ["", "https://head:1", "http://head:1/path", "http://u:p@head:1", "http://head:99999", "http://"] {
            assert!(parsed(wrong).is_err_and(|error| error.contains("expected the URL of a scheduler")), "{wrong}");
        }
    }

    #[test]
    fn errors_survive_the_round_trip() {
        for (_, kind) in KINDS {
            let text = serde_json::to_string(&ErrorMessage::from(&Error::new(kind, "broken").hint("mend it"))).unwrap();
            let back = Error::from(serde_json::from_str::<ErrorMessage>(&text).unwrap());
            assert_eq!(
                (back.category(), back.to_string().as_str(), back.hint_text()),
                (kind, "broken", Some("mend it"))
            );
            assert!(!back.is_peer());
        }
        assert!(Error::from(ErrorMessage::from(&Error::peer("gone"))).is_peer());
    }
}
