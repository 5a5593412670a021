//! Damaged files for every parser. `PAIRLOOM_FUZZ_EXECUTIONS` sets their number for each, for longer runs by hand, and
//! `PAIRLOOM_FUZZ_TARGET` the one that runs.

use std::io::{Cursor, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use std::sync::Arc;

use ::image::{DynamicImage, GrayImage, ImageFormat, Luma, Rgb, RgbImage};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use test_data::golden;

use super::mutator::Mutator;
use super::{TARGETS, named};
use pairloom_model::family::registry::ModelConfig;
use pairloom_model::family::vse::VseConfig;
use pairloom_model::training_state::TrainingState;
use pairloom_storage::shard;
use pairloom_tables as tables;

/// Executions for each parser.
const EXECUTIONS: u64 = 250;

/// Files to damage.
fn files(target: &str) -> Vec<Vec<u8>> {
    let stored = |names: &[&str]| names.iter().map(|name| std::fs::read(golden(name)).unwrap()).collect::<Vec<_>>();
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let records = ["image,caption\n1,\"a \"\"big\"\" dog\"\n2,\"two\nlines\"\n", "caption;image\r\na dog;1\r\n"];
    match target {
        "npy" => stored(&["embeddings_images.npy", "embeddings_captions.npy", "qrels_image_ids.npy"]),
        "csv" => texts(&records),
        "tsv" => texts(&["image\tcaption\n1\ta \"big\" dog\n2\ttwo\n"]),
        "gzip" => {
            let pack = |text: &str| {
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(text.as_bytes()).unwrap();
                packed.finish().unwrap()
            };
            records.iter().map(|text| pack(text)).collect()
        }
        "json_lines" => texts(&[
            "{\"image\": 1, \"caption\": [\"a\", \"é\"]}\n{\"image\": \"b\", \"caption\": \"c\"}\n",
            "[{\"image\": 1, \"boxes\": [{\"x\": 0.5}, {\"y\": [null]}]},\n {\"image\": 2}]\n",
        ]),
        "word_vectors" => {
            let mut files = stored(&["word_vectors.txt", "word_vectors.vec", "word_vectors.bin"]);
            files.extend(texts(&["a 0.5 1 -2\ndog 1e3 0 0\n", "2 3\na 1 2 3\ncat 3 2 1\n"]));
            files
        }
        "vocabulary" => texts(&[r#"["a", "é"]"#, r#"{"word2idx": {"a": 0, "b": 1}, "idx": 2}"#]),
        "trec" => stored(&["qrels_i2t.txt", "qrels_run_i2t.txt"]),
        "picture" => pictures(),
        "safetensors" => stored(&["published.safetensors"]),
        "pipeline" => ["quickstart", "objectives"]
            .map(|name| std::fs::read(test_data::root().join(format!("pipelines/{name}.toml"))).unwrap())
            .to_vec(),
        "store" => texts(&[
            r#"{"part": {"table": "a", "rows": 3, "bytes": 9, "digest": "00"}}"#,
            r#"{"identity": {}, "tables": {}, "files": {}, "warnings": [], "seconds": 1.5, "pairloom": "0.1.0"}"#,
            r#"{"run": "a", "pipeline": "b", "stages": [], "outcome": "finished", "expectations": [], "scores": []}"#,
        ]),
        "sql" => {
            texts(&["SELECT 'a;b' /* ; */ FROM t; SELECT \"x\" -- ;\n", "SELECT $1, ARRAY[1, 2][1] WHERE x IN (1)"])
        }
        "rank_messages" => texts(&[
            r#"{"plan": {"Ok": {"fit": {"inputs": {"features": "cnn.features"}, "code": 1, "train": {"epochs": 3}}}}}"#,
            r#"{"result": {"Err": {"kind": "data", "message": "m", "hint": null, "peer": false}}}"#,
            r#"{"stage": "fit", "identity": {"kind": "train", "version": 1, "settings": {}, "inputs": {}}, "parts": {},
                "files": {}, "state": null, "committed": {"history": 3}, "rendezvous": {}}"#,
        ]),
        "shard" => vec![shard()],
        "checkpoint" => vec![checkpoint()],
        "karpathy" => texts(&[r#"{"dataset": "a", "images": [
            {"filepath": "val2014", "filename": "b.jpg", "imgid": 0, "cocoid": 40, "split": "restval", "sentids": [7],
             "sentences": [{"raw": "A dog ", "sentid": 7, "tokens": ["a", "dog"]}]},
            {"filename": "a.jpg", "imgid": 1, "split": "test", "sentences": [{"raw": "é", "sentid": 8}]}]}"#]),
        "coco" => texts(&[r#"{"info": {}, "images": [{"id": 7, "file_name": "a.jpg", "height": 1}],
            "annotations": [{"image_id": 7, "id": 90, "caption": "B0"}, {"image_id": 7, "id": 80, "caption": "A1"}]}"#]),
        "flickr" => texts(&["a.jpg#0\tA dog .\na.jpg#1\tA cat .\nb.jpg#0\té\n"]),
        "tar" => vec![archive()],
        "regions" => {
            let line = |image: u8| format!("{image}\t48\t48\t1\tAAAAAAAAAAAAAEBCAABAQg==\tAACAPwAAAEA=\n");
            vec![[line(0), line(1)].concat().into_bytes()]
        }
        _ => unreachable!("{target} has no files"),
    }
}

/// A photograph-like and a grey picture, as PNG and JPEG.
fn pictures() -> Vec<Vec<u8>> {
    let colour = RgbImage::from_fn(37, 23, |x, y| Rgb([x * 7, y * 11, x * y].map(|value| value.to_le_bytes()[0])));
    let grey = GrayImage::from_fn(8, 9, |x, y| Luma([(x * y).to_le_bytes()[0]]));
    let mut files = Vec::new();
    for picture in [DynamicImage::from(colour), DynamicImage::from(grey)] {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let mut bytes = Cursor::new(Vec::new());
            picture.write_to(&mut bytes, format).unwrap();
            files.push(bytes.into_inner());
        }
    }
    files
}

/// Shard of a column of each kind.
fn shard() -> Vec<u8> {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("image_id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("text", Arc::new(StringArray::from(vec!["a", "é", ""]))),
        ("feature", tables::vector_array(vec![0.5; 6], 2).unwrap()),
    ];
    let folder = tempfile::tempdir().unwrap();
    shard::write(folder.path(), &RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    std::fs::read(folder.path().join(shard::SHARD_FILE)).unwrap()
}

/// Checkpoint of a small model.
fn checkpoint() -> Vec<u8> {
    let config = ModelConfig::Vse(VseConfig::new(3, 4, 2, 2));
    let model = config.create(5, tch::Device::Cpu).unwrap();
    TrainingState::new(config, model).to_bytes("{}".to_owned(), None).unwrap().to_vec()
}

/// Archive of a sample.
fn archive() -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in [("a/1.jpg", "picture"), ("a/1.txt", "a dog"), ("a/2.json", "{}")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

/// Writes the undamaged files to the folder `PAIRLOOM_FUZZ_CORPUS`, from which libFuzzer begins: a folder for each parser.
#[test]
fn undamaged_files_are_read_by_their_parsers() {
    let corpus = std::env::var_os("PAIRLOOM_FUZZ_CORPUS").map(std::path::PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    for target in TARGETS {
        for (number, file) in files(target.name).iter().enumerate() {
            (target.run)(folder.path(), file);
            if let Some(corpus) = corpus.as_ref().map(|corpus| corpus.join(target.name)) {
                std::fs::create_dir_all(&corpus).unwrap();
                std::fs::write(corpus.join(number.to_string()), file).unwrap();
            }
        }
    }
}

#[test]
fn every_parser_has_a_binary_for_libfuzzer() {
    let manifest = std::fs::read_to_string(test_data::root().join("fuzz/Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&manifest).unwrap();
    let binaries = manifest["bin"].as_array().unwrap();
    let binaries: Vec<&str> = binaries.iter().map(|binary| binary["name"].as_str().unwrap()).collect();
    let parsers: Vec<&str> = TARGETS.iter().map(|target| named(target.name).name).collect();
    assert_eq!(binaries, parsers);
}

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let executions = std::env::var("PAIRLOOM_FUZZ_EXECUTIONS").ok();
    let executions = executions.map_or(EXECUTIONS, |number| number.parse().unwrap());
    let chosen = std::env::var("PAIRLOOM_FUZZ_TARGET").ok();
    let folder = tempfile::tempdir().unwrap();
    for target in TARGETS.iter().filter(|target| chosen.as_ref().is_none_or(|name| name == target.name)) {
        let files = files(target.name);
        for seed in 0..executions {
            let damaged = Mutator::new(seed).damaged(&files);
            if catch_unwind(AssertUnwindSafe(|| (target.run)(folder.path(), &damaged))).is_err() {
                let kept = std::env::temp_dir().join(format!("pairloom-{}-{seed}", target.name));
                std::fs::write(&kept, &damaged).unwrap();
                panic!("`{}` panics on `{}`, of seed {seed}", target.name, kept.display());
            }
        }
    }
}
