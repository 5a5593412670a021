//! Tests of data loading by several processes: after all of them are killed, any number of ranks resumes the epoch,
//! without a missing or repeated pair.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use pairloom_base::error::Result;
use pairloom_kernels::epoch::{DataOrder, Shuffle};
use pairloom_kernels::random::Rng;
use pairloom_loader::{Loader, LoaderData, LoaderDataSet, LoaderImages, LoaderStart, pooled_heap};
use pairloom_storage::cache::ShardCache;
use pairloom_storage::parquet;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::{ShardSource, TableShards};
use pairloom_tables as tables;

use crate::support::{pairloom, pipeline, tiny_pipeline};

const SHARDS: usize = 12;
const ROWS: usize = 50;
const SAMPLES: usize = SHARDS * ROWS;
const WIDTH: usize = 64;
const BATCH: usize = 16;

fn part(folder: &Path, shard: usize) -> PathBuf {
    folder.join(format!("part-{shard:05}.parquet"))
}

/// Writes a table of features as the parts of a store.
fn write_parts(folder: &Path) {
    let schema = tables::features::table().schema_with_width(WIDTH);
    for shard in 0..SHARDS {
        let images = (shard * ROWS..(shard + 1) * ROWS).map(|image| i64::try_from(image).unwrap());
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let values =
            images.clone().flat_map(|image| (0..WIDTH).map(move |i| (image * 100) as f32 + i as f32)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(images)),
            Arc::new(StringArray::from(vec!["train"; ROWS])),
            tables::vector_array(values, WIDTH).unwrap(),
        ];
        let batch = tables::batch(&schema, columns).unwrap();
        fs::write(part(folder, shard), parquet::encode(&schema, &[batch]).unwrap()).unwrap();
    }
}

/// Table `samples` with one caption per image, of the same id.
fn samples() -> RecordBatch {
    let column = |value: &dyn Fn(usize) -> usize| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..SAMPLES).map(|i| i64::try_from(value(i)).unwrap())))
    };
    let schema = tables::samples::table().schema();
    let words = Int32Array::from_iter_values((0..SAMPLES).map(|i| i32::try_from(i % 7).unwrap()));
    let words = tables::list_array(&schema, "token_ids", vec![1; SAMPLES], Arc::new(words)).unwrap();
    let (shard, row) = (column(&|i| i / ROWS), column(&|i| i % ROWS));
    let columns = vec![column(&|_| 0), column(&|i| i), column(&|i| i), column(&|i| i), shard, row, words];
    tables::batch(&schema, columns).unwrap()
}

/// Opens the data in `folder` through a cache that all ranks share, and their order.
fn data(folder: &Path) -> Result<(Arc<LoaderData>, Arc<DataOrder>)> {
    let cache = ShardCache::open(&folder.join("cache"), 64 << 20)?;
    let digest = |shard| blake3::hash(&fs::read(part(folder, shard)).unwrap()).to_hex().to_string();
    let sources = (0..SHARDS).map(|shard| ShardSource { digest: digest(shard), rows: ROWS }).collect();
    let parts = folder.to_owned();
    let read = move |shard: usize| parquet::decode_whole(fs::read(part(&parts, shard)).unwrap().into());
    let shards = TableShards::new("features", sources, cache, Box::new(read), Box::new(|| Ok(())));
    let images = LoaderImages::Vectors { shards, column: "feature".to_owned() };
    let samples = Arc::new(Shard::from_batch(&samples())?);
    let data = LoaderData::new(&samples, vec![LoaderDataSet { images, samples: SAMPLES, weight: 1.0 }])?;
    let order = DataOrder::new(&data.order_sets(), Shuffle::Windows(3), 11, BATCH).unwrap();
    Ok((Arc::new(data), Arc::new(order)))
}

/// Process of a rank, which prints the captions of its share of every batch. Not a test: [`RankProcesses`] starts it.
#[test]
#[ignore = "a process that other tests start"]
fn rank() {
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let folder = PathBuf::from(std::env::var("STREAMING_FOLDER").unwrap());
    let (data, order) = data(&folder).unwrap();
    let start = LoaderStart {
        epoch: number("STREAMING_EPOCH") as u64,
        first_batch: number("STREAMING_BATCH"),
        rank: number("STREAMING_RANK"),
        world_size: number("STREAMING_RANKS"),
        threads: 2,
    };
    let mut loader = Loader::start(data, order, start, &pooled_heap()).unwrap();
    let mut out = std::io::stdout().lock();
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        for (i, pair) in batch.own_pairs().iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let expected = (pair.row * 100) as f32;
            assert_eq!(batch.images()[i * WIDTH], expected, "the features belong to the image of the caption");
        }
        let ids: Vec<String> = batch.own_pairs().iter().map(|pair| pair.row.to_string()).collect();
        writeln!(out, "\nshare {} [{}]", batch.number, ids.join(" ")).unwrap();
        out.flush().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Processes of all ranks, which load an epoch from a batch on.
