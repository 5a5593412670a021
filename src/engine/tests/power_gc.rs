//! Tests of labels and of garbage collection whose machine loses power, at any call.
//!
//! The collection removes the manifest of a result by recorded calls, and then its folder by others: after the recorded
//! ones, the disks have a drawn part of the files of the folder.

use super::earlier_rows::keyed;
use super::power::{draws, recorded_store};
use super::*;
use pairloom_kernels::random::Rng;
use pairloom_storage::objects::power_cut::Survival;
use pairloom_store::Presence;
use pairloom_store::artefact::verify_artefact;
use pairloom_store::gc::collect_garbage;
use pairloom_store::key::Key;
use pairloom_store::labels::{self, Labels, PinTarget};
use pairloom_store::record::RunLog;

/// Plan of three stages: numbers below 25, a stage that adds `add` to them, and the sums of these.
fn sums_of(add: i64) -> Plan<ToyStage> {
    plan(vec![
        node("numbers", ToyStage::count(25)),
        node("more", ToyStage::add("numbers.rows", add)),
        node("sums", ToyStage::sum("more.rows")),
    ])
}

/// All plans. The first one's run is tagged, the second one's is interrupted, of the third one `more` is pinned, and the last
/// one is the latest. It shares parts with the one before it.
fn plans() -> [Plan<ToyStage>; 5] {
    [sums_of(1), sums_of(2), sums_of(3), keyed(20, 100), keyed(30, 100)]
}

/// Kind and key of the result of a stage.
fn result_of(plan: &Plan<ToyStage>, stage: &str, store: &Store) -> (String, Key) {
    let status = statuses(plan, store).into_iter().find(|status| status.name == stage).unwrap();
    (status.kind, status.key)
}

/// True if a result is complete; asserts that all of it is there then.
fn is_whole(store: &Store, (kind, key): &(String, Key), place: &str) -> bool {
    let artefact = store.artefact(kind, key);
    match artefact.presence().unwrap() {
        Presence::Complete(manifest) => {
            let damage = verify_artefact(&artefact, &manifest, &|_| {}).unwrap();
            assert!(damage.is_empty(), "{place}: {damage:?}");
            true
        }
        Presence::Absent => false,
        Presence::Damaged(problem) => panic!("{place}: `{kind}/{key}`: {problem}"),
    }
}

