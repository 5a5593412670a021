//! Ranks as real processes that are killed: an epoch goes on with any number of them, and nothing is lost or repeated.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use pairloom::error::Result;
use pairloom::io::cache::Cache;
use pairloom::io::parquet;
use pairloom::io::shard::Shard;
use pairloom::io::shards::{Shards, Source};
use pairloom::kernels::epoch::{Order, Plan};
use pairloom::kernels::sample::Sample;
use pairloom::loader::{Data, DataSet, Images, Loader, Start, plain};
use pairloom::tables;

use crate::support::{pairloom, pipeline, tiny_pipeline};

const SHARDS: usize = 12;
const ROWS: usize = 50;
const SAMPLES: usize = SHARDS * ROWS;
const WIDTH: usize = 64;
const BATCH: usize = 16;

fn part(folder: &Path, shard: usize) -> PathBuf {
    folder.join(format!("part-{shard:05}.parquet"))
}

/// A table of features in parts, as a store has it.
fn write_parts(folder: &Path) {
    let schema = tables::features::table().schema_of_width(WIDTH);
    for shard in 0..SHARDS {
        let images = (shard * ROWS..(shard + 1) * ROWS).map(|image| i64::try_from(image).unwrap());
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let values =
            images.clone().flat_map(|image| (0..WIDTH).map(move |i| (image * 100) as f32 + i as f32)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(images)),
            Arc::new(StringArray::from(vec!["train"; ROWS])),
            tables::vectors(values, WIDTH).unwrap(),
        ];
        let batch = tables::batch(&schema, columns).unwrap();
        fs::write(part(folder, shard), parquet::encode(&schema, &[batch]).unwrap()).unwrap();
    }
}

/// One caption an image, of the number of the image.
fn samples() -> RecordBatch {
    let column = |value: &dyn Fn(usize) -> usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..SAMPLES).map(|i| i64::try_from(value(i)).unwrap())))
    };
    let schema = tables::samples::table().schema();
    let words = Int32Array::from_iter_values((0..SAMPLES).map(|i| i32::try_from(i % 7).unwrap()));
    let words = tables::list(&schema, "words", vec![1; SAMPLES], Arc::new(words)).unwrap();
    let (shard, row) = (column(&|i| i / ROWS), column(&|i| i % ROWS));
    let columns = vec![column(&|_| 0), column(&|i| i), column(&|i| i), column(&|i| i), shard, row, words];
    tables::batch(&schema, columns).unwrap()
}

/// The data in `folder`, through a cache that all ranks share, and its plan.
fn data(folder: &Path) -> Result<(Arc<Data>, Arc<Plan>)> {
    let cache = Cache::open(&folder.join("cache"), 64 << 20)?;
    let digest = |shard| blake3::hash(&fs::read(part(folder, shard)).unwrap()).to_hex().to_string();
    let sources = (0..SHARDS).map(|shard| Source { digest: digest(shard), rows: ROWS }).collect();
    let parts = folder.to_owned();
    let read = move |shard: usize| parquet::decode_whole(fs::read(part(&parts, shard)).unwrap().into());
    let shards = Shards::new("features", sources, cache, Box::new(read), Box::new(|| Ok(())));
    let images = Images::Vectors { shards, column: "feature".to_owned() };
    let samples = Arc::new(Shard::of_batch(&samples())?);
    let data = Data::new(&samples, vec![DataSet { images, samples: SAMPLES, weight: 1.0 }])?;
    let plan = Plan::new(&data.plan_sets(), Order::Windows(3), 11, BATCH).unwrap();
    Ok((Arc::new(data), Arc::new(plan)))
}

