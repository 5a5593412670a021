//! Statements in a text: the ends of statements, and the kinds that a session runs.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Splits a text into statements that end with `;`, and the rest after the last one. A `;` within quotes or a comment
/// ends nothing; statements without content are left out.
#[must_use]
pub fn split_statements(text: &str) -> (Vec<String>, String) {
    let starts = line_starts(text);
    let mut tokens = Vec::new();
    // With an open quote or comment, the tokens before it are kept.
    let is_open = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens).is_err();
    let (mut statements, mut start, mut has_content) = (Vec::new(), 0, false);
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let end = byte_offset(text, &starts, token.span.start.line, token.span.start.column);
                if has_content && end >= start {
                    statements.push(text[start..end].trim().to_owned());
                }
                (start, has_content) = (end + 1, false);
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => has_content = true,
        }
    }
    let rest = text.get(start..).unwrap_or_default();
    (statements, if has_content || is_open { rest.trim().to_owned() } else { String::new() })
}

/// Byte offsets of the starts of lines.
fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// Byte offset of a line and column, both from 1; columns count characters.
fn byte_offset(text: &str, starts: &[usize], line: u64, column: u64) -> usize {
    let line = usize::try_from(line).unwrap_or(1).saturating_sub(1);
    let start = starts.get(line).copied().unwrap_or(text.len());
    let column = usize::try_from(column).unwrap_or(1).saturating_sub(1);
    text[start..].char_indices().nth(column).map_or(text.len(), |(at, _)| start + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes_and_comments() {
        for (text, statements, rest) in [
            ("", vec![], ""),
            ("SELECT 1", vec![], "SELECT 1"),
            ("SELECT 1;", vec!["SELECT 1"], ""),
            ("SELECT 'ä;ö';  SELECT\n 2 ; ;-- end;", vec!["SELECT 'ä;ö'", "SELECT\n 2"], ""),
            ("SELECT \"a;b\" /* ; */ FROM t;\nSELECT 3", vec!["SELECT \"a;b\" /* ; */ FROM t"], "SELECT 3"),
            ("SELECT 1; SELECT 'open;", vec!["SELECT 1"], "SELECT 'open;"),
            ("SELECT /* open;", vec![], "SELECT /* open;"),
        ] {
            assert_eq!(split_statements(text), (statements.iter().map(|s| (*s).to_owned()).collect(), rest.to_owned()));
        }
    }
}
