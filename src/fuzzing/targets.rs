//! Parsers of bytes from outside.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;

use pairloom_base::error::{ErrorCategory, Result};
use pairloom_engine::ranks::parse_rank_messages;
use pairloom_formats::delimited::DelimitedForm;
use pairloom_formats::id_list;
use pairloom_formats::npy::{NpyFile, NpyRowKind};
use pairloom_formats::record_file::RecordFile;
use pairloom_formats::table_file::ColumnKind;
use pairloom_formats::{tar_samples, trec, vocabulary, word_vectors};
use pairloom_images::image;
use pairloom_model::{parse_checkpoint, parse_safetensors};
use pairloom_pipeline::{LoadOptions, load};
use pairloom_query::{check_text_file, split_statements};
use pairloom_registry::AnyStage;
use pairloom_stage::{InputOrigin, Stage};
use pairloom_stage_testing::InMemoryHost;
use pairloom_stages::import_regions::ImportRegions;
use pairloom_stages::ingest::Ingest;
use pairloom_storage::shard::Shard;
use pairloom_store::journal::JournalEntry;
use pairloom_store::record::RunRecord;
use pairloom_store::{Manifest, parse_checked};
use pairloom_tables as tables;

/// Parser of bytes from outside.
#[derive(Clone, Copy, Debug)]
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
    FuzzTarget { name: "rank_messages", run: |_, bytes| parse_rank_messages(bytes) },
    FuzzTarget { name: "shard", run: shard },
    FuzzTarget { name: "checkpoint", run: checkpoint },
    FuzzTarget { name: "karpathy", run: |folder, bytes| ingest(folder, KARPATHY, bytes) },
    FuzzTarget { name: "coco", run: |folder, bytes| ingest(folder, COCO, bytes) },
    FuzzTarget { name: "flickr", run: |folder, bytes| ingest(folder, FLICKR, bytes) },
    FuzzTarget { name: "tar", run: tar },
    FuzzTarget { name: "regions", run: regions },
    FuzzTarget { name: "sql", run: |_, bytes| drop(split_statements(&String::from_utf8_lossy(bytes))) },
];

/// Parser of a name, found at compile time.
///
/// # Panics
/// No parser has this name.
#[must_use]
pub const fn named(name: &str) -> FuzzTarget {
    let mut rest = TARGETS;
    while let Some((first, others)) = rest.split_first() {
        if equal(first.name.as_bytes(), name.as_bytes()) {
            return *first;
        }
        rest = others;
    }
    panic!("no parser has this name")
}

/// Equality of bytes, at compile time.
const fn equal(mut a: &[u8], mut b: &[u8]) -> bool {
    while let (Some((x, more_a)), Some((y, more_b))) = (a.split_first(), b.split_first()) {
        if *x != *y {
            return false;
        }
        (a, b) = (more_a, more_b);
    }
    a.is_empty() && b.is_empty()
}

/// Settings of `ingest` whose file is damaged.
const KARPATHY: &str = r#"{"karpathy": {"json": "a", "images": "images", "on_missing": "skip", "max_skipped": 1.0}}"#;
const COCO: &str = r#"{"coco": {"images": "images", "on_missing": "skip", "max_skipped": 1.0, "files": [
    {"captions": "a", "folder": "train", "split": "train"}]}}"#;
const FLICKR: &str = r#"{"flickr": {"tokens": "a", "images": "images", "train": "list", "val": "none", "test": "none",
    "on_missing": "skip", "max_skipped": 1.0}}"#;

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

/// Files of records in text, as a stage and as a query reads them.
fn records(folder: &Path, bytes: &[u8], name: &str) {
    match name {
        "a.csv.gz" => {}
        "a.jsonl" => {
            for other in ["b.jsonl", "b.json"] {
                checked(check_text_file(&stored(folder, other, bytes)));
            }
        }
        _ => checked(check_text_file(&stored(folder, name, bytes))),
    }
    let path = stored(folder, name, bytes);
    let columns = [("image", ColumnKind::TextsOrIntegers), ("caption", ColumnKind::TextsOrLists)];
    let read = RecordFile::open(&path, DelimitedForm::default()).and_then(|file| {
        file.for_each(&columns, "", || Ok(()), |_, fields| fields[0].name().and(fields[1].texts()).map(drop))
    });
    checked(read);
}

