//! Pretrained word vectors in the published formats, read for the words of a vocabulary.
//!
//! | format | content |
//! |---|---|
//! | `GloVe` | text: on every line a word and its values. <https://nlp.stanford.edu/projects/glove/> |
//! | word2vec, text | a line `count width`, then as `GloVe`; also fastText's `.vec` |
//! | word2vec, binary | a line `count width`; then for each word the word, a space, the values as little-endian f32, an optional line feed. <https://code.google.com/archive/p/word2vec/> |
//!
//! The format is detected from the content; the extension `.gz` means compression with gzip. Files have gigabytes, so
//! they are streamed: memory grows with the vocabulary only.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use az::SaturatingAs;
use flate2::read::MultiGzDecoder;

use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_storage::bounded;

#[cfg(test)]
mod tests;

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
        WordVectorFormat::Text { announced } => read_text(&mut reader, &mut collector, announced)?,
        WordVectorFormat::Binary { count, start } => read_binary(&mut reader, &mut collector, count, start)?,
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
        return Err(Error::data("the file is empty, expected words with their vectors"));
    }
    if head.starts_with(b"PK") {
        return Err(Error::data("this is a zip archive, expected word vectors")
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
        None => (infer_width(head)?, WordVectorFormat::Text { announced: None }),
    };
    if width == wanted as u64 {
        return Ok(form);
    }
    Err(Error::data(format!("vectors have width {width}, expected {wanted}"))
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
    split_entry(line, width).is_some_and(|(_, values)| values.split(|&byte| byte == b' ').all(is_number))
        || (seen.len() >= INSPECTED_BYTES.start && seen.iter().all(|&byte| byte >= b' ' || byte.is_ascii_whitespace()))
}

/// Maximum length of a word in bytes. The longest in published files (phrases, whole URLs) have a few hundred.
const MAX_WORD_BYTES: usize = 4096;
/// Number of entries between two checks for cancellation.
const CANCEL_CHECK_ENTRIES: u64 = 4096;

/// Open file of word vectors.
struct WordVectorReader<'s> {
    path: &'s Path,
    content: Box<dyn BufRead + 's>,
    cancel_check: &'s mut dyn FnMut() -> Result<()>,
}

impl WordVectorReader<'_> {
    /// Checks for cancellation before every 4,096th entry.
    fn check_cancelled(&mut self, number: u64) -> Result<()> {
        if number.is_multiple_of(CANCEL_CHECK_ENTRIES) { (self.cancel_check)() } else { Ok(()) }
    }

    fn io_error(&self, error: &io::Error) -> Error {
        match error.kind() {
            ErrorKind::FileTooLarge => bounded::read_error(self.path, error),
            _ => Error::io("read", self.path, error),
        }
    }
}

/// Pretrained vectors of the words of a vocabulary, as far as the file has them.
#[derive(Debug, Clone, PartialEq)]
pub struct PretrainedWordVectors {
    width: usize,
    values: Vec<f32>,
    /// Offset of the values of each word of the vocabulary.
    offsets: Vec<Option<usize>>,
}

impl PretrainedWordVectors {
    /// Vector of the word with index `word` in the vocabulary, if the file has one.
    #[must_use]
    pub fn get(&self, word: usize) -> Option<&[f32]> {
        let start = (*self.offsets.get(word)?)?;
        self.values.get(start..start + self.width)
    }

    /// Number of words that have a vector.
    #[must_use]
    pub fn n_found(&self) -> usize {
        self.offsets.iter().flatten().count()
    }
}

/// Collector of the vectors of a vocabulary's words.
///
/// A vocabulary is in lower case, but some files are not. A word gets the vector of its first exact match, otherwise of
/// the first entry that matches when lower-cased. Files list frequent words first.
struct WordVectorCollector<'w> {
    words: HashMap<&'w str, usize>,
    exact: Vec<Option<usize>>,
    by_case: Vec<Option<usize>>,
    vectors: PretrainedWordVectors,
}

/// Word of the vocabulary whose vector is wanted.
#[derive(Debug, Clone, Copy)]
struct WantedWord {
    word: usize,
    exact: bool,
}

impl<'w> WordVectorCollector<'w> {
    fn new(words: &'w [String], width: usize) -> Self {
        let kept = PretrainedWordVectors { width, values: Vec::new(), offsets: Vec::new() };
        let none = vec![None; words.len()];
        let words = words.iter().enumerate().map(|(i, word)| (word.as_str(), i)).collect();
        Self { words, exact: none.clone(), by_case: none, vectors: kept }
    }

    fn width(&self) -> usize {
        self.vectors.width
    }

    /// Returns the word of the vocabulary that is to get the vector of `word`; `None` if there is none or `word` is not
    /// UTF-8.
    fn wanted_word(&mut self, word: &[u8]) -> Option<WantedWord> {
        let word = std::str::from_utf8(word).ok()?;
        if let Some(&word) = self.words.get(word) {
            return self.exact[word].is_none().then_some(WantedWord { word, exact: true });
        }
        if !word.chars().any(char::is_uppercase) {
            return None;
        }
        let word = *self.words.get(word.to_lowercase().as_str())?;
        (self.exact[word].is_none() && self.by_case[word].is_none()).then_some(WantedWord { word, exact: false })
    }

