//! Reader of a file of word vectors with cancellation.

use std::io::{self, BufRead, ErrorKind};
use std::path::Path;

use pairloom_base::error::{Error, Result};
use pairloom_storage::bounded;

/// Maximum length of a word in bytes. The longest in published files (phrases, whole URLs) have a few hundred.
pub(super) const MAX_WORD_BYTES: usize = 4096;
/// Number of entries between two checks for cancellation.
const CANCEL_CHECK_ENTRIES: u64 = 4096;

/// Open file of word vectors.
pub(super) struct WordVectorReader<'s> {
    pub(super) path: &'s Path,
    pub(super) content: Box<dyn BufRead + 's>,
    pub(super) cancel_check: &'s mut dyn FnMut() -> Result<()>,
}

impl WordVectorReader<'_> {
    /// Checks for cancellation before every 4,096th entry.
    pub(super) fn check_cancelled(&mut self, number: u64) -> Result<()> {
        if number.is_multiple_of(CANCEL_CHECK_ENTRIES) { (self.cancel_check)() } else { Ok(()) }
    }

    pub(super) fn io_error(&self, error: &io::Error) -> Error {
        match error.kind() {
            ErrorKind::FileTooLarge => bounded::read_error(self.path, error),
            _ => Error::io("read", self.path, error),
        }
    }
}
