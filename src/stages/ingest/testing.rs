//! Helpers for the tests of this stage: small data sets, runs and their outputs.

use std::path::Path;

use arrow::array::{Array, AsArray};

use super::Ingest;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_stage::{InputOrigin, Stage};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables::{int_column, text_column};

/// Creates a temporary folder with these files.
pub(super) fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// Returns an npy file of f32 rows, as `NumPy` writes it.
pub(super) fn npy(rows: &[Vec<f32>]) -> Vec<u8> {
    let width = rows.first().map_or(1, Vec::len);
    npy_of(&format!("{}, {width}", rows.len()), &rows.concat())
}

/// Returns an npy file of f32 values with a shape such as `2, 3`.
pub(super) fn npy_of(shape: &str, values: &[f32]) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    let text = format!("{text:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Runs `ingest` with these settings; sources are relative to `folder`.
pub(super) fn ingest(folder: &Path, settings: serde_json::Value) -> Result<InMemoryHost> {
    ingest_beside(folder, settings, &[])
}

/// Runs `ingest` as [`ingest`], with tables that other runs wrote: the name of the input, the run, and its table.
pub(super) fn ingest_beside(
    folder: &Path,
    settings: serde_json::Value,
    tables: &[(&str, &InMemoryHost, &str)],
) -> Result<InMemoryHost> {
    let stage: Ingest = serde_json::from_value(settings).unwrap();
    assert_eq!(stage.check(), []);
    let mut host = InMemoryHost::default();
    for input in stage.inputs() {
        if let InputOrigin::Source(source) = input.origin {
            host.source_paths.insert(input.name, folder.join(source.path()));
        } else {
            let table = tables.iter().find(|(name, ..)| *name == input.name);
            let (_, run, table) = table.unwrap_or_else(|| panic!("no table for {}", input.name));
            host.input_tables.insert(input.name, vec![run.output(table)]);
        }
    }
    host.run(&stage)?;
    Ok(host)
}

/// Returns the error of a run that must fail because of its data, with the hint.
pub(super) fn refused(result: Result<InMemoryHost>) -> String {
    let error: Error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data, "{error}");
    format!("{error}\n{}", error.hint_text().unwrap_or_default())
}

/// Returns identifier, split, name and path of every image.
pub(super) fn images(host: &InMemoryHost) -> Vec<(i64, String, String, Option<String>)> {
    let batch = host.output("images");
    let (id, split, name) =
        (int_column(&batch, "image_id"), text_column(&batch, "split"), text_column(&batch, "file_name"));
    let (id, split, name) = (id.unwrap(), split.unwrap(), name.unwrap());
    let path = text_column(&batch, "path").unwrap();
    (0..batch.num_rows())
        .map(|i| {
            let path = path.is_valid(i).then(|| path.value(i).to_owned());
            (id.value(i), split.value(i).to_owned(), name.value(i).to_owned(), path)
        })
        .collect()
}

/// Returns identifier, image, split and text of every caption.
pub(super) fn captions(host: &InMemoryHost) -> Vec<(i64, i64, String, String)> {
    let batch = host.output("captions");
    let (id, image) = (int_column(&batch, "caption_id").unwrap(), int_column(&batch, "image_id").unwrap());
    let (split, text) = (text_column(&batch, "split").unwrap(), text_column(&batch, "text").unwrap());
    (0..batch.num_rows())
        .map(|i| (id.value(i), image.value(i), split.value(i).to_owned(), text.value(i).to_owned()))
        .collect()
}

/// Returns the encoded images.
pub(super) fn encoded_images(host: &InMemoryHost) -> Vec<Vec<u8>> {
    let batch = host.output("images");
    let bytes = batch.column_by_name("bytes").unwrap().as_binary::<i32>();
    bytes.iter().map(|bytes| bytes.unwrap().to_vec()).collect()
}

/// Returns the number of images of the splits train, val and test.
pub(super) fn split_counts(host: &InMemoryHost) -> [usize; 3] {
    let images = images(host);
    ["train", "val", "test"].map(|split| images.iter().filter(|image| image.1 == split).count())
}
