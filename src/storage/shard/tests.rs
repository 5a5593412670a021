//! Tests of shards: round trips, files of pyarrow, damaged and forged files.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, FixedSizeListArray, Int32Array, Int64Array, ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};
use base64::Engine as _;
use proptest::prelude::*;

use super::*;
use pairloom_base::error::ErrorCategory;
use pairloom_tables as tables;

/// Table with `rows` rows and a column of every type with typed access. Every value is a function of its row.
fn table(rows: usize) -> RecordBatch {
    let n = i32::try_from(rows).unwrap();
    #[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
    let floats = |values: usize| (0..rows * values).map(|i| i as f32 / 8.0).collect::<Vec<_>>();
    let inner = tables::vector_array(floats(6), 3).unwrap();
    let pair = Arc::new(Field::new("item", inner.data_type().clone(), false));
    let regions = FixedSizeListArray::new(pair, 2, inner, None);
    let tokens = ListArray::new(
        Arc::new(Field::new("item", DataType::Int32, false)),
        OffsetBuffer::from_lengths((0..rows).map(|row| row % 4)),
        Arc::new(Int32Array::from_iter_values((0..n).flat_map(|row| (0..row % 4).map(move |at| row * 10 + at)))),
        None,
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("image_id", Arc::new(Int64Array::from_iter_values((0..n).map(|row| i64::from(row) * 3 - 1)))),
        ("image", tables::vector_array(floats(5), 5).unwrap()),
        ("regions", Arc::new(regions)),
        ("caption", Arc::new(StringArray::from_iter_values((0..n).map(|row| format!("caption é {row}"))))),
        ("tokens", Arc::new(tokens)),
    ];
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), false);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    tables::batch(&schema, columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

/// Content of a shard, read by typed access, as a line for each row.
fn rows(shard: &Arc<Shard>) -> Result<Vec<String>> {
    let (ids, texts, tokens) = (shard.ids("image_id")?, shard.texts("caption")?, shard.int32_lists("tokens")?);
    let (image, regions) = (shard.vectors("image")?, shard.vectors("regions")?);
    let line = |row| {
        let (id, text, tokens) = (ids.value(row)?, texts.value(row)?, tokens.row(row)?);
        let (image, regions) = (image.row(row)?, regions.row(row)?);
        Ok(format!("{id} {text} {tokens:?} {image:?} {regions:?}"))
    };
    (0..shard.rows()).map(line).collect()
}

fn written(batch: &RecordBatch) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), batch).unwrap();
    folder
}

fn open(folder: &Path) -> Result<Arc<Shard>> {
    Shard::open(folder).map(Arc::new)
}

/// Shard with the bytes of an Arrow file and matching digests.
fn of_file(bytes: &[u8]) -> Result<Arc<Shard>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(SHARD_FILE), bytes).unwrap();
    std::fs::write(folder.path().join(DIGESTS_FILE), chunk_digests::encode(bytes)).unwrap();
    open(folder.path())
}

/// Message of a data error.
fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data, "{error}");
    error.to_string()
}

/// Arrow files written by pyarrow (`tests/golden/shards.py`).
fn golden() -> BTreeMap<String, Vec<u8>> {
    let files: BTreeMap<String, String> =
        serde_json::from_str(include_str!("../../../tests/golden/shards.json")).unwrap();
    let decode = |text: String| base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    files.into_iter().map(|(name, text)| (name, decode(text))).collect()
}

