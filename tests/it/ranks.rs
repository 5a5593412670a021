//! Tests of distributed trainings: ranks started by Pairloom or as by `torchrun` and `srun`, and ranks that are killed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use crate::support::{pairloom, pipeline};

/// Writes the tiny pipeline up to its training, with `epochs` epochs.
fn training(folder: &Path, epochs: u32) -> std::path::PathBuf {
    pipeline(folder, "training.toml", |tiny| {
        let end = tiny.find("[stage.joint.embed]").expect("the stage after the training");
        tiny[..end].replace("epochs = 2", &format!("epochs = {epochs}"))
    })
}

fn run(store: &Path, file: &Path, more: &[&str]) -> Command {
    let mut run = pairloom();
    run.arg("run").arg("--store").arg(store).arg(file).args(more);
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    run
}

/// Adds the environment variables that `torchrun` sets for a rank.
fn with_rank(mut run: Command, rank: usize, world_size: usize, port: u16) -> Command {
    run.env("RANK", rank.to_string()).env("WORLD_SIZE", world_size.to_string());
    run.env("LOCAL_RANK", rank.to_string()).env("LOCAL_WORLD_SIZE", world_size.to_string());
    run.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    run
}

/// Returns a port that no other test uses, below the range of ephemeral ports.
fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 500).unwrap() * 20;
    let next = || first + TAKEN.fetch_add(1, Ordering::SeqCst);
    std::iter::repeat_with(next).find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[expect(clippy::disallowed_methods, reason = "the test measures time")]
fn now() -> Instant {
    Instant::now()
}

/// Result of a query over a store, as CSV.
fn sql(store: &Path, query: &str) -> String {
    let output = pairloom().args(["sql", "--format", "csv", "--store"]).arg(store).arg(query).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Losses of all steps of a training.
fn losses(store: &Path, stage: &str) -> Vec<f64> {
    let losses = sql(store, &format!("SELECT loss FROM {stage}.history ORDER BY step"));
    losses.lines().skip(1).map(|line| line.parse().unwrap()).collect()
}

/// Ids of the processes of rank 1 whose command line contains this folder.
fn followers(folder: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
        let environment = read("environ");
        let is_follower = environment.split(|byte| *byte == 0).any(|variable| variable == b"RANK=1");
        if is_follower && command.contains(&*folder.to_string_lossy()) {
            found.push(id);
        }
    }
    found
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_mins(2), "timeout while waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a running training has saved a checkpoint. Returns the process id of its rank 1.
fn wait_for_checkpoint(run: &mut Child, folder: &Path) -> u32 {
    let mut events = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(events.any(|event| event.contains("state_saved")), "no checkpoint was saved");
    let rest = std::thread::Builder::new().name("rest of the events".to_owned());
    // A full pipe would block the training.
    rest.spawn(move || events.count()).unwrap();
    wait_for("rank 1", || followers(folder).first().copied())
}

fn kill(id: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &id.to_string()]).status().unwrap().success());
}