struct RankProcesses {
    children: Vec<Child>,
    lines: Vec<std::thread::JoinHandle<BTreeMap<usize, Vec<i64>>>>,
    begun: std::sync::mpsc::Receiver<()>,
}

impl RankProcesses {
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
                    // The last line of a killed process may be incomplete.
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

    /// Kills all ranks, with a delay `after` all have loaded a batch.
    fn kill(&mut self, after: Duration) {
        for _ in 0..self.children.len() {
            let _ = self.begun.recv_timeout(Duration::from_mins(1));
        }
        std::thread::sleep(after);
        for child in &mut self.children {
            child.kill().unwrap();
        }
    }

    /// Returns the batches from `batch` on that all ranks have loaded, with the shares in the order of the ranks.
    fn done(mut self, batch: usize) -> Vec<Vec<i64>> {
        for child in &mut self.children {
            let status = child.wait().unwrap();
            assert!(status.success() || status.signal() == Some(9), "a rank failed: {status}");
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

/// Batches of an epoch, loaded by a single process.
fn single_process_batches(folder: &Path, epoch: u64) -> Vec<Vec<i64>> {
    let (data, order) = data(folder).unwrap();
    let mut loader = Loader::start(data, order, LoaderStart::single_rank(epoch, 0, 1), &pooled_heap()).unwrap();
    let mut all = Vec::new();
    while let Some(batch) = loader.next(|| Ok(())).unwrap() {
        all.push(batch.own_pairs().iter().map(|pair| pair.image.1).collect());
    }
    all
}

/// Asserts that the batches are those of a single process, with every caption once.
fn assert_epoch(all: &[Vec<i64>], folder: &Path, epoch: u64) {
    assert_eq!(all, single_process_batches(folder, epoch));
    let mut ids: Vec<i64> = all.concat();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..i64::try_from(SAMPLES).unwrap()), "ids are missing or repeated");
}

#[test]
fn an_epoch_is_resumed_with_2_3_5_and_1_ranks() {
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path());
    let mut all: Vec<Vec<i64>> = Vec::new();
    for ranks in [2, 3, 5] {
        let mut running = RankProcesses::start(folder.path(), 0, all.len(), ranks);
        running.kill(Duration::from_millis(4));
        let done = running.done(all.len());
        all.extend(done);
    }
    assert!(all.len() < SAMPLES.div_ceil(BATCH), "the epoch ended before the last change of ranks");
    all.extend(RankProcesses::start(folder.path(), 0, all.len(), 1).done(all.len()));
    assert_epoch(&all, folder.path(), 0);
}

/// All ranks are killed at random times, and the epoch is resumed with a random number of them. `PAIRLOOM_KILLS` is the
/// number of kills.
#[test]
fn killed_ranks_neither_lose_nor_repeat_pairs() {
    let kills = std::env::var("PAIRLOOM_KILLS").map_or(12, |kills| kills.parse::<usize>().unwrap());
    let folder = tempfile::tempdir().unwrap();
    write_parts(folder.path());
    let mut rng = Rng::new(3, &[]);
    let (mut epoch, mut all, mut killed, mut epochs) = (0, Vec::<Vec<i64>>::new(), 0, 0);
    while killed < kills || !all.is_empty() {
        let ranks = 1 + rng.uniform_below(4);
        let from = all.len();
        let mut running = RankProcesses::start(folder.path(), epoch, from, ranks);
        if killed < kills {
            running.kill(Duration::from_micros(rng.next_u64() % 8000));
            killed += 1;
        }
        all.extend(running.done(from));
        if all.len() == SAMPLES.div_ceil(BATCH) {
            assert_epoch(&all, folder.path(), epoch);
            all.clear();
            epoch += 1;
            epochs += 1;
        }
    }
    println!("{killed} kills in {epochs} epochs");
    // Opening the cache removes incomplete shards of killed processes.
    drop(data(folder.path()).unwrap());
    let left = fs::read_dir(folder.path().join("cache/v1/tmp")).unwrap().count();
    assert_eq!(left, 0, "incomplete shards are left");
}

