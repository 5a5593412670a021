//! Tests that run the pipelines in `pipelines/`.

use std::path::{Path, PathBuf};
use std::process::Command;

use test_data::public;

use crate::book::run_blocks;
use crate::support::{pairloom, pipeline};

pub(crate) fn file(name: &str) -> PathBuf {
    test_data::root().join("pipelines").join(name)
}

/// Arguments for a training that learns something within seconds.
const SHORT: [&str; 10] = [
    "--set",
    "stage.fit.train.loss=sum",
    "--set",
    "stage.fit.train.batch_size=32",
    "--set",
    "stage.fit.train.learning_rate=1e-3",
    "--set",
    "stage.fit.train.epochs=4",
    "--set",
    "stage.fit.train.model.vse.embed_size=128",
];

/// Runs a command, which must succeed. Returns its stderr.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

/// Single number of a query result.
pub(crate) fn number_of(store: &Path, sql: &str) -> f64 {
    let output = pairloom().args(["sql", "--format", "csv", "--store"]).arg(store).arg(sql).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().last().unwrap_or_default();
    last.parse().unwrap_or_else(|_| panic!("{sql}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// All pipeline files below a folder of `pipelines/`.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(file(folder)).sort_by_file_name().into_iter().map(Result::unwrap);
    entries.map(walkdir::DirEntry::into_path).filter(|path| path.extension().is_some_and(|end| end == "toml")).collect()
}

#[test]
fn all_pipeline_files_are_valid() {
    let files = files("");
    assert!(files.len() >= 20, "{files:?}");
    run(pairloom().arg("check").args(&files));
    let mut profiles = 0;
    for file in &files {
        let content: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
        for profile in content.get("profile").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys) {
            run(pairloom().args(["check", "--profile", profile]).arg(file));
            profiles += 1;
        }
    }
    assert!(profiles >= 12, "{profiles}");
}

/// Three epochs of narrow models with one seed: every row of the papers' tables and of the comparison of objectives runs to the
/// end and learns, and no two settings of a file are the same training.
#[test]
fn every_configuration_of_the_papers_trains_on_a_thousand_images() {
    let Some(precomp) = public("precomp/f8k_mini_precomp") else { return };
    let (Some(flickr), Some(squeezenet)) = (public("flickr8k-1k"), public("weights/squeezenet1_0.safetensors")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut trainings = 0;
    // A single store, so that common stages run once.
    let store = folder.path().join("store");
    for file in [files("papers"), vec![file("objectives.toml"), file("objectives-photographs.toml")]].concat() {
        let text = std::fs::read_to_string(&file).unwrap();
        let content: toml::Table = text.parse().unwrap();
        if content["stage"]["fit"]["train"].get("regions").is_some() {
            continue;
        }
        let rows = content["matrix"]["row"].as_array().unwrap();
        trainings += rows.len();
        let mut command = pairloom();
        for folder in ["PRECOMP", "VGG19", "INCEPTION", "RESNET152", "FLICKR30K", "COCO"] {
            command.env(folder, &precomp);
        }
        command.env("FLICKR8K", &flickr).env("SQUEEZENET", &squeezenet);
        command.args(["run", "--quiet", "--only", "seed=1", "--store"]).arg(&store);
        if content.contains_key("profile") {
            command.args(["--profile", "small"]);
        }
        for setting in ["epochs=3", "model.vse.embed_size=32", "model.vse.word_dim=16"] {
            command.arg("--set").arg(format!("stage.fit.train.{setting}"));
        }
        run(command.arg(&file));
        let shown = file.display();
        let number = |sql: &str| number_of(&store, sql);
        assert_eq!(number("SELECT count(DISTINCT row) FROM test.summary"), to_f64(rows.len()), "{shown}");
        let sizes = ["min(n_images)", "max(n_captions)"].map(|of| number(&format!("SELECT {of} FROM test.summary")));
        assert_eq!(sizes, [125.0, 625.0], "{shown}");
        // 125 images with 625 captions: the expected rsum of a random order is 25. Three epochs are few for MAX, but some row
        // of each file has left that point.
        let rsums =
            ["min", "max"].map(|of| number(&format!("SELECT {of}(rsum) FROM test.summary WHERE method = 'nns'")));
        // A few hundred captions are too few for that.
        let least_best = if text.contains("caption_fraction") { 20.0 } else { 33.0 };
        assert!(rsums[0] > 15.0 && rsums[1] > least_best, "{shown}: {rsums:?}");
        // A warm-up has another loss, so losses of its epochs do not compare.
        let has_warm_up = |row: &&toml::Value| row.get("set").and_then(|set| set.get("fit")?.get("warm_up")).is_some();
        let warm: Vec<String> = rows.iter().filter(has_warm_up).map(|row| row["name"].to_string()).collect();
        let excluded = warm.join(", ").replace('"', "'");
        let of_epoch =
            |epoch| format!("SELECT row, avg(loss) AS loss FROM fit.history WHERE epoch = {epoch} GROUP BY row");
        let excluded = if excluded.is_empty() { "''".to_owned() } else { excluded };
        let rise = format!(
            "SELECT max(b.loss - a.loss) FROM ({}) a JOIN ({}) b ON a.row = b.row WHERE a.row NOT IN ({excluded})",
            of_epoch(0),
            of_epoch(1)
        );
        assert!(number(&rise) < 0.0, "{shown}: a loss does not fall");
        // A setting that has no effect would give the losses of another one. Rows of other features are equal on small data.
        let trained = "SELECT count(DISTINCT key) FROM store.stages WHERE kind = 'train' AND run = (SELECT max(run) FROM store.runs)";
        let losses = "SELECT count(DISTINCT losses) FROM (SELECT sum(loss) AS losses FROM fit.history GROUP BY row)";
        assert_eq!(number(losses), number(trained), "{shown}");
    }
    assert!(trainings >= 90, "{trainings} trainings");
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
pub(crate) fn to_f64(number: usize) -> f64 {
    number as f64
}

/// The second training has its other inputs before the first one ends, and must not block it.
#[test]
fn a_training_is_initialised_from_another_of_the_same_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let file = pipeline(folder.path(), "two.toml", |tiny| {
        let (begin, end) = (tiny.find("[stage.fit.train]").unwrap(), tiny.find("[stage.joint.embed]").unwrap());
        let fit = &tiny[begin..end];
        let more = fit.replace("[stage.fit.train]", "[stage.a-more.train]\ninit_from = \"fit.model\"");
        format!("{}{more}{fit}", &tiny[..begin])
    });
    run(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(file));
    let first = |stage: &str| number_of(&store, &format!("SELECT loss FROM \"{stage}\".history WHERE step = 0"));
    assert!(
        first("a-more") < first("fit"),
        "the first loss of an initialised training is lower: {} and {}",
        first("a-more"),
        first("fit")
    );
}

/// A network is fine-tuned, and then extracts the features for evaluation.
#[test]
fn features_of_a_fine_tuned_network_reproduce_its_validation() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let file = pipeline(folder.path(), "tuned.toml", |tiny| {
        let pairs = &tiny[..tiny.find("[stage.cnn.extract]").unwrap()];
        format!(
            r#"{pairs}
[stage.tuned.train]
finetune = {{ images = "pairs.images", network = "squeezenet1_0", weights = "random", crop = 32, resize = 40 }}
captions = "pairs.captions"
model.vse.embed_size = 32
model.vse.word_dim = 16
batch_size = 32
epochs = 2

[stage.own.extract]
images = "pairs.images"
network = "squeezenet1_0"
weights = {{ model = "tuned.model" }}
resize = 40
crop = 32
normalize = true

[stage.joint.embed]
model = "tuned.model"
features = "own.features"
captions = "pairs.captions"
splits = ["val"]

[stage.test.evaluate]
images = "joint.image_embeddings"
captions = "joint.caption_embeddings"
dataset = "tiny"
split = "val"
"#
        )
    });
    let command = |more: &[&str]| {
        let mut command = pairloom();
        command.args(["run", "--quiet", "--store"]).arg(&store).args(more).arg(&file);
        command
    };
    run(&mut command(&[]));
    let validated = number_of(&store, "SELECT max(rsum) FROM tuned.validation");
    let rsum = number_of(&store, "SELECT rsum FROM test.summary");
    // Images in other batches have other rounding, which may change the hit of one of 80 captions.
    assert!((rsum - validated).abs() <= 2.5, "rsum {rsum} in the evaluation, {validated} in the validation");

    let other = command(&["--set", "stage.own.extract.crop=40"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&other.stderr);
    assert!(!other.status.success() && stderr.contains("crops of 32 pixels from images resized to 40"), "{stderr}");
}

/// Photographs with a table of captions whose columns have other names than the defaults, and a `*_precomp` folder.
#[test]
fn the_pipeline_that_init_writes_runs() {
    let (Some(flickr), Some(precomp)) = (public("flickr8k-1k"), public("precomp/f8k_mini_precomp")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let photographs = folder.path().join("photographs");
    std::fs::create_dir(&photographs).unwrap();
    let tokens = std::fs::read_to_string(flickr.join("Flickr8k.token.txt")).unwrap();
    let mut table = "picture\tsays\n".to_owned();
    // Two captions of each of 40 photographs.
    for line in tokens.lines().filter(|line| line.contains("#0\t") || line.contains("#1\t")).take(80) {
        let (key, caption) = line.split_once('\t').unwrap();
        let name = key.split('#').next().unwrap();
        std::fs::copy(flickr.join("images").join(name), photographs.join(name)).unwrap();
        table.push_str(&format!("{name}\t{caption}\n"));
    }
    std::fs::write(folder.path().join("captions.tsv"), table).unwrap();
    for (data, test_images) in [(folder.path(), None), (&precomp, Some(125.0))] {
        let written = folder.path().join("found.toml");
        run(pairloom().arg("init").arg(data).arg("--force").arg("--output").arg(&written));
        let store = folder.path().join("store");
        let mut command = pairloom();
        command.arg("run").arg("--store").arg(&store).arg(&written).args(["--set", "stage.fit.train.epochs=1"]);
        run(&mut command);
        let images = number_of(&store, "SELECT n_images FROM test.summary");
        assert!(test_images.map_or(images >= 1.0, |expected: f64| (images - expected).abs() < 0.5), "{images}");
        let rsum = number_of(&store, "SELECT rsum FROM test.summary");
        assert!((0.0..=600.0).contains(&rsum), "{rsum}");
    }
}

#[test]
fn the_quickstart_meets_its_expectation_and_a_second_run_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let quickstart = || {
        let mut command = pairloom();
        command.arg("run").arg("--store").arg(&store).arg(file("quickstart.toml"));
        command
    };
    // The run fails if its own [[expect]] does not hold.
    run(&mut quickstart());
    let manifests = |store: &Path| {
        let all = walkdir::WalkDir::new(store).into_iter().map(Result::unwrap);
        let all = all.filter(|entry| entry.file_name() == "manifest.json");
        let mut all: Vec<_> =
            all.map(|entry| (entry.path().to_owned(), entry.metadata().unwrap().modified().unwrap())).collect();
        all.sort();
        all
    };
    let before = manifests(&store);
    assert_eq!(before.len(), 7);
    run(&mut quickstart());
    assert_eq!(manifests(&store), before);
    // People copy commands and queries from the README and the book, some of which compare two runs.
    run(quickstart().args(["--set", r#"stage.test.evaluate.methods=["nns", "csls"]"#]));
    run(&mut quickstart());
    let mistakes = run_blocks(&store);
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// 991 photographs, 4,955 captions, 753 / 113 / 125 images.
#[test]
fn the_flickr8k_pipeline_learns() {
    let (Some(flickr), Some(squeezenet)) = (public("flickr8k-1k"), public("weights/squeezenet1_0.safetensors")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut command = pairloom();
    command.arg("run").arg("--store").arg(&store).arg(file("flickr8k.toml"));
    command.env("FLICKR8K", &flickr).env("SQUEEZENET", &squeezenet);
    command.args(SHORT);
    run(&mut command);
    assert_eq!(number_of(&store, "SELECT count(*) FROM pairs.images"), 991.0);
    assert_eq!(number_of(&store, "SELECT count(*) FROM pairs.captions"), 4955.0);
    assert_eq!(number_of(&store, "SELECT count(*) FROM cnn.features"), 991.0);
    assert_eq!(number_of(&store, "SELECT count(*) FROM joint.caption_embeddings"), 625.0);
    assert_eq!(number_of(&store, "SELECT n_images FROM test.summary WHERE method = 'nns'"), 125.0);
    // The expected rsum of a random order is about 25.
    let rsum = number_of(&store, "SELECT rsum FROM test.summary WHERE method = 'nns'");
    assert!(rsum > 60.0, "{rsum}");
}

/// A hundred photographs and a table that is written here: 500 rows in reverse order.
#[test]
fn photographs_with_a_table_of_captions_run_from_end_to_end() {
    let (Some(flickr), Some(squeezenet)) = (public("flickr8k-1k"), public("weights/squeezenet1_0.safetensors")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let tokens = std::fs::read_to_string(flickr.join("Flickr8k.token.txt")).unwrap();
    let rows: Vec<_> = tokens.lines().take(500).map(|line| line.split_once('\t').unwrap()).collect();
    let mut table = String::from("caption,file_name\n");
    for (key, caption) in rows.iter().rev() {
        let name = key.split_once('#').unwrap().0;
        table += &format!("\"{}\",{name}\n", caption.replace('"', "\"\""));
    }
    std::fs::write(folder.path().join("captions.csv"), table).unwrap();
    let store = folder.path().join("store");
    let mut command = pairloom();
    command.arg("run").arg("--store").arg(&store).arg(file("photographs.toml"));
    command.env("PHOTOGRAPHS", flickr.join("images")).env("CAPTIONS", folder.path().join("captions.csv"));
    command.env("SQUEEZENET", &squeezenet).args(SHORT);
    run(&mut command);
    assert_eq!(number_of(&store, "SELECT count(*) FROM cnn.features"), 100.0);
    assert_eq!(number_of(&store, "SELECT count(*) FROM pairs.captions"), 500.0);
    let tests = number_of(&store, "SELECT count(*) FROM pairs.images WHERE split = 'test'");
    assert_eq!(number_of(&store, "SELECT n_images FROM test.summary"), tests);
    // A caption of the table belongs to its photograph.
    let (key, caption) = rows[42];
    let sql = format!(
        "SELECT count(*) FROM pairs.captions c JOIN pairs.images i USING (image_id) \
         WHERE i.file_name = '{}' AND c.text = '{}'",
        key.split_once('#').unwrap().0,
        caption.trim().replace('\'', "''")
    );
    assert_eq!(number_of(&store, &sql), 1.0);
}

/// The features of dev and test are repeated five times in the files; without repetition there are 753 / 113 / 125
/// images.
#[test]
fn the_precomp_pipeline_learns() {
    let Some(precomp) = public("precomp/f8k_mini_precomp") else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut command = pairloom();
    command.arg("run").arg("--store").arg(&store).arg(file("precomp.toml"));
    command.env("PRECOMP", &precomp);
    command.args(SHORT);
    run(&mut command);
    let images = |split| number_of(&store, &format!("SELECT count(*) FROM pairs.features WHERE split = '{split}'"));
    assert_eq!([images("train"), images("val"), images("test")], [753.0, 113.0, 125.0]);
    let rsum = number_of(&store, "SELECT rsum FROM test.summary");
    assert!(rsum > 60.0, "{rsum}");
}

/// Expected values: the paper and an independent computation.
#[test]
fn correlations_of_caption_similarity_with_ratings_are_the_published_ones() {
    let Some(cxc) = public("cxc") else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut command = pairloom();
    command.arg("run").arg("--store").arg(&store).arg(file("cxc-table1.toml")).env("CXC", cxc);
    run(&mut command);
    let pearson = |score: &str, pairs: &str| {
        let sql = "SELECT pearson FROM agree.correlations WHERE";
        number_of(&store, &format!("{sql} score = '{score}' AND pairs = '{pairs}'"))
    };
    let close = |got: f64, wanted: f64| assert!((got - wanted).abs() < 5.1e-5, "{got}, expected {wanted}");
    close(pearson("Binary", "all"), 0.7115);
    assert_eq!(pearson("Binary", "non_gt"), 0.0);
    close(pearson("CIDEr-D", "all"), 0.7385);
    close(pearson("CIDEr-D", "non_gt"), 0.4869);
    close(pearson("CIDEr-D, case kept, N of train", "all"), 0.7346);
    close(pearson("CIDEr-D, case kept, N of train", "non_gt"), 0.4563);
    assert_eq!(number_of(&store, "SELECT count(*) FROM graphs.spice_scores"), 44_833.0);
    assert_eq!(
        number_of(&store, "SELECT count(*) FROM (SELECT unnest(similarities) FROM lower.caption_similarity)"),
        44_833.0
    );
}

/// Test split: 1,000 images, 5,000 captions. The rows list captions by descending φ.
#[test]
fn the_most_similar_caption_of_an_image_is_its_own() {
    let Some(f30k) = public("f30k-captions") else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut command = pairloom();
    command.arg("run").arg("--store").arg(&store).arg(file("flickr30k-top.toml")).env("F30K", f30k);
    command.args([
        "--set",
        "stage.meaning.score_captions.split=test",
        "--set",
        "stage.graphs.score_captions.split=test",
    ]);
    run(&mut command);
    let rows = "SELECT image_id, unnest(caption_ids) AS caption_id, unnest(similarities) AS phi FROM meaning.caption_similarity";
    assert_eq!(number_of(&store, &format!("SELECT count(*) FROM ({rows})")), 100_000.0);
    let own = "SELECT avg(CASE WHEN captions.image_id = best.image_id THEN 1.0 ELSE 0.0 END) FROM \
         (SELECT image_id, caption_ids[1] AS caption_id FROM meaning.caption_similarity) AS best \
         JOIN pairs.captions AS captions ON captions.caption_id = best.caption_id";
    assert_eq!(number_of(&store, own), 1.0);
    assert_eq!(number_of(&store, "SELECT count(*) FROM graphs.scene_graphs"), 5000.0);
}

#[test]
fn invalid_expectations_are_reported_before_a_stage_runs() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = "[[expect]]\nsql = \"SELECT rsun FROM test.summary\"\nat_least = 1\n\
                 [[expect]]\nsql = \"SELECT rsum FROM test.sumary\"\nat_least = 1\n";
    let file = pipeline(folder.path(), "wrong.toml", |tiny| format!("{tiny}\n{wrong}"));
    let store = folder.path().join("store");
    let output = pairloom().arg("run").arg("--store").arg(&store).arg(&file).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("rsun") && stderr.contains("test.sumary") && stderr.contains("wrong.toml:"), "{stderr}");
    assert!(!store.join("v1/ingest").exists(), "nothing ran");
}
