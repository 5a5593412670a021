//! Tests of relevance judgements and TREC runs, against `ranx` (`tests/golden/qrels.py`) and `eccv_caption`
//! (`tests/golden/eccv.py`).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use test_data::{golden, golden_json, public, public_text};

use crate::support::pairloom;

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Writes a pipeline file and runs it with the store `store`, both in `folder`.
fn run(folder: &Path, pipeline: &str) {
    std::fs::write(folder.join("p.toml"), pipeline).unwrap();
    let output =
        pairloom().current_dir(folder).args(["run", "--quiet", "--store", "store", "p.toml"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Rows of a query as JSON.
fn query(folder: &Path, sql: &str) -> Vec<Value> {
    let mut command = pairloom();
    let output =
        command.current_dir(folder).args(["sql", "--format", "jsonl", "--store", "store", sql]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Values of `metrics` of a relevance, by direction and `measure k`, and the number of queries by direction.
fn measured(folder: &Path, relevance: &str, protocol: &str) -> BTreeMap<(String, String), f64> {
    let sql = format!(
        "SELECT direction, measure, k, value, n_queries FROM test.metrics \
         WHERE relevance {relevance} AND method = 'nns' AND protocol = '{protocol}' AND direction <> 'both'"
    );
    let mut values = BTreeMap::new();
    for row in query(folder, &sql) {
        let direction = row["direction"].as_str().unwrap().to_owned();
        let measure = row["measure"].as_str().unwrap();
        let name = row["k"].as_i64().map_or(measure.to_owned(), |k| format!("{measure} {k}"));
        values.insert((direction.clone(), name), row["value"].as_f64().unwrap());
        values.insert((direction, "n_queries".to_owned()), row["n_queries"].as_f64().unwrap());
    }
    values
}

fn assert_close(values: &BTreeMap<(String, String), f64>, direction: &str, name: &str, wanted: &Value) {
    let got = values[&(direction.to_owned(), name.to_owned())];
    let wanted = wanted.as_f64().unwrap();
    assert!((got - wanted).abs() < 1e-9, "{direction} {name}: {got}, expected {wanted}");
}

/// Evaluation of sixteen images and their captions with the judgements that `ranx` read.
fn small_pipeline() -> String {
    let file = |name: &str| format!("'{}'", golden(name).display());
    format!(
        r#"
[stage.vectors.ingest.embeddings]
images = {}
captions = {}
captions_per_image = 3
image_ids = {}
caption_ids = {}

[stage.judged.ingest.qrels]
i2t = {}
t2i = {}

[stage.test.evaluate]
images = "vectors.image_embeddings"
captions = "vectors.caption_embeddings"
dataset = "made"
methods = ["nns", {{ csls = {{ k = 3 }} }}]
relevance = [
    {{ name = "1", qrels = "judged.qrels" }},
    {{ name = "2", qrels = "judged.qrels", at_least = 2.0 }},
]
"#,
        file("embeddings_images.npy"),
        file("embeddings_captions.npy"),
        file("qrels_image_ids.npy"),
        file("qrels_caption_ids.txt"),
        file("qrels_i2t.txt"),
        file("qrels_t2i.txt"),
    )
}

/// Lines of a run as (query, rank) → (item, score); the other fields are checked.
fn run_lines(text: &str, tag: &str) -> BTreeMap<(i64, usize), (i64, f64)> {
    let mut lines = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [query, q0, item, rank, score, name] = fields[..] else { panic!("{line}") };
        assert_eq!((q0, name), ("Q0", tag), "{line}");
        let place = (query.parse().unwrap(), rank.parse().unwrap());
        let earlier = lines.insert(place, (item.parse().unwrap(), score.parse().unwrap()));
        assert_eq!(earlier, None, "{line}");
    }
    lines
}

#[test]
fn measures_and_runs_equal_those_of_ranx() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, &small_pipeline());
    let wanted = golden_json("qrels.json");
    for level in ["1", "2"] {
        let values = measured(folder, &format!("= '{level}'"), "made-16");
        for direction in ["i2t", "t2i"] {
            let of_level = wanted[direction][level].as_object().unwrap();
            assert_eq!(of_level.len(), 9);
            for (name, wanted) in of_level {
                assert_close(&values, direction, name, wanted);
            }
        }
    }

    let trec = |arguments: &[&str]| {
        let mut command = pairloom();
        command.current_dir(folder).args(["trec", "--store", "store"]).args(arguments).output().unwrap()
    };
    for direction in ["i2t", "t2i"] {
        let output = trec(&["--direction", direction, "--method", "nns", "--tag", "made"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let got = run_lines(&stdout(&output), "made");
        let wanted =
            run_lines(&std::fs::read_to_string(golden(&format!("qrels_run_{direction}.txt"))).unwrap(), "made");
        assert_eq!(got.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
        for (place, (item, score)) in &wanted {
            let (got_item, got_score) = got[place];
            assert_eq!(got_item, *item, "{place:?}");
            assert!((got_score - score).abs() < 1e-6, "{place:?}: {got_score}, expected {score}");
        }
    }

    let refused = |arguments: &[&str], message: &str| {
        let output = trec(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    };
    refused(&["-d", "i2t"], "stage `test` has 2 rankings of that name");
    refused(&["-d", "i2t"], "--protocol 'made-16' --method 'csls' --parameters 'k = 3'");
    refused(&["-d", "i2t", "--method", "knn"], "stage `test` has no such rankings");
    refused(&["judged", "-d", "i2t"], "stage `judged` is of kind `ingest`, expected `evaluate`");
    refused(&["tset", "-d", "i2t"], "did you mean `test`?");
    refused(&["-d", "both"], "possible values: i2t, t2i");
    refused(&["-d", "i2t", "--method", "nns", "--tag", "a b"], "expected a word without white space");

    // A file is replaced only with `--force`.
    let file = folder.join("run.trec");
    let to_file = ["test", "-d", "t2i", "--method", "csls", "--parameters", "k = 3", "--output", "run.trec"];
    std::fs::write(&file, "mine").unwrap();
    refused(&to_file, "the output `run.trec` exists");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let output = trec(&[&to_file[..], &["--force"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("48 queries of test-csls-k=3 in `run.trec`\n"), "{}", stderr(&output));
    assert_eq!(run_lines(&std::fs::read_to_string(&file).unwrap(), "test-csls-k=3").len(), 480);

    // Whole rankings: all 48 captions of each image, and all 16 images of each caption. The measures stay.
    let before = query(folder, "SELECT * FROM test.metrics");
    let depth = small_pipeline().replace("[stage.test.evaluate]\n", "[stage.test.evaluate]\nranking_depth = 100\n");
    run(folder, &depth);
    for (direction, lines) in [("i2t", 16 * 48), ("t2i", 48 * 16)] {
        let output = trec(&["-d", direction, "--method", "nns"]);
        assert_eq!(run_lines(&stdout(&output), "test-nns").len(), lines);
    }
    assert_eq!(query(folder, "SELECT * FROM test.metrics"), before);
}

/// Finaliser of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Four hashes of an identifier.
fn words(id: i64, salt: u64) -> [u64; 4] {
    let id = u64::try_from(id).unwrap();
    [0, 1, 2, 3].map(|word: u64| mix(id.wrapping_add(word << 32).wrapping_add(salt << 40)))
}

/// Npy file of vectors of 256 signs, divided by their length 16.
fn sign_vectors(rows: &[[u64; 4]]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, 256), }}", rows.len());
    let header = format!("{header:<117}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    let mut file = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat();
    for word in rows.iter().flatten() {
        for bit in 0..64 {
            let sign: f32 = if word >> bit & 1 == 1 { 0.0625 } else { -0.0625 };
            file.extend(sign.to_le_bytes());
        }
    }
    file
}

/// Captions of COCO's test split with their images, from a table of captions.
fn captions_of_coco(table: &str) -> Vec<(i64, i64)> {
    let row = |line: &str| {
        let mut fields = line.split('\t').map(str::parse);
        (fields.next().unwrap().unwrap(), fields.next().unwrap().unwrap())
    };
    table.lines().skip(1).map(row).collect()
}

/// The first two verified images of captions.
fn verified_images(data: &Path) -> HashMap<i64, [i64; 2]> {
    let verified = std::fs::read(data.join("eccv_caption_to_image.json")).unwrap();
    let verified: HashMap<String, Vec<i64>> = serde_json::from_slice(&verified).unwrap();
    let two =
        |(caption, images): (String, Vec<i64>)| (caption.parse().unwrap(), [0, 1].map(|k| images[k % images.len()]));
    verified.into_iter().map(two).collect()
}

#[test]
fn measures_of_coco_equal_those_of_eccv_caption() {
    let (Some(data), Some(captions)) = (public("eccv"), public_text("cxc/coco_karpathy_test_captions.tsv")) else {
        return;
    };
    let (captions, verified) = (captions_of_coco(&captions), verified_images(&data));
    let image_ids: Vec<i64> = captions.iter().step_by(5).map(|(_, image)| *image).collect();
    let caption_words = captions.iter().map(|&(caption, image)| {
        let [first, second] = verified.get(&caption).unwrap_or(&[image, image]).map(|image| words(image, 0));
        let [choice, flip, some, others] = [1, 2, 3, 4].map(|salt| words(caption, salt));
        std::array::from_fn(|i| (first[i] & choice[i] | second[i] & !choice[i]) ^ (flip[i] & (some[i] | others[i])))
    });
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let image_words: Vec<_> = image_ids.iter().map(|&image| words(image, 0)).collect();
    std::fs::write(folder.join("images.npy"), sign_vectors(&image_words)).unwrap();
    std::fs::write(folder.join("captions.npy"), sign_vectors(&caption_words.collect::<Vec<_>>())).unwrap();
    let lines = image_ids.iter().fold(String::new(), |mut lines, id| {
        let _ = writeln!(lines, "{id}");
        lines
    });
    std::fs::write(folder.join("image_ids.txt"), lines).unwrap();
    let data = data.display();
    run(
        folder,
        &format!(
            r#"
[stage.vectors.ingest.embeddings]
images = "images.npy"
captions = "captions.npy"
image_ids = "image_ids.txt"
caption_ids = '{data}/coco_test_ids.npy'

[stage.eccv.ingest.qrels]
i2t = '{data}/eccv_image_to_caption.json'
t2i = '{data}/eccv_caption_to_image.json'

[stage.cxc.ingest.qrels]
i2t = '{data}/cxc_image_to_caption.json'
t2i = '{data}/cxc_caption_to_image.json'

[stage.test.evaluate]
images = "vectors.image_embeddings"
captions = "vectors.caption_embeddings"
dataset = "coco"
relevance = [{{ name = "eccv", qrels = "eccv.qrels" }}, {{ name = "cxc", qrels = "cxc.qrels" }}]
"#
        ),
    );
    let wanted = golden_json("eccv.json");
    for (relevance, sql, count) in [("own", "IS NULL", 3), ("eccv", "= 'eccv'", 6), ("cxc", "= 'cxc'", 6)] {
        let values = measured(folder, sql, "coco-5k");
        let of_relevance = wanted[relevance].as_object().unwrap();
        assert_eq!(of_relevance.len(), count);
        for (name, wanted) in of_relevance {
            for direction in ["i2t", "t2i"] {
                assert_close(&values, direction, name, &wanted[direction]);
            }
        }
    }
}
