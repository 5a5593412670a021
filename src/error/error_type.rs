//! Error type: what went wrong, whose fault it is, and what to try.

use std::fmt;

/// Who has to act, and so which exit code the command ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An `[[expect]]` of the pipeline file did not hold.
    Expectation,
    /// The command line or the pipeline file is wrong.
    Usage,
    /// Data that was asked for is missing, damaged or of the wrong form.
    Data,
    /// A stage could not do its work (a full disk, a loss that became NaN).
    Stage,
    /// The run was interrupted; the same command goes on where it stopped.
    Interrupted,
    /// A defect of Pairloom itself.
    Internal,
}

impl Kind {
    /// The exit code of a command that ends with this kind of error. Success is 0.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Expectation => 1,
            Kind::Usage => 2,
            Kind::Data => 3,
            Kind::Stage => 4,
            Kind::Internal => 70,
            Kind::Interrupted => 130,
        }
    }
}

/// An error with its kind, a message that says what was got and what was wanted, and perhaps a hint.
///
/// Messages are lower case, without a final period, with names in backticks and the path last.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: Option<String>,
    peer: bool,
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, peer: false }
    }

    /// The command line or the pipeline file is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// Data is missing, damaged or of the wrong form.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Kind::Data, message)
    }

    /// A stage could not do its work.
    pub fn stage(message: impl Into<String>) -> Self {
        Self::new(Kind::Stage, message)
    }

    /// A stage could not do its work because another process that does it too is gone, silent or failed.
    pub fn peer(message: impl Into<String>) -> Self {
        Self { peer: true, ..Self::new(Kind::Stage, message) }
    }

    /// A defect of Pairloom itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The run was interrupted.
    #[must_use]
    pub fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "interrupted").hint("run the same command again to go on from here")
    }

    /// A failed file operation: a file that is missing, unreadable, of another kind or on a read-only disk is
    /// [`Kind::Data`], anything else (a full disk) is [`Kind::Stage`].
    pub fn io(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::InvalidData
            | ErrorKind::UnexpectedEof
            | ErrorKind::PermissionDenied
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::ReadOnlyFilesystem => Kind::Data,
            _ => Kind::Stage,
        };
        let this = Self::new(kind, format!("cannot {doing} `{}`: {error}", path.display()));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                this.hint("free some space and run the same command again")
            }
            ErrorKind::IsADirectory => this.hint("name a file in this folder"),
            ErrorKind::NotADirectory => this.hint("one of the folders of this path is a file"),
            ErrorKind::ReadOnlyFilesystem => this.hint("choose a place that can be written"),
            _ => this,
        }
    }

    /// Adds what to try. A later hint does not replace an earlier one: the place that saw the fault knows best.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Puts `context` in front of the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the reason lies in another process: what happened there says more.
    #[must_use]
    pub fn is_peer(&self) -> bool {
        self.peer
    }

    /// What to try, if anything is known.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Text from outside as it may be shown: control characters other than newlines, which could steer a terminal, are
/// escaped.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' {
            shown.extend(c.escape_debug());
        } else {
            shown.push(c);
        }
    }
    shown
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::data(error.to_string())
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::data(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(visible("a\u{1b}[2J\r\t\u{0}\u{9b}\nö"), "a\\u{1b}[2J\\r\\t\\0\\u{9b}\nö");
    }

    #[test]
    fn failed_file_operations_say_whose_fault_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let read = |path: &std::path::Path| {
            let error = Error::io("read", path, &std::fs::read(path).unwrap_err());
            (error.kind(), error.hint_text().map(str::to_owned))
        };
        assert_eq!(read(folder.path()), (Kind::Data, Some("name a file in this folder".to_owned())));
        assert_eq!(read(&file.join("x")), (Kind::Data, Some("one of the folders of this path is a file".to_owned())));
        assert_eq!(read(&folder.path().join("gone")), (Kind::Data, None));
        let kind = |kind: std::io::ErrorKind| Error::io("write", &file, &kind.into()).kind();
        assert_eq!(kind(std::io::ErrorKind::ReadOnlyFilesystem), Kind::Data);
        assert_eq!(kind(std::io::ErrorKind::StorageFull), Kind::Stage);
    }
}
