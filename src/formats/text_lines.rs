//! Numbered lines of text files: of UTF-8 files in memory, and of large files, read one at a time.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use az::SaturatingAs;

use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_storage::bounded::{self, MAX_LIST_BYTES, TextContent, UTF8_MARK};

/// Text file in memory. A byte order mark at the start and carriage returns at the ends of lines are removed.
#[derive(Debug)]
pub struct TextLines {
    path: PathBuf,
    text: String,
}

impl TextLines {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file is not a readable regular file of at most [`bounded::MAX_LIST_BYTES`] bytes, or is of another format, such
    /// as UTF-16, or has lines that are not UTF-8: the error lists all of them.
    pub fn read(path: &Path) -> Result<Self> {
        let mut bytes = bounded::read(path, MAX_LIST_BYTES)?;
        bounded::check_is_text(path, &bytes)?;
        if bytes.starts_with(UTF8_MARK) {
            bytes.drain(..UTF8_MARK.len());
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { path: path.to_owned(), text }),
            Err(error) => Err(not_utf8(path, error.as_bytes())),
        }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lines with their numbers, from 1.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// Hint of an error about bytes that are not UTF-8. Their encoding cannot be told from them for sure, and a wrong one gives
/// other letters.
pub(crate) const NOT_UTF8_HINT: &str = "convert it with `iconv -f ENCODING -t UTF-8 FILE > NEW`, where ENCODING is that of the \
    file: such as GB18030 of Chinese, SHIFT_JIS of Japanese, EUC-KR of Korean or WINDOWS-1252 of Western European text";

fn not_utf8(path: &Path, bytes: &[u8]) -> Error {
    let mut mistakes = ValidationErrors::in_file(path);
    for (i, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if let Err(error) = std::str::from_utf8(line) {
            let at = error.valid_up_to();
            mistakes
                .add(format_args!("line {}", i + 1), format_args!("byte {} ({:#04x}) is not UTF-8", at + 1, line[at]));
        }
    }
    mistakes.hint(NOT_UTF8_HINT);
    // Splitting at line feeds cannot hide an invalid byte: a multi-byte character never contains a line feed.
    mistakes.into_result().err().unwrap_or_else(|| Error::internal("text was refused as UTF-8 and has no such line"))
}

/// Maximum length in bytes of a line, and of a record of several lines: many times the longest list of captions.
pub const MAX_LINE_BYTES: usize = 16 << 20;

/// Characters that end a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineBreak {
    /// A line feed, and so also a carriage return with a line feed.
    LineFeed,
    /// As [`LineBreak::LineFeed`], and also a carriage return alone.
    CarriageReturn,
}

/// Text file that is read line by line. A byte order mark at its start is skipped.
pub struct LineReader {
    path: PathBuf,
    content: TextContent,
    breaks: LineBreak,
    /// Text up to a line feed, and the start of the next line in it.
    chunk: Vec<u8>,
    at: usize,
    number: u64,
    bytes: u64,
}

impl std::fmt::Debug for LineReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineReader").field("path", &self.path).field("number", &self.number).finish_non_exhaustive()
    }
}

