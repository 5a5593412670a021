//! List in an error message that shows its first items and counts the others.

use std::fmt::{self, Display, Write as _};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
