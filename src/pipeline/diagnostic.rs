//! Diagnostics of a pipeline file, rendered as compilers do: message, source line, carets, hint. Their places are spans in
//! the file and in arguments of the command line.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use pairloom_base::error::{Problem, TruncatedList, escape_control, is_control};
use pairloom_base::suggest::{closest_name, quoted_list};

/// Maximum number of characters shown of a source line.
const LINE_CHARACTERS: usize = 160;

/// Maximum number of bytes shown of a message, a note and a hint each.
const TEXT_BYTES: usize = 4096;

/// Problem in a pipeline file, with its source span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub(super) span: SourceSpan,
    /// The problem. A file with warnings alone can be run.
    pub problem: Problem,
    /// Valid alternatives: `` valid: `a`, `b` ``.
    pub note: Option<String>,
}

impl Diagnostic {
    pub(super) fn new(span: SourceSpan, message: impl Into<String>) -> Self {
        Self { span, problem: Problem::new("", message), note: None }
    }

    pub(super) fn warning(span: SourceSpan, message: impl Into<String>) -> Self {
        Self { span, problem: Problem::warning("", message), note: None }
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.problem.hint = Some(hint.into());
        self
    }

    pub(super) fn is_warning(&self) -> bool {
        self.problem.is_warning()
    }

    /// Adds a note with the valid names, and a hint with the one closest to `got`.
    pub(super) fn with_valid_names<'n>(mut self, got: &str, names: impl IntoIterator<Item = &'n str> + Clone) -> Self {
        if let Some(name) = closest_name(got, names.clone()) {
            self.problem.hint = Some(format!("did you mean `{name}`?"));
        }
        let list = quoted_list(names);
        self.note =
            Some(if list.is_empty() { "there are no valid names".to_owned() } else { format!("valid: {list}") });
        self
    }
}

/// All mistakes of a pipeline file and of the overrides on the command line.
#[derive(Debug, Clone)]
pub struct Diagnostics {
    source_map: SourceMap,
    diagnostics: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(super) fn new(source_map: SourceMap, mut diagnostics: Vec<Diagnostic>) -> Self {
        diagnostics.sort_by_key(|diagnostic| diagnostic.span);
        diagnostics.dedup();
        Self { source_map, diagnostics }
    }

    /// Diagnostics in the order of the source.
    #[must_use]
    pub fn as_slice(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Line and column of a diagnostic, from 1; for an override, within the argument `--set …`.
    #[must_use]
    pub fn position(&self, diagnostic: &Diagnostic) -> (usize, usize) {
        let position = self.source_map.position(diagnostic.span);
        (position.line, position.column)
    }

    /// Number of diagnostics that are no warnings.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.diagnostics.iter().filter(|diagnostic| !diagnostic.is_warning()).count()
    }

    /// Renders the diagnostics as text, with or without ANSI colours.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let paint = &Paint { colour };
        // Only those that are shown are rendered: a file can have a hundred thousand.
        let rendered = |diagnostic| fmt::from_fn(move |f| f.write_str(&self.render_diagnostic(diagnostic, paint)));
        let diagnostics: TruncatedList = self.diagnostics.iter().map(rendered).collect();
        let mut text = diagnostics.join("\n");
        text.push_str(if diagnostics.is_truncated() { "; `--json` shows all\n\n" } else { "\n" });
        let count = match self.error_count() {
            0 => return text,
            // The message names the file itself.
            1 if self.diagnostics.iter().any(|diagnostic| diagnostic.span.is_nowhere()) => return text,
            1 => "1 mistake".to_owned(),
            n => format!("{n} mistakes"),
        };
        let _ = writeln!(text, "{}: {count} in `{}`", paint.red("error"), escape_control(&self.source_map.name));
        text
    }

    fn render_diagnostic(&self, diagnostic: &Diagnostic, paint: &Paint) -> String {
        let mut text = String::new();
        let position = self.source_map.position(diagnostic.span);
        let (line, width) = self.source_map.line(diagnostic.span);
        let (number, location) = if diagnostic.span.is_argument() || diagnostic.span.is_nowhere() {
            (String::new(), "command line".to_owned())
        } else {
            let name = escape_control(&self.source_map.name);
            (position.line.to_string(), format!("{name}:{}:{}", position.line, position.column))
        };
        let margin = " ".repeat(number.len());
        let bar = paint.blue("|");
        let severity = if diagnostic.is_warning() { paint.yellow("warning") } else { paint.red("error") };
        let _ = writeln!(text, "{severity}: {}", paint.bold(&shown_text(&diagnostic.problem.message)));
        if !diagnostic.span.is_nowhere() {
            let _ = writeln!(text, "{margin}{} {location}", paint.blue("-->"));
        }
        let (shown, before) = visible_part(line, position.column - 1);
        if !line.is_empty() && !has_url_secret(line) {
            let carets = "^".repeat(width.min(shown.chars().count().saturating_sub(before)).max(1));
            let _ = writeln!(text, "{margin} {bar}");
            let _ = writeln!(text, "{} {bar} {shown}", paint.blue(&number));
            let carets = if diagnostic.is_warning() { paint.yellow(&carets) } else { paint.red(&carets) };
            let _ = writeln!(text, "{margin} {bar} {}{carets}", " ".repeat(before));
        }
        if let Some(hint) = &diagnostic.problem.hint {
            let _ = writeln!(text, "{margin} {} {}: {}", paint.blue("="), paint.bold("hint"), shown_text(hint));
        }
        if let Some(note) = &diagnostic.note {
            let _ = writeln!(text, "{margin} {} {}", paint.blue("="), shown_text(note));
        }
        text
    }

    /// Returns a JSON object for each diagnostic, with `event` (`"fault"`), `severity` (`"error"` or `"warning"`),
    /// `file`, `argument`, `line`, `column`, `message`, `note` and `hint`.
    #[must_use]
    pub fn to_json(&self) -> Vec<Value> {
        let object = |diagnostic: &Diagnostic| {
            let position = self.source_map.position(diagnostic.span);
            let argument =
                diagnostic.span.is_argument().then(|| self.source_map.sources[diagnostic.span.source_index].clone());
            let argument = argument.filter(|argument| !has_url_secret(argument));
            json!({
                "event": "fault",
                "severity": if diagnostic.is_warning() { "warning" } else { "error" },
                "file": self.source_map.name,
                "argument": argument,
                "line": position.line,
                "column": position.column,
                "message": diagnostic.problem.message,
                "note": diagnostic.note,
                "hint": diagnostic.problem.hint,
            })
        };
        self.diagnostics.iter().map(object).collect()
    }
}

