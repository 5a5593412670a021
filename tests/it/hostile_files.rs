//! Tests of tables that would end the process that reads them. Another process reads them, and a run ends with an error.

use std::fs;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
use arrow::ipc::root_as_footer;
use arrow::ipc::writer::FileWriter;

use crate::cli::{SYNTHETIC, assert_code, folder, run, stderr};

/// Stage that reads the table `a.arrow`.
const INGEST: &str = "[stage.pairs.ingest.hugging_face]\nfiles = \"a.arrow\"\nsplit = \"train\"\n";

/// Parquet file without rows, whose only column is in groups within each other. The library calls itself for each.
fn nested(groups: u32) -> Vec<u8> {
    let varint = |mut number: u32| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        bytes.push(number.to_le_bytes()[0]);
        bytes
    };
    // In Thrift's compact protocol: version 1, a list of nodes, no rows, no row groups.
    let group = b"\x35\x00\x18\x01a\x15\x02\x00".repeat(groups as usize);
    let column = b"\x15\x02\x25\x00\x18\x01a\x00";
    let metadata = [&b"\x15\x02\x19\xfc"[..], &varint(groups + 1), &group, column, b"\x16\x00\x19\x0c\x00"].concat();
    let length = u32::try_from(metadata.len()).unwrap().to_le_bytes();
    [&b"PAR1"[..], &metadata, &length, b"PAR1"].concat()
}

#[test]
fn a_file_whose_reader_needs_too_much_stack_is_an_error() {
    let folder = folder(SYNTHETIC);
    let path = folder.path().join("a.parquet");
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let query = ["sql", "--file", "mine=a.parquet", "SELECT count(*) FROM mine"];
    fs::write(&path, nested(3)).unwrap();
    assert_code(&run(folder.path(), &query), 0);
    fs::write(&path, nested(200_000)).unwrap();
    let output = run(folder.path(), &query);
    assert_code(&output, 3);
    let message = stderr(&output);
    assert!(message.starts_with("error: ") && message.contains("`a.parquet` cannot be read: "), "{message}");
    assert!(message.contains("has overflowed its stack"), "{message}");
}

/// The end of an Arrow file lists its batches with their sizes. The library reserves memory for them.
#[test]
fn a_file_whose_reader_needs_too_much_memory_is_an_error() {
    let folder = folder(INGEST);
    let captions: ArrayRef = Arc::new(StringArray::from(vec!["a dog", "a cat"]));
    let images: ArrayRef = Arc::new(BinaryArray::from_vec(vec![&b"no picture"[..]; 2]));
    let batch = RecordBatch::try_from_iter([("image", images), ("caption", captions)]).unwrap();
    let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    let mut content = writer.into_inner().unwrap();
    let end = content.len() - 10;
    let length = u32::from_le_bytes(content[end..end + 4].try_into().unwrap());
    let footer = root_as_footer(&content[end - length as usize..end]).unwrap();
    let size = footer.recordBatches().unwrap().get(0).bodyLength().to_le_bytes();
    let place = content.windows(8).rposition(|window| window == size).unwrap();
    // Eight gibibytes, of which nothing is touched: a process without a limit would go on.
    content[place..place + 8].copy_from_slice(&(8_i64 << 30).to_le_bytes());
    fs::write(folder.path().join("a.arrow"), &content).unwrap();
    let output = run(folder.path(), &["run", "p.toml"]);
    assert_code(&output, 3);
    let message = stderr(&output);
    assert!(message.contains("a.arrow` cannot be read: memory allocation of 85899"), "{message}");
    assert!(message.contains("may use 4 GiB of memory"), "{message}");
    // A byte that is zero makes another file of it, or a damaged one.
    for place in (0..content.len()).step_by(31) {
        let mut damaged = content.clone();
        damaged[place] = 0;
        fs::write(folder.path().join("a.arrow"), &damaged).unwrap();
        let code = run(folder.path(), &["run", "p.toml"]).status.code();
        assert!(matches!(code, Some(0 | 3)), "{place}: {code:?}");
    }
}
