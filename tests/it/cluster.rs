//! Tests of a cluster: a scheduler and executors as processes of their own, and executors that are killed.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type};
use arrow::ipc::writer::FileWriter;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tonic::transport::Channel;

use crate::s3::server;
use crate::support::{ServerProcess, pairloom, python};

/// Starts a scheduler.
pub(crate) fn scheduler() -> ServerProcess {
    scheduler_at("127.0.0.1:0")
}

fn scheduler_at(address: &str) -> ServerProcess {
    let mut command = pairloom();
    command.args(["cluster", "scheduler", "--json", "--address", address, "--executor-timeout", "5"]);
    ServerProcess::start(command)
}

/// Command of an executor with one thread.
pub(crate) fn executor_command(scheduler: &ServerProcess, store: &Path) -> Command {
    let mut command = pairloom();
    command.args(["cluster", "executor", "--json", "--threads", "1", "--scheduler", scheduler.uri(), "--store"]);
    command.arg(store);
    command
}

/// Starts an executor with one thread, whose temporary files are beside the store.
fn executor(scheduler: &ServerProcess, store: &Path) -> ServerProcess {
    let mut command = executor_command(scheduler, store);
    command.arg("--folder").arg(store.with_extension("executors"));
    ServerProcess::start(command)
}

/// File of numbers in the form of NumPy: vectors that are no two equal, of pseudo-random values.
pub(crate) fn write_vectors(path: &Path, count: usize, width: usize, seed: u64) {
    let shape = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {width}), }}");
    let header = format!("{shape:<117}\n");
    let mut content = b"\x93NUMPY\x01\x00".to_vec();
    content.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
    content.extend(header.as_bytes());
    let mut state = seed;
    for _ in 0..count * width {
        // The generator of splitmix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 41;
        // From 1 to 2, then from -0.5 to 0.5.
        let value = f32::from_bits(0x3f80_0000 | u32::try_from(mixed).unwrap()) - 1.5;
        content.extend(value.to_le_bytes());
    }
    std::fs::write(path, content).unwrap();
}

/// Files of embeddings: 2,000 images and 10,000 captions.
fn vectors(folder: &Path) -> [PathBuf; 2] {
    let [images, captions] = ["images.npy", "captions.npy"].map(|name| folder.join(name));
    write_vectors(&images, 2_000, 256, 1);
    write_vectors(&captions, 10_000, 256, 2);
    [images, captions]
}

/// Evaluates the embeddings by several methods; `depth` makes it another evaluation.
fn evaluate(store: &Path, [images, captions]: &[PathBuf; 2], depth: usize) -> Command {
    let mut run = pairloom();
    run.args(["run", "--quiet", "--store"]).arg(store).arg(test_data::root().join("pipelines/embeddings.toml"));
    run.env("IMAGES", images).env("CAPTIONS", captions);
    let methods = "stage.test.evaluate.methods=['nns', { csls = { k = 5 } }, { inverted_softmax = { beta = 20.0 } }]";
    run.args(["--set", methods, "--set", &format!("stage.test.evaluate.ranking_depth={depth}")]);
    run
}

