//! Tests of stores at URLs: runs against an S3 server, with network faults.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pairloom_kernels::random::Rng;
use pairloom_storage::objects::ObjectStorage;

use crate::s3::{Proxy, ProxyAction, SECRET, TestBucket, server};
use crate::support::{pairloom, pipeline, tiny_pipeline};

/// Runs a command, which must succeed. Returns its stderr.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    stderr
}

/// Runs a command, which must fail with this exit code. Returns its stderr.
fn run_to_failure(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains("hint:") && !stderr.contains(SECRET), "{stderr}");
    stderr
}

/// Result of a query, as CSV.
fn sql(bucket: &TestBucket, query: &str) -> String {
    let output = bucket.pairloom("sql").args(["--format", "csv", query]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Contents of the parts and files of all artefacts, by name.
fn content(objects: &ObjectStorage) -> BTreeMap<String, Vec<u8>> {
    let names = objects.list("").unwrap().into_iter();
    let names = names.filter(|name| name.ends_with(".parquet") || name.contains("/model/") || name.contains("/page/"));
    names.map(|name| (name.clone(), objects.get(&name).unwrap().unwrap().to_vec())).collect()
}

/// Contents that the pipeline writes to a store in a folder, as reference.
fn reference_content(folder: &Path, file: &Path) -> BTreeMap<String, Vec<u8>> {
    let store = folder.join("wanted");
    run(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(file));
    content(&ObjectStorage::local(&store.join("v1")).unwrap())
}

fn assert_same_content(bucket: &TestBucket, wanted: &BTreeMap<String, Vec<u8>>) {
    let got = content(&bucket.objects());
    assert_eq!(got.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    let other: Vec<_> = got.iter().filter(|(name, bytes)| wanted[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(other.is_empty(), "different bytes in {other:?}");
}

/// Names of claims, locks, journals and saved states, which are needed only while a run is unfinished.
fn leftovers(bucket: &TestBucket) -> Vec<String> {
    let pieces = ["/claim", "/journal/", "/state-", "holds/"];
    let names = bucket.objects().list("").unwrap();
    names.into_iter().filter(|name| pieces.iter().any(|piece| name.contains(piece))).collect()
}

/// Leftovers of unfinished artefacts. Those of finished ones remain if a process is killed between the last write and
/// the clean-up, and are harmless.
fn unfinished_leftovers(bucket: &TestBucket) -> Vec<String> {
    let complete = |name: &String| {
        let artefact = name.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
        bucket.objects().size(&format!("{artefact}/manifest.json")).unwrap().is_some()
    };
    leftovers(bucket).into_iter().filter(|name| !complete(name)).collect()
}

#[test]
fn every_command_works_on_a_store_at_a_url() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("flow");
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let stderr = run_to_failure(bucket.pairloom("sql").arg("SELECT 1"), 3);
    assert!(stderr.contains("there is no store at `s3://flow/some/store`"), "{stderr}");

    let stderr = run(bucket.pairloom("run").arg(&file));
    assert!(stderr.contains("20 of 20 stages ran"), "{stderr}");
    assert!(stderr.contains("report of `page`: s3://flow/some/store/v1/report/"), "{stderr}");
    let wanted = reference_content(folder.path(), &file);
    assert_same_content(&bucket, &wanted);
    assert_eq!((leftovers(&bucket), bucket.locks()), (vec![], vec![]));
    assert!(run(bucket.pairloom("run").arg(&file)).contains("0 of 20 stages ran"));
    assert!(run(bucket.pairloom("plan").arg(&file)).contains("0 of 20 stages would run"));

    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM pairs.captions"), "n\n640\n");
    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM store.runs WHERE outcome = 'finished'"), "n\n2\n");
    let page = folder.path().join("page");
    run(bucket.pairloom("report").arg("--output").arg(&page));
    let (name, html) = wanted.iter().find(|(name, _)| name.ends_with("report.html")).unwrap();
    // The copy has a section about the run before its footer.
    let copy = std::fs::read(page.join("report.html")).unwrap();
    let (before, after) = html.split_at(html.windows(8).rposition(|window| window == b"<footer>").unwrap());
    assert!(copy.starts_with(before) && copy.ends_with(after) && copy.len() > html.len(), "{name}");
    let markdown = String::from_utf8(bucket.pairloom("report").output().unwrap().stdout).unwrap();
    assert!(markdown.starts_with("# Tiny") && markdown.contains("\n## Settings\n"), "{markdown}");
    assert!(markdown.contains("\n## Run\n\n**run** (20") && markdown.contains("\n- outcome: finished\n"), "{markdown}");

    // The artefacts of the first training become garbage.
    let other = ["--set", "stage.fit.train.epochs=1"];
    assert!(run(bucket.pairloom("run").arg(&file).args(other)).contains("7 of 20 stages ran"));
    let runs = String::from_utf8(bucket.pairloom("runs").output().unwrap().stdout).unwrap();
    // The repeat of the first run is counted in its row.
    assert_eq!((runs.matches("finished").count(), runs.contains("(+1)")), (2, true), "{runs}");
    assert!(runs.contains("fit.epochs 2 → 1"), "{runs}");
    let stderr = run(bucket.pairloom("gc").args(["--keep-runs", "1", "--delete"]));
    assert!(stderr.contains("removed 7 results"), "{stderr}");
    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM store.artefacts"), "n\n20\n");
    assert!(run(bucket.pairloom("run").arg(&file).args(other)).contains("0 of 20 stages ran"));
    assert!(run(bucket.pairloom("run").arg(&file)).contains("7 of 20 stages ran"));
    assert_contains(&bucket, &wanted);
    assert_eq!((leftovers(&bucket), bucket.locks()), (vec![], vec![]));
}

/// Asserts that the store has all `wanted` contents; it may have more.
fn assert_contains(bucket: &TestBucket, wanted: &BTreeMap<String, Vec<u8>>) {
    let got = content(&bucket.objects());
    assert!(wanted.iter().all(|(name, bytes)| got.get(name) == Some(bytes)));
}

#[test]
fn the_quickstart_meets_its_expectation_at_a_url() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("quickstart");
    let file = test_data::root().join("pipelines/quickstart.toml");
    // The run fails if its own [[expect]] does not hold.
    assert!(run(bucket.pairloom("run").arg(&file)).contains("7 of 7 stages ran"));
    assert!(run(bucket.pairloom("run").arg(&file)).contains("0 of 7 stages ran"));
    assert_eq!(leftovers(&bucket), Vec::<String>::new());
}

#[test]
fn two_processes_share_a_store_at_a_url() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("shared");
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let start = |_| bucket.pairloom("run").arg("--json").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let runs: Vec<Child> = (0..2).map(start).collect();
    let mut started = Vec::new();
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success());
        let events = String::from_utf8(output.stdout).unwrap();
        let events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        started
            .extend(events.filter(|event| event["event"] == "stage_started").map(|event| event["stage"].to_string()));
    }
    started.sort();
    let stages = started.len();
    started.dedup();
    assert_eq!((stages, started.len()), (20, 20), "every stage was built once: {started:?}");
    assert_same_content(&bucket, &reference_content(folder.path(), &file));
    assert_eq!((leftovers(&bucket), bucket.locks()), (vec![], vec![]));
}

