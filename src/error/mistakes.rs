//! Mistakes of one file or table, gathered and reported at once.

use std::fmt::Display;
use std::path::Path;

use super::{Error, Result, TruncatedList};

/// The mistakes found in one file or table so far.
#[derive(Debug)]
pub struct Mistakes {
    subject: String,
    list: TruncatedList,
    hint: Option<String>,
}

impl Mistakes {
    /// No mistakes yet in the file at `path`.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self::of_table(&path.display().to_string())
    }

    /// No mistakes yet in the table `name`.
    #[must_use]
    pub fn of_table(name: &str) -> Self {
        Self { subject: name.to_owned(), list: TruncatedList::default(), hint: None }
    }

    /// Adds a mistake at `place`, such as `line 4`.
    pub fn add(&mut self, place: impl Display, message: impl Display) {
        self.list.push(format_args!("{place}: {message}"));
    }

    /// What to try, shown if there is a mistake; the first one stays.
    pub fn hint(&mut self, hint: impl Into<String>) {
        self.hint.get_or_insert_with(|| hint.into());
    }

    /// Whether there are none so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Ends the gathering.
    ///
    /// # Errors
    /// There are mistakes: one error of kind `Data` that names the file and the first twenty of them.
    pub fn finish(self) -> Result<()> {
        let Self { subject, list, hint } = self;
        let message = match list.len() {
            0 => return Ok(()),
            1 => format!("`{subject}` {}", list.join("")),
            count => format!("`{subject}` has {count} mistakes:\n  {}", list.join("\n  ")),
        };
        let error = Error::data(message);
        Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn reports_the_first_twenty_and_counts_the_rest() {
        let mut mistakes = Mistakes::of(Path::new("a.txt"));
        for line in 1..=23 {
            mistakes.add(format_args!("line {line}"), "no tab");
        }
        let error = mistakes.finish().unwrap_err();
        assert_eq!(error.kind(), Kind::Data);
        let message = error.to_string();
        assert!(message.starts_with("`a.txt` has 23 mistakes:\n  line 1: no tab\n"), "{message}");
        assert!(message.ends_with("line 20: no tab\n  and 3 more"), "{message}");
    }

    #[test]
    fn one_mistake_is_one_line_and_none_is_no_error() {
        let mut mistakes = Mistakes::of(Path::new("a.txt"));
        assert!(mistakes.is_empty());
        mistakes.add("line 2", "empty caption");
        assert_eq!(mistakes.finish().unwrap_err().to_string(), "`a.txt` line 2: empty caption");
        assert!(Mistakes::of(Path::new("a.txt")).finish().is_ok());
    }
}