/// Removes a drawn part of the files of results.
fn lose_files(store: &Path, results: &[&(String, Key)], seed: u64) {
    let mut rng = Rng::new(seed, &[]);
    for (kind, key) in results {
        let folder = store.join(kind).join(key.as_str());
        for entry in walkdir::WalkDir::new(folder).sort_by_file_name().into_iter().flatten() {
            if entry.file_type().is_file() && rng.uniform_below(2) == 0 {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

/// Content of a store in which nothing was interrupted or removed.
fn undisturbed() -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for plan in plans() {
        assert!(run(&plan, &store).0.error.is_none());
    }
    content(folder.path())
}

#[test]
fn after_a_power_cut_in_a_tag_a_pin_or_a_collection_all_that_is_kept_is_whole() {
    let wanted = undisturbed();
    let folder = tempfile::tempdir().unwrap();
    let (store, calls) = recorded_store(folder.path());
    let [tagged, interrupted, pinned, older, latest] = plans();
    let name_of_run = |plan| {
        let summary = run(plan, &store).0;
        assert!(summary.error.is_none(), "{:?}", summary.error);
        summary.record.run
    };
    let tagged_run = name_of_run(&tagged);
    let cancel = CancelToken::new();
    let observer = |event: &Event| {
        if matches!(event, Event::StateSaved { .. }) {
            cancel.cancel();
        }
    };
    assert!(execute(&interrupted, RunnableStage::run, &store, &options(), &cancel, &observer).unwrap().error.is_some());
    let pinned_run = name_of_run(&pinned);
    name_of_run(&older);
    name_of_run(&latest);
    let artefacts = |plan: &Plan<ToyStage>, stages: &[&str]| -> Vec<(String, Key)> {
        stages.iter().map(|stage| result_of(plan, stage, &store)).collect()
    };
    let kept = [
        artefacts(&tagged, &["numbers", "more", "sums"]),
        artefacts(&pinned, &["more"]),
        artefacts(&latest, &["numbers", "more"]),
    ]
    .concat();
    // The interrupted run read the numbers of the tagged one. Its sums have no manifest.
    let garbage = [
        artefacts(&interrupted, &["more", "sums"]),
        artefacts(&pinned, &["sums"]),
        artefacts(&older, &["numbers", "more"]),
    ]
    .concat();
    assert!(kept.iter().all(|result| is_whole(&store, result, "before")));
    let whole = garbage.iter().filter(|result| is_whole(&store, result, "before")).count();
    assert_eq!(whole, garbage.len() - 1, "one was interrupted");
    let pin = PinTarget::Artefact(kept[3].0.clone(), kept[3].1.clone());

    let before = calls.count();
    labels::set_tag(&store, &pinned_run, "paper", false).unwrap();
    let after_tag = calls.count();
    labels::set_tag(&store, &tagged_run, "paper", true).unwrap();
    let after_move = calls.count();
    labels::pin(&store, &pin).unwrap();
    let after_pin = calls.count();
    let removed = collect_garbage(&store, 1, true).unwrap().garbage;
    let mut removed: Vec<String> = removed.into_iter().map(|item| format!("{}/{}", item.kind, item.key)).collect();
    let mut expected: Vec<String> = garbage.iter().map(|(kind, key)| format!("{kind}/{key}")).collect();
    removed.sort();
    expected.sort();
    assert_eq!(removed, expected);
    let after_removal = calls.count();
    let paths = calls.paths();
    // Number of calls after which the files of a result may be gone.
    let begun = |(kind, key): &(String, Key)| {
        let removed = folder.path().join("v1").join(kind).join(key.as_str());
        let last = paths[after_pin..].iter().rposition(|path| path.starts_with(&removed));
        last.map_or(after_pin, |last| after_pin + last + 1)
    };
    assert!(before < after_tag && after_tag < after_move && after_move < after_pin && after_pin < after_removal);

    for cut in before..=after_removal {
        let drawn = (0..draws().unwrap_or(1)).map(|draw| Survival::Drawn(1000 * cut as u64 + draw));
        for survival in [Survival::Nothing, Survival::Names].into_iter().chain(drawn) {
            let disk = tempfile::tempdir().unwrap();
            calls.write_disk(cut, survival, &disk.path().join("v1"));
            if let Survival::Drawn(seed) = survival {
                let gone: Vec<&(String, Key)> = garbage.iter().filter(|result| begun(result) <= cut).collect();
                lose_files(&disk.path().join("v1"), &gone, seed);
            }
            let (store, _) = recorded_store(disk.path());
            let place = format!("{cut} calls, {survival:?}");
            let named = Labels::read(&store).unwrap();
            let tag = named.tags.get("paper");
            assert!(cut < after_tag || tag.is_some(), "{place}: the tag is lost");
            assert!(tag.is_none_or(|run| *run == pinned_run || *run == tagged_run), "{place}: {tag:?}");
            assert!(cut < after_move || tag == Some(&tagged_run), "{place}: {tag:?}");
            let name = (kept[3].0.clone(), kept[3].1.to_string());
            assert!(cut < after_pin || named.pinned_artefacts.contains(&name), "{place}: the pin is lost");
            let log = RunLog::open(&store).unwrap();
            assert!(log.names().len() == 5 && log.iter().all(|record| record.is_ok()), "{place}: {:?}", log.names());
            assert!(kept.iter().all(|result| is_whole(&store, result, &place)), "{place}");
            let left = garbage.iter().filter(|result| is_whole(&store, result, &place)).count();
            assert!(cut < after_removal || left == 0, "{place}: {left} results are left");
            if cut % 2 == 0 {
                // Whoever was interrupted does it again.
                labels::set_tag(&store, &tagged_run, "paper", true).unwrap();
                labels::pin(&store, &pin).unwrap();
                collect_garbage(&store, 1, true).unwrap();
                assert!(kept.iter().all(|result| is_whole(&store, result, &place)), "{place}");
                assert!(!garbage.iter().any(|result| is_whole(&store, result, &place)), "{place}");
            }
            for (plan, is_kept) in plans().iter().zip([true, false, false, false, true]) {
                let (summary, events) = run(plan, &store);
                assert!(summary.error.is_none(), "{place}: {:?}", summary.error);
                let starts = events.iter().any(|event| matches!(event, Event::StageStarted { .. }));
                assert!(!is_kept || !starts, "{place}: a kept result was computed again");
            }
            assert_eq!(content(disk.path()), wanted, "{place}");
        }
    }
}
