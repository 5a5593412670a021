//! Parsers of bytes from outside.

use std::path::{Path, PathBuf};

use crate::error::{ErrorCategory, Result};
use crate::io::npy::{NpyFile, NpyRowKind};
use crate::io::parquet_check::check_file;
use crate::io::pread::PreadFile;
use crate::io::record_file::RecordFile;
use crate::io::table_file::{ColumnKind, TableFile, integers, text_lists, texts, vectors};
use crate::io::{id_list, image, trec, vocabulary, word_vectors};
use crate::model::parse_safetensors;
use crate::pipeline::{LoadOptions, load};
use crate::sql::split_statements;
use crate::stages::AnyStage;
use crate::store::Manifest;
use crate::store::journal::JournalEntry;
use crate::store::record::RunRecord;

/// Parser of bytes from outside.
#[derive(Debug)]
pub struct FuzzTarget {
    /// Name.
    pub name: &'static str,
    /// Parses bytes. May write files into the folder.
    ///
    /// # Panics
    /// The parser panics, or its error is internal.
    pub run: fn(&Path, &[u8]),
}

/// All parsers.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "table", run: table },
    FuzzTarget { name: "npy", run: npy },
    FuzzTarget { name: "csv", run: |folder, bytes| records(folder, bytes, "a.csv") },
    FuzzTarget { name: "tsv", run: |folder, bytes| records(folder, bytes, "a.tsv") },
    FuzzTarget { name: "gzip", run: |folder, bytes| records(folder, bytes, "a.csv.gz") },
    FuzzTarget { name: "json_lines", run: |folder, bytes| records(folder, bytes, "a.jsonl") },
    FuzzTarget { name: "word_vectors", run: words },
    FuzzTarget { name: "vocabulary", run: |folder, bytes| checked(vocabulary::read(&stored(folder, "a.json", bytes))) },
    FuzzTarget { name: "trec", run: judgements },
    FuzzTarget { name: "picture", run: picture },
    FuzzTarget { name: "safetensors", run: |_, bytes| checked(parse_safetensors(bytes)) },
    FuzzTarget { name: "pipeline", run: pipeline },
    FuzzTarget { name: "store", run: store },
    FuzzTarget { name: "sql", run: |_, bytes| drop(split_statements(&String::from_utf8_lossy(bytes))) },
];

/// Names of columns in the files of the tests.
const COLUMNS: [&str; 8] = ["image_id", "caption_id", "split", "embedding", "picture", "part", "vector", "text"];

/// Checks that an error is not internal.
fn checked<T>(result: Result<T>) {
    if let Err(error) = result {
        assert_ne!(error.category(), ErrorCategory::Internal, "{error}");
    }
}

/// Writes a file, and returns its path.
fn stored(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("a folder of temporary files can be written");
    path
}

/// Parquet and Arrow files.
fn table(folder: &Path, bytes: &[u8]) {
    let path = stored(folder, "a.parquet", bytes);
    if bytes.starts_with(b"PAR1") {
        checked(PreadFile::open(&path).and_then(|file| check_file(&file, &|| Ok(()))));
    }
    let file = match TableFile::open(&path) {
        Ok(file) => file,
        Err(error) => return checked::<()>(Err(error)),
    };
    for column in COLUMNS.into_iter().filter(|column| file.has_column(column)) {
        let batches = match file.batches(&[column], || Ok(())) {
            Ok(batches) => batches,
            Err(error) => return checked::<()>(Err(error)),
        };
        for batch in batches {
            let Ok(batch) = batch.inspect_err(|error| assert_ne!(error.category(), ErrorCategory::Internal)) else {
                break;
            };
            checked(integers(&batch, column));
            checked(texts(&batch, column));
            checked(text_lists(&batch, column));
            if let Ok(vectors) = vectors(&batch, column) {
                (0..batch.num_rows()).for_each(|row| drop(vectors.get(row)));
            }
        }
    }
}

/// `NumPy` files of vectors and of identifiers.
fn npy(folder: &Path, bytes: &[u8]) {
    let path = stored(folder, "a.npy", bytes);
    checked(id_list::IdList::read(&path));
    for kind in [NpyRowKind::Vectors, NpyRowKind::VectorSets] {
        let Ok(file) = NpyFile::open(&path, kind, "") else { continue };
        let mut values = Vec::new();
        for row in 0..file.rows().min(100) {
            values.clear();
            checked(file.read_row(row, &mut values));
        }
    }
}

/// Files of records in text.
fn records(folder: &Path, bytes: &[u8], name: &str) {
    let path = stored(folder, name, bytes);
    let columns = [("image", ColumnKind::TextsOrIntegers), ("caption", ColumnKind::TextsOrLists)];
    let read = RecordFile::open(&path, None).and_then(|file| {
        file.for_each(&columns, "", || Ok(()), |_, fields| fields[0].name().and(fields[1].texts()).map(drop))
    });
    checked(read);
}

fn words(folder: &Path, bytes: &[u8]) {
    let wanted = ["a".to_owned(), "dog".to_owned(), "cat".to_owned()];
    for name in ["a.txt", "a.vec.gz"] {
        checked(word_vectors::read(&stored(folder, name, bytes), &wanted, 3, &mut || Ok(())));
    }
}

fn judgements(_: &Path, bytes: &[u8]) {
    bytes.split(|&byte| byte == b'\n').for_each(|line| drop(trec::Judgement::parse(line)));
}

fn picture(_: &Path, bytes: &[u8]) {
    // Large pictures take long, and no more code.
    match image::image_size(bytes) {
        Ok((width, height)) if width.saturating_mul(height) > 1 << 20 => {}
        _ => checked(image::decode(bytes)),
    }
}

/// Pipeline file, without the queries of its expectations.
fn pipeline(folder: &Path, bytes: &[u8]) {
    let path = stored(folder, "a.toml", bytes);
    let options = LoadOptions::<AnyStage> {
        overrides: &[],
        profile: None,
        only: &[],
        except: &[],
        environment: &|_| None,
        sources_must_exist: false,
        check_queries: &|_, _| vec![],
    };
    if let Err(diagnostics) = load(&path, &options) {
        // The places of mistakes are cut out of the text.
        drop(diagnostics.render(false));
    }
}

/// Manifest, entry of a journal and record of a run.
fn store(_: &Path, bytes: &[u8]) {
    drop(serde_json::from_slice::<Manifest>(bytes));
    drop(serde_json::from_slice::<JournalEntry>(bytes));
    drop(serde_json::from_slice::<RunRecord>(bytes));
}
