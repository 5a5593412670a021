//! Error messages about many items: a list that shows the first ones and counts the others, the validation errors of one
//! file or table, and the items that a stage left out.

use std::fmt::{self, Display, Write as _};
use std::path::Path;

use super::{Error, Result};

/// Maximum length of an item in bytes. The rest of a longer one is left out.
const MAX_ITEM_BYTES: usize = 16 << 10;

/// Default number of items that a list shows.
pub const DEFAULT_LIMIT: usize = 20;

/// First items of a list as text, and the number of all items.
#[derive(Debug, Clone)]
pub struct TruncatedList {
    shown: Vec<String>,
    limit: usize,
    len: usize,
}

impl Default for TruncatedList {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl TruncatedList {
    /// An empty list that shows at most `limit` items.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { shown: Vec::new(), limit, len: 0 }
    }

    /// Adds an item. It is formatted only if it is shown, and at most 16 KiB of it.
    pub fn push(&mut self, item: impl Display) {
        self.len += 1;
        if self.shown.len() < self.limit {
            let mut shown = ItemText::default();
            // The error of the writer means that the item is cut.
            let is_cut = write!(shown, "{item}").is_err();
            self.shown.push(shown.0 + if is_cut { " …" } else { "" });
        }
    }

    /// Number of all items, shown or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if some items are not shown.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.len > self.shown.len()
    }

    /// Joins the shown items and the number of the others: `a; b; and 3 more`.
    #[must_use]
    pub fn join(&self, separator: &str) -> String {
        let text = self.shown.join(separator);
        match self.len - self.shown.len() {
            0 => text,
            more => format!("{text}{separator}and {more} more"),
        }
    }
}

/// Text of an item, which ends at [`MAX_ITEM_BYTES`].
#[derive(Default)]
struct ItemText(String);

impl fmt::Write for ItemText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = text.floor_char_boundary(MAX_ITEM_BYTES - self.0.len());
        self.0.push_str(&text[..end]);
        if end == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl<T: Display> Extend<T> for TruncatedList {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: Display> FromIterator<T> for TruncatedList {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut list = Self::default();
        list.extend(items);
        list
    }
}

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

/// Number of items that the error shows.
const SHOWN: usize = 5;

/// Items that a stage left out, such as images without a file.
#[derive(Debug, Clone)]
pub struct SkippedItems {
    /// Items that were left out.
    pub skipped: u64,
    /// All items.
    pub total: u64,
    /// First of them, with the reasons.
    pub first: Vec<String>,
}

impl SkippedItems {
    /// Checks that at most the share `max_share` of the `items` was left out, and not all.
    ///
    /// # Errors
    /// More were left out. The error names the numbers and the first five. If all were left out, it has the hint
    /// `hint_for_all`.
    pub fn check(&self, items: &str, max_share: f64, hint_for_all: &str) -> Result<()> {
        let Self { skipped, total, first } = self;
        let is_all = skipped >= total;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
        let is_within_share = *skipped as f64 <= max_share * *total as f64;
        if *skipped == 0 || (!is_all && is_within_share) {
            return Ok(());
        }
        let limit = if is_all { String::new() } else { format!(", expected at most {max_share} of them") };
        let mut listed = TruncatedList::new(SHOWN);
        listed.extend(first.iter().take(SHOWN));
        let shown = if listed.is_empty() { String::new() } else { format!(":\n  {}", listed.join("\n  ")) };
        let more = match skipped.saturating_sub(listed.len() as u64) {
            more if more == 0 || listed.is_empty() => String::new(),
            more => format!("\n  and {more} more"),
        };
        let count = if is_all { format!("all {total}") } else { format!("{skipped} of {total}") };
        let error = Error::data(format!("{count} {items} were left out{limit}{shown}{more}"));
        Err(error.hint(if is_all {
            hint_for_all.to_owned()
        } else {
            "mend these files, or allow a larger share with `max_skipped`; the stage then starts over".to_owned()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCategory;

    #[test]
    fn long_items_are_cut_between_characters() {
        let mut list = TruncatedList::new(2);
        list.push(format_args!("a{}", "ü".repeat(1 << 20)));
        list.push("b");
        assert_eq!(list.join("; "), format!("a{} …; b", "ü".repeat((16 << 10) / 2 - 1)));
    }

    #[test]
    fn the_first_items_are_shown_and_the_others_counted() {
        let list = |items: std::ops::Range<u32>| TruncatedList::from_iter(items);
        assert_eq!((list(0..0).join(", "), list(0..0).is_empty()), (String::new(), true));
        assert_eq!(list(0..3).join("; "), "0; 1; 2");
        assert!(list(0..20).join(", ").ends_with("18, 19"));
        assert!(list(0..23).join(", ").ends_with("18, 19, and 3 more"));
        assert_eq!(list(0..23).len(), 23);
        let mut short = TruncatedList::new(1);
        short.extend(["a", "b"]);
        assert_eq!(short.join(", "), "a, and 1 more");
    }

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

    fn message(skipped: u64, total: u64, max_share: f64) -> Option<String> {
        let first = (0..skipped.min(20)).map(|i| format!("`{i}`: gone")).collect();
        let error = SkippedItems { skipped, total, first }.check("images", max_share, "check the folder").err()?;
        Some(format!("{error}\n{}", error.hint_text().unwrap_or_default()))
    }

    #[test]
    fn the_share_is_limited_and_all_is_never_allowed() {
        assert_eq!(message(0, 0, 0.0), None);
        assert_eq!(message(10, 100, 0.1), None);
        assert_eq!(message(99, 100, 1.0), None);
        assert_eq!(
            message(11, 100, 0.1).unwrap(),
            "11 of 100 images were left out, expected at most 0.1 of them:\n  `0`: gone\n  `1`: gone\n  `2`: gone\n  \
             `3`: gone\n  `4`: gone\n  and 6 more\nmend these files, or allow a larger share with `max_skipped`; the stage then starts over"
        );
        assert_eq!(
            message(2, 2, 1.0).unwrap(),
            "all 2 images were left out:\n  `0`: gone\n  `1`: gone\ncheck the folder"
        );
    }
}
