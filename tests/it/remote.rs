//! Stores at URLs: real runs against a real S3 server, with everything that networks do to them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pairloom::io::objects::Objects;
use pairloom::kernels::sample::Sample;

use crate::s3::{Bucket, Fate, Proxy, SECRET, server};
use crate::support::{pairloom, pipeline, tiny_pipeline};

/// Runs to success; gives what people are told.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    told
}

/// Runs to this exit code; gives what people are told.
fn fails(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{told}");
    assert!(told.contains("hint:") && !told.contains(SECRET), "{told}");
    told
}

/// What a query gives, as CSV.
fn sql(bucket: &Bucket, query: &str) -> String {
    let output = bucket.pairloom("sql").args(["--format", "csv", query]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Every part and file of every artefact, by name.
fn content(objects: &Objects) -> BTreeMap<String, Vec<u8>> {
    let names = objects.list("").unwrap().into_iter();
    let names = names.filter(|name| name.ends_with(".parquet") || name.contains("/model/") || name.contains("/page/"));
    names.map(|name| (name.clone(), objects.get(&name).unwrap().unwrap().to_vec())).collect()
}

/// What the pipeline leaves in a folder, which is what it has to leave anywhere.
fn wanted(folder: &Path, file: &Path) -> BTreeMap<String, Vec<u8>> {
    let store = folder.join("wanted");
    run(pairloom().args(["run", "--quiet", "--store"]).arg(&store).arg(file));
    content(&Objects::local(&store.join("v1")).unwrap())
}

fn same(bucket: &Bucket, wanted: &BTreeMap<String, Vec<u8>>) {
    let got = content(&bucket.objects());
    assert_eq!(got.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    let other: Vec<_> = got.iter().filter(|(name, bytes)| wanted[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(other.is_empty(), "other bytes in {other:?}");
}

/// Claims, holds, journals and states: what only a run that goes on needs.
fn leftovers(bucket: &Bucket) -> Vec<String> {
    let pieces = ["/claim", "/journal/", "/state-", "holds/"];
    let names = bucket.objects().list("").unwrap();
    names.into_iter().filter(|name| pieces.iter().any(|piece| name.contains(piece))).collect()
}

/// The same, but for artefacts that are complete: who is stopped between the last write and tidying up leaves these, and
/// nobody looks at them again.
fn unfinished(bucket: &Bucket) -> Vec<String> {
    let complete = |name: &String| {
        let artefact = name.splitn(3, '/').take(2).collect::<Vec<_>>().join("/");
        bucket.objects().size(&format!("{artefact}/manifest.json")).unwrap().is_some()
    };
    leftovers(bucket).into_iter().filter(|name| !complete(name)).collect()
}

#[test]
fn the_whole_flow_works_on_a_store_at_a_url() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("flow");
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let told = fails(bucket.pairloom("sql").arg("SELECT 1"), 3);
    assert!(told.contains("there is no store at `s3://flow/some/store`"), "{told}");

    let told = run(bucket.pairloom("run").arg(&file));
    assert!(told.contains("12 of 12 stages ran"), "{told}");
    assert!(told.contains("page of `page`: s3://flow/some/store/v1/report/"), "{told}");
    let wanted = wanted(folder.path(), &file);
    same(&bucket, &wanted);
    assert_eq!((leftovers(&bucket), bucket.locks()), (vec![], vec![]));
    assert!(run(bucket.pairloom("run").arg(&file)).contains("0 of 12 stages ran"));
    assert!(run(bucket.pairloom("plan").arg(&file)).contains("0 of 12 stages would run"));

    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM pairs.captions"), "n\n640\n");
    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM store.runs WHERE outcome = 'finished'"), "n\n2\n");
    let page = folder.path().join("page");
    run(bucket.pairloom("report").arg("--output").arg(&page));
    let (name, html) = wanted.iter().find(|(name, _)| name.ends_with("report.html")).unwrap();
    assert_eq!(std::fs::read(page.join("report.html")).unwrap(), *html, "{name}");
    assert!(String::from_utf8(bucket.pairloom("report").output().unwrap().stdout).unwrap().starts_with("# Tiny"));

    // Another training makes the one before it garbage.
    let other = pipeline(folder.path(), "other.toml", |text| text.replace("epochs = 2", "epochs = 1"));
    assert!(run(bucket.pairloom("run").arg(&other)).contains("5 of 12 stages ran"));
    let runs = String::from_utf8(bucket.pairloom("runs").output().unwrap().stdout).unwrap();
    assert_eq!(runs.matches("finished").count(), 3, "{runs}");
    let told = run(bucket.pairloom("gc").args(["--keep-runs", "1", "--delete"]));
    assert!(told.contains("removed 5 artefacts"), "{told}");
    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM store.artefacts"), "n\n12\n");
    assert!(run(bucket.pairloom("run").arg(&other)).contains("0 of 12 stages ran"));
    assert!(run(bucket.pairloom("run").arg(&file)).contains("5 of 12 stages ran"));
    same_but_for(&bucket, &wanted);
    assert_eq!((leftovers(&bucket), bucket.locks()), (vec![], vec![]));
}

/// The store holds what is wanted, and perhaps more.
fn same_but_for(bucket: &Bucket, wanted: &BTreeMap<String, Vec<u8>>) {
    let got = content(&bucket.objects());
    assert!(wanted.iter().all(|(name, bytes)| got.get(name) == Some(bytes)));
}

#[test]
fn the_quickstart_keeps_its_promise_at_a_url() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("quickstart");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("pipelines/quickstart.toml");
    // Its own [[expect]] is what decides about success.
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
    assert_eq!((stages, started.len()), (12, 12), "every stage was built once: {started:?}");
    same(&bucket, &wanted(folder.path(), &file));
    assert_eq!((leftovers(&bucket), bucket.locks()), (vec![], vec![]));
}

#[test]
fn a_run_at_a_url_that_is_killed_at_random_moments_ends_in_the_same_bytes() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("killed");
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let wanted = wanted(folder.path(), &file);
    let mut sample = Sample::new(12, &[]);
    let (mut kills, mut claims) = (0, 0);
    while kills < 6 {
        let run = bucket.pairloom("run").arg("--json").arg(&file).stdout(Stdio::piped()).spawn();
        let mut run = run.unwrap();
        // After some commits, and then a little later, between any two requests.
        let events = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
        let commits = events.filter(|event| event.contains("part_committed") || event.contains("state_saved"));
        let seen = commits.take(1 + sample.below(4)).count();
        std::thread::sleep(std::time::Duration::from_secs_f64(0.05 * sample.unit()));
        // SIGKILL: nothing of the process can react to it.
        run.kill().unwrap();
        if run.wait().unwrap().success() || seen == 0 {
            break;
        }
        kills += 1;
        claims += leftovers(&bucket).iter().filter(|name| name.ends_with("/claim")).count();
    }
    assert!(kills >= 3 && claims >= 3, "killed {kills} times, with {claims} claims held");
    // The claims of the dead are taken over at once, and nothing of them remains.
    #[expect(clippy::disallowed_methods, reason = "nobody may wait a minute for the dead")]
    let clock = std::time::Instant::now();
    run(bucket.pairloom("run").arg("--quiet").arg(&file));
    assert!(clock.elapsed().as_secs() < 50, "{:?}", clock.elapsed());
    same(&bucket, &wanted);
    assert_eq!(unfinished(&bucket), Vec::<String>::new());
}

#[test]
fn trouble_on_the_way_to_the_server_is_overcome() {
    let Some(server) = server() else { return };
    let direct = server.bucket("trouble");
    let proxy = Proxy::new(server, |_, request| match request % 17 {
        2 => Fate::SlowDown,
        5 => Fate::Lost,
        8 => Fate::Unanswered,
        11 => Fate::Cut,
        14 => Fate::Late,
        _ => Fate::Pass,
    });
    let bucket = direct.through(&proxy);
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    run(bucket.pairloom("run").arg("--quiet").arg(&file));
    same(&direct, &wanted(folder.path(), &file));
    assert_eq!(leftovers(&direct), Vec::<String>::new());
    for fate in [Fate::SlowDown, Fate::Lost, Fate::Unanswered, Fate::Cut, Fate::Late] {
        assert!(proxy.count(fate) >= 3, "{fate:?}: {}", proxy.count(fate));
    }
    assert_eq!(sql(&bucket, "SELECT count(*) AS n FROM pairs.captions"), "n\n640\n");
}

#[test]
fn a_server_that_goes_away_is_an_error_within_two_minutes_and_the_run_goes_on_when_it_is_back() {
    let Some(server) = server() else { return };
    let direct = server.bucket("away");
    let proxy = Proxy::new(server, |_, _| Fate::Pass);
    let bucket = direct.through(&proxy);
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let run_it = || bucket.pairloom("run").arg("--quiet").arg(&file).stderr(Stdio::piped()).spawn().unwrap();
    let started = run_it();
    while !leftovers(&direct).iter().any(|name| name.contains("/journal/")) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    proxy.refuse(true);
    #[expect(clippy::disallowed_methods, reason = "how long people wait is what is tested")]
    let clock = std::time::Instant::now();
    let output = started.wait_with_output().unwrap();
    let (told, time) = (String::from_utf8_lossy(&output.stderr).into_owned(), clock.elapsed());
    assert_eq!(output.status.code(), Some(4), "{told}");
    assert!(told.contains("s3://away/some/store/v1/") && told.contains("Connection refused"), "{told}");
    assert!(told.contains("times in 6") && told.contains("AWS_ENDPOINT_URL"), "{told}");
    assert!(time.as_secs() >= 50 && time.as_secs() < 120, "{time:?}: {told}");
    // A server that is away from the beginning is told in seconds.
    #[expect(clippy::disallowed_methods, reason = "how long people wait is what is tested")]
    let clock = std::time::Instant::now();
    assert!(fails(bucket.pairloom("run").arg(&file), 4).contains("Connection refused"));
    assert!(clock.elapsed().as_secs() < 15, "{:?}", clock.elapsed());
    proxy.refuse(false);
    assert!(run_it().wait().unwrap().success());
    same(&direct, &wanted(folder.path(), &file));
    assert_eq!(unfinished(&direct), Vec::<String>::new());
}

#[test]
fn a_server_that_does_not_keep_writers_apart_is_refused() {
    let Some(server) = server() else { return };
    let direct = server.bucket("apart");
    let proxy = Proxy::new(server, |_, _| Fate::Unconditional);
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    let told = fails(direct.through(&proxy).pairloom("run").arg(&file), 2);
    assert!(told.contains("`s3://apart/some/store/v1`") && told.contains("ignores `If-None-Match`"), "{told}");
    let written = direct.objects().list("").unwrap();
    assert!(written.iter().all(|name| name.starts_with("sources/")), "nothing was written: {written:?}");
}

#[test]
fn what_vanished_or_was_damaged_is_named_and_the_next_run_repairs_it() {
    let Some(server) = server() else { return };
    let bucket = server.bucket("damaged");
    let folder = tempfile::tempdir().unwrap();
    let file = tiny_pipeline(folder.path());
    run(bucket.pairloom("run").arg("--quiet").arg(&file));
    let objects = bucket.objects();
    let whole = content(&objects);
    let (name, bytes) = whole.iter().find(|(name, _)| name.contains("/features/")).unwrap();
    let place = format!("s3://damaged/some/store/v1/{name}");
    // Something downstream has to read it, every time another thing.
    let other = |epochs: usize| {
        pipeline(folder.path(), "other.toml", |text| text.replace("epochs = 2", &format!("epochs = {epochs}")))
    };
    // A flipped bit has the right size: reading finds it.
    let mut flipped = bytes.clone();
    flipped[100] ^= 4;
    objects.put(name, flipped.into()).unwrap();
    let told = fails(bucket.pairloom("run").arg("--quiet").arg(other(1)), 3);
    assert!(told.contains(&format!("`{place}` is damaged")) && told.contains("another digest"), "{told}");
    run(bucket.pairloom("run").arg("--quiet").arg(other(1)));
    assert_eq!(content(&objects)[name], *bytes);
    // What was cut or vanished is found by its size, before anything runs.
    objects.put(name, bytes[..bytes.len() - 7].to_vec().into()).unwrap();
    let plan = bucket.pairloom("plan").arg(other(3)).output().unwrap();
    let plan = String::from_utf8(plan.stdout).unwrap();
    let found = format!("has {} bytes, wanted {}", bytes.len() - 7, bytes.len());
    assert!(plan.contains("damaged") && plan.contains(&found), "{plan}");
    let told = fails(bucket.pairloom("sql").arg("SELECT count(*) FROM cnn.features"), 3);
    assert!(told.contains("s3://damaged/some/store/v1/extract/") && told.contains(&found), "{told}");
    run(bucket.pairloom("run").arg("--quiet").arg(other(3)));
    assert_eq!(content(&objects)[name], *bytes);
    objects.delete(name).unwrap();
    let plan = bucket.pairloom("plan").arg(other(4)).output().unwrap();
    assert!(String::from_utf8(plan.stdout).unwrap().contains("is gone"));
    run(bucket.pairloom("run").arg("--quiet").arg(other(4)));
    assert_eq!(content(&objects)[name], *bytes);
}

#[test]
fn a_large_object_comes_in_pieces_and_many_objects_come_at_once() {
    let Some(server) = server() else { return };
    let direct = server.bucket("reads");
    let proxy = Proxy::new(server, |method, request| match (method, request % 5) {
        ("GET", 3) => Fate::Cut,
        ("GET", _) => Fate::Late,
        _ => Fate::Pass,
    });
    let bucket = direct.through(&proxy);
    let large: Vec<u8> = (0..40_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let objects = bucket.objects();
    objects.put("large", large.clone().into()).unwrap();
    assert!(objects.get("large").unwrap().unwrap() == large, "40 MiB are not what was written");
    let names: Vec<String> = (0..40).map(|i| format!("small/{i:02}")).collect();
    for name in &names {
        direct.objects().put(name, name.clone().into()).unwrap();
    }
    let late = proxy.count(Fate::Late);
    #[expect(clippy::disallowed_methods, reason = "that reads overlap shows in their time alone")]
    let clock = std::time::Instant::now();
    std::thread::scope(|scope| {
        for name in &names {
            let objects = &objects;
            scope.spawn(move || assert_eq!(objects.get(name).unwrap().unwrap(), name.as_bytes()));
        }
    });
    // One after the other they would take 0.3 s each.
    let (time, late) = (clock.elapsed().as_secs_f64(), u32::try_from(proxy.count(Fate::Late) - late).unwrap());
    assert!(late >= 30 && time < 0.1 * f64::from(late), "{late} late answers in {time} s");
    assert!(proxy.count(Fate::Cut) >= 5);
}

#[test]
fn a_url_that_cannot_be_a_store_is_refused_without_showing_what_is_in_it() {
    let told = |url: &str| {
        let output = pairloom().args(["runs", "--store", url]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let password = told(&format!("s3://key:{SECRET}@bucket/store"));
    assert!(
        password.contains("`--store`") && password.contains("password") && !password.contains(SECRET),
        "{password}"
    );
    assert!(told("ftp://host/store").contains("wanted a folder, or `s3://`"));
}
