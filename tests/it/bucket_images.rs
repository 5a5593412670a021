//! Tests of images that are read from a bucket, on the programs as users start them.

use std::path::Path;
use std::process::Command;

use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

use crate::s3::{Proxy, ProxyAction, SECRET, TestBucket, server};
use crate::support::pairloom;

/// PNG of a colour gradient that depends on `seed`.
fn picture(seed: u32) -> Vec<u8> {
    let rgb: Vec<u8> = (0..48 * 40 * 3u32).map(|i| u8::try_from(i * seed / 7 % 256).unwrap()).collect();
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&rgb, 48, 40, ExtendedColorType::Rgb8).unwrap();
    bytes
}

/// Writes a table of pictures and a pipeline that reads them from `images`.
fn write_pipeline(folder: &Path, images: &str, names: &[&str]) {
    let rows: String = names.iter().map(|name| format!("{name},a picture\n")).collect();
    std::fs::write(folder.join("captions.csv"), format!("file_name,caption\n{rows}")).unwrap();
    let pipeline = format!(
        r#"
        [stage.pairs.ingest]
        image_folder = {{ images = "{images}", captions = "captions.csv", split = "train" }}
        [stage.cnn.extract]
        images = "pairs.images"
        network = "squeezenet1_0"
        weights = "random"
        resize = 40
        crop = 40
        batch_size = 4
        "#
    );
    std::fs::write(folder.join("features.toml"), pipeline).unwrap();
}

/// Command on the pipeline of a folder, with the bucket's settings.
fn command(bucket: &TestBucket, subcommand: &str, folder: &Path, store: &str) -> Command {
    let mut command = pairloom();
    command.arg(subcommand).arg("--store").arg(folder.join(store)).arg(folder.join("features.toml"));
    command.envs(bucket.settings());
    command
}

/// Runs the pipeline. Returns for each stage that ran its name, rows, and rows that were copied.
fn run(bucket: &TestBucket, folder: &Path, store: &str) -> Vec<(String, u64, u64)> {
    let output = command(bucket, "run", folder, store).arg("--json").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let number = |event: &serde_json::Value, name: &str| event[name].as_u64().unwrap();
    let finished = events.filter(|event| event["event"] == "stage_finished");
    finished
        .map(|event| (event["stage"].as_str().unwrap().to_owned(), number(&event, "rows"), number(&event, "copied")))
        .collect()
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Contents of the parts of features in a store that has one result of `extract`.
fn features(folder: &Path, store: &str) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    for entry in walkdir::WalkDir::new(folder.join(store).join("v1/extract")).sort_by_file_name() {
        let path = entry.unwrap().into_path();
        if path.extension().is_some_and(|end| end == "parquet") {
            parts.push(std::fs::read(path).unwrap());
        }
    }
    parts
}

#[test]
fn images_of_a_bucket_cost_what_changed_and_have_the_features_of_a_folder() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("photographs");
    let objects = bucket.objects_at("my set/pictures");
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let names = ["a b.png", "ä.png", "sub/c.png", "d%20.png", "e.png", "f.png"];
    for (name, seed) in names.into_iter().zip(1..) {
        let path = folder.join("images").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, picture(seed)).unwrap();
        bucket.put(&format!("my set/pictures/{name}"), &picture(seed));
    }
    bucket.put("my set/pictures-of-others/z.png", b"not a picture");
    write_pipeline(folder, "images", &names);
    run(&bucket, folder, "local");
    write_pipeline(folder, "s3://photographs/my set/pictures", &names);
    let [pairs, cnn] = &run(&bucket, folder, "remote")[..] else { panic!("two stages") };
    assert_eq!((pairs, cnn), (&("pairs".to_owned(), 12, 0), &("cnn".to_owned(), 6, 0)));
    assert_eq!(features(folder, "remote"), features(folder, "local"));

    // Nothing has changed: one request, the list.
    let proxy = Proxy::new(server, |_, _| ProxyAction::Forward);
    let watched = bucket.via(&proxy);
    assert_eq!(run(&watched, folder, "remote"), []);
    assert_eq!(proxy.count(ProxyAction::Forward), 1);

    // One picture is changed, one is gone, two are new.
    objects.put("e.png", picture(20).into()).unwrap();
    bucket.put("my set/pictures/g.png", &picture(21));
    bucket.put("my set/pictures/h.png", &picture(22));
    objects.delete("f.png").unwrap();
    let names = ["h.png", "a b.png", "ä.png", "sub/c.png", "d%20.png", "e.png", "g.png"];
    write_pipeline(folder, "s3://photographs/my set/pictures", &names);
    let planned = output_of(&mut command(&bucket, "plan", folder, "remote"));
    let expected = "at most 3 rows are new: earlier results have those of 4 of 7 objects in the bucket";
    assert!(planned.contains(expected), "{planned}");
    let before = proxy.count(ProxyAction::Forward);
    let [pairs, cnn] = &run(&watched, folder, "remote")[..] else { panic!("two stages") };
    assert_eq!((pairs, cnn), (&("pairs".to_owned(), 14, 4), &("cnn".to_owned(), 7, 4)));
    // Four lists: by the program that plans, by the one that runs, by the stage, and at its end.
    assert_eq!(proxy.count(ProxyAction::Forward) - before, 4 + 3);
    run(&bucket, folder, "fresh");
    let all = features(folder, "remote");
    assert!(features(folder, "fresh").iter().all(|part| all.contains(part)));
}