/// Contents of all parts and model files, by path.
fn content(store: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut content = BTreeMap::new();
    for entry in walkdir::WalkDir::new(store).into_iter().map(Result::unwrap) {
        let name = entry.path().strip_prefix(store).unwrap().to_string_lossy().into_owned();
        if entry.file_type().is_file() && (name.ends_with(".parquet") || name.contains("/model/")) {
            content.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    content
}

/// Asserts that the losses of all steps of `fit` in two stores are equal up to rounding.
fn assert_same_losses(one: &Path, two: &Path) {
    assert_same_losses_of("fit", one, two);
}

/// As [`assert_same_losses`], of another training.
fn assert_same_losses_of(stage: &str, one: &Path, two: &Path) {
    let (one, two) = (losses(one, stage), losses(two, stage));
    assert!(one.len() > 20 && one.len() == two.len());
    for (step, (one, two)) in one.iter().zip(&two).enumerate() {
        // Rounding differences grow with every step.
        let within = if step < 10 { 1e-5 } else { 1e-3 };
        assert!((one - two).abs() <= within * one.abs(), "step {step}: {one} and {two}");
    }
}

/// Trainings of SGR and VSRN on a grid of 2 × 2 cells, without batch statistics. Two ranks have the losses of one, and a
/// killed run goes on to the same bytes.
#[test]
fn models_over_regions_train_on_two_ranks_and_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "regions.toml", |tiny| {
        let end = tiny.find("[stage.detected.import_regions]").expect("the stage after the features");
        let train = |name: &str, model: &str| {
            format!(
                "[stage.{name}.train]\nregions = \"cnn.regions\"\ncaptions = \"pairs.captions\"\nbatch_size = 32\n\
                 epochs = 3\ncheckpoint_steps = 4\nmodel.{model}\n"
            )
        };
        let widths = "batch_norm = \"frozen\", embed_size = 8, word_dim = 4";
        [
            &tiny[..end],
            "pooling = { grid = 2 }\n",
            &train("fit", &format!("sgraf = {{ similarity_dim = 4, {widths} }}")),
            &train("other", &format!("vsrn = {{ caption_dim = 4, caption_word_dim = 4, {widths} }}")),
        ]
        .concat()
    });
    let [one, two, killed] = ["one", "two", "killed"].map(|name| folder.path().join(name));
    for (store, ranks) in [(&one, "stage.*.train.ranks=1"), (&two, "stage.*.train.ranks=2")] {
        let output = run(store, &file, &["--quiet", "--set", ranks]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    for stage in ["fit", "other"] {
        assert_same_losses_of(stage, &one, &two);
    }
    assert!(followers(folder.path()).is_empty(), "a process is still running");

    let mut first = run(&killed, &file, &["--json"]).spawn().unwrap();
    let mut events = BufReader::new(first.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(events.any(|event| event.contains("state_saved")), "no checkpoint was saved");
    first.kill().unwrap();
    first.wait().unwrap();
    let models = |store: &Path| content(store).keys().filter(|name| name.ends_with("model.safetensors")).count();
    assert!(models(&killed) < 2 && models(&one) == 2, "a training is killed");
    let output = run(&killed, &file, &["--quiet"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(content(&killed) == content(&one), "the resumed training has other bytes");
}

/// HAL compares each pair with the whole batch, and with a memory bank that all ranks embed together.
#[test]
fn two_ranks_train_like_one_with_hal() {
    let folder = tempfile::tempdir().unwrap();
    let file = training(folder.path(), 2);
    let bank = "stage.fit.train.memory_bank={ fraction = 0.5, neighbours = 50, first_epoch = 0, keep = \"all\" }";
    for (name, more) in [("hal", vec![]), ("bank", vec!["--set", bank])] {
        let more = [vec!["--quiet", "--set", "stage.fit.train.loss={ hal = {} }"], more].concat();
        let (one, two) = (folder.path().join(format!("{name} one")), folder.path().join(format!("{name} two")));
        for (store, ranks) in [(&one, "stage.fit.train.ranks=1"), (&two, "stage.fit.train.ranks=2")] {
            let output = run(store, &file, &[more.as_slice(), &["--set", ranks]].concat()).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
        }
        assert_same_losses(&one, &two);
    }
    let sums = |store: &str| {
        sql(
            &folder.path().join(store),
            "SELECT epoch, count(*), sum(caption_id) FROM fit.memory_bank GROUP BY epoch ORDER BY epoch",
        )
    };
    assert_eq!(sums("bank one"), sums("bank two"));
    assert!(sums("bank one").lines().count() == 3, "{}", sums("bank one"));
}

#[test]
fn two_ranks_train_like_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = training(folder.path(), 2);
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let output = run(&one, &file, &["--quiet"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run(&two, &file, &["--quiet", "--set", "stage.fit.train.ranks=2"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "other ranks print nothing");
    assert_same_losses(&one, &two);
    assert!(followers(folder.path()).is_empty(), "a process is still running");
    // The number of ranks is not part of the key: the result is reused.
    let again = run(&folder.path().join("two"), &file, &["--set", "stage.fit.train.ranks=2"]).output().unwrap();
    assert!(stderr(&again).contains("\n0 of 5 stages ran"), "{}", stderr(&again));
}

/// Number of parts of a kind of stage in a store. Names alone are looked at: reading the store takes as long as a part.
fn written_parts(store: &Path, kind: &str) -> usize {
    let files = walkdir::WalkDir::new(store.join("v1").join(kind)).into_iter().filter_map(Result::ok);
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "parquet")).count()
}

/// Three blocks of captions for two ranks, one of which is killed on the way. Each rank has one thread, on whose number
/// the bits depend.
#[test]
fn two_ranks_embed_to_the_bytes_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "embedding.toml", |tiny| {
        let end = tiny.find("[stage.pairwise.score_pairs]").expect("the stage after the embedding");
        let more = tiny[..end].replace("train = 96", "train = 900").replace("epochs = 2", "epochs = 1");
        more.replace("splits = [\"test\"]", "splits = []")
    });
    let store = folder.path().join("store");
    let output = run(&store, &file, &["--quiet", "--threads", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let embeddings = |content: BTreeMap<String, Vec<u8>>| -> Vec<(String, Vec<u8>)> {
        content.into_iter().filter(|(name, _)| name.starts_with("v1/embed/")).collect()
    };
    let one = embeddings(content(&store));
    assert_eq!(sql(&store, "SELECT count(*) FROM joint.caption_embeddings"), "count(*)\n4660\n");
    std::fs::remove_dir_all(store.join("v1/embed")).unwrap();
    let two = ["--quiet", "--threads", "2", "--set", "stage.joint.embed.ranks=2"];
    let killed = run(&store, &file, &two).spawn().unwrap();
    let rank = wait_for("rank 1", || followers(folder.path()).first().copied());
    // The captions come after the images, and each block needs both ranks.
    wait_for("the images", || (written_parts(&store, "embed") >= 1).then_some(()));
    kill(rank, "-9");
    let output = killed.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("rank 1 of 2 was killed by signal 9"), "{}", stderr(&output));
    let before = embeddings(content(&store));
    assert!(before.len() < one.len() && before.iter().all(|part| one.contains(part)), "what is there is right");
    let output = run(&store, &file, &two).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(one.len() >= 3 && one == embeddings(content(&store)), "embeddings differ");
    assert!(followers(folder.path()).is_empty(), "a process is still running");
}

/// Six blocks of images for two ranks, one of which is killed on the way.
#[test]
fn two_ranks_extract_to_the_bytes_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "features.toml", |tiny| {
        let end = tiny.find("[stage.detected.import_regions]").expect("the stage after the features");
        tiny[..end].replace("train = 96", "train = 700") + "pooling = { grid = 2 }\n"
    });
    let store = folder.path().join("store");
    let output = run(&store, &file, &["--quiet", "--threads", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let features = |content: BTreeMap<String, Vec<u8>>| -> Vec<(String, Vec<u8>)> {
        content.into_iter().filter(|(name, _)| name.starts_with("v1/extract/")).collect()
    };
    let one = features(content(&store));
    assert!(one.len() == 12, "six parts of regions, and six of boxes");
    std::fs::remove_dir_all(store.join("v1/extract")).unwrap();
    let two = ["--quiet", "--threads", "2", "--set", "stage.cnn.extract.ranks=2"];
    let killed = run(&store, &file, &two).spawn().unwrap();
    let rank = wait_for("rank 1", || followers(folder.path()).first().copied());
    wait_for("two parts", || (written_parts(&store, "extract") >= 2).then_some(()));
    kill(rank, "-9");
    let output = killed.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("rank 1"), "{}", stderr(&output));
    let before = features(content(&store));
    assert!(before.len() < one.len(), "{} parts of {}: the kill came late", before.len(), one.len());
    assert!(before.iter().all(|part| one.contains(part)), "what is there is right");
    let output = run(&store, &file, &two).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(one == features(content(&store)), "features differ");
    let shared = walkdir::WalkDir::new(&store).into_iter().map(Result::unwrap);
    let shared =
        shared.filter(|entry| entry.file_type().is_file() && entry.path().to_string_lossy().contains("/shared/"));
    assert_eq!(shared.count(), 0, "blocks of rank 1 are removed");
    assert!(followers(folder.path()).is_empty(), "a process is still running");
}

/// Adds the environment variables that `srun` sets for a task. The port follows from the number of the job.
fn with_slurm_task(mut run: Command, task: usize, tasks: usize, job: u16) -> Command {
    run.env("SLURM_JOB_ID", job.to_string()).env("SLURM_STEP_ID", "0").env("SLURM_STEP_NODELIST", "localhost");
    run.env("SLURM_PROCID", task.to_string()).env("SLURM_LOCALID", task.to_string());
    run.env("SLURM_STEP_NUM_TASKS", tasks.to_string());
    run
}

/// Three blocks of images and of captions. Each rank has one thread.
#[test]
fn ranks_started_by_torchrun_or_slurm_extract_and_embed_to_the_bytes_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "inference.toml", |tiny| {
        let end = tiny.find("[stage.pairwise.score_pairs]").expect("the stage after the embedding");
        let more = tiny[..end].replace("train = 96", "train = 900").replace("epochs = 2", "epochs = 1");
        more.replace("splits = [\"test\"]", "splits = []")
    });
    let store = folder.path().join("store");
    let output = run(&store, &file, &["--quiet", "--threads", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let inferred = || -> Vec<(String, Vec<u8>)> {
        let is_inferred = |name: &String| name.starts_with("v1/embed/") || name.starts_with("v1/extract/");
        content(&store).into_iter().filter(|(name, _)| is_inferred(name)).collect()
    };
    let one = inferred();
    let of_extract = one.iter().filter(|(name, _)| name.starts_with("v1/extract/")).count();
    assert!(of_extract >= 2 && one.len() - of_extract >= 3, "several blocks of both");
    let port = free_port();
    // Below the ports of `free_port`.
    let job = (0..5_000).find(|job| TcpListener::bind(("127.0.0.1", 15_000 + job)).is_ok()).unwrap();
    type Launched<'l> = &'l dyn Fn(usize) -> Command;
    let by_torchrun: Launched<'_> = &|rank| with_rank(run(&store, &file, &["--threads", "2"]), rank, 2, port);
    let by_slurm: Launched<'_> = &|rank| with_slurm_task(run(&store, &file, &["--threads", "1"]), rank, 2, job);
    for (launcher, launched) in [("torchrun", by_torchrun), ("SLURM", by_slurm)] {
        for stage in ["extract", "embed"] {
            std::fs::remove_dir_all(store.join("v1").join(stage)).unwrap();
        }
        let other = launched(1).spawn().unwrap();
        let first = launched(0).output().unwrap();
        let other = other.wait_with_output().unwrap();
        assert!(first.status.success(), "{launcher}: {}", stderr(&first));
        assert_eq!((other.status.code(), stderr(&other).as_str()), (Some(0), ""), "{launcher}: rank 1 prints nothing");
        assert!(stderr(&first).contains("2 of 6 stages ran"), "{launcher}: {}", stderr(&first));
        assert!(one == inferred(), "{launcher}: features or embeddings differ");
    }
}

#[test]
fn ranks_started_by_a_launcher_have_one_result() {
    let folder = tempfile::tempdir().unwrap();
    let file = training(folder.path(), 1);
    let (store, port) = (folder.path().join("store"), free_port());
    let others: Vec<Child> =
        [1, 2].map(|number| with_rank(run(&store, &file, &[]), number, 3, port).spawn().unwrap()).into();
    let first = with_rank(run(&store, &file, &[]), 0, 3, port).output().unwrap();
    assert!(first.status.success(), "{}", stderr(&first));
    for other in others {
        let output = other.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "other ranks print nothing");
    }
    assert_eq!(sql(&store, "SELECT count(*) FROM store.runs").lines().nth(1), Some("1"));
    // If every stage is up to date, all ranks end.
    let other = with_rank(run(&store, &file, &[]), 1, 2, port).spawn().unwrap();
    let first = with_rank(run(&store, &file, &[]), 0, 2, port).output().unwrap();
    assert!(first.status.success() && stderr(&first).contains("\n0 of 5 stages ran"), "{}", stderr(&first));
    assert!(other.wait_with_output().unwrap().status.success());
}

#[test]
fn different_settings_are_an_error_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let file = training(folder.path(), 1);
    let (store, port) = (folder.path().join("store"), free_port());
    let other = with_rank(run(&store, &file, &["--set", "stage.fit.train.batch_size=16"]), 1, 2, port).spawn().unwrap();
    let first = with_rank(run(&store, &file, &[]), 0, 2, port).output().unwrap();
    let other = other.wait_with_output().unwrap();
    for output in [first, other] {
        let stderr = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("`fit.train.batch_size` is 32 on rank 0 and 16 on rank 1"), "{stderr}");
    }
    assert!(!store.join("v1/ingest").exists(), "nothing ran");
    // One rank has an invalid pipeline file.
    let other = with_rank(run(&store, &file, &["--set", "stage.fit.train.bach=16"]), 1, 2, port).spawn().unwrap();
    let first = with_rank(run(&store, &file, &[]), 0, 2, port).output().unwrap();
    let other = other.wait_with_output().unwrap();
    assert_eq!((first.status.code(), other.status.code()), (Some(2), Some(2)));
    assert!(stderr(&first).contains("rank 1: its pipeline file"), "{}", stderr(&first));
    assert!(stderr(&other).contains("bach"), "{}", stderr(&other));
}

