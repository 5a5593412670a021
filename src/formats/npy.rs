//! `NumPy` files (`.npy`) of f16, f32 or f64 vectors, one or several per row, read as f32 row by row.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::path::{Path, PathBuf};

use arrow::datatypes::{ArrowPrimitiveType, Float16Type};
use az::SaturatingAs;
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use pairloom_base::error::{Error, Result};
use pairloom_storage::files;
use pairloom_storage::pread::PreadFile;

/// Hint for an array without rows.
const ROWS_HINT: &str = "a row for each image or caption is expected: `numpy.save(path, numpy.stack(rows))`";

/// Returns true if the file at `path` starts with the magic bytes of `NumPy` files.
///
/// # Errors
/// The file cannot be read.
pub fn is_npy(path: &Path) -> Result<bool> {
    Ok(files::first_bytes::<{ MAGIC.len() }>(path)? == MAGIC)
}

/// `NumPy` file whose rows are vectors or sets of vectors.
#[derive(Debug)]
pub struct NpyFile {
    path: PathBuf,
    file: PreadFile,
    /// Place of the values in the file.
    start: u64,
    shape: NpyShape,
    float: FloatType,
}

/// Content of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NpyRowKind {
    /// One vector: array of shape (rows, width).
    Vectors,
    /// Several vectors: array of shape (rows, vectors, width).
    VectorSets,
    /// One vector of an image: array of shape (width), (vectors, width) or (height, width of a grid, width).
    OneImage,
}

/// Type of the values in a file, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FloatType {
    F16,
    F32,
    F64,
}

