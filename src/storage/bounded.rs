//! Reading user files up to a size limit, and formats that are no UTF-8 text, recognised by the first bytes of a file that
//! should be text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use az::SaturatingAs;
use flate2::read::MultiGzDecoder;

use pairloom_base::error::{Error, Result};

/// Content of a text file that is read in order.
pub type TextContent = Box<dyn BufRead + Send>;

/// Text that a gzip file may expand to: so many bytes, and so many times its own size. Captions shrink to a quarter, the
/// most regular tables to a hundredth, and files made to fill the memory to a thousandth.
const EXPANDED_BYTES: u64 = 64 << 20;
const EXPANDED_TIMES: u64 = 200;

/// Maximum size in bytes of a list of images or captions: many times the largest published one.
pub const MAX_LIST_BYTES: u64 = 4 << 30;

/// Maximum size in bytes of the weights of a model: several times that of the largest one.
pub const MAX_MODEL_BYTES: u64 = 1 << 30;

/// Reads a file of at most `max_bytes` bytes.
///
/// # Errors
/// The file is missing, not a regular file (a pipe would wait for a writer, a device may be endless), or larger.
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let failed = |error: io::Error| Error::io("read", path, &error);
    let file = open(path)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > max_bytes {
        return Err(Error::data(format!("`{}` has {size} bytes, expected at most {max_bytes}", path.display())));
    }
    let mut bytes = Vec::with_capacity(size.saturating_as::<usize>());
    // The file may grow while it is read.
    file.take(max_bytes).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Opens a UTF-8 text file of at most [`MAX_LIST_BYTES`] bytes, which is decompressed if `gzip` is set. The reader ends
/// at the limit, since a small compressed file can expand without limit. A byte order mark at the start is skipped.
///
/// # Errors
/// The file is missing or not a regular file, or it starts as a file of another format, such as UTF-16 text.
pub fn open_text(path: &Path, gzip: bool) -> Result<TextContent> {
    let file = open(path)?;
    let mut content: TextContent = if gzip {
        let size = file.metadata().map_err(|error| Error::io("read", path, &error))?.len();
        let text = MultiGzDecoder::new(BufReader::with_capacity(1 << 16, file));
        Box::new(BufReader::new(limited(text, size)).take(MAX_LIST_BYTES))
    } else {
        Box::new(BufReader::with_capacity(1 << 16, file).take(MAX_LIST_BYTES))
    };
    let start = content.fill_buf().map_err(|error| read_error(path, &error))?;
    check_is_text(path, start)?;
    if start.starts_with(UTF8_MARK) {
        content.consume(UTF8_MARK.len());
    }
    Ok(content)
}

/// Number of bytes that a compressed file of this size may expand to.
pub fn expanded_limit(file_bytes: u64) -> u64 {
    EXPANDED_BYTES.saturating_add(file_bytes.saturating_mul(EXPANDED_TIMES))
}

/// Expanded content of a compressed file of this size, which is an error once it is longer than its limit.
pub fn limited<R: Read>(content: R, file_bytes: u64) -> impl Read + use<R> {
    let limit = expanded_limit(file_bytes);
    LimitedReader { content, left: limit, limit }
}

/// Content that is an error once it is longer than a limit.
struct LimitedReader<R> {
    content: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(bytes)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            let limit = self.limit;
            io::Error::new(ErrorKind::FileTooLarge, format!("it expands to more than {limit} bytes"))
        })?;
        Ok(read)
    }
}

/// Checks that a file does not start as one of another format.
///
/// # Errors
/// It does: the error names the format, and a way to a UTF-8 text file.
pub fn check_is_text(path: &Path, content: &[u8]) -> Result<()> {
    match other_format(&content[..content.len().min(START_BYTES)]) {
        Some((name, hint)) => {
            Err(Error::data(format!("`{}` is {name}, expected UTF-8 text", path.display())).hint(hint))
        }
        None => Ok(()),
    }
}

/// Error of a text file that cannot be read.
pub fn read_error(path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        ErrorKind::FileTooLarge => {
            let error = Error::data(format!("cannot read `{}`: {error}", path.display()));
            error.hint("the compressed file is made to fill the memory; if not, decompress it with `gunzip`")
        }
        // The errors of the gzip decoder for a file that is not gzip, and for one that is cut short.
        ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
            let error = Error::data(format!("cannot read `{}`: {error}", path.display()));
            error.hint("the compressed file is cut short or damaged: copy it or create it again")
        }
        _ => Error::io("read", path, error),
    }
}

/// Reads the first bytes of a file, at most `max_bytes`.
///
/// # Errors
/// The file is missing or not a regular file.
pub fn read_start(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(max_bytes).read_to_end(&mut bytes).map_err(|error| Error::io("read", path, &error))?;
    Ok(bytes)
}

/// Opens a regular file.
///
/// # Errors
/// The file is missing or not a regular file: a pipe would wait for a writer, a device may be endless.
pub fn open(path: &Path) -> Result<File> {
    let failed = |error: io::Error| Error::io("read", path, &error);
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(Error::data(format!("`{}` is not a file", path.display())));
    }
    File::open(path).map_err(failed)
}

