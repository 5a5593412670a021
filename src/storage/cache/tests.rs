//! Tests of the cache in one process: concurrent builds, eviction, damage, a folder that is removed.

use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use arrow::array::Int64Array;
use arrow::datatypes::{DataType, Field, Schema};

use super::*;
use crate::shard::DIGESTS_FILE;
use pairloom_tables as tables;

/// Size in bytes of a shard of [`table`] with its digests and its time of use, rounded down.
pub(super) const SHARD_BYTES: u64 = 80_000;

/// Table of ten thousand numbers from `first`.
pub(super) fn table(first: i64) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("image_id", DataType::Int64, false)]));
    tables::batch(&schema, vec![Arc::new(Int64Array::from_iter_values(first..first + 10_000))]).unwrap()
}

/// Key of shard `i`.
pub(super) fn key(i: usize) -> String {
    format!("{i:016x}")
}

#[expect(clippy::unnecessary_wraps, reason = "passed as the `cancel` callback")]
pub(super) fn never_cancel() -> Result<()> {
    Ok(())
}

pub(super) fn get(cache: &ShardCache, i: usize) -> Result<Arc<Shard>> {
    cache.get_or_make(&key(i), || Ok(table(i64::try_from(i).unwrap())), &never_cancel)
}

/// First value of a shard of [`table`].
pub(super) fn first(shard: &Arc<Shard>) -> i64 {
    shard.ids("image_id").unwrap().value(0).unwrap()
}

fn path(cache: &ShardCache, i: usize, name: &str) -> PathBuf {
    cache.folder().join("v1/shards").join(key(i)).join(name)
}

pub(super) fn cached_shards(cache: &ShardCache) -> Vec<usize> {
    (0..20).filter(|i| path(cache, *i, SHARD_FILE).exists()).collect()
}

fn flip_bit(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Files of unfinished builds and removals.
pub(super) fn leftovers(folder: &Path) -> Vec<PathBuf> {
    let list = |name| std::fs::read_dir(folder.join("v1").join(name)).unwrap().map(|entry| entry.unwrap().path());
    list("tmp").chain(list("gone")).collect()
}

#[test]
fn concurrent_threads_build_a_shard_once() {
    let folder = tempfile::tempdir().unwrap();
    // Two caches in one process share no state, as if in two processes.
    let caches = [0, 1].map(|_| ShardCache::open(folder.path(), 1 << 30).unwrap());
    let (made, start) = (AtomicUsize::new(0), Barrier::new(8));
    let shards: Vec<Arc<Shard>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let (cache, made, start) = (&caches[thread % 2], &made, &start);
                scope.spawn(move || {
                    start.wait();
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(Duration::from_millis(50));
                        Ok(table(77))
                    };
                    cache.get_or_make(&key(7), make, &never_cancel).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.into_inner(), 1);
    assert!(shards.iter().all(|shard| first(shard) == 77));
    for cache in [0, 1] {
        let own: Vec<_> = shards.iter().skip(cache).step_by(2).collect();
        assert!(own.iter().all(|shard| Arc::ptr_eq(shard, own[0])), "mapped once in a cache");
    }
    let [a, b] = caches.map(|cache| cache.statistics().unwrap());
    assert_eq!((a.misses + b.misses, a.hits + b.hits), (1, 7));
    assert!((SHARD_BYTES..SHARD_BYTES + 2000).contains(&a.bytes) && a.bytes == b.bytes, "{a:?}");
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn shards_stay_after_the_cache_is_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 1 << 30).unwrap();
    assert!(cache.get(&key(1)).unwrap().is_none());
    get(&cache, 1).unwrap();
    drop(cache);
    let cache = ShardCache::open(folder.path(), 1 << 30).unwrap();
    let shard = cache.get(&key(1)).unwrap().unwrap();
    assert_eq!(first(&shard), 1);
    assert!(cache.get_or_make(&key(1), || panic!("it is there"), &never_cancel).is_ok());
    for odd in ["", "../../../../etc/passwd", "0123456789abcdeF", "0123456789abcde"] {
        assert_eq!(cache.get(odd).unwrap_err().category(), ErrorCategory::Internal);
    }
}

