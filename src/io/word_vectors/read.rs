//! Opens a file of word vectors, finds out its form, and reads it.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use az::SaturatingAs;
use flate2::read::MultiGzDecoder;

use super::keep::{Keep, WordVectors};
use super::source::Source;
use super::{binary, text};
use crate::error::{Error, Result};

/// Bytes from which the form of a file is told.
const HEAD: u64 = 1 << 20;
/// Bytes that must be there to tell letters from other bytes, and how many are looked at.
const PLAIN: std::ops::Range<usize> = 64..4096;

/// Reads the vectors of `words` from the file at `path`, whose vectors must have `width` values.
///
/// A word takes the vector of the first entry that is the same to the letter, or else that of the first one which is it in
/// lower case. `proceed` is called now and then and may end the reading.
///
/// # Errors
/// No file that can be read, vectors of another width, a file that is cut short or goes on after its announced end, lines
/// without enough values, values of wanted words that are no finite numbers (all such lines at once), or what `proceed`
/// says.
pub fn read(
    path: &Path,
    words: &[String],
    width: usize,
    proceed: &mut dyn FnMut() -> Result<()>,
) -> Result<WordVectors> {
    if width == 0 {
        return Err(Error::internal("word vectors without values were asked for"));
    }
    let failed = |error: io::Error| Error::io("read", path, &error);
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(Error::data(format!("`{}` is not a file", path.display())));
    }
    let file = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed)?);
    let gzip = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let mut content: Box<dyn Read> = if gzip { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut head = Vec::new();
    content.by_ref().take(HEAD).read_to_end(&mut head).map_err(failed)?;
    let form = form(&head, width).map_err(|error| error.context(format!("`{}`", path.display())))?;
    let rest = BufReader::with_capacity(1 << 16, content);
    let mut source = Source { path, content: Box::new(Cursor::new(head).chain(rest)), proceed };
    let mut keep = Keep::new(words, width);
    match form {
        Form::Text { announced } => text::read(&mut source, &mut keep, announced)?,
        Form::Binary { count, start } => binary::read(&mut source, &mut keep, count, start)?,
    }
    Ok(keep.finish())
}

/// What a file is.
enum Form {
    /// Lines, after one that announces how many there are.
    Text { announced: Option<u64> },
    /// Entries from byte `start`.
    Binary { count: u64, start: u64 },
}

/// What a file that begins with `head` is.
fn form(head: &[u8], wanted: usize) -> Result<Form> {
    if head.is_empty() {
        return Err(Error::data("the file is empty, wanted words with their vectors"));
    }
    if head.starts_with(b"PK") {
        return Err(Error::data("this is a zip archive, wanted word vectors").hint("unpack it and name the file in it"));
    }
    if head[0] == 0x80 {
        return Err(Error::data("this looks like a pickle, which is not read because reading runs it")
            .hint("write it once with gensim: `KeyedVectors.load(path).save_word2vec_format(new_path, binary=True)`"));
    }
    let (width, form) = match announced(head) {
        Some((count, width, start)) if is_text(&head[start..], width) => (width, Form::Text { announced: Some(count) }),
        Some((count, width, start)) => (width, Form::Binary { count, start: start as u64 }),
        None => (text::width(head)?, Form::Text { announced: None }),
    };
    if width == wanted as u64 {
        return Ok(form);
    }
    Err(Error::data(format!("vectors have width {width}, wanted {wanted}"))
        .hint("the width of word vectors is the setting `word`"))
}

/// Count, width and length of a first line of two whole numbers.
fn announced(head: &[u8]) -> Option<(u64, u64, usize)> {
    let end = head.iter().position(|&byte| byte == b'\n')?;
    let mut fields = std::str::from_utf8(&head[..end]).ok()?.split_ascii_whitespace();
    let numbers = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next().is_none().then_some((numbers.0, numbers.1, end + 1))
}

/// Whether entries are lines: the first one has its values in letters, or, should that one be wrong, all that can be seen is
/// letters. The bytes of vectors are neither, but by a chance that nobody meets.
fn is_text(entries: &[u8], width: u64) -> bool {
    let line = entries.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let width = width.saturating_as::<usize>();
    let seen = &entries[..entries.len().min(PLAIN.end)];
    text::split(line, width).is_some_and(|(_, values)| values.split(|&byte| byte == b' ').all(text::is_number))
        || (seen.len() >= PLAIN.start && seen.iter().all(|&byte| byte >= b' ' || byte.is_ascii_whitespace()))
}
