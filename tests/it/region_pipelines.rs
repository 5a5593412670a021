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

/// Two epochs of narrow models with one seed: the rows of the papers' models over regions on Flickr30k run to the end.
#[test]
fn rows_of_models_over_regions_train_on_a_thousand_images() {
    let Some(precomp) = public("precomp/f8k_mini_precomp") else { return };
    let folder = tempfile::tempdir().unwrap();
    let regions = folder.path().join("regions");
    std::fs::create_dir(&regions).unwrap();
    with_regions(&precomp, 8, &regions);
    let store = folder.path().join("store");
    let narrow = |rows: &[&str], settings: &[&str]| -> Vec<String> {
        let of_row = |row: &&str| {
            let set = |setting: &&str| format!("stage.\"fit@row={row}\".train.model.{setting}");
            settings.iter().map(set).collect::<Vec<_>>()
        };
        rows.iter().flat_map(of_row).collect()
    };
    let of_sam = [
        narrow(&["1", "2"], &["vsrn.embed_size=32", "vsrn.caption_dim=16", "vsrn.caption_word_dim=16"]),
        narrow(&["3", "4"], &["cvse.embed_size=32"]),
        narrow(&["5", "6"], &["sgraf.embed_size=32", "sgraf.similarity_dim=16"]),
    ];
    for (name, rows, settings) in [
        ("hal-2020-scan.toml", "1.7,1.8", narrow(&["1.7", "1.8"], &["scan.embed_size=32"])),
        ("sam-2022-table-3-regions.toml", "1,2,3,4,5,6", of_sam.concat()),
    ] {
        let mut command = pairloom();
        command.env("FLICKR30K", &regions).env("COCO", &regions);
        command.args(["run", "--quiet", "--only", "seed=1", "--only", &format!("row={rows}"), "--store"]).arg(&store);
        for setting in settings.iter().map(String::as_str).chain(["stage.fit.train.epochs=2"]) {
            command.args(["--set", setting]);
        }
        run(command.arg(file("papers").join(name)));
        let number = |sql: &str| number_of(&store, sql);
        let wanted = to_f64(rows.split(',').count());
        assert_eq!(number("SELECT count(DISTINCT row) FROM test.summary"), wanted, "{name}");
        assert_eq!(number("SELECT max(n_captions) FROM test.summary"), 625.0, "{name}");
        // The rsum of a random order is 25.
        let rsums = ["min", "max"].map(|of| number(&format!("SELECT {of}(rsum) FROM test.summary")));
        assert!(rsums[0] > 10.0 && rsums[1] > 30.0, "{name}: {rsums:?}");
        let losses = "SELECT count(DISTINCT losses) FROM (SELECT sum(loss) AS losses FROM fit.history GROUP BY row)";
        assert_eq!(number(losses), wanted, "{name}: two rows are one training");
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
