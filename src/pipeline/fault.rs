//! Everything that is wrong with a pipeline file, shown as compilers show it.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::place::{Place, Texts};
use crate::error::TruncatedList;
use crate::error::visible;
use crate::suggest::{quoted, similar};

/// Characters shown of a long source line.
const LINE_CHARACTERS: usize = 160;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) place: Place,
    /// Message with the value that was got and the one that was wanted.
    pub message: String,
    /// What could stand here: `` valid: `a`, `b` ``.
    pub note: Option<String>,
    /// Hint at what to try.
    pub hint: Option<String>,
}

impl Fault {
    pub(super) fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into(), note: None, hint: None }
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Lists the names that are valid instead of `got`, and says which of them was probably meant.
    pub(super) fn valid<'n>(mut self, got: &str, names: impl IntoIterator<Item = &'n str> + Clone) -> Self {
        if let Some(name) = similar(got, names.clone()) {
            self.hint = Some(format!("did you mean `{name}`?"));
        }
        let list = quoted(names);
        self.note =
            Some(if list.is_empty() { "there is nothing to name".to_owned() } else { format!("valid: {list}") });
        self
    }
}

/// Everything that is wrong with a pipeline file and the overrides of the command line.
#[derive(Debug, Clone)]
pub struct Faults {
    texts: Texts,
    faults: Vec<Fault>,
}

impl Faults {
    pub(super) fn new(texts: Texts, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| fault.place);
        faults.dedup();
        Self { texts, faults }
    }

    /// The faults, in the order of the file.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Line and column of a fault, from 1; those of an argument are within `--set …`.
    #[must_use]
    pub fn position(&self, fault: &Fault) -> (usize, usize) {
        let position = self.texts.position(fault.place);
        (position.line, position.column)
    }

    /// As text for people, with ANSI colours or without.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint { colour };
        let faults: TruncatedList = self.faults.iter().map(|fault| self.render_fault(fault, &paint)).collect();
        let mut text = faults.join("\n");
        text.push_str(if faults.is_truncated() { "; `--json` shows all\n\n" } else { "\n" });
        let count = match self.faults.len() {
            1 => "1 mistake".to_owned(),
            n => format!("{n} mistakes"),
        };
        let _ = writeln!(text, "{}: {count} in `{}`", paint.red("error"), visible(&self.texts.name));
        text
    }

    fn render_fault(&self, fault: &Fault, paint: &Paint) -> String {
        let mut text = String::new();
        let position = self.texts.position(fault.place);
        let (line, width) = self.texts.line(fault.place);
        let (number, place) = if fault.place.is_argument() {
            (String::new(), "command line".to_owned())
        } else {
            let name = visible(&self.texts.name);
            (position.line.to_string(), format!("{name}:{}:{}", position.line, position.column))
        };
        let margin = " ".repeat(number.len());
        let bar = paint.blue("|");
        let _ = writeln!(text, "{}: {}", paint.red("error"), paint.bold(&visible(&fault.message)));
        let _ = writeln!(text, "{margin}{} {place}", paint.blue("-->"));
        let (shown, before) = window(line, position.column - 1);
        if !line.is_empty() {
            let carets = "^".repeat(width.min(shown.chars().count().saturating_sub(before)).max(1));
            let _ = writeln!(text, "{margin} {bar}");
            let _ = writeln!(text, "{} {bar} {shown}", paint.blue(&number));
            let _ = writeln!(text, "{margin} {bar} {}{}", " ".repeat(before), paint.red(&carets));
        }
        if let Some(note) = &fault.note {
            let _ = writeln!(text, "{margin} {} {}", paint.blue("="), visible(note));
        }
        if let Some(hint) = &fault.hint {
            let _ = writeln!(text, "{margin} {} {}: {}", paint.blue("="), paint.bold("hint"), visible(hint));
        }
        text
    }

    /// One JSON object a fault: `{"event": "fault", "file", "line", "column", "message", "note", "hint"}`.
    #[must_use]
    pub fn to_json(&self) -> Vec<Value> {
        let object = |fault: &Fault| {
            let position = self.texts.position(fault.place);
            let argument = fault.place.is_argument().then(|| self.texts.texts[fault.place.text].clone());
            json!({
                "event": "fault",
                "file": self.texts.name,
                "argument": argument,
                "line": position.line,
                "column": position.column,
                "message": fault.message,
                "note": fault.note,
                "hint": fault.hint,
            })
        };
        self.faults.iter().map(object).collect()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Faults {}

/// The part of a line around column `at` (from 0) that fits on a screen, one column a character, and where `at` is in it.
fn window(line: &str, at: usize) -> (String, usize) {
    let start = if at < LINE_CHARACTERS { 0 } else { at - LINE_CHARACTERS / 2 };
    let shown = line.chars().skip(start).take(LINE_CHARACTERS);
    (shown.map(|c| if c.is_control() { ' ' } else { c }).collect(), at - start)
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

    fn blue(&self, text: &str) -> String {
        self.with("1;34", text)
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }
}