pub(crate) fn succeeded(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Parts of all tables of `evaluate`: path below the store, and content.
fn evaluations(store: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let parts = walkdir::WalkDir::new(store).sort_by_file_name().into_iter().map(Result::unwrap);
    let parts = parts.filter(|entry| {
        entry.path().extension().is_some_and(|end| end == "parquet")
            && entry.path().to_string_lossy().contains("/evaluate/")
    });
    let content = |path: &Path| (path.strip_prefix(store).unwrap().to_owned(), std::fs::read(path).unwrap());
    parts.map(|entry| content(entry.path())).collect()
}

/// Number of objects of searches that have not ended.
fn search_objects(store: &Path) -> usize {
    let objects = walkdir::WalkDir::new(store.join("v1/searches")).into_iter().filter_map(Result::ok);
    objects.filter(|entry| entry.file_type().is_file()).count()
}

fn sql(store: &Path, query: &str, cluster: Option<&str>) -> Output {
    let mut command = pairloom();
    command.args(["sql", "--quiet", "--format", "csv", "--store"]).arg(store).arg(query);
    cluster.iter().fold(&mut command, |command, url| command.args(["--cluster", url])).output().unwrap()
}

#[test]
fn a_cluster_computes_what_one_process_computes() {
    let folder = tempfile::tempdir().unwrap();
    let files = vectors(folder.path());
    let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
    succeeded(evaluate(&here, &files, 10));
    // The executors need a store that exists.
    let mut ingested = evaluate(&there, &files, 10);
    ingested.args(["--set", "stage.test.evaluate.methods=['nns']"]);
    succeeded(ingested);
    std::fs::remove_dir_all(there.join("v1/evaluate")).unwrap();
    let scheduler = scheduler();
    let executors = [(); 2].map(|()| executor(&scheduler, &there));
    let mut distributed = evaluate(&there, &files, 10);
    distributed.args(["--cluster", scheduler.uri()]);
    succeeded(distributed);
    let expected = evaluations(&here);
    assert!(expected.len() >= 4 && evaluations(&there) == expected, "the same bytes");
    assert_eq!(search_objects(&there), 0, "sections and vectors are removed");

    for query in [
        "SELECT count(*) FROM test.rankings",
        "SELECT method, direction, count(*), avg(rank), count(*) FILTER (WHERE rank < 3) FROM test.rankings GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT i.image_id, n.caption_id, n.d FROM theirs.image_embeddings i, LATERAL (SELECT c.caption_id, \
         cosine_distance(c.embedding, i.embedding) AS d FROM theirs.caption_embeddings c ORDER BY d LIMIT 3) n \
         WHERE i.image_id < 5 ORDER BY 1, 3, 2",
        "SELECT * FROM topk_join('theirs.image_embeddings', 'theirs.caption_embeddings', 2) WHERE query_image_id < 9 \
         ORDER BY query_image_id, rank",
        "SELECT * FROM topk_join('theirs.image_embeddings WHERE image_id < 9', 'theirs.caption_embeddings', 2, \
         'cosine_similarity', '{\"csls\": {\"query_bank\": true}}', 'theirs.image_embeddings WHERE image_id > 1500') \
         ORDER BY query_image_id, rank",
        "SELECT image_id FROM theirs.image_embeddings ORDER BY cosine_distance(embedding, (SELECT embedding FROM \
         theirs.caption_embeddings WHERE caption_id = 7)) LIMIT 3",
        "SELECT topk(image_id, embedding, (SELECT embedding FROM theirs.caption_embeddings WHERE caption_id = 7), 3) \
         FROM theirs.image_embeddings",
        "SELECT (SELECT 1 WHERE false) IS NULL, (SELECT count(*) FROM test.rankings)",
        "SELECT count(value) FROM generate_series(1, 9)",
        "SELECT round(l2_norm(vector_avg(embedding)), 6) FROM theirs.image_embeddings",
        "SELECT image_id FROM theirs.image_embeddings WHERE image_id NOT IN (SELECT image_id FROM \
         theirs.caption_embeddings WHERE image_id > 9) ORDER BY 1",
        "SELECT stage, key FROM store.artefacts ORDER BY 1 LIMIT 1",
        "SELECT a.image_id, row_number() OVER (PARTITION BY a.image_id % 3 ORDER BY a.image_id) FROM \
         theirs.image_embeddings a JOIN theirs.caption_embeddings b ON a.image_id = b.caption_id ORDER BY 1 LIMIT 7",
    ] {
        let (expected, got) = (sql(&there, query, None), sql(&there, query, Some(scheduler.uri())));
        assert!(expected.status.success() && got.status.success(), "{query}: {}", String::from_utf8_lossy(&got.stderr));
        assert_eq!(String::from_utf8_lossy(&got.stdout), String::from_utf8_lossy(&expected.stdout), "{query}");
    }
    for (wrong, expected) in [
        ("SELECT 1 / (count(*) - 10000) FROM theirs.caption_embeddings", "division by zero"),
        ("SELECT (SELECT image_id FROM theirs.image_embeddings)", "has several rows, expected one"),
        ("SELECT count(*) FROM generate_series(1, 9)", "a cluster does not run `generate_series` without its column"),
        ("SELECT * FROM topk_join('test.rankings', 'test.rankings', 2)", "`test.rankings` has no column of vectors"),
    ] {
        let failed = sql(&there, wrong, Some(scheduler.uri()));
        let message = String::from_utf8_lossy(&failed.stderr);
        assert!(!failed.status.success() && message.contains(expected), "{wrong}: {message}");
    }
    assert!(sql(&there, "SELECT 1", Some(scheduler.uri())).status.success(), "the cluster is still there");

    let mut serve = pairloom();
    serve.args(["serve", "--json", "--flight", "127.0.0.1:0", "--cluster", scheduler.uri(), "--store"]).arg(&there);
    let server = ServerProcess::start(serve);
    let ranks = "SELECT sum(rank) FROM test.rankings";
    let (got, expected) = (flight_rows(&server, ranks).unwrap(), sql(&there, ranks, None));
    let got = got.column(0).as_primitive::<Int64Type>().value(0);
    assert_eq!(format!("sum(rank)\n{got}\n"), String::from_utf8_lossy(&expected.stdout));
    // Only a cluster refuses this.
    let refused = flight_rows(&server, "SELECT count(*) FROM generate_series(1, 9)").unwrap_err().to_string();
    assert!(refused.contains("a cluster does not run `generate_series` without its column"), "{refused}");
    assert_eq!(server.stop(), Some(0));
    assert_eq!(executors.map(ServerProcess::stop), [Some(0); 2]);
    assert_eq!(scheduler.stop(), Some(0));
}

/// Rows of a query by Flight SQL.
fn flight_rows(server: &ServerProcess, sql: &str) -> Result<RecordBatch, FlightError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let channel = Channel::from_shared(server.uri().replace("grpc://", "http://")).unwrap();
        let mut client = FlightSqlServiceClient::new(channel.connect().await.unwrap());
        let info = client.execute(sql.to_owned(), None).await?;
        let rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await?;
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        Ok(concat_batches(&batches[0].schema(), &batches)?)
    })
}

