//! Header of a `NumPy` file (`.npy`).
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use az::SaturatingAs;
use npyz::NpyHeader;

use pairloom_base::error::{Error, Result};

/// Maximum length of a header, as in `NumPy`.
pub(super) const HEADER_BYTES: usize = 10_000;
/// Maximum number of opening brackets in a header. The time of the parser doubles with each bracket that is never closed.
/// Headers of plain arrays have two.
const HEADER_BRACKETS: usize = 4;
/// Maximum number of digits in a header. The parser multiplies the shape without an overflow check, and 19 digits stay
/// below 2⁶⁴.
const HEADER_DIGITS: usize = 19;

/// Magic bytes at the start of a `NumPy` file.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads the header and the offset of the values.
///
/// # Errors
/// The file is not an npy file, or its header cannot be that of a plain array.
pub(super) fn read_header(file: &[u8]) -> Result<(usize, NpyHeader)> {
    let text = header_text(file)?;
    let start = text.end;
    let mut file = file[..start].to_vec();
    drop_long_suffixes(&mut file[text.clone()]);
    let text = &file[text];
    let brackets = text.iter().filter(|byte| matches!(byte, b'(' | b'[' | b'{')).count();
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hexadecimal = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
    if brackets > HEADER_BRACKETS || digits > HEADER_DIGITS || hexadecimal {
        let error = Error::data("npy header does not describe a plain array of a possible size");
        let is_record = text.windows(2).any(|pair| pair == b"[(");
        return Err(if is_record {
            error.hint("save one field of the records: `numpy.save(path, records['name'])`")
        } else {
            error
        });
    }
    let header = NpyHeader::from_reader(file.as_slice())
        .map_err(|error| Error::data(format!("npy header cannot be read: {error}")))?;
    Ok((start, header))
}

/// Replaces the `L` of `(10L, 4L)` by a space. Python 2 wrote long integers so.
fn drop_long_suffixes(text: &mut [u8]) {
    for place in 1..text.len() {
        let is_last = !text.get(place + 1).is_some_and(u8::is_ascii_alphanumeric);
        if text[place] == b'L' && text[place - 1].is_ascii_digit() && is_last {
            text[place] = b' ';
        }
    }
}

/// Byte range of the header's text, validated before parsing.
fn header_text(file: &[u8]) -> Result<std::ops::Range<usize>> {
    let damaged = || Error::data("npy header is truncated");
    if !file.starts_with(MAGIC) {
        return Err(Error::data("not an npy file, wanted one that starts with `\\x93NUMPY`"));
    }
    let length = file.get(8..12).ok_or_else(damaged)?;
    let (start, length) = match file[6] {
        1 => (10, usize::from(u16::from_le_bytes([length[0], length[1]]))),
        2 | 3 => {
            let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
            (12, length.saturating_as::<usize>())
        }
        version => return Err(Error::data(format!("npy version is {version}, wanted 1, 2 or 3"))),
    };
    if length > HEADER_BYTES {
        return Err(Error::data(format!("npy header has {length} bytes, wanted at most {HEADER_BYTES}")));
    }
    let end = start + length;
    if file.len() < end { Err(damaged()) } else { Ok(start..end) }
}