#[test]
fn mistakes_with_buckets_say_what_is_wrong() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("mistakes");
    bucket.put("photos/a.png", &picture(1));
    bucket.put("odd/../b.png", &picture(2));
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let answer = |images: &str, subcommand: &str| {
        write_pipeline(folder, images, &["a.png", "gone.png"]);
        let text = output_of(&mut command(&bucket, subcommand, folder, "store"));
        assert!(!text.contains(SECRET), "{text}");
        text
    };
    let refused = |images: &str, subcommand: &str| {
        let text = answer(images, subcommand);
        assert!(text.contains("hint:"), "{text}");
        text
    };
    let text = refused("s3://mistakes/photo", "plan");
    let expected = "stage `pairs`, `image_folder.images`: there is no object below `s3://mistakes/photo`";
    assert!(text.contains(expected), "{text}");
    let text = refused("s3://no-such-bucket/photos", "plan");
    assert!(text.contains("cannot list `s3://no-such-bucket/photos`") && text.contains("NoSuchBucket"), "{text}");
    let text = refused("s3://mistakes/photos", "run");
    assert!(text.contains("`gone.png`: there is no such object, which `captions.csv` names in line 3"), "{text}");
    let text = refused("s3://mistakes", "plan");
    assert!(text.contains("cannot list `s3://mistakes`") && text.contains("rename or remove this object"), "{text}");
    // Keys that no path can have: with an empty part, which must not become another object, and with a slash at an end.
    bucket.put("empty/a//c.png", &picture(3));
    bucket.put("empty/a/c.png", &picture(4));
    for images in ["s3://mistakes/empty", "s3://mistakes/empty/a", "s3://mistakes/empty/a/"] {
        let text = refused(images, "plan");
        let expected = format!(
            "cannot list `{}`: Path \"empty/a//c.png\" contained empty path segment",
            images.trim_end_matches('/')
        );
        assert!(text.contains(&expected) && text.contains("rename or remove this object"), "{text}");
    }
    let text = refused("s3://mistakes/empty/a//", "plan");
    assert!(text.contains("Path \"empty/a//c.png\" contained empty path segment"), "{text}");
    let text = answer("s3://mistakes/empty//a", "plan");
    assert!(text.contains("cannot open `s3://mistakes/empty//a`: Path \"/empty//a\" contained empty path"), "{text}");
    let other = server.bucket("slashes");
    other.put("/a.png", &picture(5));
    other.put("gone.png", &picture(6));
    let text = refused("s3://slashes", "run");
    assert!(text.contains("objects of `s3://slashes` changed after they were listed: `a.png`"), "{text}");
    assert!(text.contains("begins or ends with `/`"), "{text}");
}

/// The keys of a bucket with characters that mean something in URLs, and a store that lies below the source.
#[test]
fn a_source_is_read_without_the_store_in_it() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("whole");
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let names = ["a+b.png", "a#b.png", "a?b=c&d.png", "100%.png", "d%2Fe.png", "sub/日本 é.png", "~'(x)!*;=@,$.png"];
    for (name, seed) in names.into_iter().zip(1..) {
        bucket.put(name, &picture(seed));
        let path = folder.join("set").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, picture(seed)).unwrap();
    }
    let pipeline = |images: &str| {
        write_pipeline(folder, images, &[]);
        let path = folder.join("features.toml");
        let text = std::fs::read_to_string(&path).unwrap().replace(r#"captions = "captions.csv", "#, "");
        std::fs::write(path, text).unwrap();
    };
    let run_twice = |store: &str| {
        // A result beside the pictures looks like one of them.
        let run = || {
            let mut command = pairloom();
            command.args(["run", "--json", "--store", store]).arg(folder.join("features.toml")).envs(bucket.settings());
            output_of(command.env("XDG_CACHE_HOME", bucket.cache.path()))
        };
        let text = run();
        assert_eq!(text.matches("\"stage_finished\"").count(), 2, "{text}");
        let text = run();
        assert!(!text.contains("\"stage_finished\"") && !text.contains("rror"), "{text}");
    };
    pipeline("s3://whole/");
    run_twice("s3://whole/store");
    let local = folder.join("set/store");
    pipeline("set");
    std::fs::create_dir_all(local.join("v1")).unwrap();
    std::fs::write(local.join("v1/z.png"), "no picture").unwrap();
    // A link to the store leads there, too.
    std::os::unix::fs::symlink(local.join("v1"), folder.join("set/link")).unwrap();
    run_twice(local.to_str().unwrap());
    // The same pictures, in the same order.
    let remote = folder.join("remote");
    pipeline("s3://whole/");
    for name in bucket.objects_at("store").list("").unwrap() {
        bucket.objects_at("store").delete(&name).unwrap();
    }
    run(&bucket, folder, "remote");
    assert!(remote.is_dir());
    assert_eq!(features(folder, "remote"), features(folder, "set/store"));
}
