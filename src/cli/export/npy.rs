//! Vectors as an array of `NumPy`, and identifiers one a line.

use std::io::Write;

use npyz::WriterBuilder;

use super::{ExportSource, NewFile, NewFolder};
use pairloom_base::error::Result;

/// Array of f32 that is written row by row.
pub(super) struct ArrayWriter {
    file: NewFile,
}

impl ArrayWriter {
    /// Creates the file `name` for `rows` rows of a shape.
    pub fn create(folder: &mut NewFolder, name: &str, rows: usize, shape: &[usize]) -> Result<Self> {
        let all: Vec<u64> = std::iter::once(rows).chain(shape.iter().copied()).map(|size| size as u64).collect();
        let mut file = folder.file(name)?;
        let options = npyz::WriteOptions::<f32>::new().default_dtype().shape(&all).writer(&mut file);
        let written = options.write_header_only().map(|_| ());
        written.map_err(|error| file.failed(&error))?;
        Ok(Self { file })
    }

    /// Appends values, row-major.
    pub fn append(&mut self, values: &[f32]) -> Result<()> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.file.write_all(&bytes).map_err(|error| self.file.failed(&error))
    }

    /// Writes the rest.
    pub fn finish(self) -> Result<()> {
        self.file.finish()
    }
}

/// Writes `TABLE.npy`, `(rows, width)` or `(rows, vectors, width)`, and `TABLE_ids.txt`. Returns the number of rows.
pub(super) fn write_npy(source: &ExportSource<'_>, folder: &mut NewFolder) -> Result<usize> {
    // The header has the number of rows, so they are counted first.
    let rows = source.batches()?.map(|batch| Ok(batch?.num_rows())).sum::<Result<usize>>()?;
    let mut array: Option<ArrayWriter> = None;
    let mut ids: Vec<i64> = Vec::with_capacity(rows);
    for batch in source.batches()? {
        let batch = batch?;
        let vectors = source.vectors(&batch)?;
        let writer = match &mut array {
            Some(array) => array,
            None => {
                let name = format!("{}.npy", source.table());
                array.insert(ArrayWriter::create(folder, &name, rows, &vectors.shape)?)
            }
        };
        writer.append(vectors.values)?;
        ids.extend_from_slice(source.ids(&batch)?);
    }
    if rows == 0 {
        return Err(source.has_no_rows());
    }
    array.map_or(Ok(()), ArrayWriter::finish)?;
    write_lines(folder, &format!("{}_ids.txt", source.table()), ids)?;
    Ok(rows)
}

/// Writes one text a line.
pub(super) fn write_lines<T: std::fmt::Display>(
    folder: &mut NewFolder,
    name: &str,
    lines: impl IntoIterator<Item = T>,
) -> Result<()> {
    let mut file = folder.file(name)?;
    let written = lines.into_iter().try_for_each(|line| writeln!(file, "{line}"));
    written.map_err(|error| file.failed(&error))?;
    file.finish()
}
