//! Vectors of tables and arrays, in the order of their files.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;

use super::{ImportFeatures, RowId, WantedImages};
use pairloom_base::error::Result;
use pairloom_stage::Stage;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

/// Columns `image_id` and `feature` of width 2.
fn columns(ids: ArrayRef, values: ArrayRef) -> RecordBatch {
    let item = Arc::new(Field::new("item", values.data_type().clone(), true));
    let vectors: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, values, None));
    let field = |name, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let schema = Schema::new(vec![field("image_id", &ids), field("feature", &vectors)]);
    tables::batch(&Arc::new(schema), vec![ids, vectors]).unwrap()
}

fn write_parquet(path: &Path, batch: &RecordBatch) {
    let mut writer = ArrowWriter::try_new(std::fs::File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

fn write_arrow(path: &Path, batch: &RecordBatch) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = arrow::ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
}

fn write_npy(path: &Path, shape: &str, values: &[f32]) {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{text:<117}\n").bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

/// Runs the stage on files of the folder, with images 5, 6 and 7.
fn run(folder: &Path, files: &[&str], ids: &[&str], more: &str) -> Result<InMemoryHost> {
    let images = tables::images::TableColumns {
        image_id: vec![5, 6, 7].into(),
        split: vec!["train", "val", "test"].into(),
        file_name: vec!["1005.jpg", "a b.jpg", "a b.png"].into(),
        path: tables::Nullable(vec![None::<&str>; 3].into()),
        bytes: tables::Nullable(vec![None::<&[u8]>; 3].into()),
        digest: tables::Nullable(vec![None::<&str>; 3].into()),
    };
    let mut host = InMemoryHost::default();
    for (setting, names) in [("files", files), ("ids", ids)] {
        for (number, name) in names.iter().enumerate() {
            host.source_paths.insert(format!("{setting}.{number}"), folder.join(name));
        }
    }
    host.input_tables.insert("images".to_owned(), vec![images.into_batch().unwrap()]);
    let settings = format!("files = {files:?}\nids = {ids:?}\nimages = \"x.images\"\n{more}");
    let stage = toml::from_str::<ImportFeatures>(&settings).unwrap();
    assert_eq!(stage.check(), []);
    host.run(&stage)?;
    Ok(host)
}

fn rows(host: &InMemoryHost) -> (Vec<i64>, Vec<String>, Vec<f32>) {
    let batch = host.output("features");
    let splits = tables::text_column(&batch, "split").unwrap();
    let splits = (0..batch.num_rows()).map(|row| splits.value(row).to_owned()).collect();
    let (values, width) = tables::vector_column(&batch, "feature").unwrap();
    assert_eq!(width, 2);
    (tables::int_column(&batch, "image_id").unwrap().values().to_vec(), splits, values.to_vec())
}

#[test]
fn columns_of_parquet_and_arrow_files_are_read_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let two_rows = columns(
        Arc::new(Int64Array::from(vec![7, 99, 5])),
        Arc::new(Float32Array::from(vec![1.0, 2.0, 0.0, 0.0, 3.0, 4.0])),
    );
    write_parquet(&folder.path().join("a.parquet"), &two_rows);
    let half = arrow::compute::cast(&Float32Array::from(vec![5.5, -6.0]), &DataType::Float16).unwrap();
    let one_row = columns(Arc::new(StringArray::from(vec!["6"])), half);
    write_arrow(&folder.path().join("b.arrow"), &one_row);
    let host = run(folder.path(), &["a.parquet", "b.arrow"], &[], "").unwrap();
    let splits = ["test", "train", "val"].map(str::to_owned).to_vec();
    assert_eq!(rows(&host), (vec![7, 5, 6], splits, vec![1.0, 2.0, 3.0, 4.0, 5.5, -6.0]));
}

#[test]
fn identifiers_may_be_names_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let names = StringArray::from(vec!["a b.png", "1005", "a b.jpg"]);
    let batch = columns(Arc::new(names), Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0])));
    write_parquet(&folder.path().join("a.parquet"), &batch);
    let host = run(folder.path(), &["a.parquet"], &[], "names = \"file_name\"").unwrap();
    assert_eq!(rows(&host).0, [7, 5, 6]);
    // Two images have the name `a b` without its ending.
    let batch = columns(Arc::new(StringArray::from(vec!["a b"])), Arc::new(Float32Array::from(vec![1.0, 2.0])));
    write_parquet(&folder.path().join("b.parquet"), &batch);
    let error = run(folder.path(), &["b.parquet"], &[], "names = \"file_name\"").map(drop).unwrap_err().to_string();
    assert!(error.contains("none of the 3 images of `x.images` is in the files, which have 1 others"), "{error}");
}

