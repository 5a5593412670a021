//! Where the ranks of a run leave messages for each other.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::environment::Place;
use crate::error::{Error, Result};
use crate::runtime::Cancel;

/// Time between two looks for a message.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// How long one attempt to connect may take; then a cancellation is looked at.
const ATTEMPT: Duration = Duration::from_secs(2);
/// How long a process waits for the store of the launcher that started it: that is there before the process is.
const LAUNCHED: Duration = Duration::from_secs(10);

/// A store of keys that all ranks reach.
pub trait Board: Send + Sync {
    /// Puts a value at a key.
    ///
    /// # Errors
    /// Who keeps the store is gone.
    fn put(&self, key: &str, value: &[u8]) -> Result<()>;

    /// The value at a key, if there is one.
    ///
    /// # Errors
    /// Who keeps the store is gone.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;
}

/// How a store of keys is opened. The program gives the engine one (libtorch's), for the engine knows none.
pub trait Boards: Debug + Sync {
    /// Keeps a store for all ranks, at this host alone if it is this machine; gives its port, which with port 0 is a free
    /// one.
    ///
    /// # Errors
    /// The port is taken.
    fn serve(&self, host: &str, port: u16, patience: Duration) -> Result<(Box<dyn Board>, u16)>;

    /// Connects to the store of rank 0.
    ///
    /// # Errors
    /// Nobody answers.
    fn connect(&self, host: &str, port: u16, patience: Duration) -> Result<Box<dyn Board>>;
}

/// A board with messages of a form, under names that belong to one group of ranks.
///
/// Where the group has a token, messages carry a keyed hash, and whatever others write is as if it were not there.
pub(super) struct Messages {
    board: Box<dyn Board>,
    name: String,
    key: Option<[u8; 32]>,
}

impl Messages {
    /// Over a board.
    pub fn over(board: Box<dyn Board>, name: &str, token: Option<&str>) -> Self {
        let key = token.map(|token| blake3::derive_key("pairloom 2026 messages of ranks", token.as_bytes()));
        Self { board, name: name.to_owned(), key }
    }

    /// What tells this group from others.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Connects to rank 0, for as long as `patience`.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    pub fn connect(boards: &dyn Boards, place: &Place, patience: Duration, cancel: &Cancel) -> Result<Self> {
        let begun = Instant::now();
        let patience = if place.token.is_some() { LAUNCHED.min(patience) } else { patience };
        loop {
            cancel.proceed()?;
            match boards.connect(&place.host, place.port, ATTEMPT) {
                Ok(board) => return Ok(Self::over(board, &place.name, place.token.as_deref())),
                Err(error) if error.is_peer() && begun.elapsed() < patience => std::thread::sleep(PAUSE),
                Err(error) => {
                    let (host, port) = (&place.host, place.port);
                    return Err(error.context(format!("no rank 0 at `{host}:{port}`")));
                }
            }
        }
    }

    /// Leaves a message.
    pub fn put(&self, name: &str, message: &impl Serialize) -> Result<()> {
        let name = format!("{}/{name}", self.name);
        let text = serde_json::to_vec(message).map_err(|error| Error::internal(error.to_string()))?;
        let mut content = self.hash(&name, &text);
        content.extend(text);
        self.board.put(&name, &content)
    }

    /// The message of this name, if there is one.
    pub fn get<M: DeserializeOwned>(&self, name: &str) -> Result<Option<M>> {
        let name = format!("{}/{name}", self.name);
        let Some(content) = self.board.get(&name)? else { return Ok(None) };
        let hash = if self.key.is_some() { blake3::OUT_LEN } else { 0 };
        let Some((hash, text)) = content.split_at_checked(hash) else { return Ok(None) };
        if !self.is_hash(&name, text, hash) {
            return Ok(None);
        }
        let wrong = |error| Error::peer(format!("`{name}` is no message of this program: {error}"));
        serde_json::from_slice(text).map(Some).map_err(wrong)
    }

    fn hash(&self, name: &str, text: &[u8]) -> Vec<u8> {
        self.key.map_or_else(Vec::new, |key| keyed(&key, name, text).as_bytes().to_vec())
    }

    fn is_hash(&self, name: &str, text: &[u8], hash: &[u8]) -> bool {
        // Hashes of this crate compare in constant time.
        self.key.is_none_or(|key| blake3::Hash::from_slice(hash).is_ok_and(|hash| hash == keyed(&key, name, text)))
    }
}

/// The name is hashed as well, so that no message can be put in the place of another.
fn keyed(key: &[u8; 32], name: &str, text: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(text);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Default, Clone)]
    struct Shelf(Arc<Mutex<HashMap<String, Vec<u8>>>>);

    impl Board for Shelf {
        fn put(&self, key: &str, value: &[u8]) -> Result<()> {
            self.0.lock().unwrap().insert(key.to_owned(), value.to_vec());
            Ok(())
        }
        fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
            Ok(self.0.lock().unwrap().get(key).cloned())
        }
    }

    #[test]
    fn only_those_who_know_the_token_are_heard() {
        let shelf = Shelf::default();
        let with = |token: Option<&str>| Messages::over(Box::new(shelf.clone()), "run", token);
        let (ours, stranger, open) = (with(Some("secret")), with(Some("guess")), with(None));
        for (speaker, heard) in [(&stranger, None), (&open, None), (&ours, Some(7_u64))] {
            speaker.put("job", &7_u64).unwrap();
            assert_eq!(ours.get::<u64>("job").unwrap(), heard);
        }
        // A true message in another place, one that was cut, and one that was changed.
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
    fn a_message_of_another_form_is_an_error() {
        let messages = Messages::over(Box::new(Shelf::default()), "run", None);
        messages.put("job", &"text").unwrap();
        assert!(messages.get::<u64>("job").unwrap_err().is_peer());
    }
}
