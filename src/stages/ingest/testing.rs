//! Data sets made by hand, for the tests of this stage.

use std::path::Path;

use arrow::array::{Array, AsArray};

use super::Ingest;
use crate::error::{Error, Kind, Result};
use crate::stage::{Origin, Stage};
use crate::stages::testing::MemoryWorld;
use crate::tables::{ids, texts};

/// A folder with these files, which goes when it is dropped.
pub(super) fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// An npy file of f32 rows, as `NumPy` writes it.
pub(super) fn npy(rows: &[Vec<f32>]) -> Vec<u8> {
    let width = rows.first().map_or(1, Vec::len);
    npy_of(&format!("{}, {width}", rows.len()), &rows.concat())
}

/// An npy file of f32 values with a shape such as `2, 3`.
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
pub(super) fn ingest(folder: &Path, settings: serde_json::Value) -> Result<MemoryWorld> {
    let stage: Ingest = serde_json::from_value(settings).unwrap();
    assert_eq!(stage.check(), []);
    let mut world = MemoryWorld::default();
    for input in stage.inputs() {
        let Origin::Source(source) = input.origin else { panic!("{} is no source", input.name) };
        world.paths.insert(input.name, folder.join(source.path()));
    }
    world.run(&stage)?;
    Ok(world)
}

/// The error of a run that must fail for its data, with its hint.
pub(super) fn refused(result: Result<MemoryWorld>) -> String {
    let error: Error = result.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), Kind::Data, "{error}");
    format!("{error}\n{}", error.hint_text().unwrap_or_default())
}

/// Identifier, split, name and path of every image.
pub(super) fn images(world: &MemoryWorld) -> Vec<(i64, String, String, Option<String>)> {
    let batch = world.output("images");
    let (id, split, name) = (ids(&batch, "image_id"), texts(&batch, "split"), texts(&batch, "file_name"));
    let (id, split, name) = (id.unwrap(), split.unwrap(), name.unwrap());
    let path = texts(&batch, "path").unwrap();
    (0..batch.num_rows())
        .map(|i| {
            let path = path.is_valid(i).then(|| path.value(i).to_owned());
            (id.value(i), split.value(i).to_owned(), name.value(i).to_owned(), path)
        })
        .collect()
}

/// Identifier, image, split and text of every caption.
pub(super) fn captions(world: &MemoryWorld) -> Vec<(i64, i64, String, String)> {
    let batch = world.output("captions");
    let (id, image) = (ids(&batch, "caption_id").unwrap(), ids(&batch, "image_id").unwrap());
    let (split, text) = (texts(&batch, "split").unwrap(), texts(&batch, "text").unwrap());
    (0..batch.num_rows())
        .map(|i| (id.value(i), image.value(i), split.value(i).to_owned(), text.value(i).to_owned()))
        .collect()
}

/// The encoded pictures.
pub(super) fn pictures(world: &MemoryWorld) -> Vec<Vec<u8>> {
    let batch = world.output("images");
    let bytes = batch.column_by_name("bytes").unwrap().as_binary::<i32>();
    bytes.iter().map(|bytes| bytes.unwrap().to_vec()).collect()
}

/// How many images of each split there are: train, val, test.
pub(super) fn split_counts(world: &MemoryWorld) -> [usize; 3] {
    let images = images(world);
    ["train", "val", "test"].map(|split| images.iter().filter(|image| image.1 == split).count())
}
