//! Tests of queries of a cluster whose executors are killed, of limits of queries, and of processes of another build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::cluster::{executor_command, scheduler, succeeded, write_vectors};
use crate::support::{ServerProcess, pairloom};

/// Store with vectors of images, and five times as many captions.
fn store(folder: &Path, images: usize) -> PathBuf {
    let files = ["images.npy", "captions.npy"].map(|name| folder.join(name));
    for (seed, (file, count)) in (1..).zip(files.iter().zip([images, 5 * images])) {
        write_vectors(file, count, 256, seed);
    }
    let pipeline = folder.join("pipeline.toml");
    let stage = "[stage.theirs.ingest.embeddings]\nimages = \"images.npy\"\ncaptions = \"captions.npy\"\n";
    std::fs::write(&pipeline, stage).unwrap();
    let store = folder.join("store");
    let mut run = pairloom();
    run.args(["run", "--quiet", "--store"]).arg(&store).arg(pipeline);
    succeeded(run);
    store
}

fn query(store: &Path, sql: &str) -> Command {
    let mut command = pairloom();
    command.args(["sql", "--quiet", "--format", "csv", "--store"]).arg(store).arg(sql);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts an executor that keeps its rows in a folder of its own.
fn executor_in(scheduler: &ServerProcess, store: &Path, folder: &Path) -> ServerProcess {
    let mut command = executor_command(scheduler, store);
    command.arg("--folder").arg(folder);
    ServerProcess::start(command)
}

/// Number of files of rows in the folder of an executor.
fn files_of_rows(folder: &Path) -> usize {
    let files = walkdir::WalkDir::new(folder).into_iter().filter_map(Result::ok);
    files.filter(|entry| entry.file_type().is_file()).count()
}

#[test]
fn a_query_survives_an_executor_that_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 14_000);
    let scheduler = scheduler();
    // One task.
    let sql = "SELECT count(*), sum(a.image_id) FROM theirs.image_embeddings a JOIN theirs.image_embeddings b \
        ON a.image_id + b.image_id < 1000 WHERE a.image_id < 5000";
    let expected = succeeded(query(&store, sql));
    assert_eq!(expected.lines().count(), 2, "{expected}");
    let [stays_in, dies_in] = ["stays", "dies"].map(|name| folder.path().join(name));
    let mut dies = executor_in(&scheduler, &store, &dies_in);
    let mut running = query(&store, sql).args(["--cluster", scheduler.uri()]).spawn().unwrap();
    // The only executor has the task.
    std::thread::sleep(Duration::from_secs(2));
    let _stays = executor_in(&scheduler, &store, &stays_in);
    assert!(running.try_wait().unwrap().is_none(), "the query had not ended before the kill");
    dies.kill();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

/// Images and captions are three files each, and their tables are large enough for a query of several partitions.
#[test]
fn a_join_of_queries_in_several_files_is_that_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["images.npy", "captions.npy"].map(|name| folder.path().join(name));
    for (seed, file) in (1..).zip(&files) {
        write_vectors(file, 8_500, 1_024, seed);
    }
    let pipeline = folder.path().join("pipeline.toml");
    let stage = "[stage.theirs.ingest.embeddings]\nimages = \"images.npy\"\ncaptions = \"captions.npy\"\ncaptions_per_image = 1\n";
    std::fs::write(&pipeline, stage).unwrap();
    let store = folder.path().join("store");
    let mut run = pairloom();
    run.args(["run", "--quiet", "--store"]).arg(&store).arg(pipeline);
    succeeded(run);
    let scheduler = scheduler();
    let _executors = [(); 2].map(|()| ServerProcess::start(executor_command(&scheduler, &store)));
    for (images, k, rows) in
        [("theirs.image_embeddings", 1, 8_500), ("theirs.image_embeddings WHERE image_id % 85 = 0", 3, 300)]
    {
        let sql = format!(
            "SELECT query_image_id, caption_id, rank, score FROM topk_join('{images}', 'theirs.caption_embeddings', {k}) \
             ORDER BY query_image_id, rank"
        );
        let expected = succeeded(query(&store, &sql));
        assert_eq!(expected.lines().count(), 1 + rows);
        let mut on_cluster = query(&store, &sql);
        on_cluster.args(["--cluster", scheduler.uri()]);
        assert!(succeeded(on_cluster) == expected, "{sql}: other rows on a cluster");
    }
}

#[test]
fn a_query_whose_rows_were_on_a_killed_executor_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 2_000);
    let scheduler = scheduler();
    let [stays_in, dies_in] = ["stays", "dies"].map(|name| folder.path().join(name));
    let mut dies = executor_in(&scheduler, &store, &dies_in);
    let sql = "SELECT count(*) FROM theirs.caption_embeddings a JOIN theirs.image_embeddings b ON a.caption_id + b.image_id < 9";
    let mut running = query(&store, sql).args(["--cluster", scheduler.uri()]).spawn().unwrap();
    let signal = |name: &str, id: u32| Command::new("kill").args([name, &id.to_string()]).status().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(running.try_wait().unwrap().is_none(), "the query had not ended before it was stopped");
    // It sees the end of its job when the executor with the rows is gone.
    signal("-STOP", running.id());
    while files_of_rows(&dies_in) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_secs(1));
    let _stays = executor_in(&scheduler, &store, &stays_in);
    dies.kill();
    signal("-CONT", running.id());
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "count(*)\n45\n");
    assert!(files_of_rows(&stays_in) > 0, "the other executor computed it");
}

