//! Statements in a text: the ends of statements, and the kinds that a session runs.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use pairloom_base::error::{Error, Result};

/// Splits a text into statements that end with `;`, and the rest after the last one. A `;` within quotes or a comment
/// ends nothing; statements without content are left out.
#[must_use]
pub fn split_statements(text: &str) -> (Vec<String>, String) {
    let mut places = TokenPlaces::new(text);
    let mut tokens = Vec::new();
    // With an open quote or comment, the tokens before it are kept.
    let is_open = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens).is_err();
    let (mut statements, mut start, mut has_content) = (Vec::new(), 0, false);
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let end = places.byte_of(token.span.start.line, token.span.start.column);
                // Tokens within `/*! … */` have places that are not theirs.
                if end < start || !text[end..].starts_with(';') {
                    has_content = true;
                    continue;
                }
                if has_content {
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

/// Largest number of operators, joins or set operations within each other: each is a level of the tree of the query.
const MAX_CHAIN: usize = 1_000;

/// Refuses a statement whose tree is so deep that planning it could exhaust the stack, such as `1 + 1 + …`.
///
/// # Errors
/// The statement has more than a thousand operators within each other.
pub(super) fn check_depth(sql: &str) -> Result<()> {
    let mut tokens = Vec::new();
    // The parser has the better message for a text that has no tokens.
    let _ = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location_into_buf(&mut tokens);
    // On each level of brackets: operators in a row, and the deepest row within brackets of this row. A comma begins
    // another row.
    let (mut levels, mut longest) = (vec![(0_usize, 0_usize)], 0);
    for token in tokens {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => levels.push((0, 0)),
            Token::RParen | Token::RBracket | Token::RBrace if levels.len() > 1 => {
                let (row, within) = levels.pop().unwrap_or_default();
                if let Some((_, deepest)) = levels.last_mut() {
                    *deepest = (*deepest).max(row + within);
                }
            }
            _ => {}
        }
        let Some((row, within)) = levels.last_mut() else { break };
        match token.token {
            Token::Comma => *row = 0,
            Token::Number(..) | Token::Whitespace(_) | Token::SingleQuotedString(_) => {}
            Token::Word(word) => *row += usize::from(is_operator(word.keyword)),
            // Brackets are levels, and subscripts and calls follow each other.
            _ => *row += 1,
        }
        longest = longest.max(*row + *within);
    }
    if longest <= MAX_CHAIN {
        return Ok(());
    }
    Err(Error::usage(format!("SQL: {longest} operators within each other, wanted at most {MAX_CHAIN}"))
        .hint("`x IN (…)`, or a table of values: `FROM (VALUES (1), (2)) AS t(x)`"))
}

/// True for a keyword that joins two expressions or queries.
fn is_operator(keyword: Keyword) -> bool {
    use Keyword::{AND, AT, BETWEEN, COLLATE, EXCEPT, ILIKE, INTERSECT, IS, JOIN, LIKE, NOT, OR, UNION, XOR};
    matches!(
        keyword,
        AND | OR | XOR | NOT | IS | LIKE | ILIKE | BETWEEN | COLLATE | AT | UNION | EXCEPT | INTERSECT | JOIN
    )
}

/// Byte offsets of lines and columns. A place behind the one before, in its line, costs the characters between the two: a
/// line may have a million tokens.
struct TokenPlaces<'t> {
    text: &'t str,
    line_starts: Vec<usize>,
    /// Line and column, both from 0, and byte offset of the last place.
    last: (usize, usize, usize),
}

impl<'t> TokenPlaces<'t> {
    fn new(text: &'t str) -> Self {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, line_starts, last: (0, 0, 0) }
    }

    /// Byte offset of a line and column, both from 1; columns count characters.
    fn byte_of(&mut self, line: u64, column: u64) -> usize {
        let from_zero = |number: u64| usize::try_from(number).unwrap_or(1).saturating_sub(1);
        let (line, column) = (from_zero(line), from_zero(column));
        let line_start = self.line_starts.get(line).copied().unwrap_or(self.text.len());
        let (before, start) = match self.last {
            (last_line, last_column, byte) if last_line == line && last_column <= column => (last_column, byte),
            _ => (0, line_start),
        };
        let rest = self.text[start..].char_indices().nth(column - before);
        let byte = rest.map_or(self.text.len(), |(at, _)| start + at);
        self.last = (line, column, byte);
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each `;` was counted from the start of the line: a mebibyte of them took ten minutes.
    #[test]
    fn a_line_of_many_statements_is_split_in_one_pass() {
        let (statements, rest) =
            split_statements(&format!("{}SELECT 1; 'ü;' ;{}\nx;y", ";".repeat(500_000), "a;".repeat(200_000)));
        assert_eq!((statements.len(), rest.as_str()), (2 + 200_000 + 1, "y"));
        assert_eq!(statements[..3], ["SELECT 1", "'ü;'", "a"]);
        assert_eq!(statements.last().unwrap(), "x");
    }

    #[test]
    fn deep_statements_are_refused_and_long_ones_are_not() {
        let chain = |term: &str, count: usize| format!("SELECT 1 FROM t WHERE x{}", term.repeat(count));
        for term in [" + 1", " AND x", "::int", " IS NULL", "[1]", " OR x = 1", "->'a'"] {
            assert!(check_depth(&chain(term, 300)).is_ok(), "{term}");
            assert!(check_depth(&chain(term, 1_100)).is_err(), "{term}");
        }
        assert!(check_depth(&format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(1_100))).is_err());
        let nested =
            |levels: usize| (0..levels).fold("x".to_owned(), |inner, _| format!("({inner}{})", " + 1".repeat(90)));
        assert!(check_depth(&nested(5)).is_ok() && check_depth(&nested(14)).is_err());
        for long in [
            format!("SELECT 1{}", ", a + b = c".repeat(5_000)),
            format!("SELECT 1 FROM t WHERE x IN (1{})", ", 2".repeat(50_000)),
            format!("SELECT * FROM (VALUES (1, -1){}) AS t(x, y)", ", (2, -2)".repeat(20_000)),
            "SELECT ')))'".to_owned(),
        ] {
            assert!(check_depth(&long).is_ok());
        }
    }

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

    /// The tokenizer reads `/*! … */` as tokens, whose places it counts from the start of the comment.
    #[test]
    fn wrong_places_of_tokens_cut_no_character() {
        for letters in 0..40 {
            let foreign = "\u{fffd}".repeat(letters);
            let text = format!("SELE'a;b':/*!\0 {foreign}b;\u{fffd}*{foreign};\u{fffd}*/z ELE");
            let (statements, rest) = split_statements(&text);
            assert!(statements.iter().chain([&rest]).all(|part| text.contains(part.as_str())), "{text}");
        }
    }
}