#[test]
fn all_invalid_environment_variables_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = training(folder.path(), 1);
    let mut wrong = run(&folder.path().join("store"), &file, &[]);
    wrong.env("RANK", "2").env("WORLD_SIZE", "2").env("MASTER_PORT", "high");
    let output = wrong.output().unwrap();
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for problem in ["RANK is 2, expected a number below WORLD_SIZE", "MASTER_ADDR is not set", "MASTER_PORT is `high`"]
    {
        assert!(stderr.contains(problem), "{stderr}");
    }
}

#[test]
fn a_killed_rank_ends_the_run_within_seconds_and_the_next_run_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let file = training(folder.path(), 400);
    let store = folder.path().join("store");
    let two = ["--json", "--set", "stage.fit.train.ranks=2"];
    let mut first = run(&store, &file, &two).spawn().unwrap();
    let follower = wait_for_checkpoint(&mut first, folder.path());
    kill(follower, "-KILL");
    let killed = now();
    let output = first.wait_with_output().unwrap();
    let stderr = stderr(&output);
    println!("rank 0 ended {:?} after the death of rank 1", killed.elapsed());
    assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", killed.elapsed());
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("stage `fit`: rank 1 of 2 was killed by signal 9 (SIGKILL)"), "{stderr}");
    assert!(stderr.contains("resumes from the last checkpoint"), "{stderr}");
    assert!(!content(&store).keys().any(|name| name.starts_with("v1/train/") && name.contains("/model/")));
    // The next run resumes from the saved checkpoint.
    let mut again = run(&store, &file, &two).spawn().unwrap();
    let events: Vec<String> = BufReader::new(again.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .take_while(|event| !event.contains("state_saved"))
        .collect();
    let resumed = events.iter().find(|event| event.contains("stage_started") && event.contains("\"fit\"")).unwrap();
    let resumed: serde_json::Value = serde_json::from_str(resumed).unwrap();
    assert!(resumed["resumed_rows"].as_u64().unwrap() > 0, "{resumed}");
    kill(again.id(), "-INT");
    assert_eq!(again.wait().unwrap().code(), Some(130));
    wait_for("the end of all ranks", || followers(folder.path()).is_empty().then_some(()));
}

