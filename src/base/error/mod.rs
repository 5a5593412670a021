//! Error type with a category, a message and a hint; panics as errors, and problems with settings.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub mod truncated_list;

pub use truncated_list::{SkippedItems, TruncatedList, ValidationErrors};

/// Category of an error: who has to act. It determines the exit code of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCategory {
    /// An `[[expect]]` of the pipeline file did not hold.
    Expectation,
    /// The command line or the pipeline file is wrong.
    Usage,
    /// Data is missing, damaged or in a wrong format.
    Data,
    /// A stage could not do its work (a full disk, a loss that became NaN).
    Stage,
    /// The run was interrupted; the same command resumes it.
    Interrupted,
    /// A bug in Pairloom.
    Internal,
}

impl ErrorCategory {
    /// Exit code of a command that fails with an error of this category. Success is 0.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            ErrorCategory::Expectation => 1,
            ErrorCategory::Usage => 2,
            ErrorCategory::Data => 3,
            ErrorCategory::Stage => 4,
            ErrorCategory::Internal => 70,
            ErrorCategory::Interrupted => 130,
        }
    }
}

/// An error with a category, a message with the actual and the expected value, and an optional hint.
///
/// Messages are lower case, without a final period, with names in backticks and the path last.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorCategory,
    message: String,
    hint: Option<String>,
    peer: bool,
}

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with this category and message.
    pub fn new(kind: ErrorCategory, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, peer: false }
    }

    /// An error of category [`Usage`](ErrorCategory::Usage): the command line or the pipeline file is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Usage, message)
    }

    /// An error of category [`Data`](ErrorCategory::Data): data is missing, damaged or in a wrong format.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Data, message)
    }

    /// An error of category [`Stage`](ErrorCategory::Stage): a stage could not do its work.
    pub fn stage(message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Stage, message)
    }

    /// An error of category [`Stage`](ErrorCategory::Stage) caused by another process of the group, which exited,
    /// failed or does not answer.
    pub fn peer(message: impl Into<String>) -> Self {
        Self { peer: true, ..Self::new(ErrorCategory::Stage, message) }
    }

    /// An error of category [`Internal`](ErrorCategory::Internal): a bug in Pairloom.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCategory::Internal, message)
    }

    /// An error of category [`Interrupted`](ErrorCategory::Interrupted): the run was interrupted.
    #[must_use]
    pub fn interrupted() -> Self {
        Self::new(ErrorCategory::Interrupted, "interrupted").hint("run the same command again to resume")
    }

    /// An error for a failed file operation. The category is [`Data`](ErrorCategory::Data) if the file is missing,
    /// unreadable, of another type or on a read-only disk, else (such as on a full disk)
    /// [`Stage`](ErrorCategory::Stage).
    pub fn io(doing: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::InvalidData
            | ErrorKind::UnexpectedEof
            | ErrorKind::PermissionDenied
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::ReadOnlyFilesystem => ErrorCategory::Data,
            _ => ErrorCategory::Stage,
        };
        let this = Self::new(kind, format!("cannot {doing} `{}`: {error}", path.display()));
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                this.hint("free some space and run the same command again")
            }
            // Readers of compressed files have an error of this kind too, with a hint of its own.
            ErrorKind::FileTooLarge if error.raw_os_error().is_some() => {
                this.hint("raise the limit of the size of files (`ulimit -f`) and run the same command again")
            }
            ErrorKind::IsADirectory => this.hint("name a file in this folder"),
            ErrorKind::NotADirectory => this.hint("one of the folders of this path is a file"),
            ErrorKind::ReadOnlyFilesystem => this.hint("choose a place that can be written"),
            _ => this,
        }
    }

    /// Adds a hint. If there is one already, keeps that: the code closest to the cause sets the first hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Prepends `context` to the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// Shows `name` in another form in the message and the hint.
    #[must_use]
    pub fn with_shown_name(mut self, name: &str, shown: &str) -> Self {
        if name != shown {
            self.message = self.message.replace(name, shown);
            self.hint = self.hint.map(|hint| hint.replace(name, shown));
        }
        self
    }

    /// Category of the error.
    #[must_use]
    pub fn category(&self) -> ErrorCategory {
        self.kind
    }

    /// Returns true if the cause lies in another process of the group, whose own error says more.
    #[must_use]
    pub fn is_peer(&self) -> bool {
        self.peer
    }

    /// Hint for the user, if there is one.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// Message of an error of a library with its causes.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut messages: Vec<String> = causes.map(ToString::to_string).collect();
    messages.dedup();
    messages.join(": ")
}

/// Escapes control characters other than newlines, which could control a terminal. For untrusted text that is shown.
#[must_use]
pub fn escape_control(text: &str) -> String {
    escape(text, |c| is_control(c) && c != '\n')
}

/// As [`escape_control`], also newlines and marks of direction: for a name in the middle of a message.
#[must_use]
pub fn escape_line(text: &str) -> String {
    escape(text, |c| is_control(c) || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}'))
}

