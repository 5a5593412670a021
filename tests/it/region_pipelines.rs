//! Tests that run the pipelines of models over regions.

use std::path::Path;

use regex::Regex;
use test_data::public;

use crate::pipelines::{file, number_of, run, to_f64};
use crate::support::pairloom;

/// Copies a `*_precomp` folder, with the feature vector of an image cut into `regions` regions.
fn with_regions(precomp: &Path, regions: usize, folder: &Path) {
    let shape = Regex::new(r"\((\d+), (\d+)\)").unwrap();
    for entry in std::fs::read_dir(precomp).unwrap().map(Result::unwrap) {
        let mut content = std::fs::read(entry.path()).unwrap();
        if entry.path().extension().is_some_and(|end| end == "npy") {
            // The header of an npy file ends with a line feed, and blanks before it may be fewer.
            let end = content.iter().position(|&byte| byte == b'\n').unwrap();
            let header = String::from_utf8_lossy(&content[10..end]).into_owned();
            let sizes = shape.captures(&header).unwrap();
            let width: usize = sizes[2].parse().unwrap();
            assert_eq!(width % regions, 0);
            let cut = format!("({}, {regions}, {})", &sizes[1], width / regions);
            let changed = shape.replace(&header, cut.as_str()).trim_end().to_owned();
            let padded = format!("{changed:<width$}", width = header.len());
            assert_eq!(padded.len(), header.len(), "the header has room");
            content[10..end].copy_from_slice(padded.as_bytes());
        }
        std::fs::write(folder.join(entry.file_name()), content).unwrap();
    }
}

/// Files of the papers' tables of models over regions: name, rows that are trained here, and rsums that the report has
/// beside them.
const REGION_FILES: [(&str, &str, &[&str]); 5] = [
    ("hal-2020-scan.toml", "1.8,2.26", &["455.5", "512.7"]),
    ("sam-2022-table-2-regions.toml", "6,8", &["383.8", "410.0"]),
    ("sam-2022-table-3-regions.toml", "1,4,6,7", &["466.1", "478.9", "495.3", "510.3"]),
    ("sam-2022-table-4-regions.toml", "1", &["479.1", "517.9"]),
    ("sam-2022-table-5-regions.toml", "12", &["448.6"]),
];

/// Settings that make the models of some rows of a file narrow. They name the instances that the profile `small` names.
fn narrow(file: &Path, rows: &str) -> Vec<String> {
    let content: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let small = content["profile"]["small"]["set"].as_table().unwrap();
    let of_model = |(name, set): (&String, &toml::Value)| {
        if name.strip_prefix("fit@row=").is_some_and(|row| rows.split(',').all(|of| of != row)) {
            return None;
        }
        let (family, _) = set.get("model")?.as_table()?.iter().next()?;
        Some(format!("stage.\"{name}\".train.model.{family}.embed_size=32"))
    };
    small.iter().filter_map(of_model).collect()
}