/// Query that does not end within the test.
const ENDLESS: &str = "SELECT count(*) FROM theirs.image_embeddings a JOIN (SELECT b.image_id + c.image_id AS total \
    FROM theirs.caption_embeddings b, theirs.caption_embeddings c) t ON a.image_id < t.total - 1";

#[test]
fn a_query_ends_with_an_error_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 2_000);
    let scheduler = scheduler();
    let _executor = ServerProcess::start(executor_command(&scheduler, &store));
    for cluster in [&[][..], &["--cluster", scheduler.uri()]] {
        let output = query(&store, ENDLESS).args(["--query-time", "2"]).args(cluster).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{message}");
        assert!(message.contains("the query took 2 s, which is the limit"), "{message}");
        assert_eq!(output.stdout, b"", "rows or a header before the error");
        // The only place of the executor is free again.
        let mut after = query(&store, "SELECT count(*) FROM theirs.image_embeddings");
        after.args(["--query-time", "60"]).args(cluster);
        assert_eq!(succeeded(after), "count(*)\n2000\n");
    }
}

/// Ballista fails the job if the executor refuses a task, and gives the task to another if the executor ends before.
#[test]
fn an_executor_of_another_store_ends_and_no_query_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 100);
    let other = folder.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let scheduler = scheduler();
    // It gets the task, for there is no other executor yet.
    let mut wrong = executor_command(&scheduler, &other);
    let mut wrong = wrong.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let sql = "SELECT split, count(*) FROM theirs.caption_embeddings GROUP BY split";
    let send = || query(&store, sql).args(["--cluster", scheduler.uri()]).spawn().unwrap();
    let running = send();
    let mut message = String::new();
    std::io::Read::read_to_string(&mut wrong.stderr.take().unwrap(), &mut message).unwrap();
    assert_eq!(wrong.wait().unwrap().code(), Some(2), "{message}");
    assert!(message.contains("a query reads another store than") && message.contains("--store"), "{message}");
    let _right = ServerProcess::start(executor_command(&scheduler, &store));
    let mut output = running.wait_with_output().unwrap();
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("task could not be prepared or was rejected by executor"), "{message}");
        output = send().wait_with_output().unwrap();
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "split,count(*)\ntest,500\n");
}

/// Build id of the program.
fn build_id() -> String {
    let mut command = pairloom();
    command.arg("--version");
    let version = succeeded(command);
    let (_, build) = version.trim_end().rsplit_once("build ").unwrap();
    build.trim_end_matches(')').to_owned()
}

#[test]
fn a_query_ends_with_an_error_when_its_memory_is_used_up() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 100);
    let sql = "SELECT count(*) FROM range(0, 3000000000) a JOIN range(0, 3000000000) b ON a.value = b.value";
    let output = query(&store, sql).args(["--query-memory", "64MiB"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    assert!(message.contains("the memory of the query is used up"), "{message}");
}

/// Program of another build, beside the one that it hands over to: these with another build id.
fn program_of_another_build(folder: &Path) -> PathBuf {
    let (build, other) = (build_id(), "0123456789abcdef");
    assert_eq!(build.len(), other.len(), "{build}");
    let own = PathBuf::from(pairloom().get_program());
    for name in ["pairloom", "pairloom-sql"] {
        let mut program = std::fs::read(own.with_file_name(name)).unwrap();
        let finder = |program: &[u8], from: usize| {
            program[from..].windows(build.len()).position(|bytes| bytes == build.as_bytes()).map(|at| from + at)
        };
        let mut from = 0;
        while let Some(at) = finder(&program, from) {
            program[at..at + other.len()].copy_from_slice(other.as_bytes());
            from = at + other.len();
        }
        assert!(from > 0, "the program `{name}` has its build id");
        let path = folder.join(name);
        std::fs::write(&path, program).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    folder.join("pairloom")
}

#[test]
fn processes_of_another_build_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 100);
    let program = program_of_another_build(folder.path());
    let messages = folder.path().join("scheduler.txt");
    let mut command = pairloom();
    command.args(["cluster", "scheduler", "--json", "--address", "127.0.0.1:0"]);
    command.stderr(std::fs::File::create(&messages).unwrap());
    let scheduler = ServerProcess::start(command);
    let _executor = ServerProcess::start(executor_command(&scheduler, &store));
    let other = |of: &Command| {
        let mut command = Command::new(&program);
        command.args(of.get_args());
        for (name, value) in of.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    };
    let build = build_id();
    let mut cluster_query = query(&store, "SELECT count(*) FROM theirs.image_embeddings");
    cluster_query.args(["--cluster", scheduler.uri()]);
    let mut refused = 0;
    for mut command in [other(&cluster_query), other(&executor_command(&scheduler, &store))] {
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{message}");
        assert!(message.contains("the build 0123456789abcdef") && message.contains(&build), "{message}");
        refused += 1;
        let of_scheduler = std::fs::read_to_string(&messages).unwrap();
        assert_eq!(of_scheduler.matches("refused: got a message of the build 0123456789abcdef").count(), refused);
    }
    assert_eq!(succeeded(cluster_query), "count(*)\n100\n");
}
