//! Reading JSON files into Rust types. Unknown fields are skipped.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::bounded;
use crate::error::{Error, Result};

/// Reads the file at `path` as a `T`, which error messages describe as `wanted`.
///
/// Memory: the file and the `T` at the same time.
///
/// # Errors
/// The file is not a readable regular file of at most [`bounded::MAX_LIST_BYTES`] bytes, or it is not valid JSON for
/// `T`: the error names line and column.
pub fn read<T: DeserializeOwned>(path: &Path, wanted: &str) -> Result<T> {
    let bytes = bounded::read(path, bounded::MAX_LIST_BYTES)?;
    let json = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(json).map_err(|error| {
        if error.is_data() {
            return Error::data(format!("`{}` is not {wanted}: {error}", path.display()));
        }
        let eof = error.is_eof();
        let error = Error::data(format!("cannot read `{}`: {error}", path.display()));
        if eof { error.hint("the file is cut short: copy or download it again") } else { error }
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::error::ErrorCategory;

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

    #[test]
    fn keeps_the_wanted_fields() {
        assert_eq!(read_point(b"{\"y\": [1, {}], \"x\": 3}").unwrap().x, 3);
        assert_eq!(read_point("\u{feff}{\"x\": 3}\r\n".as_bytes()).unwrap().x, 3);
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