/// A rank: prints the captions of its share of every batch. Not a test of its own: [`Ranks`] starts it.
#[test]
#[ignore = "a process that other tests start"]
fn rank() {
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let folder = PathBuf::from(std::env::var("STREAMING_FOLDER").unwrap());
    let (data, plan) = data(&folder).unwrap();
    let start = Start {
        epoch: number("STREAMING_EPOCH") as u64,
        batch: number("STREAMING_BATCH"),
        rank: number("STREAMING_RANK"),
        ranks: number("STREAMING_RANKS"),
        threads: 2,
    };
    let mut loader = Loader::start(data, plan, start, &plain()).unwrap();
    let mut out = std::io::stdout().lock();
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        for (i, &caption) in batch.captions().iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let wanted = (caption * 100) as f32;
            assert_eq!(batch.images()[i * WIDTH], wanted, "the features of another image");
        }
        let ids: Vec<String> = batch.captions().iter().map(ToString::to_string).collect();
        writeln!(out, "\nshare {} [{}]", batch.number, ids.join(" ")).unwrap();
        out.flush().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All ranks of an epoch, from a batch on.
struct Ranks {
    children: Vec<Child>,
    lines: Vec<std::thread::JoinHandle<BTreeMap<usize, Vec<i64>>>>,
    begun: std::sync::mpsc::Receiver<()>,
}

impl Ranks {
    fn start(folder: &Path, epoch: u64, batch: usize, ranks: usize) -> Self {
        let (sender, begun) = std::sync::mpsc::sync_channel(ranks);
        let mut this = Self { children: vec![], lines: vec![], begun };
        for rank in 0..ranks {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "streaming::rank", "--ignored", "--nocapture"])
                .env("STREAMING_FOLDER", folder)
                .env("STREAMING_EPOCH", epoch.to_string())
                .env("STREAMING_BATCH", batch.to_string())
                .env("STREAMING_RANK", rank.to_string())
                .env("STREAMING_RANKS", ranks.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            let sender = sender.clone();
            let reader = std::thread::Builder::new().name(format!("rank {rank}"));
            let lines = reader.spawn(move || {
                let mut shares = BTreeMap::new();
                for line in out.lines().map_while(std::result::Result::ok) {
                    // What a kill cut short has no end.
                    let share = line.strip_prefix("share ").and_then(|line| line.strip_suffix(']'));
                    let Some((number, ids)) = share.and_then(|share| share.split_once(" [")) else { continue };
                    if shares.is_empty() {
                        let _ = sender.try_send(());
                    }
                    let ids = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
                    shares.insert(number.parse().unwrap(), ids);
                }
                shares
            });
            this.lines.push(lines.unwrap());
            this.children.push(child);
        }
        this
    }

    /// Kills them `after` all have begun.
    fn kill(&mut self, after: Duration) {
        for _ in 0..self.children.len() {
            let _ = self.begun.recv_timeout(Duration::from_mins(1));
        }
        std::thread::sleep(after);
        for child in &mut self.children {
            child.kill().unwrap();
        }
    }

    /// The batches, from `batch` on, that every rank has done: put together in the order of the ranks.
    fn done(mut self, batch: usize) -> Vec<Vec<i64>> {
        for child in &mut self.children {
            let status = child.wait().unwrap();
            assert!(status.success() || status.signal() == Some(9), "a rank ended by itself: {status}");
        }
        let mut shares: Vec<_> = self.lines.drain(..).map(|lines| lines.join().unwrap()).collect();
        let mut all = Vec::new();
        for number in batch.. {
            let parts: Option<Vec<Vec<i64>>> = shares.iter_mut().map(|shares| shares.remove(&number)).collect();
            let Some(parts) = parts else { break };
            all.push(parts.concat());
        }
        all
    }
}

fn whole(folder: &Path, epoch: u64) -> Vec<Vec<i64>> {
    let (data, plan) = data(folder).unwrap();
    let mut loader = Loader::start(data, plan, Start::alone(epoch, 0, 1), &plain()).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        all.push(batch.captions().to_vec());
    }
    all
}

fn check(all: &[Vec<i64>], folder: &Path, epoch: u64) {
    assert_eq!(all, whole(folder, epoch));
    let mut ids: Vec<i64> = all.concat();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..i64::try_from(SAMPLES).unwrap()), "ids are missing or come twice");
}