/// Number of first bytes that [`other_format`] looks at.
pub const START_BYTES: usize = 32;

/// UTF-8 byte order mark, which Excel writes.
pub const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns the name of the format and a hint, if a file that starts with `start` is no UTF-8 text.
#[must_use]
pub fn other_format(start: &[u8]) -> Option<(&'static str, &'static str)> {
    const UTF16: &str = "UTF-16 text, as Excel saves it as \"Unicode Text\"";
    const UTF16_HINT: &str =
        "convert it, such as with `iconv -f UTF-16 -t UTF-8 FILE > NEW`, or save it in Excel as \"CSV UTF-8\"";
    const WORKBOOK: &str = "save the sheet as \"CSV UTF-8\"";
    let web_page = |start: &[u8]| {
        let start = start.trim_ascii_start().to_ascii_lowercase();
        start.starts_with(b"<!doctype") || start.starts_with(b"<html")
    };
    Some(match start {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => (UTF16, UTF16_HINT),
        // Without a byte order mark: ASCII characters, whose upper bytes are zero.
        [1..=255, 0, 1..=255, 0, ..] => {
            ("UTF-16 text", "convert it, such as with `iconv -f UTF-16LE -t UTF-8 FILE > NEW`")
        }
        [0, 1..=255, 0, 1..=255, ..] => {
            ("UTF-16 text", "convert it, such as with `iconv -f UTF-16BE -t UTF-8 FILE > NEW`")
        }
        [0x1f, 0x8b, ..] => ("compressed with gzip", "decompress it with `gunzip`, or name a table so: `a.csv.gz`"),
        [b'B', b'Z', b'h', ..] => ("compressed with bzip2", "decompress it with `bunzip2`"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => ("compressed with xz", "decompress it with `unxz`"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("compressed with zstd", "decompress it with `unzstd`"),
        [b'P', b'K', 3, 4, ..] => {
            ("a zip archive or an Excel workbook", "unpack it, or save the sheet as \"CSV UTF-8\"")
        }
        [0xd0, 0xcf, 0x11, 0xe0, ..] => ("an Excel workbook", WORKBOOK),
        [b'P', b'A', b'R', b'1', ..] => ("a Parquet file", "give it a name that ends with `.parquet`"),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => ("an Arrow file", "give it a name that ends with `.arrow`"),
        [b'%', b'P', b'D', b'F', ..] => ("a PDF document", "expected a text file"),
        start if start.starts_with(b"version https://git-lfs") => {
            ("a pointer of Git LFS", "fetch the file itself: `git lfs pull`")
        }
        start if web_page(start) => ("a web page", "download the file itself; the page may say why that failed"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// 100 MiB of blank lines take 100 KB.
    #[test]
    fn a_gzip_file_that_expands_without_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv.gz");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&vec![b'\n'; 100 << 20]).unwrap();
        let packed = packed.finish().unwrap();
        assert!(packed.len() < 110_000, "{}", packed.len());
        std::fs::write(&path, &packed).unwrap();
        let limit = EXPANDED_BYTES + EXPANDED_TIMES * packed.len() as u64;
        let mut content = open_text(&path, true).unwrap();
        let error = io::copy(&mut content, &mut io::sink()).unwrap_err();
        let error = read_error(&path, &error);
        assert!(error.to_string().contains(&format!("it expands to more than {limit} bytes")), "{error}");
        assert!(error.hint_text().unwrap().contains("gunzip"), "{error}");
    }

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seven");
        std::fs::write(&path, b"1234567").unwrap();
        assert_eq!(read(&path, 7).unwrap(), b"1234567");
        assert_eq!((read_start(&path, 3).unwrap(), read_start(&path, 9).unwrap().len()), (b"123".to_vec(), 7));
        assert!(read(&path, 6).unwrap_err().to_string().ends_with("has 7 bytes, expected at most 6"));
        assert!(read(folder.path(), 7).unwrap_err().to_string().ends_with("is not a file"));
        assert!(read(Path::new("/dev/zero"), 7).unwrap_err().to_string().ends_with("is not a file"));
        assert!(read(&folder.path().join("none"), 7).unwrap_err().to_string().starts_with("cannot read"));
    }

    #[test]
    fn other_formats_are_recognised_and_text_is_not() {
        let utf16 = |text: &str, order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        for (start, expected) in [
            (&utf16("\u{feff}id;text", u16::to_le_bytes)[..], "UTF-16 text, as"),
            (&utf16("\u{feff}id;text", u16::to_be_bytes), "UTF-16 text, as"),
            (&utf16("id;text", u16::to_le_bytes), "UTF-16 text"),
            (&utf16("id;text", u16::to_be_bytes), "UTF-16 text"),
            (b"\x1f\x8b\x08", "compressed with gzip"),
            (b"PK\x03\x04", "a zip archive"),
            (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"),
            (b"\n <!DOCTYPE html>", "a web page"),
        ] {
            let (name, _) = other_format(start).unwrap();
            assert!(name.starts_with(expected), "{name}");
        }
        for text in ["", "a", "id,text\n", "\u{feff}id", "é,ö", "<b>,c", "PAR"] {
            assert_eq!(other_format(text.as_bytes()), None, "{text}");
        }
    }
}