#[test]
fn rows_round_trip_through_file_and_memory() {
    let batch = table(1000);
    let folder = written(&batch);
    let shard = open(folder.path()).unwrap();
    assert_eq!((shard.rows(), shard.schema()), (1000, &batch.schema()));
    assert_eq!(shard.batch().unwrap(), batch);
    let lines = rows(&shard).unwrap();
    assert_eq!(lines[0], "-1 caption é 0 [] [0.0, 0.125, 0.25, 0.375, 0.5] [0.0, 0.125, 0.25, 0.375, 0.5, 0.625]");
    assert!(lines[999].starts_with("2996 caption é 999 [9990, 9991, 9992] [624.375, "), "{}", lines[999]);
    assert_eq!(shard.vectors("image").unwrap().shape(), [5]);
    assert_eq!(shard.vectors("regions").unwrap().shape(), [2, 3]);
    assert_eq!(rows(&Arc::new(Shard::from_batch(&batch).unwrap())).unwrap(), lines);
    // A slice shares its buffers with the whole batch and must be written without the rest.
    let part = Shard::from_batch(&batch.slice(990, 10)).unwrap();
    assert_eq!(rows(&Arc::new(part)).unwrap(), lines[990..]);
    let none = written(&table(0));
    assert_eq!(rows(&open(none.path()).unwrap()).unwrap(), [""; 0]);
}

#[test]
fn a_shard_is_an_arrow_file_of_the_predicted_size() {
    let batch = table(5000);
    let folder = written(&batch);
    let file = File::open(folder.path().join(SHARD_FILE)).unwrap();
    let length = |name| folder.path().join(name).metadata().unwrap().len();
    assert_eq!(size(&batch).unwrap(), ShardSize { shard: length(SHARD_FILE), digests: length(DIGESTS_FILE) });
    let reader = arrow::ipc::reader::FileReader::try_new(file, None).unwrap();
    assert_eq!(reader.map(Result::unwrap).collect::<Vec<_>>(), std::slice::from_ref(&batch));
    for name in [SHARD_FILE, DIGESTS_FILE] {
        assert_eq!(folder.path().join(name).metadata().unwrap().permissions().mode() & 0o777, 0o400);
    }
    let shard = open(folder.path()).unwrap();
    assert!(shard.layout.buffers.iter().all(|place| place.start % 64 == 0), "{:?}", shard.layout.buffers);
    // Reserved space is filled, and the rest of it is released.
    let reserved = tempfile::tempdir().unwrap();
    reserve(reserved.path(), ShardSize { shard: 1 << 20, digests: 1 << 20 }).unwrap();
    write(reserved.path(), &batch).unwrap();
    for name in [SHARD_FILE, DIGESTS_FILE] {
        let read = |folder: &Path| std::fs::read(folder.join(name)).unwrap();
        assert!(read(reserved.path()) == read(folder.path()), "{name}");
    }
}

#[test]
fn files_of_pyarrow_are_read() {
    let golden = golden();
    let shard = of_file(&golden["plain"]).unwrap();
    assert_eq!(
        rows(&shard).unwrap(),
        [
            "7 a dog [1, 2, 3] [0.5, -1.0, 2.0] [1.0, 2.0, 3.0, 4.0]",
            "-9 a café [] [3.0, inf, -0.0] [5.0, 6.0, 7.0, 8.0]"
        ]
    );
    assert_eq!(shard.batch().unwrap().num_columns(), 6);
}

#[test]
fn other_arrow_files_are_refused() {
    let golden = golden();
    let refused = |name: &str| refusal(of_file(&golden[name]));
    assert!(refused("two").ends_with("Arrow file has 2 record batches, expected one"), "{}", refused("two"));
    assert!(refused("none").ends_with("Arrow file has 0 record batches, expected one"), "{}", refused("none"));
    assert!(refused("compressed").contains("record batch is compressed (LZ4_FRAME)"), "{}", refused("compressed"));
    assert!(refused("dictionary").contains("has 1 dictionaries"), "{}", refused("dictionary"));
    assert!(refused("view").contains("column `caption` is Utf8View, expected numbers, texts"), "{}", refused("view"));
    let nulls = of_file(&golden["nulls"]).unwrap();
    assert!(refusal(nulls.ids("image_id")).contains("column `image_id` has 1 nulls, expected none"));
    assert!(refusal(of_file(b"")).contains("0 bytes are no Arrow file"));
    assert!(refusal(of_file(&[7; 4000])).contains("4000 bytes are no Arrow file"));
    let dictionary = arrow::array::DictionaryArray::<arrow::datatypes::Int32Type>::from_iter(["a", "b"]);
    let schema = Arc::new(Schema::new(vec![Field::new("split", dictionary.data_type().clone(), false)]));
    let batch = tables::batch(&schema, vec![Arc::new(dictionary)]).unwrap();
    assert!(refusal(write(tempfile::tempdir().unwrap().path(), &batch)).contains("column `split` is Dictionary"));
}