#[test]
fn an_epoch_goes_on_with_2_3_5_and_1_ranks() {
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path());
    let mut all: Vec<Vec<i64>> = Vec::new();
    for ranks in [2, 3, 5] {
        let mut running = Ranks::start(folder.path(), 0, all.len(), ranks);
        running.kill(Duration::from_millis(4));
        let done = running.done(all.len());
        all.extend(done);
    }
    assert!(all.len() < SAMPLES.div_ceil(BATCH), "all was done before the last change");
    all.extend(Ranks::start(folder.path(), 0, all.len(), 1).done(all.len()));
    check(&all, folder.path(), 0);
}

/// `kill -9` of all ranks at random places, each time going on with another number of them. `PAIRLOOM_KILLS` says how often.
#[test]
fn killed_anywhere_an_epoch_has_every_sample_once() {
    let kills = std::env::var("PAIRLOOM_KILLS").map_or(12, |kills| kills.parse::<usize>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path());
    let mut sample = Sample::new(3, &[]);
    let (mut epoch, mut all, mut killed, mut epochs) = (0, Vec::<Vec<i64>>::new(), 0, 0);
    while killed < kills || !all.is_empty() {
        let ranks = 1 + sample.below(4);
        let from = all.len();
        let mut running = Ranks::start(folder.path(), epoch, from, ranks);
        if killed < kills {
            running.kill(Duration::from_micros(sample.next_u64() % 8000));
            killed += 1;
        }
        all.extend(running.done(from));
        if all.len() == SAMPLES.div_ceil(BATCH) {
            check(&all, folder.path(), epoch);
            all.clear();
            epoch += 1;
            epochs += 1;
        }
    }
    println!("{killed} kills in {epochs} epochs");
    // What the killed left is swept, and a cache is no larger than it may be.
    drop(data(folder.path()).unwrap());
    let left = fs::read_dir(folder.path().join("cache/v1/tmp")).unwrap().count();
    assert_eq!(left, 0, "half-made shards are left");
}

/// What `pairloom` prints for these arguments, as JSON lines.
fn json_lines(store: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = pairloom().args(["--json", "--store"]).arg(store).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A real training: its plan can be asked for, and what it waited for is told.
#[test]
fn the_plan_of_a_training_and_its_waits_are_there_in_sql() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let store = folder.path().join("store");
    let events = json_lines(&store, &["run", file.to_str().unwrap()]);
    let loading = events.iter().rfind(|event| event["event"] == "loading").expect("an event of loading");
    assert_eq!(loading["stage"], "fit");
    assert!(loading["stalls"]["trainer"].as_f64().unwrap() > 0.0, "{loading}");
    let waits = json_lines(&store, &["sql", "SELECT * FROM store.stages WHERE stage = 'fit'"]);
    for column in ["waited_for_storage", "waited_for_decode", "trained"] {
        assert!(waits[0][column].as_f64().unwrap() >= 0.0, "{waits:?}");
    }

    // 96 images of five captions in batches of 32, for three ranks: every caption once, the same batches for any ranks.
    let plan = json_lines(&store, &["sql", "SELECT * FROM epoch_plan('fit', 1, 3)"]);
    let number = |row: &serde_json::Value, column: &str| row[column].as_i64().unwrap();
    assert_eq!(plan.len(), 480);
    let mut captions: Vec<i64> = plan.iter().map(|row| number(row, "caption_id")).collect();
    for (position, row) in plan.iter().enumerate() {
        let position = i64::try_from(position).unwrap();
        assert_eq!((number(row, "position"), number(row, "batch")), (position, position / 32));
        // 32 samples for three ranks: 10, 11 and 11.
        let rank = [0..10, 10..21, 21..32].iter().position(|share| share.contains(&(position % 32))).unwrap();
        assert_eq!(number(row, "rank"), i64::try_from(rank).unwrap());
    }
    let alone = json_lines(&store, &["sql", "SELECT caption_id FROM epoch_plan('fit', 1)"]);
    assert!(alone.iter().map(|row| number(row, "caption_id")).eq(captions.iter().copied()));
    let other = json_lines(&store, &["sql", "SELECT caption_id FROM epoch_plan('fit', 0)"]);
    assert!(!other.iter().map(|row| number(row, "caption_id")).eq(captions.iter().copied()));
    captions.sort_unstable();
    captions.dedup();
    assert_eq!(captions.len(), 480);
    let joined = json_lines(
        &store,
        &[
            "sql",
            "SELECT count(*) AS n FROM epoch_plan('fit', 1) p JOIN pairs.captions c ON p.caption_id = c.caption_id",
        ],
    );
    assert_eq!(joined[0]["n"], 480);

    for (query, told) in [
        ("SELECT * FROM epoch_plan('fit')", "1 arguments, wanted"),
        ("SELECT * FROM epoch_plan('fit', -1)", "no number from 0 on"),
        ("SELECT * FROM epoch_plan('fit', 9000000000000000000)", "wanted one below 2^32"),
        ("SELECT * FROM epoch_plan('fit', 0, 33)", "wanted 1 to 32 ranks"),
        ("SELECT * FROM epoch_plan('pairs', 0)", "has no table `plan`"),
        ("SELECT * FROM epoch_plan('fitt', 0)", "did you mean `fit.plan`"),
    ] {
        let output = pairloom().args(["sql", query, "--store"]).arg(&store).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(told), "{query}: {error}");
    }
}

