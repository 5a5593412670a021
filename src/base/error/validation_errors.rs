//! Validation errors of one file or table, collected and reported together.

use std::fmt::Display;
use std::path::Path;

use super::{Error, Result, TruncatedList};

/// Validation errors found so far in one file or table.
#[derive(Debug)]
pub struct ValidationErrors {
    subject: String,
    list: TruncatedList,
    hint: Option<String>,
}

impl ValidationErrors {
    /// An empty list for the file at `path`.
    #[must_use]
    pub fn in_file(path: &Path) -> Self {
        Self::in_table(&path.display().to_string())
    }

    /// An empty list for the table `name`.
    #[must_use]
    pub fn in_table(name: &str) -> Self {
        Self { subject: name.to_owned(), list: TruncatedList::default(), hint: None }
    }

    /// The same list for the file at `path`, of errors that were found before its name was known.
    #[must_use]
    pub fn of_file(self, path: &Path) -> Self {
        Self { subject: path.display().to_string(), ..self }
    }

    /// Adds an error at `place`, such as `line 4`.
    pub fn add(&mut self, place: impl Display, message: impl Display) {
        self.list.push(format_args!("{place}: {message}"));
    }

    /// Sets the hint, which is shown if there is an error. An earlier hint is kept instead.
    pub fn hint(&mut self, hint: impl Into<String>) {
        self.hint.get_or_insert_with(|| hint.into());
    }

    /// Returns true if no error was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Turns the list into a result.
    ///
    /// # Errors
    /// If errors were added: one error of category `Data` with the name of the file and the first twenty of them.
    pub fn into_result(self) -> Result<()> {
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
    use crate::error::ErrorCategory;

    #[test]
    fn reports_the_first_twenty_and_counts_the_rest() {
        let mut mistakes = ValidationErrors::in_file(Path::new("a.txt"));
        for line in 1..=23 {
            mistakes.add(format_args!("line {line}"), "no tab");
        }
        let error = mistakes.into_result().unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        let message = error.to_string();
        assert!(message.starts_with("`a.txt` has 23 mistakes:\n  line 1: no tab\n"), "{message}");
        assert!(message.ends_with("line 20: no tab\n  and 3 more"), "{message}");
    }

    #[test]
    fn one_error_is_one_line_and_an_empty_list_is_ok() {
        let mut mistakes = ValidationErrors::in_file(Path::new("a.txt"));
        assert!(mistakes.is_empty());
        mistakes.add("line 2", "empty caption");
        assert_eq!(mistakes.into_result().unwrap_err().to_string(), "`a.txt` line 2: empty caption");
        assert!(ValidationErrors::in_file(Path::new("a.txt")).into_result().is_ok());
    }
}