/// Tables of embeddings with three splits: 50 images each, with two captions each.
fn write_splits(folder: &Path) {
    let vectors = |seed: u64, count: usize| {
        let path = folder.join("vectors.npy");
        write_vectors(&path, count, 16, seed);
        let content = std::fs::read(path).unwrap();
        let values = content[128..].chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let values: ArrayRef = Arc::new(values.map(|value| value + 0.2).collect::<Float32Array>());
        Arc::new(FixedSizeListArray::new(item, 16, values, None)) as ArrayRef
    };
    let ids = |ids: &mut dyn Iterator<Item = i64>| Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef;
    let splits = (0..150).map(|image| ["train", "val", "test"][image / 50]);
    let images = [
        ("image_id", ids(&mut (0..150))),
        ("split", Arc::new(StringArray::from_iter_values(splits)) as ArrayRef),
        ("embedding", vectors(3, 150)),
    ];
    let captions = [
        ("caption_id", ids(&mut (0..300))),
        ("image_id", ids(&mut (0..300).map(|caption| caption / 2))),
        ("embedding", vectors(4, 300)),
    ];
    for (name, columns) in [("images.arrow", images), ("captions.arrow", captions)] {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let file = std::fs::File::create(folder.join(name)).unwrap();
        let mut writer = FileWriter::try_new(file, &rows.schema()).unwrap();
        writer.write(&rows).unwrap();
        writer.finish().unwrap();
    }
}

