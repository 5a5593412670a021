//! Printing: data to stdout, everything else to stderr. A closed pipe is no error. Output files of commands appear whole.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::{ColorChoice, CommonArgs};
use pairloom_base::error::{Error, Result, escape_control, is_control};

/// Output options of a command, and functions that print.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    /// True if data is printed as JSON Lines instead of text.
    pub json: bool,
    /// True if only errors are printed to stderr.
    pub quiet: bool,
    /// True if more is printed: why stages run, every warning.
    pub verbose: bool,
    /// True if text on stderr has ANSI colours.
    pub colour: bool,
    /// True if progress bars are drawn.
    pub(super) has_bars: bool,
    /// True if progress is printed as lines, since stderr is no terminal that can draw bars.
    pub(super) has_progress_lines: bool,
}

impl Console {
    /// Output options of the arguments, for this terminal.
    pub fn new(common: &CommonArgs) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || dumb;
        let colour = match common.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !plain,
        };
        let has_progress = !common.no_progress && !common.quiet && !common.json;
        let can_draw = terminal && !dumb;
        Self {
            json: common.json,
            quiet: common.quiet,
            verbose: common.verbose,
            colour,
            has_bars: has_progress && can_draw,
            has_progress_lines: has_progress && !can_draw,
        }
    }

    /// Prints data to stdout.
    pub fn print(self, text: &str) -> Result<()> {
        // Names and texts of a store could control the terminal.
        let text = escape_terminal(text);
        let mut stdout = std::io::stdout().lock();
        // At the end of the process a failure to write the rest of a line would go unseen.
        ignore_broken_pipe(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    }

    /// Prints an object to stdout as one line of JSON.
    pub fn print_json(self, object: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(object).map_err(|error| Error::internal(error.to_string()))?;
        self.print(&format!("{}\n", with_json_escapes(&line)))
    }

    /// Prints a message to stderr, unless `--quiet` is given.
    pub fn info(self, text: &str) {
        if !self.quiet {
            write_stderr(text);
        }
    }

    /// Prints one line to stderr, unless `--quiet` is given, with control characters escaped: for text that contains names
    /// and texts of records.
    pub fn note(self, text: &str) {
        self.info(&format!("{}\n", one_line(text)));
    }

    /// Prints an error and its hint to stderr; with `--json` also as an object to stdout.
    pub fn print_error(self, error: &Error) {
        let red = |text: &str| if self.colour { format!("\u{1b}[1;31m{text}\u{1b}[0m") } else { text.to_owned() };
        let hint = error.hint_text().map(|hint| format!("\n\nhint: {}", escape_control(hint))).unwrap_or_default();
        write_stderr(&format!("{}: {}{hint}\n", red("error"), escape_control(&error.to_string())));
        if self.json {
            let object = serde_json::json!({
                "event": "error",
                "exit_code": error.category().exit_code(),
                "message": error.to_string(),
                "hint": error.hint_text(),
            });
            // A closed stdout is no further error: the message is on stderr.
            let _ = self.print_json(&object);
        }
    }
}

/// Text with control characters escaped, other than line breaks and tabs.
fn escape_terminal(text: &str) -> Cow<'_, str> {
    if text.chars().any(|c| is_control(c) && !matches!(c, '\n' | '\t')) {
        Cow::Owned(text.split('\t').map(escape_control).collect::<Vec<_>>().join("\t"))
    } else {
        Cow::Borrowed(text)
    }
}

/// JSON whose [control characters](is_control) above U+007E are escaped, which serde leaves as they are. Outside of texts, JSON in one line
/// has no control characters.
fn with_json_escapes(line: &str) -> Cow<'_, str> {
    if !line.contains(is_control) {
        return Cow::Borrowed(line);
    }
    let escaped = |c: char| if is_control(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(line.chars().map(escaped).collect())
}

