//! Benchmark of a feature store: photographs of which some are added, changed and removed, several networks from one decode,
//! and a manifest of a million images in which nothing changed.
//!
//! ```sh
//! cargo bench --bench features -- FLICKR8K WEIGHTS [images of the manifest]
//! ```
//!
//! `FLICKR8K` is a folder with `images/`, and `WEIGHTS` a safetensors file of SqueezeNet 1.0. Each run is a process of its
//! own, with all files in the page cache.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures time, starts processes and prints"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use pairloom_store::Store;
use serde_json::Value;

/// Number of images that are added, of those that are changed, and of those that are removed.
const CHANGES: usize = 10;

/// Runs a pipeline file. Returns its events and seconds.
fn run(file: &Path, store: &Path, arguments: &[&str]) -> (Vec<Value>, f64) {
    let clock = Instant::now();
    let output = Command::new(test_data::program("pairloom"))
        .args(["run", "--json", "--store"])
        .arg(store)
        .args(arguments)
        .arg(file)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let seconds = clock.elapsed().as_secs_f64();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    (String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect(), seconds)
}

/// Runs a pipeline file and prints what its stage `cnn` did.
fn measure(title: &str, file: &Path, store: &Path) {
    let (events, seconds) = run(file, store, &[]);
    let finished = events.iter().find(|event| event["event"] == "stage_finished" && event["stage"] == "cnn");
    let text = finished.map_or("nothing to do".to_owned(), |event| {
        let [rows, copied] = ["rows", "copied"].map(|name| event[name].as_u64().unwrap());
        let seconds = event["seconds"].as_f64().unwrap();
        format!("{rows} images, {copied} copied, {} decoded and computed: {seconds:.2} s", rows - copied)
    });
    println!("{title}: {text}; whole command {seconds:.2} s");
}

/// Writes a table of captions of `paths`, and a pipeline file with it and `more` stages.
fn write_pipeline(folder: &Path, images: &Path, paths: impl Iterator<Item = String>, more: &str) -> PathBuf {
    let mut table = "file_name,caption\n".to_owned();
    for path in paths {
        writeln!(table, "{path},a picture").unwrap();
    }
    std::fs::write(folder.join("captions.csv"), table).unwrap();
    let images = images.display();
    let text = format!(
        "[stage.pairs.ingest]\n\
         image_folder = {{ images = \"{images}\", captions = \"captions.csv\", split = \"train\" }}\n{more}"
    );
    std::fs::write(folder.join("features.toml"), text).unwrap();
    folder.join("features.toml")
}