#[test]
fn columns_are_opened_by_name_and_type() {
    let shard = Arc::new(Shard::from_batch(&table(3)).unwrap());
    let error = shard.ids("id").unwrap_err();
    assert!(error.to_string().contains("no column `id`"), "{error}");
    assert!(error.hint_text().unwrap().contains("`image_id`, `image`"));
    assert!(refusal(shard.vectors("tokens")).contains("column `tokens` is List("));
    assert!(refusal(shard.ids("caption")).contains("column `caption` is Utf8, expected Int64"));
    assert!(refusal(shard.texts("image_id")).contains("is Int64, expected Utf8"));
    assert!(refusal(shard.int32_lists("image")).contains("expected a List of Int32"));
    for error in [
        shard.ids("image_id").unwrap().value(3).unwrap_err(),
        shard.vectors("image").unwrap().row(3).unwrap_err(),
        shard.texts("caption").unwrap().value(3).unwrap_err(),
        shard.int32_lists("tokens").unwrap().row(usize::MAX).unwrap_err(),
    ] {
        assert_eq!(error.category(), ErrorCategory::Internal, "{error}");
    }
}

#[test]
fn invalid_content_with_matching_digests_is_an_error() {
    let batch = table(4);
    let mut whole = Vec::new();
    encode(&batch, &mut whole).unwrap();
    let shard = of_file(&whole).unwrap();
    let place = |column: usize, buffer: usize| shard.layout.buffers[shard.layout.starts[column].buffer + buffer].start;
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        of_file(&file).unwrap()
    };
    for end in [-1i32, i32::MAX, i32::MIN] {
        let offsets = changed(place(4, 1) + 8, &end.to_le_bytes());
        assert!(refusal(offsets.int32_lists("tokens").unwrap().row(1)).contains("expected a range"));
        assert!(refusal(offsets.int32_lists("tokens").unwrap().row(2)).contains("expected a range"));
        assert!(offsets.int32_lists("tokens").unwrap().row(3).is_ok());
        assert!(offsets.batch().is_err());
        let offsets = changed(place(3, 1) + 8, &end.to_le_bytes());
        assert!(refusal(offsets.texts("caption").unwrap().value(1)).contains("expected a range"));
    }
    let text = changed(place(3, 2) + 1, &[0xff]);
    assert!(refusal(text.texts("caption").unwrap().value(0)).contains("row 0 of a column of texts is not UTF-8"));
    assert_eq!(text.texts("caption").unwrap().value(1).unwrap(), "caption é 1");
    assert!(text.batch().is_err());
}

#[test]
fn invalid_metadata_with_matching_digests_never_panics() {
    let mut whole = Vec::new();
    encode(&table(3), &mut whole).unwrap();
    let (mut refused, length) = (0, whole.len());
    for at in (0..1600).chain(length - 1400..length) {
        let mut file = whole.clone();
        file[at] ^= 1 << (at % 8);
        let Ok(shard) = Shard::from_bytes(Buffer::from_slice_ref(&file), None, PathBuf::new()) else {
            refused += 1;
            continue;
        };
        // A changed name or number of rows may still be valid; reading must not leave the file.
        let shard = Arc::new(shard);
        let _ = (rows(&shard), shard.batch());
    }
    assert!(refused > 300, "{refused}");
}

