//! Damaged files for every parser. `PAIRLOOM_FUZZ_EXECUTIONS` sets their number for each, for longer runs by hand, and
//! `PAIRLOOM_FUZZ_TARGET` the one that runs.

use std::io::{Cursor, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ::image::{DynamicImage, GrayImage, ImageFormat, Luma, Rgb, RgbImage};
use test_data::golden;

use super::TARGETS;
use super::mutator::Mutator;
use crate::io::parquet_check::forged;

/// Executions for each parser.
const EXECUTIONS: u64 = 250;

/// Files to damage.
fn files(target: &str) -> Vec<Vec<u8>> {
    let stored = |names: &[&str]| names.iter().map(|name| std::fs::read(golden(name)).unwrap()).collect::<Vec<_>>();
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let records = ["image,caption\n1,\"a \"\"big\"\" dog\"\n2,\"two\nlines\"\n", "caption;image\r\na dog;1\r\n"];
    match target {
        "table" => {
            let mut files = stored(&[
                "embeddings_images.parquet",
                "embeddings_captions.parquet",
                "embeddings_images.feather",
                "embeddings_captions.arrows",
            ]);
            let page = forged::ForgedPage { values: 1, claimed: 5, encoding: Some(0), stored: vec![1, 0, 0, 0, b'a'] };
            files.push(forged::file(forged::ForgedColumn::Texts, 0, 1, 1, &[page]));
            files
        }
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
        "json_lines" => {
            texts(&["{\"image\": 1, \"caption\": [\"a\", \"é\"]}\n{\"image\": \"b\", \"caption\": \"c\"}\n"])
        }
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

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let executions = std::env::var("PAIRLOOM_FUZZ_EXECUTIONS").ok();
    let executions = executions.map_or(EXECUTIONS, |number| number.parse().unwrap());
    let chosen = std::env::var("PAIRLOOM_FUZZ_TARGET").ok();
    let folder = tempfile::tempdir().unwrap();
    for target in TARGETS.iter().filter(|target| chosen.as_ref().is_none_or(|name| name == target.name)) {
        let files = files(target.name);
        // Undamaged files first: they are read without an error, or the damage tests nothing.
        for file in &files {
            (target.run)(folder.path(), file);
        }
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
