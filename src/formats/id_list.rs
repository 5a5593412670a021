//! Lists of identifiers in users' files: text with one whole number a line, or an npy array of integers.

use std::path::Path;

use npyz::{DType, Endianness, TypeChar};

use crate::npy::{is_npy, read_header};
use crate::text_lines::TextLines;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_storage::bounded::{self, MAX_LIST_BYTES};
use pairloom_storage::image_names::shown_name;

/// List of identifiers from a file.
#[derive(Debug)]
pub struct IdList {
    /// Identifiers, in the order of the file.
    pub ids: Vec<i64>,
    is_npy: bool,
}

impl IdList {
    /// Reads the file at `path`: an npy file of integers with the shape `(n,)`, or a text file.
    ///
    /// # Errors
    /// The file cannot be read; a line is not a whole number, or a value is above 2⁶³ − 1: the error lists all of them;
    /// an npy file is truncated, or holds another array.
    pub fn read(path: &Path) -> Result<Self> {
        let mut mistakes = ValidationErrors::in_file(path);
        let is_npy = is_npy(path)?;
        let ids = if is_npy {
            let content = bounded::read(path, MAX_LIST_BYTES)?;
            let ids = npy_integers(&content).map_err(|error| error.context(format!("`{}`", path.display())))?;
            let checked = ids.enumerate().map(|(index, id)| {
                i64::try_from(id).unwrap_or_else(|_| {
                    mistakes.add(place(true, index), format_args!("{id} is above {}", i64::MAX));
                    mistakes.hint("numbers of 64 bits with a sign stay distinct: `numpy.save(path, ids.view('<i8'))`");
                    0
                })
            });
            checked.collect()
        } else {
            let lines = TextLines::read(path)?;
            let parsed = lines.iter().enumerate().map(|(index, (_, content))| {
                content.trim().parse().unwrap_or_else(|_| {
                    let message = format!("`{}` is not a whole number", shown_name(content));
                    mistakes.add(place(false, index), message);
                    0
                })
            });
            parsed.collect()
        };
        mistakes.into_result()?;
        Ok(Self { ids, is_npy })
    }

    /// Place of an identifier in the file, for messages: `line 3`, or `value 2 (from 0)` of an array.
    #[must_use]
    pub fn place(&self, index: usize) -> String {
        place(self.is_npy, index)
    }
}

fn place(is_npy: bool, index: usize) -> String {
    if is_npy { format!("value {index} (from 0)") } else { format!("line {}", index + 1) }
}