/// A flipped bit of a shard in the cache is found where it is read, and the next run makes the shard anew.
#[test]
fn a_damaged_shard_is_an_error_and_the_next_run_repairs_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, cache) = (folder.path().join("store"), folder.path().join("cache"));
    let run = |file: &Path| {
        let mut command = pairloom();
        command.env("PAIRLOOM_CACHE", &cache).args(["run", "--quiet", "--store"]).arg(&store).arg(file);
        command.output().unwrap()
    };
    assert!(run(&tiny_pipeline(folder.path())).status.success());
    let shards: Vec<PathBuf> = walkdir::WalkDir::new(&cache)
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.ends_with("shard.arrow"))
        .collect();
    let features = shards.iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut content = fs::read(features).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 8;
    let writable = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(features, writable).unwrap();
    fs::write(features, &content).unwrap();
    let other = pipeline(folder.path(), "other.toml", |text| text.replace("epochs = 2", "epochs = 1"));
    let output = run(&other);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("shard.arrow") && told.contains("hint"), "{told}");
    let output = run(&other);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A training in windows goes through a cache that is smaller than its table, to the same bytes.
#[test]
fn a_table_larger_than_the_cache_is_trained_on_in_windows() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "windows.toml", |text| {
        let text = text
            .replace("train = 96, val = 16, test = 16, pixels = 48", "train = 560, val = 60, test = 16, pixels = 32");
        let text = text.replace("resize = 48\ncrop = 48", "resize = 32\ncrop = 32");
        let text = text.replace("epochs = 2\n", "epochs = 2\norder = { windows = 1 }\n");
        text[..text.find("[stage.joint.embed]").unwrap()].to_owned()
    });
    let run = |name: &str, size: &str| {
        let (store, cache) = (folder.path().join(name), folder.path().join(name).join("cache"));
        let mut command = pairloom();
        command.env("PAIRLOOM_CACHE", &cache).env("PAIRLOOM_CACHE_SIZE", size);
        let output = command.args(["run", "--quiet", "--store"]).arg(&store).arg(&file).output().unwrap();
        assert!(output.status.success(), "{size}: {}", String::from_utf8_lossy(&output.stderr));
        let parameters = walkdir::WalkDir::new(&store)
            .into_iter()
            .map(|entry| entry.unwrap().into_path())
            .find(|path| path.ends_with("model.safetensors"));
        let held = walkdir::WalkDir::new(&cache).into_iter().map(|entry| entry.unwrap().metadata().unwrap());
        let held: u64 = held.filter(fs::Metadata::is_file).map(|meta| meta.len()).sum();
        (fs::read(parameters.unwrap()).unwrap(), held)
    };
    // Five parts of 128 x 512 x f32.
    let (model, all) = run("large", "64MiB");
    let (same, held) = run("small", "1100KiB");
    assert!(all > 1_300_000 && held <= 1100 << 10, "{all} and {held} bytes of shards");
    assert!(model == same, "another model");
}
