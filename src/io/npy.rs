//! `NumPy` files of f32 matrices, memory-mapped.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use crate::error::{Error, Result};

/// `NumPy` itself refuses longer headers.
const HEADER_BYTES: usize = 10_000;
/// A plain header opens two brackets; records open a few more. The parser recurses, so that depth has to be bounded.
const HEADER_BRACKETS: usize = 64;
/// Digits of a header. The parser multiplies the shape without looking for overflow: 19 digits cannot pass 2⁶⁴.
const HEADER_DIGITS: usize = 19;

/// A row-major f32 matrix in a file. Rows are read from disk as they are asked for.
///
/// The file must not change while it is open.
#[derive(Debug)]
pub struct Matrix {
    path: PathBuf,
    map: Mmap,
    start: usize,
    rows: usize,
    width: usize,
}

impl Matrix {
    /// Opens the file at `path`. Cost: reads the header only.
    ///
    /// # Errors
    /// It cannot be read, is no npy file, is cut short, or holds anything but a two-dimensional little-endian f32 array
    /// in C order.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::io("open", path, &error))?;
        #[expect(unsafe_code, reason = "a memory map is sound as long as nobody changes the file, which we document")]
        let map = unsafe { Mmap::map(&file) }.map_err(|error| Error::io("map", path, &error))?;
        let (start, rows, width) = layout(&map).map_err(|error| error.context(format!("`{}`", path.display())))?;
        Ok(Self { path: path.to_owned(), map, start, rows, width })
    }

    /// Where the file lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The bytes of row `row`; equal rows have equal bytes.
    ///
    /// # Panics
    /// There is no such row.
    #[must_use]
    pub fn row_bytes(&self, row: usize) -> &[u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        let bytes = self.width * size_of::<f32>();
        &self.map[self.start + row * bytes..][..bytes]
    }

    /// Appends row `row` to `values`.
    ///
    /// # Errors
    /// A value is not finite: the error names file, row and column.
    ///
    /// # Panics
    /// There is no such row.
    pub fn read_row(&self, row: usize, values: &mut Vec<f32>) -> Result<()> {
        let start = values.len();
        let (numbers, _) = self.row_bytes(row).as_chunks();
        values.extend(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)));
        match values[start..].iter().position(|value| !value.is_finite()) {
            Some(column) => Err(Error::data(format!(
                "`{}` row {row} column {column} (from 0): value is {}, wanted a finite number",
                self.path.display(),
                values[start + column]
            ))),
            None => Ok(()),
        }
    }
}

/// Where the values start, rows, and values of a row.
fn layout(file: &[u8]) -> Result<(usize, usize, usize)> {
    let text = header_text(file)?;
    let start = text.end;
    let text = &file[text];
    let brackets = text.iter().filter(|byte| matches!(byte, b'(' | b'[' | b'{')).count();
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    let hexadecimal = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
    if brackets > HEADER_BRACKETS || digits > HEADER_DIGITS || hexadecimal {
        return Err(Error::data("npy header describes no plain array of a size that a file can have"));
    }
    let header =
        NpyHeader::from_reader(file).map_err(|error| Error::data(format!("npy header cannot be read: {error}")))?;
    match header.dtype() {
        DType::Plain(kind)
            if kind.type_char() == TypeChar::Float
                && kind.size_field() == 4
                && kind.endianness() == Endianness::Little => {}
        other => {
            return Err(Error::data(format!("values are {}, wanted '<f4' (little-endian f32)", other.descr()))
                .hint("convert the array: `numpy.save(path, x.astype('<f4'))`"));
        }
    }
    let shape = header.shape();
    let &[rows, width] = shape else {
        let error = Error::data(format!("array has shape {shape:?}, wanted one vector an image: (images, width)"));
        return Err(if shape.len() == 3 {
            error.hint("vectors of regions are not read; average them first: `numpy.save(path, x.mean(axis=1))`")
        } else {
            error
        });
    };
    if header.order() != Order::C && rows > 1 && width > 1 {
        return Err(Error::data("array is in Fortran order, wanted C order")
            .hint("convert the array: `numpy.save(path, numpy.ascontiguousarray(x))`"));
    }
    if width == 0 {
        return Err(Error::data(format!("array has shape {shape:?}, wanted at least one value a row")));
    }
    let wanted = rows.checked_mul(width).and_then(|values| values.checked_mul(4));
    let held = file.len() - start;
    match (wanted.and_then(|bytes| usize::try_from(bytes).ok()), usize::try_from(rows), usize::try_from(width)) {
        (Some(bytes), Ok(rows), Ok(width)) if bytes == held => Ok((start, rows, width)),
        _ => Err(Error::data(format!(
            "array of shape {shape:?} has {held} bytes of f32 values, wanted {}",
            match wanted {
                Some(bytes) => bytes.to_string(),
                None => "more than any file holds".to_owned(),
            }
        ))
        .hint("the file is damaged or cut short: copy or make it again")),
    }
}

