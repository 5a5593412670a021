//! Word vectors as text.

use std::io::{BufRead, Read};

use super::keep::Keep;
use super::source::{LONGEST_WORD, Source};
use crate::error::{Error, Mistakes, Result};

/// Lines from which the width is told.
const LINES: usize = 64;
/// Most bytes of a value with the space after it.
const LONGEST_VALUE: usize = 64;

/// Reads lines of a word and its values; the first of all if their number is announced says so and is passed over.
///
/// Words may hold spaces (`GloVe`'s of 840 billion words do), so a line is read from its end.
///
/// # Errors
/// Lines without enough values, values of wanted words that are no finite numbers, more or fewer lines than announced: all
/// of them at once. A line without an end.
pub(super) fn read(source: &mut Source<'_>, keep: &mut Keep<'_>, announced: Option<u64>) -> Result<()> {
    let mut mistakes = Mistakes::of(source.path);
    let longest = LONGEST_WORD + keep.width() * LONGEST_VALUE;
    let mut line = Vec::new();
    let (mut number, mut entries) = (0u64, 0u64);
    loop {
        source.proceed(number)?;
        line.clear();
        let read = source.content.by_ref().take(longest as u64).read_until(b'\n', &mut line);
        if read.map_err(|error| source.failed(&error))? == 0 {
            break;
        }
        number += 1;
        if line.len() == longest && !line.ends_with(b"\n") {
            let message = format!("`{}` line {number} has more than {longest} bytes", source.path.display());
            return Err(Error::data(message));
        }
        let line = line.trim_ascii_end();
        if line.is_empty() || (number == 1 && announced.is_some()) {
            continue;
        }
        entries += 1;
        let Some((word, numbers)) = split(line, keep.width()) else {
            let fields = line.split(|&byte| byte == b' ').count();
            mistakes.add(
                format_args!("line {number}"),
                format_args!("{} values after a word, wanted {}", fields - 1, keep.width()),
            );
            continue;
        };
        let Some(slot) = keep.slot(word) else { continue };
        let parsed = numbers.split(|&byte| byte == b' ').map(value);
        match parsed.collect::<Result<Vec<f32>, String>>() {
            Ok(parsed) => keep.put(slot, &parsed),
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
        mistakes.hint("the file is damaged or cut short: copy or make it again");
    }
    mistakes.finish()
}

/// The width of vectors in a file that begins with `head` and does not announce it.
///
/// Words with spaces make lines longer and none make them shorter, so it is the least that some lines have.
///
/// # Errors
/// No line has a value.
pub(super) fn width(head: &[u8]) -> Result<u64> {
    let lines = head.split(|&byte| byte == b'\n').take(LINES).map(<[u8]>::trim_ascii_end);
    let complete = if head.contains(&b'\n') { lines.clone().count().saturating_sub(1).max(1) } else { 1 };
    let fields = lines.take(complete).filter(|line| !line.is_empty()).map(|line| line.split(|&b| b == b' ').count());
    match fields.min() {
        Some(fields) if fields > 1 => Ok(fields as u64 - 1),
        _ => Err(Error::data("no word vectors: wanted lines of a word and its values, with spaces in between")),
    }
}

/// A word and the text of its `width` values, of which there is at least one.
pub(super) fn split(line: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let mut end = line.len();
    for _ in 0..width {
        end = line[..end].iter().rposition(|&byte| byte == b' ')?;
    }
    Some((&line[..end], line.get(end + 1..)?))
}

/// Whether this is how a number is written.
pub(super) fn is_number(text: &[u8]) -> bool {
    number(text).is_some()
}

/// A finite number, or what stands in its place.
fn value(text: &[u8]) -> Result<f32, String> {
    number(text).filter(|number| number.is_finite()).ok_or_else(|| String::from_utf8_lossy(text).into_owned())
}

fn number(text: &[u8]) -> Option<f32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