#[test]
fn every_method_has_the_bits_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    write_splits(folder.path());
    let schema = std::fs::read_to_string(test_data::root().join("schemas/pipeline.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&schema).unwrap();
    let forms =
        schema["$defs"]["Method"]["oneOf"].as_array().unwrap().iter().filter_map(|form| form["properties"].as_object());
    let names: BTreeSet<&str> = forms.flat_map(|form| form.keys().map(String::as_str)).collect();
    assert!(names.len() >= 19 && names.contains("best_of"), "{names:?}");
    let mut methods: Vec<String> =
        names.iter().filter(|name| **name != "best_of").map(|name| format!("{name:?}")).collect();
    methods.push("{ best_of = { methods = [\"nns\", \"csls\"] } }".to_owned());
    methods.push("{ csls = { query_bank = true } }".to_owned());
    let bank = "{ images = \"theirs.image_embeddings\", captions = \"theirs.caption_embeddings\", split = \"train\" }";
    let pipeline = format!(
        "[stage.theirs.ingest.embeddings]\nimages = \"images.arrow\"\ncaptions = \"captions.arrow\"\n\n\
         [stage.test.evaluate]\nimages = \"theirs.image_embeddings\"\ncaptions = \"theirs.caption_embeddings\"\n\
         dataset = \"theirs\"\nquery_bank = {bank}\nvalidation_split = \"val\"\nmethods = [{}]\n",
        methods.join(", ")
    );
    let file = folder.path().join("methods.toml");
    std::fs::write(&file, pipeline).unwrap();
    let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
    let run = |store: &Path| {
        let mut run = pairloom();
        run.args(["run", "-v", "--no-progress", "--store"]).arg(store).arg(&file);
        run
    };
    succeeded(run(&here));
    std::fs::create_dir_all(there.join("v1/runs")).unwrap();
    let scheduler = scheduler();
    let _executors = [(); 2].map(|()| executor(&scheduler, &there));
    let output = run(&there).args(["--cluster", scheduler.uri()]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let alone: BTreeSet<&str> =
        message.lines().filter_map(|line| line.strip_prefix("not on the cluster: this process computes ")).collect();
    let expected = ["Sinkhorn potentials", "a matching", "corrections of whole rows of scores", "whole rows of scores"];
    assert_eq!(alone, BTreeSet::from(expected));
    let expected = evaluations(&here);
    assert!(expected.len() >= 4 && evaluations(&there) == expected, "the same bytes");
}

#[test]
fn an_executor_that_is_killed_costs_its_own_work() {
    let folder = tempfile::tempdir().unwrap();
    let files = vectors(folder.path());
    let [here, there] = ["here", "there"].map(|name| folder.path().join(name));
    succeeded(evaluate(&there, &files, 9));
    let scheduler = scheduler();
    let mut stays = executor(&scheduler, &there);
    for (depth, objects) in [(1, 1), (2, 5)] {
        let mut dies = executor(&scheduler, &there);
        let mut run = evaluate(&there, &files, depth);
        let mut run = run.args(["--cluster", scheduler.uri()]).stderr(Stdio::piped()).spawn().unwrap();
        // The vectors of both sides, then the job, then results.
        while search_objects(&there) < objects && run.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        dies.kill();
        assert!(run.try_wait().unwrap().is_none(), "the run had not ended before the kill");
        assert!(run.wait().unwrap().success(), "killed after {objects} objects");
        succeeded(evaluate(&here, &files, depth));
    }
    succeeded(evaluate(&here, &files, 9));
    assert!(evaluations(&there) == evaluations(&here), "the same bytes");
    // Without any executor a run ends with an error, and goes on later.
    stays.kill();
    let mut alone = evaluate(&there, &files, 3);
    let output = alone.args(["--cluster", scheduler.uri()]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    let _executor = executor(&scheduler, &there);
    succeeded(alone);
    // It has removed the temporary files of the three that were killed.
    assert_eq!(std::fs::read_dir(there.with_extension("executors")).unwrap().count(), 1);
}

/// Time that the processors worked for a process, in hundredths of a second.
fn processor_ticks(process: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    // The name of the program may have spaces. User and system time are the 14th and the 15th field.
    let (_, fields) = status.rsplit_once(')').unwrap();
    fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Query that does not end within the test.
const ENDLESS: &str = "SELECT count(*) FROM theirs.caption_embeddings a JOIN (SELECT b.caption_id + c.caption_id AS \
    total FROM theirs.caption_embeddings b, theirs.caption_embeddings c) t ON a.caption_id < t.total - 1";

#[test]
fn an_endless_query_ends_with_its_client_or_its_executor() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    succeeded(evaluate(&store, &vectors(folder.path()), 1));
    let scheduler = scheduler();
    // Begins the query, and waits until its executor works on it.
    let endless = |executor: &Child| {
        let before = processor_ticks(executor);
        let mut command = pairloom();
        command.args(["sql", "--cluster", scheduler.uri(), ENDLESS, "--store"]).arg(&store);
        let mut query = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while processor_ticks(executor) < before + 100 && query.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        query
    };
    let interrupt = |process: &Child| Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    let mut busy = executor(&scheduler, &store);
    let mut query = endless(&busy.process);
    assert!(query.try_wait().unwrap().is_none(), "it does not end");
    interrupt(&query);
    assert_eq!(query.wait().unwrap().code(), Some(130));
    // The only place of the executor is free again.
    assert!(sql(&store, "SELECT 1", Some(scheduler.uri())).status.success());

    let mut query = endless(&busy.process);
    interrupt(&busy.process);
    std::thread::sleep(Duration::from_secs(1));
    assert!(busy.process.try_wait().unwrap().is_none(), "it finishes its tasks");
    interrupt(&busy.process);
    assert_eq!(busy.process.wait().unwrap().code(), Some(130));
    interrupt(&query);
    assert_eq!(query.wait().unwrap().code(), Some(130));
}

#[test]
fn an_executor_joins_the_next_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    std::fs::create_dir_all(store.join("v1/runs")).unwrap();
    let mut first = scheduler();
    let uri = first.uri().to_owned();
    let executor = executor(&first, &store);
    assert!(sql(&store, "SELECT 1", Some(&uri)).status.success());
    first.kill();
    let next = scheduler_at(uri.trim_start_matches("http://"));
    // The query waits for the executor.
    let answer = sql(&store, "SELECT 1", Some(&uri));
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    // After signs of life, which come every two seconds, it still gets tasks.
    std::thread::sleep(Duration::from_secs(3));
    let answer = sql(&store, "SELECT 1", Some(&uri));
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    assert_eq!([executor.stop(), next.stop()], [Some(0); 2]);
}

#[test]
fn an_executor_that_waits_for_its_scheduler_ends_at_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    std::fs::create_dir_all(store.join("v1/runs")).unwrap();
    let mut scheduler = scheduler();
    let mut command = executor_command(&scheduler, &store);
    command.arg("--folder").arg(folder.path().join("executor")).stderr(Stdio::piped());
    let mut executor = ServerProcess::start(command);
    scheduler.kill();
    let notes = BufReader::new(executor.process.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(notes.into_iter().any(|note| note.contains("waits a minute for another one there")));
    Command::new("kill").args(["-TERM", &executor.process.id().to_string()]).status().unwrap();
    // After the minute it would end with 4.
    assert_eq!(executor.process.wait().unwrap().code(), Some(0));
}

#[test]
fn the_store_of_a_cluster_may_be_a_bucket() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("cluster");
    let folder = tempfile::tempdir().unwrap();
    let files = vectors(folder.path());
    let evaluate = |depth: &str| {
        let mut run = bucket.pairloom("run");
        run.arg("--quiet").arg(test_data::root().join("pipelines/embeddings.toml"));
        run.env("IMAGES", &files[0]).env("CAPTIONS", &files[1]).args(["--set", depth]);
        run
    };
    succeeded(evaluate("stage.test.evaluate.ranking_depth=3"));
    let scheduler = scheduler();
    let mut joins = bucket.pairloom("cluster");
    joins.args(["executor", "--json", "--threads", "2", "--scheduler", scheduler.uri()]);
    let _executor = ServerProcess::start(joins);
    let mut distributed = evaluate("stage.test.evaluate.ranking_depth=4");
    distributed.args(["--cluster", scheduler.uri()]);
    succeeded(distributed);
    let objects = bucket.objects();
    let summaries: Vec<String> =
        objects.list("evaluate").unwrap().into_iter().filter(|name| name.contains("/summary/part")).collect();
    let contents: Vec<_> = summaries.iter().map(|name| objects.get(name).unwrap()).collect();
    assert!(contents.len() == 2 && contents[0] == contents[1], "{summaries:?}");
    assert_eq!(objects.list("searches").unwrap(), Vec::<String>::new(), "sections and vectors are removed");
    let mut count = bucket.pairloom("sql");
    count.args(["--quiet", "--format", "csv", "--cluster", scheduler.uri(), "SELECT count(*) FROM test.rankings"]);
    assert_eq!(succeeded(count), "count(*)\n12000\n");
}

#[test]
fn manifests_are_valid_and_have_commands_that_exist() {
    let Some(mut python) = python() else { return };
    let root = test_data::root();
    python.arg(root.join("tests/it/kubernetes_manifests.py")).arg(root.join("pipelines/cluster/kubernetes.yaml"));
    let commands = succeeded(python);
    let mut roles = Vec::new();
    for line in commands.lines() {
        let command: Vec<String> = serde_json::from_str(line).unwrap();
        // The help follows if all arguments before it are right.
        let arguments = command[1..].iter().map(|argument| argument.replace("$(POD_IP)", "10.0.0.1"));
        let output = pairloom().args(arguments).arg("--help").output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        roles.push(command[1..3].join(" "));
    }
    assert_eq!(roles, ["cluster scheduler", "cluster executor", "run --store=s3://bucket/store"]);
    let checked = Command::new("bash").arg("-n").arg(root.join("pipelines/cluster/slurm.sh")).status().unwrap();
    assert!(checked.success(), "the script of SLURM has mistakes");
}

/// Each of these ends at once, with a message that says what was wanted.
#[test]
fn wrong_clusters_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let nobody = "http://127.0.0.1:9";
    for (arguments, code, expected) in [
        (&["cluster", "scheduler", "--address", "0.0.0.0:0"][..], 2, "no authentication"),
        (&["cluster", "executor", "--address", "0.0.0.0"], 2, "no authentication"),
        (&["sql", "--cluster", nobody, "SELECT count(*) FILTER (WHERE true) OVER () FROM store.runs"], 2, "FILTER"),
        (&["sql", "--cluster", nobody, "SELECT run FROM store.runs LIMIT 4294967296"], 2, "2³² rows"),
        (&["cluster", "executor", "--scheduler", "https://head"], 2, "expected the URL of a scheduler"),
        (&["cluster", "scheduler", "--executor-timeout", "1"], 2, "5.."),
        (&["cluster"], 2, "scheduler"),
        (&["sql", "--cluster", nobody, "--file", "a=a.csv", "SELECT 1"], 2, "files of this machine"),
        (&["sql", "--cluster", nobody, "SELECT 1"], 4, "cannot be reached"),
    ] {
        std::fs::create_dir_all(store.join("v1/runs")).unwrap();
        let mut command = pairloom();
        command.args(arguments);
        if !arguments.contains(&"--store") {
            command.arg("--store").arg(&store);
        }
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}
