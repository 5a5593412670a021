//! Tests of features that are copied from earlier results, on the programs as users start them.

use std::collections::BTreeMap;
use std::path::Path;

use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

use crate::support::pairloom;

/// PNG of a colour gradient that depends on `seed`.
fn picture(seed: u32) -> Vec<u8> {
    let rgb: Vec<u8> = (0..48 * 40 * 3u32).map(|i| u8::try_from(i * seed / 7 % 256).unwrap()).collect();
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&rgb, 48, 40, ExtendedColorType::Rgb8).unwrap();
    bytes
}

/// Writes a data set: pictures by name, with their seeds, and a pipeline that computes a grid of their features.
fn write_data_set(folder: &Path, pictures: &[(&str, u32)]) {
    let images = folder.join("images");
    std::fs::create_dir_all(&images).unwrap();
    for entry in std::fs::read_dir(&images).unwrap() {
        let path = entry.unwrap().path();
        if !pictures.iter().any(|(name, _)| path.ends_with(name)) {
            std::fs::remove_file(path).unwrap();
        }
    }
    let mut table = "file_name,caption\n".to_owned();
    for (name, seed) in pictures {
        let (path, content) = (images.join(name), picture(*seed));
        if std::fs::read(&path).ok().as_ref() != Some(&content) {
            std::fs::write(path, content).unwrap();
        }
        table += &format!("{name},a picture\n");
    }
    std::fs::write(folder.join("captions.csv"), table).unwrap();
    std::fs::write(
        folder.join("features.toml"),
        r#"
        [stage.pairs.ingest]
        image_folder = { images = "images", captions = "captions.csv", split = "train" }
        [stage.cnn.extract]
        images = "pairs.images"
        network = "squeezenet1_0"
        weights = "random"
        pooling = { grid = 2 }
        resize = 40
        crop = 40
        batch_size = 4
        "#,
    )
    .unwrap();
}

/// Runs the pipeline of a folder. Returns the rows of its features and boxes and how many of them were copied; `None` if
/// they were computed before.
fn run(folder: &Path, store: &Path, arguments: &[&str]) -> Option<(u64, u64)> {
    let mut command = pairloom();
    command.args(["run", "--json", "--store"]).arg(store).args(arguments).arg(folder.join("features.toml"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut finished = events.filter(|event| event["event"] == "stage_finished" && event["stage"] == "cnn");
    finished.next().map(|event| (event["rows"].as_u64().unwrap(), event["copied"].as_u64().unwrap()))
}

/// Contents of the parts of all results of `extract`, by name.
fn parts(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = walkdir::WalkDir::new(store.join("v1/extract")).into_iter().map(Result::unwrap);
    let parts = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "parquet"));
    parts
        .map(|entry| {
            (entry.path().strip_prefix(store).unwrap().display().to_string(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn a_changed_data_set_costs_its_new_images_and_has_the_bytes_of_a_fresh_run() {
    let folder = tempfile::tempdir().unwrap();
    let (data, store) = (folder.path().join("one"), folder.path().join("store"));
    let names = ["a b.png", "ä.png", "c.png", "d.png", "e.png", "f.png", "g.png"];
    let first: Vec<(&str, u32)> = names.into_iter().zip(1..).collect();
    write_data_set(&data, &first);
    assert_eq!(run(&data, &store, &[]), Some((14, 0)), "features and boxes of seven images");
    let before = parts(&store);

    // One picture is changed, one is gone, two are new; one of these is the copy of another.
    let mut second = first.clone();
    second[1].1 = 20;
    second.remove(3);
    second.extend([("h.png", 21), ("copy.png", 1)]);
    write_data_set(&data, &second);
    let planned = pairloom().args(["plan", "--store"]).arg(&store).arg(data.join("features.toml")).output().unwrap();
    let planned = String::from_utf8_lossy(&planned.stdout).into_owned();
    let wanted = "at most 2 rows are new: earlier results have those of 6 of 8 files in the folder";
    assert!(planned.contains(wanted), "{planned}");
    assert_eq!(run(&data, &store, &[]), Some((16, 12)), "two of eight images are new");
    assert_eq!(run(&data, &store, &[]), None);
    let fresh = folder.path().join("fresh");
    assert_eq!(run(&data, &fresh, &[]), Some((16, 0)));
    let all = parts(&store);
    for (name, content) in parts(&fresh).into_iter().chain(before) {
        assert!(all.get(&name) == Some(&content), "{name}");
    }

    // Another data set, with the same pictures under other names.
    let other = folder.path().join("two");
    write_data_set(&other, &[("x.png", 3), ("y.png", 30), ("z.png", 21)]);
    assert_eq!(run(&other, &store, &[]), Some((6, 4)));
    // Another setting of the features copies nothing, another choice of images everything.
    assert_eq!(run(&other, &store, &["--set", "stage.cnn.extract.normalize=true"]), Some((6, 0)));
    assert_eq!(run(&other, &store, &["--set", "stage.pairs.ingest.image_folder.split=test"]), Some((6, 6)));
}