/// Output of `pairloom` with these arguments, as JSON lines.
fn json_lines(store: &Path, arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = pairloom().args(["--json", "--store"]).arg(store).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_data_order_and_the_stalls_of_a_training_can_be_queried() {
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let store = folder.path().join("store");
    let events = json_lines(&store, &["run", file.to_str().unwrap()]);
    let loading = events.iter().rfind(|event| event["event"] == "loading").expect("an event of loading");
    assert_eq!(loading["stage"], "fit");
    // Steps and validations have epoch, step and scores; the last ones are those of the last epoch.
    let last = |name: &str| events.iter().rfind(|event| event["event"] == name).expect("an event of the training");
    let (trained, validated) = (last("trained"), last("validated"));
    assert!(trained["loss"].as_f64().is_some() && validated["rsum"].as_f64().is_some(), "{trained} {validated}");
    assert_eq!(trained["epoch"].as_u64().unwrap() + 1, trained["epochs"].as_u64().unwrap());
    assert_eq!((&trained["epoch"], &trained["step"]), (&validated["epoch"], &validated["step"]));
    let progress = events.iter().rfind(|event| event["event"] == "progress" && event["stage"] == "fit");
    let progress = progress.expect("progress of the training");
    assert_eq!((&progress["unit"], &progress["done"]), (&"steps".into(), &trained["step"]));
    assert!(loading["stalls"]["trainer"].as_f64().unwrap() > 0.0, "{loading}");
    let waits = json_lines(&store, &["sql", "SELECT * FROM store.stages WHERE stage = 'fit'"]);
    for column in ["waited_for_storage", "waited_for_decode", "trained"] {
        assert!(waits[0][column].as_f64().unwrap() >= 0.0, "{waits:?}");
    }

    // 96 images with five captions each, in batches of 32. Every caption occurs once; batches do not depend on the
    // number of ranks.
    let order = json_lines(&store, &["sql", "SELECT * FROM epoch_order('fit', 1, 3)"]);
    let number = |row: &serde_json::Value, column: &str| row[column].as_i64().unwrap();
    assert_eq!(order.len(), 480);
    let mut captions: Vec<i64> = order.iter().map(|row| number(row, "caption_id")).collect();
    for (position, row) in order.iter().enumerate() {
        let position = i64::try_from(position).unwrap();
        assert_eq!((number(row, "position"), number(row, "batch")), (position, position / 32));
        // 32 pairs for three ranks: shares of 10, 11 and 11.
        let rank = [0..10, 10..21, 21..32].iter().position(|share| share.contains(&(position % 32))).unwrap();
        assert_eq!(number(row, "rank"), i64::try_from(rank).unwrap());
    }
    let alone = json_lines(&store, &["sql", "SELECT caption_id FROM epoch_order('fit', 1)"]);
    assert!(alone.iter().map(|row| number(row, "caption_id")).eq(captions.iter().copied()));
    let other = json_lines(&store, &["sql", "SELECT caption_id FROM epoch_order('fit', 0)"]);
    assert!(!other.iter().map(|row| number(row, "caption_id")).eq(captions.iter().copied()));
    captions.sort_unstable();
    captions.dedup();
    assert_eq!(captions.len(), 480);
    let joined = json_lines(
        &store,
        &[
            "sql",
            "SELECT count(*) AS n FROM epoch_order('fit', 1) p JOIN pairs.captions c ON p.caption_id = c.caption_id",
        ],
    );
    assert_eq!(joined[0]["n"], 480);

    for (query, message) in [
        ("SELECT * FROM epoch_order('fit')", "1 arguments, expected"),
        ("SELECT * FROM epoch_order('fit', -1)", "`-1` is not a whole number from 0"),
        ("SELECT * FROM epoch_order('fit', 9000000000000000000)", "expected one below 2^32"),
        ("SELECT * FROM epoch_order('fit', 0, 33)", "expected 1 to 32 ranks"),
        ("SELECT * FROM epoch_order('pairs', 0)", "has no table `data_order`"),
        ("SELECT * FROM epoch_order('fitt', 0)", "did you mean `fit.data_order`"),
    ] {
        let output = pairloom().args(["sql", query, "--store"]).arg(&store).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(message), "{query}: {error}");
    }
}

/// The shard in the cache has a flipped bit.
#[test]
fn a_damaged_shard_is_an_error_and_the_next_run_replaces_it() {
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("shard.arrow") && stderr.contains("hint"), "{stderr}");
    let output = run(&other);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The model is the same, byte for byte, as with a large cache.
#[test]
fn a_training_in_windows_works_with_a_cache_smaller_than_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "windows.toml", |text| {
        let text = text
            .replace("train = 96, val = 16, test = 16, pixels = 48", "train = 560, val = 60, test = 16, pixels = 32");
        let text = text.replace("resize = 48\ncrop = 48", "resize = 32\ncrop = 32");
        let text = text.replace("epochs = 2\n", "epochs = 2\nshuffle = { windows = 1 }\n");
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
    assert!(model == same, "the models differ");
}
