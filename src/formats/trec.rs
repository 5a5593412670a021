//! TREC's text formats: relevance judgements (qrels) and rankings (runs).
//!
//! Formats: `trec_eval`, <https://github.com/usnistgov/trec_eval>. Fields are separated by white space.

use std::fmt;

use pairloom_storage::image_names::shown_name;

/// Relevance judgement of an item for a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Identifier of the query.
    pub query: i64,
    /// Identifier of the item, TREC's document.
    pub item: i64,
    /// Grade of relevance, finite.
    pub grade: f64,
}

impl Judgement {
    /// Parses a line of a qrels file, `query iteration item grade`; `None` for an empty line. The iteration is not used.
    ///
    /// # Errors
    /// Message that follows the place of the line: the line has other fields.
    pub fn parse(line: &[u8]) -> Result<Option<Self>, String> {
        let line =
            std::str::from_utf8(line).map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to() + 1))?;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [query, _, item, grade] = fields[..] else {
            if fields.is_empty() {
                return Ok(None);
            }
            let plural = if fields.len() == 1 { "" } else { "s" };
            return Err(format!("{} field{plural}, expected 4: query, iteration, item, grade", fields.len()));
        };
        let id = |name: &str, field: &str| -> Result<i64, String> {
            field.parse().map_err(|_| format!("{name} is `{}`, expected a whole number", shown_name(field)))
        };
        let (query, item) = (id("query", query)?, id("item", item)?);
        let number = grade.parse().ok().filter(|number: &f64| number.is_finite());
        let grade = number.ok_or_else(|| format!("grade is `{}`, expected a number", shown_name(grade)))?;
        Ok(Some(Self { query, item, grade }))
    }
}

/// Line of a run file without its line break: `query Q0 item rank score tag`.
#[derive(Debug, Clone, Copy)]
pub struct RunLine<'t> {
    /// Identifier of the query.
    pub query: i64,
    /// Identifier of the item, TREC's document.
    pub item: i64,
    /// Rank of the item, from 1.
    pub rank: usize,
    /// Score of the item, in the shortest form that reads back equal.
    pub score: f32,
    /// Name of the run; see [`check_tag`].
    pub tag: &'t str,
}

impl fmt::Display for RunLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { query, item, rank, score, tag } = self;
        write!(f, "{query} Q0 {item} {rank} {score} {tag}")
    }
}

/// Checks that a tag is one field.
///
/// # Errors
/// Message: it is empty, or has white space or control characters.
pub fn check_tag(tag: &str) -> Result<(), String> {
    if tag.is_empty() || tag.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return Err(format!("got `{}`, expected a word without white space", tag.escape_debug()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_judgement_has_four_fields() {
        let judged = |line: &[u8]| Judgement::parse(line);
        let expected = Judgement { query: 101, item: -7, grade: 2.0 };
        for line in [&b"101 0 -7 2\n"[..], b"101\tQ0\t-7\t2.0\r\n", b"  101 x  -7 +2e0 "] {
            assert_eq!(judged(line), Ok(Some(expected)));
        }
        assert_eq!(judged(b"\r\n"), Ok(None));
        for (line, message) in [
            (&b"101\n"[..], "1 field, expected 4: query, iteration, item, grade"),
            (b"101 0 7 1 0.5 tag", "6 fields, expected 4: query, iteration, item, grade"),
            (b"q1 0 7 1", "query is `q1`, expected a whole number"),
            (b"101 0 7.0 1", "item is `7.0`, expected a whole number"),
            (b"101 0 99999999999999999999 1", "item is `99999999999999999999`, expected a whole number"),
            (b"101 0 7 yes", "grade is `yes`, expected a number"),
            (b"101 0 7 NaN", "grade is `NaN`, expected a number"),
            (b"101 0 7 1e999", "grade is `1e999`, expected a number"),
            (b"101 0 \xff 1", "byte 7 is not UTF-8"),
        ] {
            assert_eq!(judged(line), Err(message.to_owned()));
        }
    }

    #[test]
    fn a_name_that_is_a_url_is_shown_without_its_password_and_query() {
        let message = Judgement::parse(b"7 0 https://me:secret@h.org/it's.jpg?signature=secret 1").unwrap_err();
        assert!(message.ends_with("is `https://h.org/it's.jpg`, expected a whole number"), "{message}");
    }

    #[test]
    fn a_run_line_has_six_fields() {
        let line = RunLine { query: 5, item: 80, rank: 1, score: 0.1, tag: "test-nns" };
        assert_eq!(line.to_string(), "5 Q0 80 1 0.1 test-nns");
        assert_eq!(RunLine { score: -1e-7, ..line }.to_string(), "5 Q0 80 1 -0.0000001 test-nns");
        assert_eq!(check_tag("csls-k=10"), Ok(()));
        for tag in ["", "two words", "a\n", "a\u{a0}b"] {
            assert!(check_tag(tag).is_err(), "{tag:?}");
        }
    }
}
