//! Helpers of the integration tests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Command that starts `pairloom`. `PAIRLOOM_TEST_PROGRAM` names another build, such as a release build for a long campaign.
pub(crate) fn pairloom() -> Command {
    let program = std::env::var_os("PAIRLOOM_TEST_PROGRAM").map(PathBuf::from);
    isolated(program.unwrap_or_else(|| test_data::program("pairloom")))
}

/// Command that starts a program without the environment variables that change the behaviour of `pairloom`.
pub(crate) fn isolated(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let ours: Vec<String> =
        std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("PAIRLOOM_")).collect();
    for name in ours {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1");
    command.env("PAIRLOOM_CACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("shards"));
    command
}

/// Contents of the parts and files of all artefacts, by path.
pub(crate) fn content(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut content = BTreeMap::new();
    for entry in walkdir::WalkDir::new(store).into_iter().map(Result::unwrap) {
        let name = entry.path().strip_prefix(store).unwrap().to_string_lossy().into_owned();
        let table = name.ends_with(".parquet") || name.contains("/model/") || name.contains("/page/");
        if entry.file_type().is_file() && table {
            content.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    content
}

pub(crate) fn assert_same_content(got: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>) {
    let names = |content: &BTreeMap<String, Vec<u8>>| content.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(got), names(wanted));
    let other: Vec<_> = got.iter().filter(|(name, bytes)| wanted[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(other.is_empty(), "different bytes in {other:?}");
}

/// Number from an environment variable, for campaigns that are longer than tests.
pub(crate) fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|number| number.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

/// Process of `pairloom --json` that serves others, and that is killed with the test.
pub(crate) struct ServerProcess {
    pub(crate) process: Child,
    /// First event: the process is ready.
    pub(crate) event: serde_json::Value,
    /// Open as long as the process: it may write more events.
    _events: BufReader<ChildStdout>,
}

impl ServerProcess {
    /// Starts a process and waits until it is ready.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut events = BufReader::new(process.stdout.take().unwrap());
        events.read_line(&mut line).unwrap();
        let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { process, event, _events: events }
    }

    /// Address at which the process is reached, or that it has joined.
    pub(crate) fn uri(&self) -> &str {
        self.event["uri"].as_str().unwrap()
    }

    /// Kills the process, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Ends the process as Ctrl-C does. Returns its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        Command::new("kill").args(["-INT", &self.process.id().to_string()]).status().unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Command that starts Python with the packages that `cargo xtask test` installs; `None`, after a message, if they are not
/// there.
pub(crate) fn python() -> Option<Command> {
    let usual = || Some(dirs::cache_dir()?.join("pairloom/python-packages"));
    let folder = std::env::var_os("PAIRLOOM_PYTHON_PACKAGES").map(PathBuf::from).or_else(usual);
    let folder = folder.filter(|folder| folder.join("complete").is_file());
    let Some(folder) = folder else {
        test_data::absent("no Python packages (`cargo xtask test` installs them)");
        return None;
    };
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", folder.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python)
}

/// Pipeline with every stage, which runs in a few seconds.
const TINY: &str = r#"
seed = 3

[stage.pairs.ingest]
synthetic = { train = 96, val = 16, test = 16, pixels = 48 }

[stage.cnn.extract]
images = "pairs.images"
network = "squeezenet1_0"
weights = "random"
resize = 48
crop = 48

[stage.detected.import_regions]
files = ["regions.tsv"]
images = "pairs.images"
max_regions = 1

[stage.words.build_concepts]
captions = "pairs.captions"

[stage.fit.train]
features = "cnn.features"
captions = "pairs.captions"
model.vse.embed_size = 32
model.vse.word_dim = 16
batch_size = 32
epochs = 2
checkpoint_steps = 4

[stage.joint.embed]
model = "fit.model"
features = "cnn.features"
captions = "pairs.captions"
splits = ["test"]

[stage.pairwise.score_pairs]
model = "fit.model"
features = "cnn.features"
captions = "pairs.captions"

[stage.twice.ensemble]
scores = ["pairwise.scores", "pairwise.scores"]
scored_captions = ["pairwise.scored_captions", "pairwise.scored_captions"]

[stage.arrays.import_arrays]
folder = "npy"
images = "pairs.images"

[stage.rows.import_features]
files = ["rows.npy"]
ids = ["rows.txt"]
images = "pairs.images"

[stage.published.import_model]
weights = "published.safetensors"
vocabulary = "vocab.json"

[stage.cross.train]
regions = "detected.regions"
captions = "pairs.captions"
model.scan = { embed_size = 8, word_dim = 4 }
batch_size = 32
epochs = 1

[stage.looked.compute_attention]
model = "cross.model"
regions = "detected.regions"
captions = "pairs.captions"

[stage.meaning.score_captions]
captions = "pairs.captions"
measure = { cider_d = {} }

[stage.graphs.score_captions]
captions = "pairs.captions"
measure = { spice = {} }
pairs = { table = "people.ratings" }

[stage.people.ingest]
ratings = { file = "ratings.csv" }

[stage.test.evaluate]
images = "joint.image_embeddings"
captions = "joint.caption_embeddings"
dataset = "tiny"
methods = ["nns", { csls = { k = 3 } }]
relevance = [
    { name = "cider_d", similarity = "meaning.caption_similarity", neighbours = [1, 5] },
    { name = "people", ratings = "people.ratings", at_least = 3.0 },
]

[stage.differ.test_significance]
rankings = "test.rankings"

[stage.agree.correlate]
ratings = "people.ratings"
pairs = { other = { sampling = "c2i_intrasim" } }
scores = [
    { name = "own", sampling = "c2i_original", published = { all = 0.7 } },
    { name = "cider_d", similarity = "meaning.caption_similarity" },
    { name = "spice", similarity = "graphs.caption_similarity" },
]

[stage.page.report]
title = "Tiny"
summary = "test.summary"
metrics = "test.metrics"
rankings = "test.rankings"
correlations = ["agree.correlations"]
significance_tests = ["differ.significance_tests"]
similarity = "meaning.caption_similarity"
graphs = "graphs.scene_graphs"
history = "fit.history"
validation = "fit.validation"
images = "pairs.images"
captions = "pairs.captions"
attention = { weights = "looked.attention", boxes = "detected.region_boxes" }
"#;

/// Writes [`TINY`] and its sources into `folder`.
pub(crate) fn tiny_pipeline(folder: &Path) -> PathBuf {
    pipeline(folder, "tiny.toml", str::to_owned)
}

/// Ratings of the test images, 112 to 127, each with one of its own captions and one of the image before.
fn ratings() -> String {
    let line = |image: u32| {
        let other = if image == 112 { 127 } else { image - 1 };
        let own = format!("{},{image},{},c2i_original", 5 * image, 4.0 + f64::from(image % 3) / 2.0);
        format!("{own}\n{},{image},{},c2i_intrasim\n", 5 * other + 1, f64::from(image % 7) / 2.0)
    };
    format!("caption,image,agg_score,sampling_method\n{}", (112..128).map(line).collect::<String>())
}

/// Array of `NumPy` with two values for each image, of which one is its number.
fn array(shape: &str, images: std::ops::Range<u8>) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
    let values = images.flat_map(|image| [1.0, f32::from(image)]).flat_map(f32::to_le_bytes);
    b"\x93NUMPY\x01\x00\x76\x00".iter().copied().chain(format!("{header:<117}\n").into_bytes()).chain(values).collect()
}

/// One region of each image, 0 to 127, as wide and high as the picture.
fn regions() -> String {
    let base64 =
        |values: &[f32]| STANDARD.encode(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
    let line = |image: u8| {
        let (edges, vector) = (base64(&[0.0, 0.0, 48.0, 48.0]), base64(&[1.0, f32::from(image)]));
        format!("{image}\t48\t48\t1\t{edges}\t{vector}\n")
    };
    (0..128).map(line).collect()
}

/// Writes [`TINY`], as modified by `change`, and its sources into `folder`.
pub(crate) fn pipeline(folder: &Path, name: &str, change: impl FnOnce(&str) -> String) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, change(TINY)).unwrap();
    std::fs::write(folder.join("ratings.csv"), ratings()).unwrap();
    std::fs::write(folder.join("regions.tsv"), regions()).unwrap();
    std::fs::create_dir_all(folder.join("npy")).unwrap();
    (0..128u8).for_each(|image| {
        std::fs::write(folder.join(format!("npy/{image}.npy")), array("2,", image..image + 1)).unwrap();
    });
    std::fs::write(folder.join("rows.npy"), array("128, 2", 0..128)).unwrap();
    std::fs::write(folder.join("rows.txt"), (0..128).rev().map(|image| format!("{image}\n")).collect::<String>())
        .unwrap();
    std::fs::copy(test_data::golden("published.safetensors"), folder.join("published.safetensors")).unwrap();
    let vocabulary = &test_data::golden_json("published.json")["vocabulary"];
    std::fs::write(folder.join("vocab.json"), vocabulary.to_string()).unwrap();
    file
}
