//! Opens a file of word vectors, detects its format, and reads it.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use az::SaturatingAs;
use flate2::read::MultiGzDecoder;

use super::collector::{PretrainedWordVectors, WordVectorCollector};
use super::reader::WordVectorReader;
use super::{binary, text};
use pairloom_base::error::{Error, Result};
use pairloom_storage::bounded;

/// Number of bytes at the start of a file from which its format is detected.
const HEAD_BYTES: u64 = 1 << 20;
/// Minimum and maximum number of bytes that are inspected to distinguish text from binary.
const INSPECTED_BYTES: std::ops::Range<usize> = 64..4096;

/// Reads the vectors of `words` from the file at `path`. The vectors must have `width` values.
///
/// A word gets the vector of its first exact match in the file, otherwise of the first entry that matches when
/// lower-cased. `cancel_check` is called regularly and cancels the reading by an error.
///
/// # Errors
/// The file cannot be read, is truncated or longer than announced, its vectors have another width, lines have too few
/// values, values of wanted words are not finite numbers (the error lists all such lines), a gzip file expands to more
/// than its size allows, or `cancel_check` returned an error.
pub fn read(
    path: &Path,
    words: &[String],
    width: usize,
    cancel_check: &mut dyn FnMut() -> Result<()>,
) -> Result<PretrainedWordVectors> {
    if width == 0 {
        return Err(Error::internal("word vectors of width 0 were requested"));
    }
    let failed = |error: io::Error| Error::io("read", path, &error);
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::data(format!("`{}` is not a file", path.display())));
    }
    let file = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
    let gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let mut content: Box<dyn Read> =
        if gzip { Box::new(bounded::limited(MultiGzDecoder::new(file), metadata.len())) } else { Box::new(file) };
    let mut head = Vec::new();
    content.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
    let form = detect_format(&head, width).map_err(|error| error.context(format!("`{}`", path.display())))?;
    let rest = BufReader::with_capacity(1 << 16, content);
    let mut reader = WordVectorReader { path, content: Box::new(Cursor::new(head).chain(rest)), cancel_check };
    let mut collector = WordVectorCollector::new(words, width);
    match form {
        WordVectorFormat::Text { announced } => text::read(&mut reader, &mut collector, announced)?,
        WordVectorFormat::Binary { count, start } => binary::read(&mut reader, &mut collector, count, start)?,
    }
    Ok(collector.finish())
}

/// Format of a file of word vectors.
enum WordVectorFormat {
    /// Lines of text, optionally after a line with their number.
    Text { announced: Option<u64> },
    /// Binary entries from byte `start` on.
    Binary { count: u64, start: u64 },
}

/// Detects the format of a file that begins with `head`, and checks the width of its vectors.
fn detect_format(head: &[u8], wanted: usize) -> Result<WordVectorFormat> {
    if head.is_empty() {
        return Err(Error::data("the file is empty, wanted words with their vectors"));
    }
    if head.starts_with(b"PK") {
        return Err(Error::data("this is a zip archive, wanted word vectors")
            .hint("unpack it and give the path of the unpacked file"));
    }
    if head[0] == 0x80 {
        return Err(Error::data("this looks like a pickle, which is not read because reading a pickle executes code")
            .hint("convert it with gensim: `KeyedVectors.load(path).save_word2vec_format(new_path, binary=True)`"));
    }
    let (width, form) = match parse_header(head) {
        Some((count, width, start)) if is_text(&head[start..], width) => {
            (width, WordVectorFormat::Text { announced: Some(count) })
        }
        Some((count, width, start)) => (width, WordVectorFormat::Binary { count, start: start as u64 }),
        None => (text::infer_width(head)?, WordVectorFormat::Text { announced: None }),
    };
    if width == wanted as u64 {
        return Ok(form);
    }
    Err(Error::data(format!("vectors have width {width}, wanted {wanted}"))
        .hint("the setting `word_dim` is the width of word vectors"))
}

/// Count and width from a first line of two integers, and the length of that line.
fn parse_header(head: &[u8]) -> Option<(u64, u64, usize)> {
    let end = head.iter().position(|&byte| byte == b'\n')?;
    let mut fields = std::str::from_utf8(&head[..end]).ok()?.split_ascii_whitespace();
    let numbers = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().is_none().then_some((numbers.0, numbers.1, end + 1))
}

/// Returns true if the entries are lines of text: the first entry has `width` numbers, or (in case that line is wrong)
/// the inspected bytes contain no control characters. Binary vectors practically never satisfy either.
fn is_text(entries: &[u8], width: u64) -> bool {
    let line = entries.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let width = width.saturating_as::<usize>();
    let seen = &entries[..entries.len().min(INSPECTED_BYTES.end)];
    text::split_entry(line, width).is_some_and(|(_, values)| values.split(|&byte| byte == b' ').all(text::is_number))
        || (seen.len() >= INSPECTED_BYTES.start && seen.iter().all(|&byte| byte >= b' ' || byte.is_ascii_whitespace()))
}