#[test]
fn damage_is_found_in_its_chunk_only() {
    let batch = table(20_000);
    let folder = written(&batch);
    let path = folder.path().join(SHARD_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let shard = open(folder.path()).unwrap();
    let image = shard.layout.buffers[shard.layout.starts[1].buffer + 2].clone();
    drop(shard);
    bytes[image.start + 5 * 4 * 10_000] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let shard = open(folder.path()).unwrap();
    let vectors = shard.vectors("image").unwrap();
    let bad: Vec<_> = (0..20_000).filter(|row| vectors.row(*row).is_err()).collect();
    // A chunk has 819.2 rows of 20 bytes; rows at its edges are in two chunks.
    assert!(bad.contains(&10_000) && (819..=821).contains(&bad.len()), "{} rows", bad.len());
    assert_eq!(bad.last().unwrap() - bad[0] + 1, bad.len());
    let error = vectors.row(10_000).unwrap_err();
    assert!(error.to_string().contains("have digest ") && error.to_string().contains(SHARD_FILE), "{error}");
    assert!(error.hint_text().is_some());
    assert!(shard.ids("image_id").unwrap().value(19_999).is_ok());
    assert!(shard.batch().is_err() && shard.verify_all().is_err());
}

#[test]
fn missing_files_and_wrong_lengths_are_errors() {
    let folder = written(&table(100));
    let other = written(&table(50));
    for (name, message) in
        [(DIGESTS_FILE, "cannot open the digests of the shard"), (SHARD_FILE, "cannot open the shard")]
    {
        let path = folder.path().join(name);
        let content = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(refusal(open(folder.path())).starts_with(message));
        std::fs::copy(other.path().join(name), &path).unwrap();
        let message = refusal(open(folder.path()));
        assert!(message.starts_with("shard has ") && message.contains(" bytes, expected "), "{message}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, content).unwrap();
    }
    assert!(open(folder.path()).is_ok());
}

/// Files of a shard that tests damage, and its rows.
struct DamageTest {
    files: [(&'static str, Vec<u8>); 2],
    lines: Vec<String>,
}

impl DamageTest {
    fn new() -> Self {
        let batch = table(300);
        let folder = written(&batch);
        let read = |name| (name, std::fs::read(folder.path().join(name)).unwrap());
        Self { files: [read(SHARD_FILE), read(DIGESTS_FILE)], lines: rows(&open(folder.path()).unwrap()).unwrap() }
    }

    /// Returns true if reading after `change` of one file gives a data error or the original rows.
    fn survives(&self, which: usize, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut files = self.files.clone();
        change(&mut files[which].1);
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        match open(folder.path()).and_then(|shard| rows(&shard)) {
            Ok(lines) => lines == self.lines,
            Err(error) => error.category() == ErrorCategory::Data,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn flipped_bits_and_truncation_are_never_read(which in 0usize..2, at in any::<proptest::sample::Index>(), bit in 0u8..8) {
        thread_local!(static TEST: DamageTest = DamageTest::new());
        TEST.with(|damage| {
            let at = at.index(damage.files[which].1.len());
            prop_assert!(damage.survives(which, |bytes| bytes[at] ^= 1 << bit), "bit {bit} of byte {at} of file {which}");
            prop_assert!(damage.survives(which, |bytes| bytes.truncate(at)), "file {which} cut at {at}");
            prop_assert!(damage.survives(which, |bytes| bytes.extend(vec![0; at])), "file {which} longer by {at}");
            Ok(())
        })?;
    }
}

#[test]
fn damaged_metadata_never_ends_the_process() {
    let damage = DamageTest::new();
    let (shard, sums) = (damage.files[0].1.len(), damage.files[1].1.len());
    for at in 0..sums {
        assert!(damage.survives(1, |bytes| bytes[at] ^= 16), "byte {at} of {DIGESTS_FILE}");
    }
    for at in (0..64).chain(shard - 1500..shard) {
        assert!(damage.survives(0, |bytes| bytes[at] ^= 4), "byte {at} of {SHARD_FILE}");
    }
}