impl FloatType {
    /// Type of values of a supported `dtype`.
    fn of(kind: &DType) -> Option<Self> {
        match kind {
            DType::Plain(kind) if kind.type_char() == TypeChar::Float && kind.endianness() == Endianness::Little => {
                match kind.size_field() {
                    2 => Some(Self::F16),
                    4 => Some(Self::F32),
                    8 => Some(Self::F64),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Appends the values encoded in `bytes`.
    fn read(self, bytes: &[u8], values: &mut Vec<f32>) {
        type F16 = <Float16Type as ArrowPrimitiveType>::Native;
        match self {
            Self::F16 => values.extend(bytes.as_chunks().0.iter().map(|&bytes| F16::from_le_bytes(bytes).to_f32())),
            Self::F32 => values.extend(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes))),
            Self::F64 => values.extend(bytes.as_chunks().0.iter().map(|&bytes| {
                #[expect(clippy::cast_possible_truncation, reason = "the nearest f32 is meant")]
                let nearest = f64::from_le_bytes(bytes) as f32;
                nearest
            })),
        }
    }
}

/// First value of a row that is not finite as f32: its place in the row, and its value in the file.
struct NotFiniteValue {
    place: usize,
    value: f64,
}

/// Reason why a row cannot be read.
enum RowError {
    NotFinite(NotFiniteValue),
    /// The file was cut after it was opened, or its disk fails.
    File(std::io::Error),
}

/// Number of rows, vectors per row and values per vector.
#[derive(Debug, Clone, Copy)]
struct NpyShape {
    rows: usize,
    vectors: usize,
    width: usize,
}

impl NpyFile {
    /// Opens the file at `path`. Cost: reads the header only. `hint` is the hint for an array of several dimensions that
    /// are not the wanted number.
    ///
    /// # Errors
    /// The file cannot be read, is not an npy file, is truncated, or is not a little-endian array of f16, f32 or f64 in
    /// C order with the dimensions of `wanted`.
    pub fn open(path: &Path, wanted: NpyRowKind, hint: &str) -> Result<Self> {
        let file = PreadFile::open(path)?;
        // Twelve bytes precede the text of the header.
        let head = file.read(0, file.size().min(HEADER_BYTES as u64 + 12).saturating_as());
        let head = head.map_err(|error| Error::io("read", path, &error))?;
        let (start, shape, float) = parse_header(&head, file.size(), wanted, hint)
            .map_err(|error| error.context(format!("`{}`", path.display())))?;
        Ok(Self { path: path.to_owned(), file, start: start as u64, shape, float })
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shape.rows
    }

    /// Vectors per row: 1 but for [`NpyRowKind::VectorSets`].
    #[must_use]
    pub fn vectors(&self) -> usize {
        self.shape.vectors
    }

    /// Values per vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.shape.width
    }

    /// True if two rows have equal bytes, and so equal values. False if they cannot be read.
    ///
    /// # Panics
    /// A row is out of range.
    #[must_use]
    pub fn rows_are_equal(&self, one: usize, other: usize) -> bool {
        match (self.row_bytes(one), self.row_bytes(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
    }

    fn row_bytes(&self, row: usize) -> std::io::Result<Vec<u8>> {
        assert!(row < self.shape.rows, "row {row} of {}", self.shape.rows);
        let bytes = self.shape.vectors * self.shape.width * self.float.bytes();
        self.file.read(self.start + (row * bytes) as u64, bytes)
    }

    /// Appends row `row` to `values`.
    ///
    /// # Errors
    /// A value is not finite. The error names file, row, vector and column.
    ///
    /// # Panics
    /// `row` is out of range.
    pub fn read_row(&self, row: usize, values: &mut Vec<f32>) -> Result<()> {
        self.read_values(row, values).map_err(|error| {
            let NotFiniteValue { place, value } = match error {
                RowError::NotFinite(found) => found,
                RowError::File(error) => return Error::io("read", &self.path, &error),
            };
            let (vector, column) = (place / self.shape.width, place % self.shape.width);
            let vector = if self.shape.vectors > 1 { format!(" vector {vector}") } else { String::new() };
            let file = self.path.display();
            Error::data(format!("`{file}` row {row}{vector} column {column} (from 0): value is {}", not_finite(value)))
        })
    }

    /// Appends row `row`, which is one vector, to `values`.
    ///
    /// # Errors
    /// Message that follows the place of the row: a value is not finite, or too large for f32.
    ///
    /// # Panics
    /// `row` is out of range.
    pub fn read_vector(&self, row: usize, values: &mut Vec<f32>) -> Result<(), String> {
        self.read_values(row, values).map_err(|error| match error {
            RowError::NotFinite(NotFiniteValue { place, value }) => {
                format!("the value of column {place} is {}", not_finite(value))
            }
            RowError::File(error) => format!("the row cannot be read: {error}"),
        })
    }

    fn read_values(&self, row: usize, values: &mut Vec<f32>) -> Result<(), RowError> {
        let (start, bytes) = (values.len(), self.row_bytes(row).map_err(RowError::File)?);
        self.float.read(&bytes, values);
        let Some(place) = values[start..].iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let value = match (self.float, bytes.as_chunks().0.get(place)) {
            (FloatType::F64, Some(&bytes)) => f64::from_le_bytes(bytes),
            _ => f64::from(values[start + place]),
        };
        Err(RowError::NotFinite(NotFiniteValue { place, value }))
    }
}

/// Parses the header, which `head` has: offset of the values, shape and type. The whole file has `file_bytes` bytes.
fn parse_header(head: &[u8], file_bytes: u64, wanted: NpyRowKind, hint: &str) -> Result<(usize, NpyShape, FloatType)> {
    let (start, header) = read_header(head)?;
    let kind = header.dtype();
    let float = FloatType::of(&kind).ok_or_else(|| {
        Error::data(format!("values are {}, expected '<f4' (little-endian f32), '<f2' or '<f8'", kind.descr()))
            .hint(match &kind {
                // NumPy has no such type, and cannot convert what it loads.
                DType::Plain(plain) if plain.type_char() == TypeChar::RawData && plain.size_field() == 2 => {
                    "if these are bfloat16 numbers: `numpy.save(path, numpy.load(path).view(ml_dtypes.bfloat16).astype('<f4'))`, \
                     after `import ml_dtypes`"
                }
                _ => "convert the array: `numpy.save(path, x.astype('<f4'))`",
            })
    })?;
    let shape = header.shape();
    let (rows, vectors, width) = match (wanted, shape) {
        (NpyRowKind::Vectors | NpyRowKind::OneImage, &[rows, width]) => (rows, 1, width),
        (NpyRowKind::VectorSets, &[rows, vectors, width]) => (rows, vectors, width),
        (NpyRowKind::OneImage, &[width]) => (1, 1, width),
        (NpyRowKind::OneImage, &[height, across, width]) => (height.saturating_mul(across), 1, width),
        (_, [] | [_]) => return Err(dimension_error(wanted, shape).hint(ROWS_HINT)),
        _ => return Err(dimension_error(wanted, shape).hint(hint)),
    };
    if header.order() != Order::C && shape.iter().filter(|&&size| size > 1).count() > 1 {
        return Err(Error::data("array is in Fortran order, expected C order")
            .hint("convert the array: `numpy.save(path, numpy.ascontiguousarray(x))`"));
    }
    if vectors == 0 || width == 0 {
        return Err(Error::data(format!("array has shape {shape:?}, expected at least one value a row")));
    }
    let wanted = shape.iter().try_fold(float.bytes() as u64, |bytes, &size| bytes.checked_mul(size));
    let held = file_bytes - start as u64;
    let sizes = [rows, vectors, width].map(usize::try_from);
    match (wanted, sizes) {
        (Some(bytes), [Ok(rows), Ok(vectors), Ok(width)]) if bytes == held => {
            Ok((start, NpyShape { rows, vectors, width }, float))
        }
        _ => Err(Error::data(format!(
            "array of shape {shape:?} has {held} bytes of {} values, expected {}",
            float.name(),
            match wanted {
                Some(bytes) => bytes.to_string(),
                None => "more than any file holds".to_owned(),
            }
        ))
        .hint("the file is damaged or truncated: copy it or create it again")),
    }
}

/// Error for an array with the wrong number of dimensions.
fn dimension_error(wanted: NpyRowKind, shape: &[u64]) -> Error {
    let wanted = match wanted {
        NpyRowKind::Vectors => "two dimensions: (rows, width)",
        NpyRowKind::OneImage => "one to three dimensions",
        NpyRowKind::VectorSets => "three dimensions: (rows, vectors, width)",
    };
    let count = match shape.len() {
        1 => "one dimension".to_owned(),
        2 => "two dimensions".to_owned(),
        3 => "three dimensions".to_owned(),
        count => format!("{count} dimensions"),
    };
    Error::data(format!("array has the shape {shape:?}, {count}, expected {wanted}"))
}

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
        return Err(Error::data("not an npy file, expected one that starts with `\\x93NUMPY`"));
    }
    let length = file.get(8..12).ok_or_else(damaged)?;
    let (start, length) = match file[6] {
        1 => (10, usize::from(u16::from_le_bytes([length[0], length[1]]))),
        2 | 3 => {
            let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
            (12, length.saturating_as::<usize>())
        }
        version => return Err(Error::data(format!("npy version is {version}, expected 1, 2 or 3"))),
    };
    if length > HEADER_BYTES {
        return Err(Error::data(format!("npy header has {length} bytes, expected at most {HEADER_BYTES}")));
    }
    let end = start + length;
    if file.len() < end { Err(damaged()) } else { Ok(start..end) }
}

/// Description of a value that is not finite as f32, by its value in the file: `1e300, which is …`.
pub(super) fn not_finite(value: f64) -> String {
    if value.is_finite() {
        format!("{value:e}, which is beyond f32, expected at most {:e}", f32::MAX)
    } else {
        format!("{value}, expected a finite number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;

    /// A version 1 file as `NumPy` writes it: the header padded with spaces to a multiple of 64 bytes.
    fn npy(header: &str, values: &[f32]) -> Vec<u8> {
        npy_of(header, values.iter().flat_map(|value| value.to_le_bytes()))
    }

    fn npy_of(header: &str, values: impl Iterator<Item = u8>) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        let text = format!("{header:<117}\n");
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(values);
        bytes
    }

    fn open_as(bytes: &[u8], wanted: NpyRowKind) -> Result<NpyFile> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        std::fs::write(&path, bytes).unwrap();
        NpyFile::open(&path, wanted, "the hint")
    }

    fn open(bytes: &[u8]) -> Result<NpyFile> {
        open_as(bytes, NpyRowKind::Vectors)
    }

    fn message(bytes: &[u8]) -> String {
        described(open(bytes))
    }

    fn described(result: Result<NpyFile>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        assert!(error.to_string().contains("a.npy"), "{error}");
        format!("{error}; {}", error.hint_text().unwrap_or_default())
    }

    #[test]
    fn reads_rows() {
        // Python 2 wrote long integers with an `L`.
        for shape in ["(3, 2)", "(3L, 2L)"] {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
            let matrix = open(&npy(&header, &[1., 2., 3., 4., 5., f32::NAN])).unwrap();
            assert_eq!((matrix.rows(), matrix.width()), (3, 2));
            let mut values = Vec::new();
            matrix.read_row(1, &mut values).unwrap();
            matrix.read_row(0, &mut values).unwrap();
            assert_eq!(values, [3., 4., 1., 2.]);
            let error = matrix.read_row(2, &mut values).unwrap_err().to_string();
            assert!(error.contains("row 2 column 1"), "{error}");
        }
    }

    #[test]
    fn reads_sets_of_vectors() {
        let file = |shape: &str, order: &str, values: &[f32]| {
            npy(&format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}"), values)
        };
        let values = [1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., f32::INFINITY];
        let stacks = open_as(&file("(2, 3, 2)", "False", &values), NpyRowKind::VectorSets).unwrap();
        assert_eq!((stacks.rows(), stacks.vectors(), stacks.width()), (2, 3, 2));
        let mut read = Vec::new();
        stacks.read_row(0, &mut read).unwrap();
        assert_eq!(read, values[..6]);
        let error = stacks.read_row(1, &mut read).unwrap_err().to_string();
        assert!(error.contains("row 1 vector 2 column 1 (from 0): value is inf"), "{error}");
        for (shape, wanted) in [
            ("(2, 6)", "shape [2, 6], two dimensions, expected three dimensions: (rows, vectors, width); the hint"),
            ("(2, 3, 2, 1)", "shape [2, 3, 2, 1], 4 dimensions, expected three"),
            ("(12, 0, 2)", "at least one value"),
            ("(2, 3, 3)", "has 48 bytes of f32 values, expected 72"),
            ("(4294967296, 4294967296, 1)", "not describe a plain array of a possible size"),
            ("(999999, 999999, 999999)", "expected 3999988000011999996"),
        ] {
            let message = described(open_as(&file(shape, "False", &values), NpyRowKind::VectorSets));
            assert!(message.contains(wanted), "{message}");
        }
        let message = described(open_as(&file("(2, 3, 2)", "True", &values), NpyRowKind::VectorSets));
        assert!(message.contains("Fortran order"), "{message}");
    }

    /// Half precision by IEEE 754: 0x3c00 is 1, 0xc100 is -2.5, 0x0001 is 2⁻²⁴, 0x7bff is 65,504.
    #[test]
    fn halves_and_doubles_are_read_as_f32() {
        let header = |descr: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (2, 2), }}");
        let halves = [0x3c00u16, 0xc100, 0x0001, 0x7bff].into_iter().flat_map(u16::to_le_bytes);
        let matrix = open(&npy_of(&header("<f2"), halves)).unwrap();
        let mut values = Vec::new();
        matrix.read_row(0, &mut values).unwrap();
        matrix.read_row(1, &mut values).unwrap();
        assert_eq!(values, [1.0, -2.5, 2.0_f32.powi(-24), 65_504.0]);
        let doubles = [0.1f64, 1e300, -0.1, 2.5].into_iter().flat_map(f64::to_le_bytes);
        let matrix = open(&npy_of(&header("<f8"), doubles)).unwrap();
        assert!(matrix.rows_are_equal(1, 1) && !matrix.rows_are_equal(0, 1));
        values.clear();
        matrix.read_row(1, &mut values).unwrap();
        assert_eq!(values, [-0.1f32, 2.5]);
        assert!(
            matrix
                .read_row(0, &mut values)
                .unwrap_err()
                .to_string()
                .contains("row 0 column 1 (from 0): value is 1e300, which is beyond f32")
        );
        let cut = npy_of(&header("<f2"), [0u8; 7].into_iter());
        assert!(message(&cut).contains("has 7 bytes of f16 values, expected 8"));
    }

    /// A mapped file that is cut ends the process (SIGBUS).
    #[test]
    fn a_file_that_is_cut_while_it_is_open_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2048), }";
        std::fs::write(&path, npy(header, &vec![0.5; 3 * 2048])).unwrap();
        let matrix = NpyFile::open(&path, NpyRowKind::Vectors, "").unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9000).unwrap();
        let mut values = Vec::new();
        matrix.read_row(0, &mut values).unwrap();
        let error = matrix.read_row(1, &mut values).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        assert!(error.to_string().contains("a.npy"), "{error}");
        assert!(matrix.read_vector(2, &mut values).unwrap_err().starts_with("the row cannot be read"));
        assert!(!matrix.rows_are_equal(1, 2));
    }

    #[test]
    fn refuses_other_types_orders_and_shapes() {
        let header = |descr: &str, fortran: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}")
        };
        let four = [0.0; 4];
        assert!(message(&npy(&header("'<i4'", "False", "(2, 2)"), &four)).contains("values are '<i4', expected '<f4'"));
        assert!(
            message(&npy(&header("'<f16'", "False", "(1, 1)"), &four)).contains("values are '<f16', expected '<f4'")
        );
        assert!(message(&npy(&header("'>f4'", "False", "(2, 2)"), &four)).contains("values are '>f4'"));
        // As NumPy 2 saves an array of `ml_dtypes.bfloat16`.
        let message_of_bf16 = message(&npy(&header("'<V2'", "False", "(4, 2)"), &four));
        assert!(message_of_bf16.contains("values are '<V2', expected '<f4'"), "{message_of_bf16}");
        assert!(
            message_of_bf16.contains("numpy.load(path).view(ml_dtypes.bfloat16).astype('<f4')"),
            "{message_of_bf16}"
        );
        assert!(message(&npy(&header("'|O'", "False", "(2, 2)"), &four)).contains("expected '<f4'"));
        assert!(message(&npy(&header("'<f4'", "True", "(2, 2)"), &four)).contains("Fortran order"));
        let message_of_one = message(&npy(&header("'<f4'", "False", "(4,)"), &four));
        assert!(message_of_one.contains("shape [4], one dimension, expected two"), "{message_of_one}");
        // The caller's hint is for more dimensions.
        assert!(message_of_one.contains("a row for each image or caption is expected: `numpy"), "{message_of_one}");
        assert!(
            message(&npy(&header("'<f4'", "False", "(1, 2, 2)"), &four))
                .contains("expected two dimensions: (rows, width); the hint")
        );
        assert!(message(&npy(&header("'<f4'", "False", "(2, 0)"), &[])).contains("at least one value"));
        assert!(message(&npy(&header("[('a', '<f4')]", "False", "(2, 2)"), &four)).contains("expected '<f4'"));
    }

    #[test]
    fn refuses_damaged_and_hostile_files() {
        let good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", &[0.0; 4]);
        assert!(open(&good).is_ok());
        assert!(message(&good[..good.len() - 3]).contains("has 13 bytes of f32 values, expected 16"));
        assert!(message(&good[..60]).contains("truncated"));
        assert!(message(b"").contains("not an npy file"));
        assert!(message(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").contains("4294967295 bytes, expected at most"));
        assert!(message(b"\x93NUMPY\x09\x00\x00\x00\x00\x00").contains("version is 9"));
        let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 8), }";
        assert!(message(&npy(huge, &[0.0; 4])).contains("not describe a plain array of a possible size"));
        let hexadecimal = "{'descr': '<f4', 'fortran_order': False, 'shape': (0xffffffffffffffff, 8), }";
        assert!(message(&npy(hexadecimal, &[0.0; 4])).contains("not describe a plain array of a possible size"));
        let large = "{'descr': '<f4', 'fortran_order': False, 'shape': (999999999, 999999999), }";
        assert!(message(&npy(large, &[0.0; 4])).contains("has 16 bytes of f32 values, expected 3999999992000000004"));
        let mut deep = b"\x93NUMPY\x01\x00".to_vec();
        deep.extend(9000u16.to_le_bytes());
        deep.extend([b'('; 9000]);
        assert!(message(&deep).contains("not describe a plain array of a possible size"));
        let record = "{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,), }";
        assert!(message(&npy(record, &[0.0; 2])).contains("numpy.save(path, records['name'])"));
        // Each open bracket doubles the time of the parser.
        for count in [3, 60] {
            let header = format!("{{'descr': '<f4', {}'shape': (2, 2), }}", "[".repeat(count));
            assert!(message(&npy(&header, &[0.0; 4])).contains("not describe a plain array of a possible size"));
        }
    }

    #[test]
    fn the_value_of_the_file_is_named() {
        assert_eq!(not_finite(-1e300), "-1e300, which is beyond f32, expected at most 3.4028235e38");
        assert_eq!(not_finite(f64::NAN), "NaN, expected a finite number");
        assert_eq!(not_finite(f64::NEG_INFINITY), "-inf, expected a finite number");
    }
}