/// Two epochs of narrow models with one seed, with the profile `small`: rows of the papers' models over regions run to the
/// end, and the report has the printed numbers beside them.
#[test]
fn rows_of_models_over_regions_train_on_a_thousand_images() {
    let Some(precomp) = public("precomp/f8k_mini_precomp") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (regions, page) = (folder.path().join("regions"), folder.path().join("page"));
    std::fs::create_dir(&regions).unwrap();
    with_regions(&precomp, 8, &regions);
    // A single store, so that common stages run once.
    let store = folder.path().join("store");
    for (name, rows, printed) in REGION_FILES {
        let path = file("papers").join(name);
        let mut command = pairloom();
        for variable in ["PRECOMP", "FLICKR30K", "COCO"] {
            command.env(variable, &regions);
        }
        command.args(["run", "--quiet", "--profile", "small", "--only", "seed=1"]);
        command.args(["--only", &format!("row={rows}"), "--store"]).arg(&store);
        let epochs = ["stage.fit.train.epochs=2", "stage.fit.train.warm_up.epochs=1"].map(str::to_owned);
        for setting in narrow(&path, rows).into_iter().chain(epochs) {
            command.args(["--set", &setting]);
        }
        run(command.arg(&path));
        let number = |sql: &str| number_of(&store, sql);
        assert_eq!(number("SELECT count(DISTINCT row) FROM test.summary"), to_f64(rows.split(',').count()), "{name}");
        assert_eq!(number("SELECT max(n_captions) FROM test.summary"), 625.0, "{name}");
        // The rsum of a random order is 25.
        let rsums = ["min", "max"].map(|of| number(&format!("SELECT {of}(rsum) FROM test.summary")));
        assert!(rsums[0] > 10.0 && rsums[1] > 30.0, "{name}: {rsums:?}");
        // A setting that has no effect would give the losses of another row. Rows of other data are equal on small data.
        let trained = "SELECT count(DISTINCT key) FROM store.stages WHERE kind = 'train' AND run = (SELECT max(run) FROM store.runs)";
        let losses = "SELECT count(DISTINCT losses) FROM (SELECT sum(loss) AS losses FROM fit.history GROUP BY row)";
        assert_eq!(number(losses), number(trained), "{name}: two trainings are one");
        run(pairloom().arg("report").arg("--store").arg(&store).arg("--output").arg(&page));
        let report = std::fs::read_to_string(page.join("report.md")).unwrap();
        for rsum in printed {
            assert!(report.contains(&format!("({rsum})")), "{name}: {rsum} is not beside a row\n{report}");
        }
        assert!(report.contains("The printed values are of other data, "), "{name}: {report}");
    }
}

/// Words of six captions on their photographs. Two epochs, on small pictures.
#[test]
fn the_attention_pipeline_draws_words_on_photographs() {
    let (Some(flickr), Some(squeezenet)) = (public("flickr8k-1k"), public("weights/squeezenet1_0.safetensors")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (store, page) = (folder.path().join("store"), folder.path().join("page"));
    let mut command = pairloom();
    command.arg("run").arg("--store").arg(&store).arg(file("attention.toml"));
    command.env("FLICKR8K", &flickr).env("SQUEEZENET", &squeezenet);
    for setting in [
        "stage.cnn.extract.resize=128",
        "stage.cnn.extract.crop=112",
        "stage.fit.train.model.scan.embed_size=32",
        "stage.fit.train.model.scan.word_dim=32",
        "stage.fit.train.epochs=2",
        "stage.fit.train.warm_up.epochs=1",
        "expect.0.at_least=30",
    ] {
        command.args(["--set", setting]);
    }
    run(&mut command);
    let number = |sql: &str| number_of(&store, sql);
    assert_eq!(number("SELECT count(DISTINCT caption_id) FROM looked.attention"), 6.0);
    assert_eq!(number("SELECT max(array_length(weights)) FROM looked.attention"), 25.0);
    // Each word of a caption, and `<start>` and `<end>`.
    assert_eq!(
        number(
            "SELECT max(position) + 1 - count(*) FROM looked.attention WHERE caption_id = (SELECT min(caption_id) FROM looked.attention)"
        ),
        0.0
    );
    // The first photograph, of 150 × 200 pixels, is resized to 128 × 170 and cropped to rows 29 to 141.
    let top = number("SELECT boxes[1][2] FROM cnn.region_boxes WHERE image_id = 0");
    let size = number("SELECT count(*) FROM cnn.region_boxes");
    assert!(size == 991.0 && (top - 29.0 / 170.0).abs() < 1e-6, "{size} {top}");
    run(pairloom().arg("report").arg("--store").arg(&store).arg("--output").arg(&page));
    let html = std::fs::read_to_string(page.join("report.html")).unwrap();
    assert_eq!(html.matches("<image id=\"attended-").count(), 6);
}