/// Writes to stderr and ignores failures.
pub(super) fn write_stderr(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Turns the result of a write to stdout into ours. A broken pipe (`| head`) counts as success.
fn ignore_broken_pipe(result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::stage(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Text on one line, with control characters escaped.
pub(super) fn one_line(text: &str) -> String {
    escape_control(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Formats rows as aligned columns. `right` marks the columns that are aligned to the right (numbers).
pub(super) fn align_columns(rows: &[Vec<String>], right: &[bool]) -> String {
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

/// Checks that an output file can be written, before the query runs.
///
/// # Errors
/// The file exists and `is_forced` is false, or it is a folder.
pub fn check_output(path: &Path, is_forced: bool) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(Error::usage(format!("the output `{}` is a folder, expected a file", path.display())))
        }
        Ok(found) if found.is_file() && !is_stream(path) && !is_forced => {
            Err(Error::usage(format!("the output `{}` exists", path.display())).hint("`--force` replaces it"))
        }
        _ => Ok(()),
    }
}

/// Returns true for the name of an open stream of the program, such as `/dev/stdout`, which can lead to a file.
fn is_stream(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd"].iter().any(|stream| path.starts_with(stream))
}

/// Writes a file under another name, which is renamed when it is complete, so that a failure leaves no partial result
/// and an older file stays. A pipe or device is written directly.
///
/// # Errors
/// `write` fails, or the file cannot be created.
pub fn write_file(path: &Path, write: impl FnOnce(BufWriter<File>) -> Result<()>) -> Result<()> {
    // Errors name the final path, not the temporary file.
    let create = |file: &Path| File::create(file).map_err(|error| Error::io("write", path, &error));
    if is_stream(path) || std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return write(BufWriter::new(create(path)?));
    }
    let mut name = path.to_owned().into_os_string();
    // Two commands that write the same file do not mix their rows.
    name.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(name);
    let result = create(&part)
        .and_then(|file| write(BufWriter::new(file)))
        .and_then(|()| std::fs::rename(&part, path).map_err(|error| Error::io("write", path, &error)));
    if result.is_err() {
        // Best effort: a leftover file is harmless.
        let _ = std::fs::remove_file(&part);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;

    /// The title of the window, a cleared screen, controls of one character (C1), a backspace.
    #[test]
    fn control_characters_are_shown_and_do_not_control_the_terminal() {
        let text = "a\u{1b}]0;title\u{7}\tb\u{1b}[2J\u{9b}1m\u{8}\nü – c\n";
        let shown = "a\\u{1b}]0;title\\u{7}\tb\\u{1b}[2J\\u{9b}1m\\u{8}\nü – c\n";
        assert_eq!(escape_terminal(text), shown);
        assert_eq!(escape_terminal("ü\t– c\n"), "ü\t– c\n");
        assert_eq!(one_line("a\u{1b}[2J\r\n\tb\u{9b}1m"), "a\\u{1b}[2J b\\u{9b}1m");
    }

    #[test]
    fn json_with_control_characters_is_json() {
        let name = "a\u{9b}1m\u{7f}\u{1b}ü";
        let line = serde_json::to_string(name).unwrap();
        let printed = with_json_escapes(&line);
        assert_eq!(printed, r#""a\u009b1m\u007f\u001bü""#);
        assert_eq!(escape_terminal(&printed), printed);
        assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), name);
    }

    #[test]
    fn an_existing_file_is_replaced_only_if_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.csv");
        check_output(&path, false).unwrap();
        std::fs::write(&path, "precious").unwrap();
        let error = check_output(&path, false).unwrap_err();
        assert_eq!((error.category(), error.hint_text()), (ErrorCategory::Usage, Some("`--force` replaces it")));
        check_output(&path, true).unwrap();
        assert!(check_output(folder.path(), true).is_err(), "a folder");
        check_output(Path::new("/dev/null"), false).unwrap();
        check_output(Path::new("/dev/stdout"), false).unwrap();
    }

    #[test]
    fn a_file_below_dev_is_a_file_and_open_streams_are_not() {
        for stream in ["/dev/stdout", "/dev/stderr", "/dev/fd/1"] {
            assert!(is_stream(Path::new(stream)), "{stream}");
        }
        for file in ["/dev/shm/x.csv", "/dev/stdout.csv", "sub/dev/stdout"] {
            assert!(!is_stream(Path::new(file)), "{file}");
        }
    }
}
