//! Items that a stage left out, and the check of their share.

use super::{Error, Result, TruncatedList};

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
        let wanted = if is_all { String::new() } else { format!(", wanted at most {max_share} of them") };
        let mut listed = TruncatedList::new(SHOWN);
        listed.extend(first.iter().take(SHOWN));
        let shown = if listed.is_empty() { String::new() } else { format!(":\n  {}", listed.join("\n  ")) };
        let more = match skipped.saturating_sub(listed.len() as u64) {
            more if more == 0 || listed.is_empty() => String::new(),
            more => format!("\n  and {more} more"),
        };
        let count = if is_all { format!("all {total}") } else { format!("{skipped} of {total}") };
        let error = Error::data(format!("{count} {items} were left out{wanted}{shown}{more}"));
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
            "11 of 100 images were left out, wanted at most 0.1 of them:\n  `0`: gone\n  `1`: gone\n  `2`: gone\n  \
             `3`: gone\n  `4`: gone\n  and 6 more\nmend these files, or allow a larger share with `max_skipped`; the stage then starts over"
        );
        assert_eq!(
            message(2, 2, 1.0).unwrap(),
            "all 2 images were left out:\n  `0`: gone\n  `1`: gone\ncheck the folder"
        );
    }
}
