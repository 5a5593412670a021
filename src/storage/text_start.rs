//! Formats that are no UTF-8 text, recognised by the first bytes of a file that should be text.

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
        [b'%', b'P', b'D', b'F', ..] => ("a PDF document", "wanted a text file"),
        start if start.starts_with(b"version https://git-lfs") => {
            ("a pointer of Git LFS", "fetch the file itself: `git lfs pull`")
        }
        start if web_page(start) => ("a web page", "download the file itself; the page may say why that failed"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_formats_are_recognised_and_text_is_not() {
        let utf16 = |text: &str, order: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        for (start, wanted) in [
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
            assert!(name.starts_with(wanted), "{name}");
        }
        for text in ["", "a", "id,text\n", "\u{feff}id", "é,ö", "<b>,c", "PAR"] {
            assert_eq!(other_format(text.as_bytes()), None, "{text}");
        }
    }
}