    /// Stores the vector of a wanted word.
    fn store(&mut self, slot: WantedWord, values: &[f32]) {
        let places = if slot.exact { &mut self.exact } else { &mut self.by_case };
        places[slot.word] = Some(self.vectors.values.len());
        self.vectors.values.extend_from_slice(values);
    }

    fn finish(self) -> PretrainedWordVectors {
        let places = self.exact.iter().zip(&self.by_case).map(|(exact, by_case)| exact.or(*by_case)).collect();
        PretrainedWordVectors { offsets: places, ..self.vectors }
    }
}

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
fn read_text(
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
                format_args!("{} values after a word, expected {}", fields - 1, collector.width()),
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
                    format_args!("`{wrong}` in the vector of `{word}`, expected a finite number"),
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
fn infer_width(head: &[u8]) -> Result<u64> {
    let lines = head.split(|&byte| byte == b'\n').take(LINES).map(<[u8]>::trim_ascii_end);
    let complete = if head.contains(&b'\n') { lines.clone().count().saturating_sub(1).max(1) } else { 1 };
    let fields = lines.take(complete).filter(|line| !line.is_empty()).map(|line| line.split(|&b| b == b' ').count());
    match fields.min() {
        Some(fields) if fields > 1 => Ok(fields as u64 - 1),
        _ => Err(Error::data("no word vectors: expected lines with a word and its values, separated by spaces")),
    }
}

/// Splits a line into the word and the text of its `width` values.
fn split_entry(line: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let mut end = line.len();
    for _ in 0..width {
        end = line[..end].iter().rposition(|&byte| byte == b' ')?;
    }
    Some((&line[..end], line.get(end + 1..)?))
}

/// Returns true if `text` is a number.
fn is_number(text: &[u8]) -> bool {
    parse_number(text).is_some()
}

/// Parses a finite number. On failure returns the text.
fn parse_finite(text: &[u8]) -> Result<f32, String> {
    parse_number(text).filter(|number| number.is_finite()).ok_or_else(|| String::from_utf8_lossy(text).into_owned())
}

fn parse_number(text: &[u8]) -> Option<f32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads `count` entries from byte `start` on: a word, a space, the values, an optional line feed.
///
/// # Errors
/// The file ends before the last entry or continues after it: the error names the byte. Or values of wanted words are
/// not finite: the error lists all of them.
fn read_binary(
    reader: &mut WordVectorReader<'_>,
    collector: &mut WordVectorCollector<'_>,
    count: u64,
    start: u64,
) -> Result<()> {
    let mut at = start;
    let header = reader.content.by_ref().take(start).read_until(b'\n', &mut Vec::new());
    header.map_err(|error| reader.io_error(&error))?;
    let mut mistakes = ValidationErrors::in_file(reader.path);
    let (mut word, mut bytes) = (Vec::new(), vec![0; collector.width() * size_of::<f32>()]);
    for entry in 0..count {
        reader.check_cancelled(entry)?;
        let place = |at: u64| format!("`{}` vector {} of {count}, byte {at}", reader.path.display(), entry + 1);
        word.clear();
        let read = reader.content.by_ref().take(MAX_WORD_BYTES as u64).read_until(b' ', &mut word);
        let read = read.map_err(|error| reader.io_error(&error))?;
        if word.last() != Some(&b' ') {
            let long = read == MAX_WORD_BYTES;
            return Err(if long { word_too_long(&place(at)) } else { truncated_error(&place(at + read as u64)) });
        }
        at += read as u64;
        let got = fill(reader, &mut bytes)?;
        if got < bytes.len() {
            return Err(truncated_error(&place(at + got as u64)));
        }
        at += got as u64;
        // Skips the line feed after the previous entry.
        let name = word[..word.len() - 1].trim_ascii_start();
        let Some(slot) = collector.wanted_word(name) else { continue };
        let (numbers, _) = bytes.as_chunks();
        let values: Vec<f32> = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        match values.iter().find(|value| !value.is_finite()) {
            None => collector.store(slot, &values),
            Some(wrong) => {
                let name = String::from_utf8_lossy(name);
                mistakes.add(
                    format_args!("vector {}", entry + 1),
                    format_args!("{wrong} in the vector of `{name}`, expected a finite number"),
                );
            }
        }
    }
    mistakes.into_result()?;
    let mut rest = Vec::new();
    reader.content.by_ref().take(16).read_to_end(&mut rest).map_err(|error| reader.io_error(&error))?;
    if rest.trim_ascii().is_empty() {
        return Ok(());
    }
    Err(Error::data(format!(
        "`{}` announces {count} vectors and continues after them, at byte {at}",
        reader.path.display()
    ))
    .hint("the file is damaged, or its first line is wrong: copy it or create it again"))
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
fn fill(reader: &mut WordVectorReader<'_>, bytes: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match reader.content.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(reader.io_error(&error)),
        }
    }
    Ok(filled)
}

fn truncated_error(place: &str) -> Error {
    Error::data(format!("{place}: the file ends here")).hint("it is cut short: copy or download it again")
}

fn word_too_long(place: &str) -> Error {
    Error::data(format!("{place}: expected a word of less than {MAX_WORD_BYTES} bytes with a space after it"))
        .hint("the file is damaged, or the width in its first line is wrong")
}