#[test]
fn a_run_at_a_url_killed_at_random_times_resumes_to_the_same_bytes() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("killed");
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let wanted = reference_content(folder.path(), &file);
    let mut rng = Rng::new(12, &[]);
    let (mut kills, mut claims) = (0, 0);
    while kills < 6 {
        let run = bucket.pairloom("run").arg("--json").arg(&file).stdout(Stdio::piped()).spawn();
        let mut run = run.unwrap();
        // After some commits and a random delay, so between any two requests.
        let events = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
        let commits = events.filter(|event| event.contains("part_committed") || event.contains("state_saved"));
        let seen = commits.take(1 + rng.uniform_below(4)).count();
        std::thread::sleep(std::time::Duration::from_secs_f64(0.05 * rng.uniform()));
        // SIGKILL: the process cannot handle it.
        run.kill().unwrap();
        if run.wait().unwrap().success() || seen == 0 {
            break;
        }
        kills += 1;
        claims += leftovers(&bucket).iter().filter(|name| name.ends_with("/claim")).count();
    }
    assert!(kills >= 3 && claims >= 3, "{kills} kills, {claims} claims left by killed processes");
    // The claims of killed processes are taken over at once, and none remains.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test checks that the claims of killed processes do not delay a run"
    )]
    let clock = std::time::Instant::now();
    run(bucket.pairloom("run").arg("--quiet").arg(&file));
    assert!(clock.elapsed().as_secs() < 50, "{:?}", clock.elapsed());
    assert_same_content(&bucket, &wanted);
    assert_eq!(unfinished_leftovers(&bucket), Vec::<String>::new());
}