/// True for a character that controls what is shown after it: control characters, separators of lines and paragraphs, and
/// the embeddings, overrides and isolates of the bidirectional algorithm (Unicode Standard Annex 9). Its marks, which texts in
/// Arabic and Hebrew have, turn nothing but what is beside them.
#[must_use]
pub fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_escaped(c) {
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

thread_local! {
    /// True while a panic of this thread is caught.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Turns a panic into an internal error, so that one bad item does not end the process.
///
/// # Errors
/// That of `function`, or its panic.
pub fn catch_panic<U>(function: impl FnOnce() -> Result<U>) -> Result<U> {
    caught(function).unwrap_or_else(|panic| Err(panic_error(&*panic)))
}

/// Result of `function`, or its panic, which prints no line of its own.
///
/// # Errors
/// The payload of the panic.
pub fn caught<U>(function: impl FnOnce() -> U) -> std::thread::Result<U> {
    let before = IS_CAUGHT.replace(true);
    let result = catch_unwind(AssertUnwindSafe(function));
    IS_CAUGHT.set(before);
    result
}

/// Says that all panics of this thread are caught, as those of the tasks of a runtime are.
pub fn panics_of_thread_are_caught() {
    IS_CAUGHT.set(true);
}

/// Keeps panics that become errors from printing a line of their own before the error. With `RUST_BACKTRACE` they print it.
pub fn silence_caught_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_asked = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
        if is_asked || !IS_CAUGHT.get() {
            usual(panic);
        }
    }));
}

/// Error of a panic with this payload.
pub fn panic_error(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    Error::internal(format!("panicked: {}", text.unwrap_or("no message")))
        .hint("`RUST_BACKTRACE=1` shows where; please report it")
}

/// Severity of a problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Severity {
    /// The setting is impossible: nothing runs.
    #[default]
    Error,
    /// The setting is possible, but implausible: the run goes on.
    Warning,
}

/// Problem with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Name of the setting, dotted if nested; empty if the problem concerns the settings as a whole.
    pub setting: String,
    /// Message with the actual and the expected value.
    pub message: String,
    /// Hint for the user.
    pub hint: Option<String>,
    /// Severity of the problem.
    pub severity: Severity,
}

impl Problem {
    /// A problem with `setting`.
    pub fn new(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into(), hint: None, severity: Severity::Error }
    }

    /// A warning about `setting`: its value is possible, but implausible.
    pub fn warning(setting: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::new(setting, message) }
    }

    /// True if the run goes on in spite of the problem.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        self.severity == Severity::Warning
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same problem where the settings are those of `parent`.
    #[must_use]
    pub fn under(mut self, parent: &str) -> Self {
        self.setting = format!("{parent}.{}", self.setting);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_control("a\u{1b}[2J\r\t\u{0}\u{9b}\nö"), "a\\u{1b}[2J\\r\\t\\0\\u{9b}\nö");
        assert_eq!(escape_line("a\u{1b}[2J\n\"ö\""), "a\\u{1b}[2J\\n\"ö\"");
        // Unicode Standard Annex 9, table 4 and section 2.6: the marks, embeddings, overrides and isolates.
        for code in [0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069] {
            let text = format!("it's \\{}", char::from_u32(code).unwrap());
            assert_eq!(escape_line(&text), format!("it's \\\\u{{{code:x}}}"));
            let is_mark = matches!(code, 0x61c | 0x200e | 0x200f);
            assert_eq!(escape_control(&text) == text, is_mark, "{code:x}");
        }
        assert_eq!(escape_control("\u{202e}gpj.exe\u{2069}"), "\\u{202e}gpj.exe\\u{2069}");
        assert_eq!(escape_line("e\u{301} \u{200d} \u{2028}"), "e\u{301} \u{200d} \\u{2028}");
    }

    /// In a process of its own, since the hook is that of all threads.
    #[test]
    fn a_panic_prints_a_line_unless_it_becomes_an_error() {
        const CHILD: &str = "PAIRLOOM_TEST_CAUGHT_PANIC";
        if std::env::var_os(CHILD).is_some() {
            silence_caught_panics();
            let error = catch_panic::<()>(|| panic!("caught {}", 1)).unwrap_err();
            assert_eq!(error.to_string(), "panicked: caught 1");
            let task = || {
                panics_of_thread_are_caught();
                panic!("caught 2");
            };
            assert!(std::thread::Builder::new().spawn(task).unwrap().join().is_err());
            assert!(std::thread::Builder::new().spawn(|| panic!("uncaught")).unwrap().join().is_err());
            return;
        }
        let test =
            format!("{}::a_panic_prints_a_line_unless_it_becomes_an_error", module_path!().split_once("::").unwrap().1);
        let stderr = |backtrace: &str| {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", &test, "--nocapture"]).env(CHILD, "1").env("RUST_BACKTRACE", backtrace);
            let output = child.output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let shown = stderr("0");
        assert!(shown.contains("uncaught") && !shown.contains("caught 1") && !shown.contains("caught 2"), "{shown}");
        assert!(stderr("1").contains("caught 1"));
    }

    #[test]
    fn io_errors_have_the_category_and_the_hint_of_their_cause() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let read = |path: &std::path::Path| {
            let error = Error::io("read", path, &std::fs::read(path).unwrap_err());
            (error.category(), error.hint_text().map(str::to_owned))
        };
        assert_eq!(read(folder.path()), (ErrorCategory::Data, Some("name a file in this folder".to_owned())));
        assert_eq!(
            read(&file.join("x")),
            (ErrorCategory::Data, Some("one of the folders of this path is a file".to_owned()))
        );
        assert_eq!(read(&folder.path().join("gone")), (ErrorCategory::Data, None));
        let kind = |kind: std::io::ErrorKind| Error::io("write", &file, &kind.into()).category();
        assert_eq!(kind(std::io::ErrorKind::ReadOnlyFilesystem), ErrorCategory::Data);
        assert_eq!(kind(std::io::ErrorKind::StorageFull), ErrorCategory::Stage);
    }
}
