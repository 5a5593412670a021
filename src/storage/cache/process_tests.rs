//! Tests of one cache in several processes, which share it, are killed, and fill the disk.
//!
//! The other processes run this test program with the single test [`child`].

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::tests::{SHARD_BYTES, cached_shards, first, get, key, leftovers, never_cancel, table};
use super::*;

/// Environment variables with the role of a child and the cache folder.
const ROLE: &str = "PAIRLOOM_TEST_CACHE_ROLE";
const FOLDER: &str = "PAIRLOOM_TEST_CACHE_FOLDER";
/// Number of shards that fit in the cache.
const CAPACITY: u64 = 6;

fn cache(folder: &Path) -> ShardCache {
    ShardCache::open(folder, CAPACITY * (SHARD_BYTES + 2000)).unwrap()
}

/// Command that runs this test program as a child, optionally as arguments of `program`.
fn command(program: &[&str], role: &str, folder: &Path) -> Command {
    let this = std::env::current_exe().unwrap();
    let name = concat!(module_path!(), "::child").split_once("::").unwrap().1;
    let mut command = match program {
        [] => Command::new(this),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(this);
            command
        }
    };
    command.args(["--ignored", "--exact", name, "--nocapture"]).env(ROLE, role).env(FOLDER, folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts a child and waits until it prints `ready`.
fn start(role: &str, folder: &Path) -> Child {
    let mut child = command(&[], role, folder).spawn().unwrap();
    let ready = BufReader::new(child.stdout.as_mut().unwrap()).lines().any(|line| line.unwrap().ends_with("ready"));
    assert!(ready, "{role} ended early: {:?}", child.wait());
    child
}

/// Kills a child with SIGKILL.
fn kill(mut child: Child) {
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
#[ignore = "other tests run it, as another process"]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        test_data::impossible("no test runs it");
        return;
    };
    let folder = Path::new(&folder);
    // Blocks until the parent closes stdin.
    let parent = || drop(std::io::stdin().read(&mut [0]));
    match std::env::var(ROLE).expect("a role").as_str() {
        "visit" => {
            let cache = cache(folder);
            println!("ready");
            for round in 0..60 {
                // Visits all of 12 shards, since 7 and 12 are coprime; 6 fit in the cache.
                let i = (round * 7 + usize::try_from(std::process::id()).unwrap()) % 12;
                let shard = get(&cache, i).unwrap();
                shard.verify_all().unwrap();
                assert_eq!(first(&shard), i64::try_from(i).unwrap());
            }
        }
        "make for ever" => {
            let cache = cache(folder);
            println!("ready");
            // Bounded, in case the parent fails to kill it.
            for i in (0..12).cycle().take(50_000) {
                drop(get(&cache, i).unwrap());
            }
        }
        "hold" => {
            let shard = get(&cache(folder), 1).unwrap();
            println!("ready");
            parent();
            shard.verify_all().unwrap();
            assert_eq!(first(&shard), 1);
        }
        "stop while making" => {
            let make = || {
                println!("ready");
                parent();
                panic!("the parent never continues this child")
            };
            cache(folder).get_or_make(&key(1), make, &never_cancel).unwrap();
        }
        "fill the disk" => {
            let cache = ShardCache::open(folder, 1 << 30).unwrap();
            let shards: Vec<_> = (0..20).map_while(|i| get(&cache, i).ok()).collect();
            let error = get(&cache, shards.len()).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Stage, "{error}");
            assert!(error.hint_text().unwrap().contains("free some space"), "{error}: {:?}", error.hint_text());
            assert!(shards.len() >= 2 && cached_shards(&cache).len() == shards.len() && leftovers(folder).is_empty());
            assert!(shards.iter().all(|shard| shard.verify_all().is_ok()));
            println!("full after {}", shards.len());
        }
        role => panic!("unknown role {role}"),
    }
}

#[test]
fn processes_share_a_cache_that_is_too_small_for_all_shards() {
    let folder = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..3).map(|_| start("visit", folder.path())).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let cache = cache(folder.path());
    let bytes = cache.statistics().unwrap().bytes;
    assert!(bytes > (CAPACITY - 1) * SHARD_BYTES && bytes <= CAPACITY * (SHARD_BYTES + 2000), "{bytes}");
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn shards_in_use_by_another_process_are_not_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let cache = cache(folder.path());
    let fill = || (2..20).for_each(|i| drop(get(&cache, i).unwrap()));
    let mut child = start("hold", folder.path());
    fill();
    assert!(cached_shards(&cache).contains(&1));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    fill();
    assert!(!cached_shards(&cache).contains(&1));
    // Killing the process releases the shard too.
    let child = start("hold", folder.path());
    fill();
    assert!(cached_shards(&cache).contains(&1));
    kill(child);
    fill();
    assert!(!cached_shards(&cache).contains(&1));
}

#[test]
fn a_killed_builder_releases_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let child = start("stop while making", folder.path());
    let cache = cache(folder.path());
    assert!(cache.get(&key(1)).unwrap().is_none());
    assert_eq!(leftovers(folder.path()).len(), 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first(&cache.get_or_make(&key(1), || Ok(table(5)), &never_cancel).unwrap()));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waiting.is_finished());
        kill(child);
        assert_eq!(waiting.join().unwrap(), 5);
    });
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn processes_killed_at_any_time_leave_complete_shards_within_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (mut left, mut kept) = (0, 0);
    for round in 0..40 {
        let child = start("make for ever", folder.path());
        std::thread::sleep(Duration::from_micros(round * 487 % 20_000));
        kill(child);
        left += leftovers(folder.path()).len();
        let cache = cache(folder.path());
        assert!(leftovers(folder.path()).is_empty(), "{:?}", leftovers(folder.path()));
        let held = cached_shards(&cache);
        assert!(held.len() <= usize::try_from(CAPACITY).unwrap());
        for i in &held {
            let shard = cache.get(&key(*i)).unwrap().unwrap();
            shard.verify_all().unwrap();
            assert_eq!(first(&shard), i64::try_from(*i).unwrap());
        }
        kept += held.len();
    }
    assert!(left > 0 && kept > 0, "{left} left by killed builders, {kept} shards");
}

#[test]
fn a_full_disk_is_an_error_that_leaves_complete_shards() {
    let folder = tempfile::tempdir().unwrap();
    // Mounts a small file system in a namespace that ends with the process.
    let script = r#"mount -t tmpfs -o size=400k none "$0" || exit 99; exec "$@""#;
    let path = folder.path().to_str().unwrap();
    let run = |options: &[&str]| {
        let program = [&["unshare"], options, &["sh", "-c", script, path]].concat();
        let output = command(&program, "fill the disk", folder.path()).stderr(Stdio::piped()).output().ok()?;
        (!matches!(output.status.code(), Some(1 | 99))).then_some(output)
    };
    let Some(output) = run(&["--mount"]).or_else(|| run(&["--map-root-user", "--mount"])) else {
        test_data::impossible("no small file system can be made here");
        return;
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("full after "), "{stdout}\n{stderr}");
}