#[test]
fn network_faults_are_retried() {
    let Some(server) = server() else { return };
    let direct = server.bucket("trouble");
    let proxy = Proxy::new(server, |_, request| match request % 17 {
        2 => ProxyAction::SlowDown,
        5 => ProxyAction::DropRequest,
        8 => ProxyAction::DropResponse,
        11 => ProxyAction::TruncateResponse,
        14 => ProxyAction::Delay,
        _ => ProxyAction::Forward,
    });
    let bucket = direct.via(&proxy);
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    run(bucket.pairloom("run").arg("--quiet").arg(&file));
    assert_same_content(&direct, &reference_content(folder.path(), &file));
    assert_eq!(leftovers(&direct), Vec::<String>::new());
    for action in [
        ProxyAction::SlowDown,
        ProxyAction::DropRequest,
        ProxyAction::DropResponse,
        ProxyAction::TruncateResponse,
        ProxyAction::Delay,
    ] {
        assert!(proxy.count(action) >= 3, "{action:?}: {}", proxy.count(action));
    }
    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM pairs.captions"), "n\n640\n");
}

#[test]
fn an_unreachable_server_is_an_error_within_two_minutes_and_the_next_run_resumes() {
    let Some(server) = server() else { return };
    let direct = server.bucket("away");
    let proxy = Proxy::new(server, |_, _| ProxyAction::Forward);
    let bucket = direct.via(&proxy);
    let folder = tempfile::tempdir().unwrap();
    // One training: a second one waits for the first, and its stages may claim their artefacts late.
    let file = pipeline(folder.path(), "tiny.toml", |text| {
        let (before, rest) = text.split_once("[stage.cross.").unwrap();
        let (_, after) = rest.split_once("[stage.meaning.").unwrap();
        let all = format!("{before}[stage.meaning.{after}");
        all.lines().filter(|line| !line.starts_with("attention = ")).collect::<Vec<_>>().join("\n")
    });
    let run_it = || bucket.pairloom("run").arg("--quiet").arg(&file).stderr(Stdio::piped()).spawn().unwrap();
    let mut started = run_it();
    // A refused claim fails sooner than a refused write, so all stages have claimed their artefacts.
    let stages = std::fs::read_to_string(&file).unwrap().lines().filter(|line| line.starts_with("[stage.")).count();
    let artefacts = || -> BTreeSet<String> {
        let names = direct.objects().list("").unwrap();
        let is_key = |text: &str| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        // Leases of the run itself are in `holds`.
        let of_stages = names.iter().filter(|name| !name.contains("holds/"));
        of_stages.filter_map(|name| name.split('/').find(|part| is_key(part)).map(str::to_owned)).collect()
    };
    while artefacts().len() < stages || !leftovers(&direct).iter().any(|name| name.contains("/journal/")) {
        assert!(started.try_wait().unwrap().is_none(), "the run goes on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The answers to the last claims may be on their way. Without them, the run would claim again, and fail sooner.
    while proxy.is_busy() {
        assert!(started.try_wait().unwrap().is_none(), "the run goes on");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    proxy.set_refusing(true);
    #[expect(clippy::disallowed_methods, reason = "the test measures the time to the error")]
    let clock = std::time::Instant::now();
    let output = started.wait_with_output().unwrap();
    let (stderr, time) = (String::from_utf8_lossy(&output.stderr).into_owned(), clock.elapsed());
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("s3://away/some/store/v1/") && stderr.contains("Connection refused"), "{stderr}");
    assert!(stderr.contains("times in 6") && stderr.contains("AWS_ENDPOINT_URL"), "{stderr}");
    assert!(time.as_secs() >= 50 && time.as_secs() < 120, "{time:?}: {stderr}");
    // A server that is unreachable from the start is an error within seconds.
    #[expect(clippy::disallowed_methods, reason = "the test measures the time to the error")]
    let clock = std::time::Instant::now();
    assert!(run_to_failure(bucket.pairloom("run").arg(&file), 4).contains("Connection refused"));
    assert!(clock.elapsed().as_secs() < 15, "{:?}", clock.elapsed());
    proxy.set_refusing(false);
    assert!(run_it().wait().unwrap().success());
    assert_same_content(&direct, &reference_content(folder.path(), &file));
    assert_eq!(unfinished_leftovers(&direct), Vec::<String>::new());
}

#[test]
fn a_server_without_conditional_writes_is_refused() {
    let Some(server) = server() else { return };
    let direct = server.bucket("apart");
    let proxy = Proxy::new(server, |_, _| ProxyAction::StripConditions);
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let stderr = run_to_failure(direct.via(&proxy).pairloom("run").arg(&file), 2);
    assert!(stderr.contains("`s3://apart/some/store/v1`") && stderr.contains("ignores `If-None-Match`"), "{stderr}");
    let written = direct.objects().list("").unwrap();
    assert!(written.iter().all(|name| name.starts_with("sources/")), "only source digests are written: {written:?}");
}

#[test]
fn a_missing_or_damaged_part_is_an_error_and_the_next_run_rebuilds_it() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("damaged");
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    run(bucket.pairloom("run").arg("--quiet").arg(&file));
    let objects = bucket.objects();
    let whole = content(&objects);
    let (name, bytes) = whole.iter().find(|(name, _)| name.contains("/features/")).unwrap();
    let place = format!("s3://damaged/some/store/v1/{name}");
    // Another training each time, which reads the part.
    let other = |epochs: usize| {
        pipeline(folder.path(), "other.toml", |text| text.replace("epochs = 2", &format!("epochs = {epochs}")))
    };
    // A flipped bit does not change the size, and is found when the part is read.
    let mut flipped = bytes.clone();
    flipped[100] ^= 4;
    objects.put(name, flipped.into()).unwrap();
    let stderr = run_to_failure(bucket.pairloom("run").arg("--quiet").arg(other(1)), 3);
    assert!(stderr.contains(&format!("`{place}` is damaged")) && stderr.contains("its digest differs"), "{stderr}");
    run(bucket.pairloom("run").arg("--quiet").arg(other(1)));
    assert_eq!(content(&objects)[name], *bytes);
    // A truncated or missing part is found by its size, before a stage runs.
    objects.put(name, bytes[..bytes.len() - 7].to_vec().into()).unwrap();
    let plan = bucket.pairloom("plan").arg(other(3)).output().unwrap();
    let plan = String::from_utf8(plan.stdout).unwrap();
    let found = format!("has {} bytes, expected {}", bytes.len() - 7, bytes.len());
    assert!(plan.contains("damaged") && plan.contains(&found), "{plan}");
    let stderr = run_to_failure(bucket.pairloom("sql").arg("SELECT count(*) FROM cnn.features"), 3);
    assert!(stderr.contains("s3://damaged/some/store/v1/extract/") && stderr.contains(&found), "{stderr}");
    run(bucket.pairloom("run").arg("--quiet").arg(other(3)));
    assert_eq!(content(&objects)[name], *bytes);
    objects.delete(name).unwrap();
    let plan = bucket.pairloom("plan").arg(other(4)).output().unwrap();
    assert!(String::from_utf8(plan.stdout).unwrap().contains("is missing"));
    run(bucket.pairloom("run").arg("--quiet").arg(other(4)));
    assert_eq!(content(&objects)[name], *bytes);
}

#[test]
fn large_objects_are_read_in_ranges_and_many_objects_concurrently() {
    let Some(server) = server() else { return };
    let direct = server.bucket("reads");
    let proxy = Proxy::new(server, |method, request| match (method, request % 5) {
        ("GET", 3) => ProxyAction::TruncateResponse,
        ("GET", _) => ProxyAction::Delay,
        _ => ProxyAction::Forward,
    });
    let bucket = direct.via(&proxy);
    let large: Vec<u8> = (0..40_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let objects = bucket.objects();
    objects.put("large", large.clone().into()).unwrap();
    assert!(objects.get("large").unwrap().unwrap() == large, "the 40 MiB read differ from those written");
    let names: Vec<String> = (0..40).map(|i| format!("small/{i:02}")).collect();
    for name in &names {
        direct.objects().put(name, name.clone().into()).unwrap();
    }
    let late = proxy.count(ProxyAction::Delay);
    #[expect(clippy::disallowed_methods, reason = "concurrent reads are recognised by their time")]
    let clock = std::time::Instant::now();
    std::thread::scope(|scope| {
        for name in &names {
            let objects = &objects;
            scope.spawn(move || assert_eq!(objects.get(name).unwrap().unwrap(), name.as_bytes()));
        }
    });
    // Sequential reads would take 0.3 s each.
    let (time, late) = (clock.elapsed().as_secs_f64(), u32::try_from(proxy.count(ProxyAction::Delay) - late).unwrap());
    assert!(late >= 30 && time < 0.1 * f64::from(late), "{late} late answers in {time} s");
    assert!(proxy.count(ProxyAction::TruncateResponse) >= 5);
}

#[test]
fn an_invalid_store_url_is_refused_without_printing_its_password() {
    let stderr = |url: &str| {
        let output = pairloom().args(["runs", "--store", url]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let password = stderr(&format!("s3://key:{SECRET}@bucket/store"));
    assert!(
        password.contains("`--store`") && password.contains("password") && !password.contains(SECRET),
        "{password}"
    );
    assert!(stderr("ftp://host/store").contains("expected a folder, or `s3://`"));
}