#[test]
fn all_ranks_end_when_rank_0_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let file = training(folder.path(), 400);
    let store = folder.path().join("store");
    let mut first = run(&store, &file, &["--json", "--set", "stage.fit.train.ranks=2"]).spawn().unwrap();
    wait_for_checkpoint(&mut first, folder.path());
    first.kill().unwrap();
    let killed = now();
    first.wait().unwrap();
    wait_for("the end of rank 1", || followers(folder.path()).is_empty().then_some(()));
    println!("rank 1 ended {:?} after the death of rank 0", killed.elapsed());
    assert!(killed.elapsed() < Duration::from_secs(12), "{:?}", killed.elapsed());
}

#[test]
fn interrupting_any_rank_interrupts_all() {
    for interrupted in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let file = training(folder.path(), 400);
        let (store, port) = (folder.path().join("store"), free_port());
        let other = with_rank(run(&store, &file, &[]), 1, 2, port).spawn().unwrap();
        let mut first = with_rank(run(&store, &file, &["--json"]), 0, 2, port).spawn().unwrap();
        wait_for_checkpoint(&mut first, folder.path());
        kill([first.id(), other.id()][interrupted], "-TERM");
        let (first, other) = (first.wait_with_output().unwrap(), other.wait_with_output().unwrap());
        assert_eq!(first.status.code(), Some(130), "{}", stderr(&first));
        assert_eq!(other.status.code(), Some(130), "{}", stderr(&other));
    }
}