impl LineReader {
    /// Opens the file at `path`, which is decompressed if `gzip` is set.
    ///
    /// # Errors
    /// As [`bounded::open_text`].
    pub fn open(path: &Path, gzip: bool, breaks: LineBreak) -> Result<Self> {
        let content = bounded::open_text(path, gzip)?;
        Ok(Self { path: path.to_owned(), content, breaks, chunk: Vec::new(), at: 0, number: 0, bytes: 0 })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the next line. Returns its number, from 1, and its bytes with the line break; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, the line is longer than [`MAX_LINE_BYTES`], or the file has more than 4 GiB of text.
    pub fn next_line(&mut self) -> Result<Option<(u64, &[u8])>> {
        if self.at == self.chunk.len() {
            self.chunk.clear();
            self.at = 0;
            let limit = MAX_LINE_BYTES.saturating_as::<u64>() + 1;
            let read = (&mut self.content).take(limit).read_until(b'\n', &mut self.chunk);
            let read = read.map_err(|error| bounded::read_error(&self.path, &error))?;
            self.bytes += read.saturating_as::<u64>();
            if self.bytes >= MAX_LIST_BYTES {
                let message = format!("`{}` has more than {MAX_LIST_BYTES} bytes of text", self.path.display());
                return Err(Error::data(message));
            }
            if read == 0 {
                return Ok(None);
            }
        }
        self.number += 1;
        let rest = &self.chunk[self.at..];
        let end = match self.breaks {
            LineBreak::LineFeed => None,
            LineBreak::CarriageReturn => rest
                .iter()
                .position(|&byte| byte == b'\r')
                .map(|found| if rest.get(found + 1) == Some(&b'\n') { found + 2 } else { found + 1 }),
        };
        let line = &rest[..end.unwrap_or(rest.len())];
        if line.len() > MAX_LINE_BYTES {
            return Err(Error::data(format!(
                "`{}` line {}: it has more than {MAX_LINE_BYTES} bytes",
                self.path.display(),
                self.number
            )));
        }
        self.at += line.len();
        Ok(Some((self.number, line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;

    fn read(bytes: &[u8]) -> Result<Vec<(usize, String)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, bytes).unwrap();
        Ok(TextLines::read(&path)?.iter().map(|(number, line)| (number, line.to_owned())).collect())
    }

    #[test]
    fn byte_order_mark_and_carriage_returns_are_removed() {
        let expected = vec![(1, "één".to_owned()), (2, String::new()), (3, "b".to_owned())];
        assert_eq!(read("één\n\nb".as_bytes()).unwrap(), expected);
        assert_eq!(read("\u{feff}één\r\n\r\nb\r\n".as_bytes()).unwrap(), expected);
        assert_eq!(read(b"").unwrap(), []);
    }

    #[test]
    fn all_lines_that_are_not_utf8_are_reported() {
        let error = read(b"fine\ncaf\xe9 noir\nfine\n\xff\n").unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        let message = error.to_string();
        assert!(message.contains("line 2: byte 4 (0xe9) is not UTF-8"), "{message}");
        assert!(message.contains("line 4: byte 1 (0xff) is not UTF-8"), "{message}");
        let error = read(b"\xff\xfea\0").unwrap_err();
        assert!(
            error.to_string().contains("is UTF-16 text") && error.hint_text().unwrap().contains("iconv"),
            "{error}"
        );
    }

    #[test]
    fn a_missing_file_is_a_data_error() {
        assert_eq!(TextLines::read(Path::new("no such file")).unwrap_err().category(), ErrorCategory::Data);
    }

    fn lines(content: &[u8], breaks: LineBreak) -> Result<Vec<(u64, Vec<u8>)>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, content).unwrap();
        let mut reader = LineReader::open(&path, false, breaks)?;
        let mut lines = Vec::new();
        while let Some((number, line)) = reader.next_line()? {
            lines.push((number, line.to_owned()));
        }
        Ok(lines)
    }

    #[test]
    fn lines_have_their_numbers_and_breaks() {
        let numbered = |lines: &[&str]| -> Vec<(u64, Vec<u8>)> {
            (1..).zip(lines).map(|(number, line)| (number, line.as_bytes().to_vec())).collect()
        };
        let text = b"\xef\xbb\xbfa\r\n\r\nb\rc\n\nd";
        assert_eq!(lines(text, LineBreak::LineFeed).unwrap(), numbered(&["a\r\n", "\r\n", "b\rc\n", "\n", "d"]));
        let expected = numbered(&["a\r\n", "\r\n", "b\r", "c\n", "\n", "d"]);
        assert_eq!(lines(text, LineBreak::CarriageReturn).unwrap(), expected);
        assert_eq!(lines(b"", LineBreak::LineFeed).unwrap(), []);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut text = b"first\n".to_vec();
        text.resize(text.len() + MAX_LINE_BYTES, b'x');
        assert_eq!(lines(&text, LineBreak::CarriageReturn).unwrap().len(), 2);
        text.push(b'x');
        let message = lines(&text, LineBreak::CarriageReturn).unwrap_err().to_string();
        assert!(message.ends_with("a.txt` line 2: it has more than 16777216 bytes"), "{message}");
    }
}