fn words(folder: &Path, bytes: &[u8]) {
    let expected = ["a".to_owned(), "dog".to_owned(), "cat".to_owned()];
    for name in ["a.txt", "a.vec.gz"] {
        checked(word_vectors::read(&stored(folder, name, bytes), &expected, 3, &mut || Ok(())));
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
    drop(parse_checked::<Manifest>(bytes));
    drop(parse_checked::<JournalEntry>(bytes));
    drop(parse_checked::<RunRecord>(bytes));
}

/// Shard without its digests, which would refuse every damage.
fn shard(_: &Path, bytes: &[u8]) {
    let shard = match Shard::of_outside_bytes(bytes) {
        Ok(shard) => Arc::new(shard),
        Err(error) => return checked::<()>(Err(error)),
    };
    for field in shard.schema().fields().clone().iter().take(20) {
        let (name, rows) = (field.name(), shard.rows().min(100));
        if let Ok(vectors) = shard.vectors(name) {
            (0..rows.min(vectors.rows())).for_each(|row| checked(vectors.row(row)));
        }
        if let Ok(ids) = shard.ids(name) {
            (0..rows.min(ids.rows())).for_each(|row| checked(ids.value(row)));
        }
        if let Ok(texts) = shard.texts(name) {
            (0..rows.min(texts.rows())).for_each(|row| checked(texts.value(row)));
        }
        if let Ok(lists) = shard.int32_lists(name) {
            (0..rows.min(lists.rows())).for_each(|row| checked(lists.row(row)));
        }
    }
    checked(shard.batch());
}

/// Checkpoint of a training.
fn checkpoint(_: &Path, bytes: &[u8]) {
    checked(parse_checkpoint(bytes));
}

/// Stage `ingest` with the file `a`, lists, and some images, which need not be any.
fn ingest(folder: &Path, settings: &str, bytes: &[u8]) {
    stored(folder, "a", bytes);
    // No parser changes these.
    if !folder.join("images").is_dir() {
        std::fs::create_dir_all(folder.join("images/train")).expect("a folder of temporary files can be written");
        for (name, content) in
            [("list", "a.jpg\nb.jpg\n"), ("none", ""), ("images/a.jpg", ""), ("images/train/a.jpg", "")]
        {
            stored(folder, name, content.as_bytes());
        }
    }
    let stage: Ingest = serde_json::from_str(settings).expect("the settings are right");
    checked(host_of(&stage, folder).run(&stage));
}

/// Host whose sources are in a folder.
fn host_of(stage: &impl Stage, folder: &Path) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    for input in stage.inputs() {
        if let InputOrigin::Source(source) = input.origin {
            host.source_paths.insert(input.name, folder.join(source.path()));
        }
    }
    host
}

/// Archives of WebDataset.
fn tar(folder: &Path, bytes: &[u8]) {
    for name in ["a.tar", "a.tar.gz"] {
        checked(tar_samples::for_each(&stored(folder, name, bytes), || Ok(()), |_| Ok(Ok(()))));
    }
}

/// Regions of bottom-up attention.
fn regions(folder: &Path, bytes: &[u8]) {
    stored(folder, "a.tsv", bytes);
    let settings = serde_json::json!({ "files": ["a.tsv"], "images": "x.images", "max_regions": 2 });
    let stage: ImportRegions = serde_json::from_value(settings).expect("the settings are right");
    let mut host = host_of(&stage, folder);
    host.input_tables.insert("images".to_owned(), vec![images()]);
    checked(host.run(&stage));
}

/// Table of the images 0 and 1.
fn images() -> RecordBatch {
    let columns = tables::images::TableColumns {
        image_id: vec![0, 1].into(),
        split: vec!["train", "test"].into(),
        file_name: vec!["0.jpg", "1.jpg"].into(),
        path: tables::Nullable(vec![None::<&str>; 2].into()),
        bytes: tables::Nullable(vec![None::<&[u8]>; 2].into()),
        digest: tables::Nullable(vec![None::<&str>; 2].into()),
    };
    columns.into_batch().expect("the columns are right")
}
