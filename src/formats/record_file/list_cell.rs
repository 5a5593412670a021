//! Lists of texts in a cell of a table: JSON (`["a", "b"]`), Python as pandas writes a column of lists (`['a', "it's"]`), and
//! `NumPy` as pandas writes a column of arrays (`['a' "it's"]`).

use std::iter::Peekable;
use std::str::Chars;

use pairloom_storage::image_names::shown_name;

/// Number of characters of a cell that a message shows.
const SHOWN: usize = 40;

/// Reads a cell that begins as a list of texts does, with `[` and a quote, or is an empty list; `None` of the items is a null.
/// Returns `None` for any other cell, which is a text.
///
/// # Errors
/// Message that follows the name of the field: the cell begins as a list and is none.
pub(super) fn parse(cell: &str) -> Result<Option<Vec<Option<String>>>, String> {
    let cell = cell.trim();
    let Some(start) = cell.strip_prefix('[').map(str::trim_start) else { return Ok(None) };
    let nulls = ["null", "None", "nan"];
    let follows = |null: &str| start.strip_prefix(null).is_some_and(|rest| rest.trim_start().starts_with([',', ']']));
    if start != "]" && !start.starts_with(['"', '\'']) && !nulls.iter().any(|null| follows(null)) {
        return Ok(None);
    }
    if let Ok(items) = serde_json::from_str(cell) {
        return Ok(Some(items));
    }
    let items = python_items(&mut start.chars().peekable()).ok_or_else(|| {
        let shown: String = shown_name(cell).chars().take(SHOWN).collect();
        format!(
            "begins as a list and is none of JSON or Python: `{shown}`; expected such as `[\"a\", \"b\"]`, which also \
             `[\"[\\\"a\\\"] is a text\"]` is"
        )
    })?;
    Ok(Some(items))
}

/// Items of a list of Python or `NumPy`, from its first item on; `None` if it is no such list.
fn python_items(rest: &mut Peekable<Chars<'_>>) -> Option<Vec<Option<String>>> {
    let mut items = Vec::new();
    loop {
        items.push(match *rest.peek()? {
            ']' => {
                rest.next();
                return rest.next().is_none().then_some(items);
            }
            quote @ ('"' | '\'') => {
                rest.next();
                Some(python_text(rest, quote)?)
            }
            _ => {
                let word: String = std::iter::from_fn(|| rest.next_if(char::is_ascii_alphabetic)).collect();
                matches!(word.as_str(), "None" | "nan").then_some(None)?
            }
        });
        // NumPy has only white space between items.
        if skip_space(rest) == Some(',') {
            rest.next();
            skip_space(rest);
        }
    }
}

/// Next character that is no white space.
fn skip_space(rest: &mut Peekable<Chars<'_>>) -> Option<char> {
    while rest.next_if(|c| c.is_whitespace()).is_some() {}
    rest.peek().copied()
}

/// Rest of a text up to its quote, with the escapes that Python's `repr` writes.
fn python_text(rest: &mut Peekable<Chars<'_>>, quote: char) -> Option<String> {
    let mut text = String::new();
    loop {
        text.push(match rest.next()? {
            c if c == quote => return Some(text),
            '\\' => match rest.next()? {
                c @ ('\\' | '\'' | '"') => c,
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'x' => code_point(rest, 2)?,
                'u' => code_point(rest, 4)?,
                'U' => code_point(rest, 8)?,
                _ => return None,
            },
            c => c,
        });
    }
}

/// Character of a code point with so many hexadecimal digits.
fn code_point(rest: &mut Peekable<Chars<'_>>, digits: usize) -> Option<char> {
    let code: String = rest.take(digits).filter(char::is_ascii_hexdigit).collect();
    (code.len() == digits).then(|| char::from_u32(u32::from_str_radix(&code, 16).ok()?))?
}

#[cfg(test)]
mod tests {
    use super::parse;

    /// Cells of the same list, as Python 3 writes it: `json.dumps`, `repr`, and `str` of an array of `NumPy`.
    #[test]
    fn lists_of_json_python_and_numpy_are_equal() {
        let expected = ["A dog runs .", "It's \"big\"", "tab\t, ] newline\n", "café \u{200b} 🐕 \u{7} \\"];
        for cell in [
            r#"["A dog runs .", "It's \"big\"", "tab\t, ] newline\n", "caf\u00e9 \u200b \ud83d\udc15 \u0007 \\"]"#,
            r#"['A dog runs .', 'It\'s "big"', 'tab\t, ] newline\n', 'café \u200b 🐕 \x07 \\']"#,
            "['A dog runs .' 'It\\'s \"big\"' 'tab\\t, ] newline\\n'\n 'café \\u200b 🐕 \\x07 \\\\']",
        ] {
            let items = parse(cell).unwrap().unwrap();
            assert_eq!(items.iter().flatten().collect::<Vec<_>>(), expected, "{cell}");
        }
        let nulls = Ok(Some(vec![None, Some("a".to_owned()), None]));
        for cell in [r#"[null, "a", null]"#, "[None, 'a', nan]", " [ nan , \"a\" , None , ] "] {
            assert_eq!(parse(cell), nulls, "{cell}");
        }
        assert_eq!(parse("[]"), Ok(Some(vec![])));
        assert_eq!(parse(r#"["[\"a\"] b"]"#), Ok(Some(vec![Some(r#"["a"] b"#.to_owned())])));
    }

    #[test]
    fn other_cells_are_texts_or_mistakes() {
        for text in ["a dog", "[a] dog", "[1, 2]", "[]: a box", "[None of them]", "", "[", "'a'", "(\"a\", \"b\")"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
        for cell in [
            "['a', 'cut",
            "['a'",
            "['a'] dog",
            "['a',, 'b']",
            "['a' ... 'b']",
            r"['\q']",
            r"['\xg1']",
            r"['\ud800']",
            "['a', 1]",
        ] {
            let message = parse(cell).unwrap_err();
            assert!(
                message.starts_with(&format!("begins as a list and is none of JSON or Python: `{cell}`")),
                "{message}"
            );
        }
    }
}
