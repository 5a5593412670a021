//! Where text goes: data to stdout, everything else to stderr. A reader that went away is no error.

use std::io::{ErrorKind, IsTerminal, Write};

use serde::Serialize;

use super::args::{Color, Common};
use crate::error::{Error, Result, visible};

/// How people and programs are told things.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// One JSON object a line, in place of text.
    pub(super) json: bool,
    pub(super) quiet: bool,
    pub(super) verbose: bool,
    /// Whether stderr takes ANSI colours.
    pub(super) colour: bool,
    /// Whether bars can be drawn.
    pub(super) bars: bool,
}

impl Output {
    pub(super) fn new(common: &Common) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colour = match common.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain,
        };
        let bars = terminal && !common.no_progress && !common.quiet && !common.json;
        Self { json: common.json, quiet: common.quiet, verbose: common.verbose, colour, bars }
    }

    /// Prints data.
    ///
    /// # Errors
    /// stdout cannot be written.
    #[expect(clippy::unused_self, reason = "whoever prints has been handed an `Output`")]
    pub(super) fn data(self, text: &str) -> Result<()> {
        written(std::io::stdout().lock().write_all(text.as_bytes()))
    }

    /// Prints an object as one line of JSON.
    ///
    /// # Errors
    /// stdout cannot be written.
    pub(super) fn object(self, object: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(object).map_err(|error| Error::internal(error.to_string()))?;
        self.data(&format!("{line}\n"))
    }

    /// Tells people something, unless they want to hear nothing.
    pub(super) fn note(self, text: &str) {
        if !self.quiet {
            tell(text);
        }
    }

    /// Reports an error, with what to try.
    pub(super) fn error(self, error: &Error) {
        let red = |text: &str| if self.colour { format!("\u{1b}[1;31m{text}\u{1b}[0m") } else { text.to_owned() };
        let hint = error.hint_text().map(|hint| format!("\n\nhint: {}", visible(hint))).unwrap_or_default();
        tell(&format!("{}: {}{hint}\n", red("error"), visible(&error.to_string())));
        if self.json {
            let object = serde_json::json!({
                "event": "error",
                "exit_code": error.kind().exit_code(),
                "message": error.to_string(),
                "hint": error.hint_text(),
            });
            // There is nobody left to tell that stdout is gone.
            let _ = self.object(&object);
        }
    }
}

/// Writes to stderr. Nothing can be done when that fails.
pub(super) fn tell(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Whether writing to stdout worked; a reader that has seen enough (`| head`) is fine.
pub(super) fn written(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::stage(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Aligns rows in columns; `right` says which columns are numbers.
pub(super) fn columns(rows: &[Vec<String>], right: &[bool]) -> String {
    let width = |i: usize| rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..right.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let space = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
            line.push_str(&if right[i] { format!("{space}{cell}  ") } else { format!("{cell}{space}  ") });
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