#[test]
fn the_least_recently_used_shards_are_evicted_and_shards_in_use_stay() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 4 * (SHARD_BYTES + 2000)).unwrap();
    // The file system's clock has to advance between two uses.
    let used = |i| {
        std::thread::sleep(Duration::from_millis(20));
        drop(get(&cache, i).unwrap());
    };
    (1..=4).for_each(used);
    used(1);
    used(5);
    assert_eq!(cached_shards(&cache), [1, 3, 4, 5]);
    let kept = get(&cache, 3).unwrap();
    used(6);
    used(7);
    used(8);
    used(9);
    assert_eq!(cached_shards(&cache), [3, 7, 8, 9]);
    assert_eq!(first(&kept), 3);
    assert_eq!(cache.statistics().unwrap().evictions, 5);
    assert!(cache.statistics().unwrap().bytes <= 4 * (SHARD_BYTES + 2000));
    // A column keeps its shard open.
    let ids = get(&cache, 7).unwrap().ids("image_id").unwrap();
    (10..15).for_each(used);
    assert_eq!(cached_shards(&cache), [3, 7, 13, 14]);
    assert_eq!(ids.value(0).unwrap(), 7);
}

#[test]
fn a_shard_that_does_not_fit_beside_those_in_use_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 2 * (SHARD_BYTES + 2000)).unwrap();
    let shards = [get(&cache, 1).unwrap(), get(&cache, 2).unwrap()];
    let error = get(&cache, 3).unwrap_err();
    assert!(error.to_string().contains("does not fit into the cache"), "{error}");
    assert!(error.hint_text().unwrap().contains("--cache-size"));
    drop(shards);
    assert_eq!(first(&get(&cache, 3).unwrap()), 3);
    let small = tempfile::tempdir().unwrap();
    let small = ShardCache::open(small.path(), SHARD_BYTES).unwrap();
    assert_eq!(get(&small, 1).unwrap_err().category(), ErrorCategory::Stage);
    assert!(leftovers(folder.path()).is_empty() && leftovers(small.folder()).is_empty());
}

#[test]
fn shards_under_construction_take_room_and_leftovers_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 3 * (SHARD_BYTES + 2000)).unwrap();
    // The lock and the unfinished folder of another process.
    let below = |name: &str, key: &str| folder.path().join("v1").join(name).join(key);
    let write = |folder: &Path| {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join(SHARD_FILE), vec![0; usize::try_from(SHARD_BYTES).unwrap()]).unwrap();
    };
    let other = File::create(below("tmp", &format!("{}.lock", key(9)))).unwrap();
    other.lock().unwrap();
    write(&below("tmp", &key(9)));
    for i in 1..=3 {
        std::thread::sleep(Duration::from_millis(20));
        get(&cache, i).unwrap();
    }
    assert_eq!(cached_shards(&cache), [2, 3]);
    assert!(cache.statistics().unwrap().bytes > 3 * SHARD_BYTES);
    // The other process ends, and so does one that was removing a shard.
    drop(other);
    write(&below("gone", &key(10)));
    get(&cache, 4).unwrap();
    assert_eq!(cached_shards(&cache), [2, 3, 4]);
    assert!(leftovers(folder.path()).is_empty());
    write(&below("tmp", &key(9)));
    write(&below("gone", &key(10)));
    ShardCache::open(folder.path(), 1).unwrap();
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn a_builder_that_fails_or_is_cancelled_or_panics_releases_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 1 << 30).unwrap();
    let error = cache.get_or_make(&key(1), || Err(Error::data("no source")), &never_cancel).unwrap_err();
    assert_eq!(error.to_string(), "no source");
    let error = cache.get_or_make(&key(1), || Ok(table(1)), &|| Err(Error::interrupted())).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Interrupted);
    let panicked = std::thread::scope(|scope| {
        scope.spawn(|| cache.get_or_make(&key(1), || panic!("a defect of the maker"), &never_cancel)).join()
    });
    assert!(panicked.is_err());
    // Another cache waits for a builder until it is cancelled.
    let other = ShardCache::open(folder.path(), 1 << 30).unwrap();
    let (inside, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let make = || {
                inside.wait();
                done.wait();
                Ok(table(1))
            };
            cache.get_or_make(&key(1), make, &never_cancel).unwrap();
        });
        inside.wait();
        for waiting in [&other, &cache] {
            let n_checks = AtomicUsize::new(0);
            let cancel =
                || if n_checks.fetch_add(1, Ordering::Relaxed) < 3 { Ok(()) } else { Err(Error::interrupted()) };
            let error = waiting.get_or_make(&key(1), || panic!("another makes it"), &cancel).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Interrupted);
            assert!(waiting.get(&key(1)).unwrap().is_none());
        }
        done.wait();
    });
    assert_eq!(first(&other.get(&key(1)).unwrap().unwrap()), 1);
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn a_key_has_one_builder_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let cache = ShardCache::open(folder.path(), 1 << 30).unwrap();
                // Builders that fail take and release the lock of the key repeatedly.
                let make = || {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    Err(Error::data("nothing"))
                };
                for _ in 0..300 {
                    assert_eq!(cache.get_or_make(&key(1), make, &never_cancel).unwrap_err().to_string(), "nothing");
                }
            });
        }
    });
    assert!(leftovers(folder.path()).is_empty());
}

