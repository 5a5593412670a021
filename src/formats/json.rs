//! Reading JSON files into Rust types. Unknown fields are skipped.

use std::path::Path;
use std::thread::Builder;
use std::time::Duration;

use crossbeam::channel::bounded as bounded_channel;
use serde::de::DeserializeOwned;

use pairloom_base::error::{Error, Result};
use pairloom_storage::bounded;

/// Maximum size in bytes of a file of JSON: several times that of the largest published list. Values take several times
/// as much memory as their text.
const MAX_JSON_BYTES: u64 = 1 << 30;

/// Maximum length in bytes of the text of a parser about a mistake.
const MAX_MESSAGE_BYTES: usize = 500;

/// Reads the file at `path` as a `T`, which error messages describe as `wanted`.
///
/// Memory: the file and the `T` at the same time.
///
/// # Errors
/// The file is not a readable regular file of at most [`MAX_JSON_BYTES`] bytes, or it is not valid JSON for `T`: the error
/// names line and column.
pub fn read<T: DeserializeOwned>(path: &Path, wanted: &str) -> Result<T> {
    read_small(path, wanted, MAX_JSON_BYTES)
}

/// Reads a value of any form from a file of at most `max_bytes` bytes and `max_values` values.
///
/// # Errors
/// As [`read`], or the file has more values.
pub fn read_values(path: &Path, max_bytes: u64, max_values: usize) -> Result<serde_json::Value> {
    let bytes = bounded::read(path, max_bytes)?;
    if has_more_values(&bytes, max_values) {
        return Err(Error::data(format!("`{}` has more than {max_values} values", path.display())));
    }
    parse(path, "JSON", &bytes)
}

/// True if a text of JSON has more than `most` values and names, by its commas, colons and brackets, also those in texts. A
/// [`serde_json::Value`] has some 100 bytes for each.
#[must_use]
pub fn has_more_values(content: &[u8], most: usize) -> bool {
    content.iter().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count() > most
}

/// Reads as [`read`] a file of at most `max_bytes` bytes.
///
/// # Errors
/// As [`read`].
pub fn read_small<T: DeserializeOwned>(path: &Path, wanted: &str, max_bytes: u64) -> Result<T> {
    parse(path, wanted, &bounded::read(path, max_bytes)?)
}

/// Parses the content of the file at `path`.
fn parse<T: DeserializeOwned>(path: &Path, wanted: &str, bytes: &[u8]) -> Result<T> {
    let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(json).map_err(|error| {
        if error.is_data() {
            return Error::data(format!("`{}` is not {wanted}: {}", path.display(), shortened(&error)));
        }
        let eof = error.is_eof();
        let error = Error::data(format!("cannot read `{}`: {error}", path.display()));
        if eof { error.hint("the file is cut short: copy or download it again") } else { error }
    })
}

/// Message of an error, cut at [`MAX_MESSAGE_BYTES`]. The parser repeats a text that stands in the place of a number.
fn shortened(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if text.len() <= MAX_MESSAGE_BYTES {
        return text;
    }
    let start = &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)];
    format!("{start} … at line {} column {}", error.line(), error.column())
}

/// Size in bytes of a file that is read before anyone would cancel it. A thread would take longer than the reading.
const SMALL: u64 = 1 << 20;

/// Time between two checks for a cancellation.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Reads as [`read`] and calls `check` now and then. A large file is read on a thread of its own: if `check` fails, the
/// thread ends with its file, and its result is dropped.
///
/// # Errors
/// As [`read`], or the first error of `check`.
pub fn read_while<T: DeserializeOwned + Send + 'static>(
    path: &Path,
    wanted: &'static str,
    check: impl Fn() -> Result<()>,
) -> Result<T> {
    if path.metadata().is_ok_and(|meta| meta.len() <= SMALL) {
        check()?;
        return read(path, wanted);
    }
    let (sender, result) = bounded_channel(1);
    let path = path.to_owned();
    let work = move || {
        // The receiver is gone after a failed check.
        let _ = sender.send(read(&path, wanted));
    };
    let thread = Builder::new().name("read JSON".to_owned()).spawn(work);
    thread.map_err(|error| Error::internal(format!("no thread: {error}")))?;
    loop {
        match result.recv_timeout(CHECK_INTERVAL) {
            Ok(result) => return result,
            Err(error) if error.is_timeout() => check()?,
            Err(_) => return Err(Error::internal("the thread that reads JSON ended without a result")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use pairloom_base::error::ErrorCategory;

    #[derive(Debug, Deserialize)]
    struct Point {
        x: i64,
    }

    fn read_point(bytes: &[u8]) -> Result<Point> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, bytes).unwrap();
        read(&path, "an object with `x`")
    }

    /// The parser repeats a text in the place of another value.
    #[test]
    fn long_values_are_not_repeated_in_messages() {
        let json = format!("{{\n\"x\": \"{}\"}}", "a".repeat(100_000));
        let message = read_point(json.as_bytes()).unwrap_err().to_string();
        assert!(message.len() < 1000 && message.contains("invalid type: string \"aaa"), "{message}");
        assert!(message.ends_with("… at line 2 column 100007"), "{message}");
    }

    #[test]
    fn keeps_the_wanted_fields() {
        assert_eq!(read_point(b"{\"y\": [1, {}], \"x\": 3}").unwrap().x, 3);
        assert_eq!(read_point("\u{feff}{\"x\": 3}\r\n".as_bytes()).unwrap().x, 3);
    }

    #[test]
    fn reading_ends_with_a_failed_check() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, b"{\"x\": 3}").unwrap();
        assert_eq!(read_while::<Point>(&path, "a point", || Ok(())).unwrap().x, 3);
        std::fs::write(&path, format!("{{\"x\": 3{}}}", " ".repeat(2 << 20))).unwrap();
        assert_eq!(read_while::<Point>(&path, "a point", || Ok(())).unwrap().x, 3);
        // 40 MB take longer than the time to the first check.
        std::fs::write(&path, format!("{{\"y\": [{}0]}}", "0,".repeat(20_000_000))).unwrap();
        let error = read_while::<Point>(&path, "a point", || Err(Error::interrupted())).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Interrupted);
    }

    /// The file is sparse and takes no space.
    #[test]
    fn a_list_of_more_than_a_gibibyte_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::File::create(&path).unwrap().set_len(MAX_JSON_BYTES + 1).unwrap();
        let error = read::<Point>(&path, "a point").unwrap_err();
        assert!(error.to_string().ends_with("has 1073741825 bytes, expected at most 1073741824"), "{error}");
    }

    #[test]
    fn errors_name_line_and_column() {
        let error = read_point(b"{\n \"x\": \"3\"}").unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        assert!(error.to_string().contains("a.json` is not an object with `x`: "), "{error}");
        assert!(error.to_string().contains("line 2 column 9"), "{error}");
        let error = read_point(b"{\"x\": 3").unwrap_err();
        assert!(error.hint_text().unwrap().contains("cut short"));
        let error = read_point(b"{\"x\": 3, \"\xff\": 1}").unwrap_err();
        assert!(error.to_string().contains("line 1 column"), "{error}");
    }
}
