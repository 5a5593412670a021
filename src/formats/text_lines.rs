//! UTF-8 text files with numbered lines.

use std::path::{Path, PathBuf};

use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_storage::bounded;
use pairloom_storage::text_start::UTF8_MARK;

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
        let mut bytes = bounded::read(path, bounded::MAX_LIST_BYTES)?;
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

fn not_utf8(path: &Path, bytes: &[u8]) -> Error {
    let mut mistakes = ValidationErrors::in_file(path);
    for (i, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        if let Err(error) = std::str::from_utf8(line) {
            let at = error.valid_up_to();
            mistakes
                .add(format_args!("line {}", i + 1), format_args!("byte {} ({:#04x}) is not UTF-8", at + 1, line[at]));
        }
    }
    mistakes.hint("convert the file to UTF-8, such as with `iconv -f LATIN1 -t UTF-8`");
    // Splitting at line feeds cannot hide an invalid byte: a multi-byte character never contains a line feed.
    mistakes.into_result().err().unwrap_or_else(|| Error::internal("text was refused as UTF-8 and has no such line"))
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
        let wanted = vec![(1, "één".to_owned()), (2, String::new()), (3, "b".to_owned())];
        assert_eq!(read("één\n\nb".as_bytes()).unwrap(), wanted);
        assert_eq!(read("\u{feff}één\r\n\r\nb\r\n".as_bytes()).unwrap(), wanted);
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
}