/// `v1` is a name, and also what is left of `v1.jpg` without its ending; `v1.5` has no ending of a picture.
#[test]
fn a_whole_file_name_goes_before_one_without_its_ending() {
    for names in [["v1", "v1.jpg", "v1.5"], ["v1.5", "v1.jpg", "v1"]] {
        let mut images = WantedImages::default();
        for (id, name) in (0..).zip(names) {
            images.add(id, "test", Some(name)).unwrap();
        }
        for (place, name) in names.iter().enumerate() {
            assert_eq!(images.find(&RowId::Text(name)), Some(place), "{names:?}");
        }
        let error = images.add(3, "test", Some("v1.jpg")).unwrap_err();
        assert_eq!(error, "images 1 and 3 both have the file name `v1.jpg`");
    }
    let mut images = WantedImages::default();
    let url = "https://me:secret@h.org/a.jpg?signature=secret";
    images.add(1, "test", Some(url)).unwrap();
    let error = images.add(2, "test", Some(url)).unwrap_err();
    assert_eq!(error, "images 1 and 2 both have the file name `https://h.org/a.jpg`");
    let mut images = WantedImages::default();
    images.add(7, "test", None).unwrap();
    assert_eq!([" 7", "7", "07", "+7"].map(|text| images.find(&RowId::Text(text))), [None, Some(0), None, None]);
}

#[test]
fn arrays_have_lists_of_identifiers() {
    let folder = tempfile::tempdir().unwrap();
    write_npy(&folder.path().join("a.npy"), "2, 2", &[1.0, 2.0, 3.0, 4.0]);
    std::fs::write(folder.path().join("a.txt"), "7\n6\n").unwrap();
    let host = run(folder.path(), &["a.npy"], &["a.txt"], "max_skipped = 0.5").unwrap();
    let splits = ["test", "val"].map(str::to_owned).to_vec();
    assert_eq!(rows(&host), (vec![7, 6], splits, vec![1.0, 2.0, 3.0, 4.0]));
    let error = run(folder.path(), &["a.npy"], &["a.txt"], "").map(drop).unwrap_err().to_string();
    assert!(error.contains("image 5 has no vector"), "{error}");
    let error = run(folder.path(), &["a.npy"], &[], "").map(drop).unwrap_err().to_string();
    assert!(error.contains("has no identifiers"), "{error}");
    std::fs::write(folder.path().join("b.txt"), "7\n").unwrap();
    let error = run(folder.path(), &["a.npy"], &["b.txt"], "").map(drop).unwrap_err().to_string();
    assert!(error.contains("has 1 identifiers") && error.contains("2 rows"), "{error}");
}

#[test]
fn regions_of_an_array_are_filled_up_with_zeros() {
    let folder = tempfile::tempdir().unwrap();
    write_npy(&folder.path().join("a.npy"), "3, 2, 1", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    std::fs::write(folder.path().join("a.txt"), "5\n6\n7\n").unwrap();
    let host = run(folder.path(), &["a.npy"], &["a.txt"], "max_regions = 3").unwrap();
    let batch = host.output("regions");
    let expected = [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 6.0, 0.0];
    assert_eq!(tables::regions::values(&batch).unwrap(), (&expected[..], 3, 1));
    let error = run(folder.path(), &["a.npy"], &["a.txt"], "max_regions = 1").map(drop).unwrap_err().to_string();
    assert!(error.contains("got 2 regions, expected 1 to 1 (`max_regions`)"), "{error}");
}

#[test]
fn all_mistakes_of_a_file_are_named_with_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let ids = Int64Array::from(vec![Some(5), None, Some(5), Some(6), Some(7)]);
    let values = vec![
        Some(1.0),
        Some(2.0),
        Some(1.0),
        Some(1.0),
        Some(1.0),
        Some(1.0),
        Some(f32::NAN),
        Some(1.0),
        None,
        Some(1.0),
    ];
    write_parquet(&folder.path().join("a.parquet"), &columns(Arc::new(ids), Arc::new(Float32Array::from(values))));
    let error = run(folder.path(), &["a.parquet"], &[], "").map(drop).unwrap_err().to_string();
    for expected in [
        "row 1: the identifier is missing or above 9223372036854775807",
        "row 2: image 5 is also in row 0",
        "row 3: ",
        "row 4: ",
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let batch = columns(Arc::new(Int64Array::from(vec![5])), Arc::new(Float32Array::from(vec![1.0, 2.0])));
    write_parquet(&folder.path().join("b.parquet"), &batch);
    let error = run(folder.path(), &["b.parquet"], &[], "columns.vector = \"clip\"").map(drop).unwrap_err().to_string();
    assert!(error.contains("`clip`"), "{error}");
    let error = run(folder.path(), &["b.parquet"], &[], "max_regions = 2").map(drop).unwrap_err().to_string();
    assert!(error.contains("is no npy file"), "{error}");
}

#[test]
fn settings_that_do_not_fit_are_reported_before_a_run() {
    let settings = "files = []\nids = [\"a\"]\nimages = \"x.images\"\nmax_regions = 0\nmax_skipped = 2.0";
    let places: Vec<_> = toml::from_str::<ImportFeatures>(settings).unwrap().check();
    assert_eq!(places.len(), 4);
}

/// The file has no values, and reading its row would need memory for all of them.
#[test]
fn rows_of_arrays_that_are_too_wide_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.npy");
    write_npy(&path, "1, 400000000", &[]);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(128 + 1_600_000_000).unwrap();
    std::fs::write(folder.path().join("ids.txt"), "5\n").unwrap();
    let error = run(folder.path(), &["a.npy"], &["ids.txt"], "").unwrap_err().to_string();
    assert!(error.contains("a.npy`: an image has 400000000 values") && error.contains("expected at most"), "{error}");
}