#[test]
fn a_shard_may_be_built_from_other_shards() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 1 << 30).unwrap();
    let sum = || Ok(table(first(&get(&cache, 1)?) + first(&get(&cache, 2)?)));
    assert_eq!(first(&cache.get_or_make(&key(3), sum, &never_cancel).unwrap()), 3);
}

/// As after a power cut: names and lengths are there, and the content is zeros or missing.
#[test]
fn shards_from_before_the_last_boot_are_read_whole_and_built_again_if_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 1 << 30).unwrap();
    for i in 1..=5 {
        get(&cache, i).unwrap();
    }
    let zeros = |i, name| {
        let path = path(&cache, i, name);
        let length = std::fs::metadata(&path).unwrap().len();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, vec![0; usize::try_from(length).unwrap()]).unwrap();
    };
    zeros(1, SHARD_FILE);
    zeros(2, DIGESTS_FILE);
    std::fs::remove_file(path(&cache, 3, SHARD_FILE)).unwrap();
    flip_bit(&path(&cache, 4, SHARD_FILE), 40_000);
    for i in 1..=5 {
        std::fs::write(path(&cache, i, "used"), "another boot").unwrap();
    }
    for i in 1..=5 {
        let shard = get(&cache, i).unwrap();
        assert_eq!(first(&shard), i64::try_from(i).unwrap());
        shard.verify_all().unwrap();
    }
    let statistics = cache.statistics().unwrap();
    assert_eq!((statistics.hits, statistics.misses), (1, 5 + 4));
    // It was found whole in this boot, so later damage is an error.
    flip_bit(&path(&cache, 5, SHARD_FILE), 40_000);
    let error = get(&cache, 5).unwrap().verify_all().unwrap_err();
    assert!(error.hint_text().unwrap().contains("run the same command again"), "{:?}", error.hint_text());
}