/// Some photographs are added, changed and removed.
fn measure_changes(flickr: &Path, weights: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images");
    std::fs::create_dir(&images).unwrap();
    let entries = std::fs::read_dir(flickr.join("images")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let added = names.split_off(names.len() - CHANGES);
    let copy = |name: &str| {
        std::fs::copy(flickr.join("images").join(name), images.join(name)).unwrap();
    };
    for name in &names {
        copy(name);
    }
    let weights = weights.canonicalize().unwrap();
    let extract = format!(
        "[stage.cnn.extract]\nimages = \"pairs.images\"\nnetwork = \"squeezenet1_0\"\nweights.file = \"{}\"\n",
        weights.display()
    );
    let store = folder.path().join("store");
    let file = write_pipeline(folder.path(), &images, names.iter().cloned(), &extract);
    measure("first run", &file, &store);
    let step = names.len() / (2 * CHANGES + 1);
    for change in 0..CHANGES {
        let (changed, removed) = (&names[2 * change * step], &names[(2 * change + 1) * step]);
        // A picture with other bytes: another photograph, with a byte after its end.
        let mut content = std::fs::read(images.join(&names[2 * change * step + 1])).unwrap();
        content.push(0);
        std::fs::write(images.join(changed), content).unwrap();
        std::fs::remove_file(images.join(removed)).unwrap();
    }
    names.extend(added.into_iter().inspect(|name| copy(name)));
    names.retain(|name| images.join(name).exists());
    let file = write_pipeline(folder.path(), &images, names.iter().cloned(), &extract);
    measure(&format!("{CHANGES} added, {CHANGES} changed, {CHANGES} removed"), &file, &store);
    measure("nothing changed", &file, &store);
    let fresh = folder.path().join("fresh");
    measure("the same in a fresh store", &file, &fresh);
    let mut equal = 0;
    for part in walkdir::WalkDir::new(fresh.join("v1/extract")).into_iter().map(Result::unwrap) {
        if part.path().extension().is_some_and(|end| end == "parquet") {
            let other = store.join(part.path().strip_prefix(&fresh).unwrap());
            assert!(std::fs::read(part.path()).unwrap() == std::fs::read(other).unwrap(), "{}", part.path().display());
            equal += 1;
        }
    }
    println!("all {equal} parts of the fresh store have the same bytes in the other one");
}

/// Three networks over the photographs: three runs, one run, and one run that decodes each photograph once.
fn measure_networks(flickr: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let images = flickr.join("images").canonicalize().unwrap();
    let entries = std::fs::read_dir(&images).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let stage = |network: &str, more: &str| {
        format!(
            "[stage.{network}.extract]\nimages = \"pairs.images\"\nnetwork = \"{network}\"\nweights = \"random\"\n{more}"
        )
    };
    let seconds = |store: &str, stages: &str| {
        let file = write_pipeline(folder.path(), &images, names.iter().cloned(), stages);
        run(&file, &folder.path().join(store), &[]).1
    };
    let networks = ["squeezenet1_1", "mobilenet_v2", "resnet18"];
    // The first run hashes the photographs.
    seconds("warm", "");
    let single: f64 = networks.iter().map(|network| seconds(network, &stage(network, ""))).sum();
    println!("{} in three runs: {single:.1} s", networks.join(", "));
    let all = |more: &str| networks.map(|network| stage(network, more)).concat();
    println!("  in one run: {:.1} s", seconds("together", &all("")));
    println!("  in one run from one decode: {:.1} s", seconds("shared", &all("share_decoding = true\n")));
    for part in walkdir::WalkDir::new(folder.path().join("together/v1/extract")).into_iter().map(Result::unwrap) {
        if part.path().extension().is_some_and(|end| end == "parquet") {
            let other =
                folder.path().join("shared").join(part.path().strip_prefix(folder.path().join("together")).unwrap());
            assert!(std::fs::read(part.path()).unwrap() == std::fs::read(other).unwrap(), "{}", part.path().display());
        }
    }
}

/// A folder of `count` small files in which nothing changed. No image is decoded, since only `ingest` reads them.
fn measure_manifest(count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let images = folder.path().join("images");
    let path = |index: usize| format!("{:04}/{index:07}.jpg", index / 1000);
    for index in 0..count {
        let file = images.join(path(index));
        if index % 1000 == 0 {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        std::fs::write(file, index.to_string()).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    let store = folder.path().join("store");
    let pipeline = write_pipeline(folder.path(), &images, (0..count).map(path), "");
    println!("{count} images listed and hashed, and their table written: {:.1} s", run(&pipeline, &store, &[]).1);
    for _ in 0..2 {
        println!("{count} images, nothing changed: {:.2} s", run(&pipeline, &store, &[]).1);
    }
    let (_, seconds) = run(&pipeline, &store, &["--trust-folder-times"]);
    println!("  with the times of folders trusted: {seconds:.3} s");
    let clock = Instant::now();
    let seen = walkdir::WalkDir::new(&images).into_iter().filter(|entry| entry.as_ref().unwrap().metadata().is_ok());
    println!("  the status of {} files and folders: {:.2} s", seen.count(), clock.elapsed().as_secs_f64());
    let clock = Instant::now();
    let store = Store::open(&store).unwrap();
    let lists = store.objects().sizes("sources").unwrap();
    let bytes: u64 = lists.values().sum();
    for name in lists.keys() {
        store.objects().get(name).unwrap();
    }
    println!("  reading {} MB of known digests: {:.2} s", bytes >> 20, clock.elapsed().as_secs_f64());
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let [flickr, weights, more @ ..] = &arguments[..] else {
        println!("skipped: needs the folder of Flickr8k and the weights of SqueezeNet");
        return;
    };
    measure_changes(Path::new(flickr), Path::new(weights));
    measure_networks(Path::new(flickr));
    measure_manifest(more.first().map_or(1_000_000, |count| count.parse().unwrap()));
}
