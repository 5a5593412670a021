//! Tests of features that are copied from earlier results, on the programs as users start them.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
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

/// Number of names of parts of `extract` whose files have several.
fn shared_parts(store: &Path) -> usize {
    let names = parts(store).into_keys().map(|name| store.join(name).metadata().unwrap());
    names.filter(|file| file.nlink() > 1).count()
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
    let shown = pairloom().args(["show", "latest", "cnn", "--store"]).arg(&fresh).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("1 of 8 rows are of items with the same bytes as an earlier row"), "{shown}");
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
    assert_eq!(shared_parts(&store), 0, "all parts differ so far, in images or splits");
    assert_eq!(run(&other, &store, &["--set", "stage.cnn.extract.on_undecodable=skip"]), Some((6, 6)));
    assert_eq!(shared_parts(&store), 4, "features and boxes of the other data set, each with two names");
    assert!(parts(&store).len() == all.len() + 8);
}

/// A module of the user's is known by its content. Its code runs only where the pipeline names it, and a warning says so.
#[test]
fn a_module_in_torchscript_computes_features_and_says_that_its_code_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (data, store) = (folder.path().join("one"), folder.path().join("store"));
    let mut pictures = vec![("a.png", 1), ("b.png", 2), ("c.png", 3), ("d.png", 4), ("e.png", 5)];
    let write = |pictures: &[(&str, u32)], module: &str| {
        write_data_set(&data, pictures);
        let pipeline = format!(
            r#"
            [stage.pairs.ingest]
            image_folder = {{ images = "images", captions = "captions.csv", split = "train" }}
            [stage.cnn.extract]
            images = "pairs.images"
            torchscript = {{ file = "{module}", mean = [0.5, 0.5, 0.5] }}
            resize = 40
            crop = 40
            batch_size = 4
            "#
        );
        std::fs::write(data.join("features.toml"), pipeline).unwrap();
    };
    write(&pictures, "module.pt");
    let golden = test_data::golden_json("torchscript.json");
    let module = BASE64_STANDARD.decode(golden["module"].as_str().unwrap()).unwrap();
    std::fs::write(data.join("module.pt"), &module).unwrap();
    let warning = "libtorch runs the code in this file, with the rights of this program";
    for subcommand in ["check", "plan", "run"] {
        let mut command = pairloom();
        command.arg(subcommand);
        if subcommand != "check" {
            command.arg("--store").arg(&store);
        }
        let output = command.arg(data.join("features.toml")).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.matches(warning).count() == 1, "{subcommand}: {stderr}");
    }
    assert_eq!(run(&data, &store, &[]), None);
    let sql = "SELECT count(*) AS n, min(array_length(feature)) AS width FROM cnn.features";
    let output = pairloom().args(["sql", "--json", "--store"]).arg(&store).arg(sql).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), r#"{"n":5,"width":8}"#);

    // The same module under another name is the same, and one more picture is one row.
    std::fs::rename(data.join("module.pt"), data.join("renamed.pt")).unwrap();
    write(&pictures, "renamed.pt");
    assert_eq!(run(&data, &store, &[]), None);
    pictures.push(("f.png", 6));
    write(&pictures, "renamed.pt");
    assert_eq!(run(&data, &store, &[]), Some((6, 5)));
    let before = parts(&store);
    let fresh = folder.path().join("fresh");
    assert_eq!(run(&data, &fresh, &[]), Some((6, 0)));
    for (name, content) in parts(&fresh) {
        assert!(before.get(&name) == Some(&content), "{name}");
    }

    // A damaged module gives no result.
    let mut damaged = module;
    let middle = damaged.len() / 4;
    damaged[middle] ^= 1;
    std::fs::write(data.join("renamed.pt"), damaged).unwrap();
    let output = pairloom().args(["run", "--store"]).arg(&store).arg(data.join("features.toml")).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let wanted = "it is damaged or cut short: record `archive/data/0`: Invalid checksum";
    assert!(!output.status.success() && stderr.contains(wanted), "{stderr}");
    assert_eq!(parts(&store), before);
}

#[test]
fn a_plan_counts_the_new_images_of_an_archive_by_their_digests() {
    let folder = tempfile::tempdir().unwrap();
    let (data, store) = (folder.path().join("one"), folder.path().join("store"));
    let write = |seeds: &[u32]| {
        std::fs::create_dir_all(&data).unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        for (number, seed) in seeds.iter().enumerate() {
            for (end, content) in [("png", picture(*seed)), ("txt", b"a picture".to_vec())] {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                archive.append_data(&mut header, format!("{number}.{end}"), content.as_slice()).unwrap();
            }
        }
        std::fs::write(data.join("a.tar"), archive.into_inner().unwrap()).unwrap();
    };
    let ingest = "[stage.pairs.ingest]\nwebdataset = { shards = \"a.tar\", split = \"train\" }\n";
    let extract = "[stage.cnn.extract]\nimages = \"pairs.images\"\nnetwork = \"squeezenet1_0\"\nweights = \"random\"\n\
                   resize = 40\ncrop = 40\nbatch_size = 4\n";
    let program = |arguments: &[&str], pipeline: Option<&str>| {
        let file = pipeline.map(|content| {
            std::fs::write(data.join("features.toml"), content).unwrap();
            data.join("features.toml")
        });
        let output = pairloom().args(arguments).arg("--store").arg(&store).args(file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let all = format!("{ingest}{extract}");
    write(&[1, 2, 3, 4, 5, 6]);
    program(&["run"], Some(&all));
    let digests = program(&["sql", "--json", "SELECT digest FROM pairs.images ORDER BY image_id"], None);
    let wanted: String =
        (1..=6).map(|seed| format!("{{\"digest\":\"{}\"}}\n", blake3::hash(&picture(seed)).to_hex())).collect();
    assert_eq!(digests, wanted);

    // One picture is changed, one is gone, and one is new.
    write(&[1, 2, 30, 5, 6, 31]);
    program(&["run"], Some(ingest));
    let planned = program(&["plan"], Some(&all));
    assert!(planned.contains("2 of 6 rows are new: earlier results have the others"), "{planned}");
    assert_eq!(run(&data, &store, &[]), Some((6, 4)));
}