#[test]
fn a_damaged_shard_is_reported_once_and_built_again() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ShardCache::open(folder.path(), 1 << 30).unwrap();
    for i in 1..=4 {
        get(&cache, i).unwrap();
    }
    // Found on opening: a truncated file, a missing file, a wrong header.
    std::fs::remove_file(path(&cache, 1, SHARD_FILE)).unwrap();
    std::fs::write(path(&cache, 1, SHARD_FILE), [0; 10]).unwrap();
    std::fs::remove_file(path(&cache, 2, SHARD_FILE)).unwrap();
    flip_bit(&path(&cache, 3, DIGESTS_FILE), 9);
    let error = get(&cache, 1).unwrap_err();
    assert!(error.to_string().contains("shard has 10 bytes, expected 8"), "{error}");
    assert!(error.hint_text().unwrap().contains("as were 2 other damaged shards"), "{:?}", error.hint_text());
    assert!(cached_shards(&cache) == [4] && !path(&cache, 2, "").exists());
    for i in 1..=3 {
        assert_eq!(first(&get(&cache, i).unwrap()), i64::try_from(i).unwrap());
    }
    std::fs::remove_file(path(&cache, 2, SHARD_FILE)).unwrap();
    assert!(get(&cache, 2).unwrap_err().to_string().starts_with("cannot open the shard"));
    assert_eq!(first(&get(&cache, 2).unwrap()), 2);

    // Found on reading, by two caches that have the shard open.
    flip_bit(&path(&cache, 4, SHARD_FILE), 40_000);
    let other = ShardCache::open(folder.path(), 1 << 30).unwrap();
    let (shard, same) = (get(&cache, 4).unwrap(), get(&other, 4).unwrap());
    assert_eq!(first(&shard), 4);
    let error = shard.verify_all().unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    assert!(error.hint_text().unwrap().contains("run the same command again"), "{:?}", error.hint_text());
    let anew = get(&cache, 4).unwrap();
    assert!(anew.verify_all().is_ok());
    // The other cache finds the damage too, and must not remove the new shard.
    assert!(same.verify_all().is_err() && shard.verify_all().is_err());
    drop((shard, same));
    assert!(path(&cache, 4, SHARD_FILE).exists() && get(&other, 4).unwrap().verify_all().is_ok());
}

#[test]
fn a_removed_folder_is_an_error_and_open_shards_stay_readable() {
    for back in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("cache");
        let cache = ShardCache::open(&place, 1 << 30).unwrap();
        let shard = get(&cache, 1).unwrap();
        std::fs::remove_dir_all(&place).unwrap();
        let new = back.then(|| ShardCache::open(&place, 1 << 30).unwrap());
        for error in [
            cache.get(&key(1)).unwrap_err(),
            cache.get(&key(2)).unwrap_err(),
            get(&cache, 2).unwrap_err(),
            cache.statistics().unwrap_err(),
        ] {
            assert_eq!(error.category(), ErrorCategory::Data);
            assert!(error.to_string().contains("was removed while it was in use") && error.hint_text().is_some());
            assert!(error.to_string().contains(place.file_name().unwrap().to_str().unwrap()));
        }
        assert_eq!((place.exists(), new.is_some()), (back, back));
        assert!(shard.verify_all().is_ok() && first(&shard) == 1);
    }
}

#[test]
fn removing_the_folder_during_a_build_is_an_error_for_builder_and_waiters() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("cache");
    let caches = [0, 1].map(|_| ShardCache::open(&place, 1 << 30).unwrap());
    let inside = Barrier::new(3);
    std::thread::scope(|scope| {
        let waiting = [&caches[0], &caches[1]].map(|cache| {
            let inside = &inside;
            scope.spawn(move || {
                inside.wait();
                get(cache, 1).unwrap_err()
            })
        });
        let make = || {
            inside.wait();
            std::thread::sleep(Duration::from_millis(50));
            std::fs::remove_dir_all(&place).unwrap();
            // The waiters notice before the builder is done.
            for error in waiting.map(|thread| thread.join().unwrap()) {
                assert!(error.to_string().contains("was removed"), "{error}");
            }
            Ok(table(1))
        };
        let error = caches[0].get_or_make(&key(1), make, &never_cancel).unwrap_err();
        assert!(error.to_string().contains("was removed while it was in use"), "{error}");
    });
    assert!(!place.exists());
}

#[test]
fn files_and_folders_of_other_users_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    for place in [file.clone(), file.join("below")] {
        let error = ShardCache::open(&place, 1).unwrap_err();
        assert!(error.to_string().starts_with("cannot make the cache folder"), "{error}");
        assert!(error.hint_text().is_some());
    }
    let place = folder.path().join("deep/cache");
    drop(ShardCache::open(&place, 1).unwrap());
    assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    // Only root can change the owner of a folder.
    if std::os::unix::fs::chown(&place, Some(12_345), None).is_err() {
        test_data::impossible("not root, so no folder of another user can be made");
        return;
    }
    let error = ShardCache::open(&place, 1).unwrap_err();
    assert!(error.to_string().starts_with("cache folder belongs to user 12345, expected 0: "), "{error}");
    assert!(error.hint_text().unwrap().contains("--cache"));
    assert!(!place.join(".owner").exists());
}
