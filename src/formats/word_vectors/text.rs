//! Word vectors in text formats.

use std::io::{BufRead, Read};

use super::collector::WordVectorCollector;
use super::reader::{MAX_WORD_BYTES, WordVectorReader};
use pairloom_base::error::{Error, Result, ValidationErrors};

/// Number of lines from which the width is inferred.
const LINES: usize = 64;
/// Maximum length of a value with a space, in bytes.
const MAX_VALUE_BYTES: usize = 64;

/// Reads lines of a word and its values. If `announced` is given, the first line is the header and skipped.
///
/// Words may contain spaces (as in `GloVe`'s vectors of 840 billion words), so a line is parsed from its end.
///
/// # Errors
/// Lines have too few values, values of wanted words are not finite numbers, or there are more or fewer lines than
/// announced: the error lists all of these. Or a line is too long.
pub(super) fn read(
    reader: &mut WordVectorReader<'_>,
    collector: &mut WordVectorCollector<'_>,
    announced: Option<u64>,
) -> Result<()> {
    let mut mistakes = ValidationErrors::in_file(reader.path);
    let longest = MAX_WORD_BYTES + collector.width() * MAX_VALUE_BYTES;
    let mut line = Vec::new();
    let (mut number, mut entries) = (0u64, 0u64);
    loop {
        reader.check_cancelled(number)?;
        line.clear();
        let read = reader.content.by_ref().take(longest as u64).read_until(b'\n', &mut line);
        if read.map_err(|error| reader.io_error(&error))? == 0 {
            break;
        }
        number += 1;
        if line.len() == longest && !line.ends_with(b"\n") {
            let message = format!("`{}` line {number} has more than {longest} bytes", reader.path.display());
            return Err(Error::data(message));
        }
        let line = line.trim_ascii_end();
        if line.is_empty() || (number == 1 && announced.is_some()) {
            continue;
        }
        entries += 1;
        let Some((word, numbers)) = split_entry(line, collector.width()) else {
            let fields = line.split(|&byte| byte == b' ').count();
            mistakes.add(
                format_args!("line {number}"),
                format_args!("{} values after a word, wanted {}", fields - 1, collector.width()),
            );
            continue;
        };
        let Some(slot) = collector.wanted_word(word) else { continue };
        let parsed = numbers.split(|&byte| byte == b' ').map(parse_finite);
        match parsed.collect::<Result<Vec<f32>, String>>() {
            Ok(parsed) => collector.store(slot, &parsed),
            Err(wrong) => {
                let word = String::from_utf8_lossy(word);
                mistakes.add(
                    format_args!("line {number}"),
                    format_args!("`{wrong}` in the vector of `{word}`, wanted a finite number"),
                );
            }
        }
    }
    if let Some(announced) = announced.filter(|&announced| announced != entries) {
        mistakes.add("line 1", format_args!("announces {announced} words, and {entries} follow"));
        mistakes.hint("the file is damaged or truncated: copy it or create it again");
    }
    mistakes.into_result()
}

/// Infers the width of the vectors in a file that begins with `head` and has no header.
///
/// Words with spaces make lines longer, never shorter, so the width is the minimum over the first lines.
///
/// # Errors
/// No line has a value.
pub(super) fn infer_width(head: &[u8]) -> Result<u64> {
    let lines = head.split(|&byte| byte == b'\n').take(LINES).map(<[u8]>::trim_ascii_end);
    let complete = if head.contains(&b'\n') { lines.clone().count().saturating_sub(1).max(1) } else { 1 };
    let fields = lines.take(complete).filter(|line| !line.is_empty()).map(|line| line.split(|&b| b == b' ').count());
    match fields.min() {
        Some(fields) if fields > 1 => Ok(fields as u64 - 1),
        _ => Err(Error::data("no word vectors: wanted lines with a word and its values, separated by spaces")),
    }
}

/// Splits a line into the word and the text of its `width` values.
pub(super) fn split_entry(line: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let mut end = line.len();
    for _ in 0..width {
        end = line[..end].iter().rposition(|&byte| byte == b' ')?;
    }
    Some((&line[..end], line.get(end + 1..)?))
}

/// Returns true if `text` is a number.
pub(super) fn is_number(text: &[u8]) -> bool {
    parse_number(text).is_some()
}

/// Parses a finite number. On failure returns the text.
fn parse_finite(text: &[u8]) -> Result<f32, String> {
    parse_number(text).filter(|number| number.is_finite()).ok_or_else(|| String::from_utf8_lossy(text).into_owned())
}

fn parse_number(text: &[u8]) -> Option<f32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