/// True if a text has a URL with a user, a password or a query, which may be a signature.
fn has_url_secret(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let url = rest.split(['"', '\'', ' ', '\t']).next().unwrap_or_default();
        let host = url.split('/').next().unwrap_or_default();
        host.contains('@') || url.contains('?')
    })
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// Start of a message, note or hint, with control characters escaped.
fn shown_text(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES);
    format!("{}{}", escape_control(&text[..end]), if end < text.len() { " …" } else { "" })
}

/// Part of a line around column `at` (from 0), at most [`LINE_CHARACTERS`] long, and the position of `at` in it.
/// Control characters become spaces, so that carets align.
fn visible_part(line: &str, at: usize) -> (String, usize) {
    let start = if at < LINE_CHARACTERS { 0 } else { at - LINE_CHARACTERS / 2 };
    let shown = line.chars().skip(start).take(LINE_CHARACTERS);
    (shown.map(|c| if is_control(c) { ' ' } else { c }).collect(), at - start)
}

struct Paint {
    colour: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn red(&self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn yellow(&self, text: &str) -> String {
        self.with("1;33", text)
    }

    fn blue(&self, text: &str) -> String {
        self.with("1;34", text)
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }
}

/// Range of bytes in one text of a [`SourceMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct SourceSpan {
    /// Index of the text: 0 is the pipeline file, `i` the `i`-th `--set`.
    pub(super) source_index: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl SourceSpan {
    pub(super) fn in_file(span: std::ops::Range<usize>) -> Self {
        Self { source_index: 0, start: span.start, end: span.end }
    }

    /// Span of a message about the file as a whole.
    pub(super) fn nowhere() -> Self {
        Self { source_index: usize::MAX, start: 0, end: 0 }
    }

    pub(super) fn is_nowhere(self) -> bool {
        self.source_index == usize::MAX
    }

    pub(super) fn is_argument(self) -> bool {
        self.source_index > 0 && !self.is_nowhere()
    }
}

/// Texts that spans refer to: the pipeline file, then the overrides.
#[derive(Debug, Clone)]
pub(super) struct SourceMap {
    /// Path of the file as shown in messages.
    pub(super) name: String,
    pub(super) sources: Vec<String>,
    /// First byte of each line, of each text.
    line_starts: Vec<Vec<usize>>,
}

/// Line and column, from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineColumn {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl SourceMap {
    pub(super) fn new(name: String, sources: Vec<String>) -> Self {
        let starts = |text: &String| std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect();
        let line_starts = sources.iter().map(starts).collect();
        Self { name, sources, line_starts }
    }

    /// Text of a span, and the span's range widened to whole characters.
    fn range(&self, span: SourceSpan) -> (&str, usize, usize) {
        let text = self.sources.get(span.source_index).map_or("", String::as_str);
        let start = text.floor_char_boundary(span.start);
        (text, start, text.ceil_char_boundary(span.end.max(start)))
    }

    /// Characters of a span.
    pub(super) fn slice(&self, span: SourceSpan) -> &str {
        let (text, start, end) = self.range(span);
        &text[start..end]
    }

    /// Line and column of the first character of a span.
    pub(super) fn position(&self, span: SourceSpan) -> LineColumn {
        let (text, start, _) = self.range(span);
        let starts = self.line_starts.get(span.source_index).map_or(&[0][..], Vec::as_slice);
        let line = starts.partition_point(|&line_start| line_start <= start).max(1);
        LineColumn { line, column: text[starts[line - 1]..start].chars().count() + 1 }
    }

    /// Line in which a span begins, and how many of its characters the span covers (at least one).
    pub(super) fn line(&self, span: SourceSpan) -> (&str, usize) {
        let (text, start, end) = self.range(span);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let line = text[line_start..line_end].trim_end_matches('\r');
        (line, text[start..end.min(line_end)].chars().count().max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source_map = SourceMap::new("x".to_owned(), vec!["a = 1\r\nä = 'ö'\n".to_owned()]);
        let span = SourceSpan::in_file(12..16);
        assert_eq!(source_map.slice(span), "'ö'");
        assert_eq!(source_map.position(span), LineColumn { line: 2, column: 5 });
        assert_eq!(source_map.line(span), ("ä = 'ö'", 3));
        assert_eq!(source_map.line(SourceSpan::in_file(0..1)), ("a = 1", 1));
        assert_eq!(source_map.position(SourceSpan::in_file(900..901)), LineColumn { line: 3, column: 1 });
    }
}