/// The place of the header's text, checked before a parser sees it.
fn header_text(file: &[u8]) -> Result<std::ops::Range<usize>> {
    let damaged = || Error::data("npy header is cut short");
    if !file.starts_with(b"\x93NUMPY") {
        return Err(Error::data("no npy file: wanted one that starts with `\\x93NUMPY`"));
    }
    let length = file.get(8..12).ok_or_else(damaged)?;
    let (start, length) = match file[6] {
        1 => (10, usize::from(u16::from_le_bytes([length[0], length[1]]))),
        2 | 3 => {
            let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
            (12, usize::try_from(length).unwrap_or(usize::MAX))
        }
        version => return Err(Error::data(format!("npy version is {version}, wanted 1, 2 or 3"))),
    };
    if length > HEADER_BYTES {
        return Err(Error::data(format!("npy header has {length} bytes, wanted at most {HEADER_BYTES}")));
    }
    let end = start + length;
    if file.len() < end { Err(damaged()) } else { Ok(start..end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    /// A version 1 file as `NumPy` writes it: the header padded with spaces to a multiple of 64 bytes.
    fn npy(header: &str, values: &[f32]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        let text = format!("{header:<117}\n");
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    fn open(bytes: &[u8]) -> Result<Matrix> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, bytes).unwrap();
        Matrix::open(&path)
    }

    fn message(bytes: &[u8]) -> String {
        let error = open(bytes).unwrap_err();
        assert_eq!(error.kind(), Kind::Data);
        assert!(error.to_string().contains("a.npy"), "{error}");
        format!("{error}; {}", error.hint_text().unwrap_or_default())
    }

    #[test]
    fn reads_rows() {
        let bytes = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", &[1., 2., 3., 4., 5., f32::NAN]);
        let matrix = open(&bytes).unwrap();
        assert_eq!((matrix.rows(), matrix.width()), (3, 2));
        let mut values = Vec::new();
        matrix.read_row(1, &mut values).unwrap();
        matrix.read_row(0, &mut values).unwrap();
        assert_eq!(values, [3., 4., 1., 2.]);
        let error = matrix.read_row(2, &mut values).unwrap_err().to_string();
        assert!(error.contains("row 2 column 1"), "{error}");
    }

    #[test]
    fn refuses_what_is_no_f32_matrix_in_c_order() {
        let header = |descr: &str, fortran: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}")
        };
        let four = [0.0; 4];
        assert!(message(&npy(&header("'<f8'", "False", "(1, 2)"), &four)).contains("values are '<f8', wanted '<f4'"));
        assert!(message(&npy(&header("'>f4'", "False", "(2, 2)"), &four)).contains("values are '>f4'"));
        assert!(message(&npy(&header("'|O'", "False", "(2, 2)"), &four)).contains("wanted '<f4'"));
        assert!(message(&npy(&header("'<f4'", "True", "(2, 2)"), &four)).contains("Fortran order"));
        assert!(message(&npy(&header("'<f4'", "False", "(4,)"), &four)).contains("shape [4]"));
        assert!(message(&npy(&header("'<f4'", "False", "(1, 2, 2)"), &four)).contains("regions are not read"));
        assert!(message(&npy(&header("'<f4'", "False", "(2, 0)"), &[])).contains("at least one value"));
        assert!(message(&npy(&header("[('a', '<f4')]", "False", "(2, 2)"), &four)).contains("wanted '<f4'"));
    }

    #[test]
    fn refuses_damaged_and_hostile_files() {
        let good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", &[0.0; 4]);
        assert!(open(&good).is_ok());
        assert!(message(&good[..good.len() - 3]).contains("has 13 bytes of f32 values, wanted 16"));
        assert!(message(&good[..60]).contains("cut short"));
        assert!(message(b"").contains("no npy file"));
        assert!(message(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").contains("4294967295 bytes, wanted at most"));
        assert!(message(b"\x93NUMPY\x09\x00\x00\x00\x00\x00").contains("version is 9"));
        let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 8), }";
        assert!(message(&npy(huge, &[0.0; 4])).contains("no plain array of a size"));
        let hexadecimal = "{'descr': '<f4', 'fortran_order': False, 'shape': (0xffffffffffffffff, 8), }";
        assert!(message(&npy(hexadecimal, &[0.0; 4])).contains("no plain array of a size"));
        let large = "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999, 999999999), }";
        assert!(message(&npy(large, &[0.0; 4])).contains("has 16 bytes of f32 values, wanted 3999999992000000004"));
        let mut deep = b"\x93NUMPY\x01\x00".to_vec();
        deep.extend(9000u16.to_le_bytes());
        deep.extend([b'('; 9000]);
        assert!(message(&deep).contains("no plain array of a size"));
    }
}