/// Values of an npy file of integers.
///
/// # Errors
/// It holds another array, or fewer or more bytes.
fn npy_integers(file: &[u8]) -> Result<impl Iterator<Item = i128>> {
    let (start, header) = read_header(file)?;
    let kind = header.dtype();
    let wrong = || {
        let shape = header.shape();
        Error::data(format!("array of {} with shape {shape:?}, expected integers with one dimension", kind.descr()))
            .hint("save it with `numpy.save(path, numpy.asarray(ids).astype('<i8').ravel())`")
    };
    let (is_signed, size) = match &kind {
        DType::Plain(plain) if plain.endianness() != Endianness::Big => match plain.type_char() {
            TypeChar::Int => (true, plain.size_field()),
            TypeChar::Uint => (false, plain.size_field()),
            _ => return Err(wrong()),
        },
        _ => return Err(wrong()),
    };
    let (&[count], Ok(size @ (1 | 2 | 4 | 8))) = (header.shape(), usize::try_from(size)) else { return Err(wrong()) };
    let held = &file[start..];
    if count.checked_mul(size as u64) != Some(held.len() as u64) {
        let message = format!("array of {count} values of {size} bytes has {} bytes", held.len());
        return Err(Error::data(message).hint("the file is damaged or truncated: copy it or create it again"));
    }
    Ok(held.chunks_exact(size).map(move |bytes| {
        let is_negative = is_signed && bytes.last().is_some_and(|&last| last > 0x7f);
        let mut wide = [if is_negative { 0xff } else { 0 }; 16];
        wide[..size].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_data::{public, public_text};

    fn read(content: &[u8]) -> Result<IdList> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids");
        std::fs::write(&path, content).unwrap();
        IdList::read(&path)
    }

    fn npy(kind: &str, shape: &str, values: &[u8]) -> Vec<u8> {
        let text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
        let text = format!("{text:<117}\n");
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), values].concat()
    }

    /// Identifiers were probably meant, but these are names of images.
    #[test]
    fn names_that_are_urls_are_shown_without_passwords_and_queries() {
        let error = read(b"https://me:secret@h.org/it's.jpg?signature=secret\n").unwrap_err().to_string();
        assert!(error.ends_with("line 1: `https://h.org/it's.jpg` is not a whole number"), "{error}");
    }

    #[test]
    fn lines_and_integers_of_every_size_are_read() {
        let list = read(b"\xef\xbb\xbf7\r\n -3 \n5").unwrap();
        assert_eq!((&list.ids[..], list.place(1)), (&[7, -3, 5][..], "line 2".to_owned()));
        let list = read(&npy("<i8", "(2,)", &[&(-2i64).to_le_bytes()[..], &i64::MAX.to_le_bytes()].concat())).unwrap();
        assert_eq!((&list.ids[..], list.place(1)), (&[-2, i64::MAX][..], "value 1 (from 0)".to_owned()));
        assert_eq!(read(&npy("<i4", "(1,)", &(-70_000i32).to_le_bytes())).unwrap().ids, [-70_000]);
        assert_eq!(read(&npy("<u4", "(1,)", &u32::MAX.to_le_bytes())).unwrap().ids, [i64::from(u32::MAX)]);
        assert_eq!(read(&npy("<i2", "(2,)", &[0xff, 0xff, 1, 1])).unwrap().ids, [-1, 257]);
        assert_eq!(read(&npy("|u1", "(2,)", &[200, 3])).unwrap().ids, [200, 3]);
        assert!(read(&npy("|i1", "(0,)", &[])).unwrap().ids.is_empty());
    }

    #[test]
    fn every_mistake_is_named_with_its_place() {
        let message = read(b"7\nx\n\n1.0\n").unwrap_err().to_string();
        for part in ["line 2: `x` is not a whole number", "line 3: `` is not", "line 4: `1.0` is not"] {
            assert!(message.contains(part), "{message}");
        }
        let large = [1u64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
        let error = read(&npy("<u8", "(2,)", &large)).unwrap_err();
        let message = error.to_string();
        assert!(message.ends_with("value 1 (from 0): 18446744073709551615 is above 9223372036854775807"), "{message}");
        assert!(error.hint_text().unwrap().ends_with("`numpy.save(path, ids.view('<i8'))`"));
        for (kind, shape) in [("<f8", "(1,)"), (">i8", "(1,)"), ("<i8", "(1, 1)"), ("<i8", "()"), ("|b1", "(8,)")] {
            let message = read(&npy(kind, shape, &[0; 8])).unwrap_err().to_string();
            assert!(message.contains("expected integers with one dimension"), "{kind} {shape}: {message}");
        }
        let message = read(&npy("<i8", "(2,)", &[0; 15])).unwrap_err().to_string();
        assert!(message.ends_with("array of 2 values of 8 bytes has 15 bytes"), "{message}");
    }

    /// ECCV Caption's list of COCO's test captions has the numbers of Crisscrossed Captions, in the same order.
    #[test]
    fn published_identifiers_of_coco_are_those_of_the_captions() {
        let Some(path) = public("eccv/coco_test_ids.npy") else { return };
        let Some(captions) = public_text("cxc/coco_karpathy_test_captions.tsv") else { return };
        let ids = IdList::read(&path).unwrap().ids;
        let expected = captions.lines().skip(1).map(|line| line.split('\t').next().unwrap().parse().unwrap());
        assert_eq!(ids, expected.collect::<Vec<i64>>());
        assert_eq!(ids.len(), 25_000);
    }
}
