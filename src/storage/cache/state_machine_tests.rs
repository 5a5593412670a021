//! Random sequences of uses of shards by two processes whose clocks run as they like, compared with a model: a map of
//! shards and the times of their last use. `PAIRLOOM_MODEL_CASES` asks for more sequences.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use super::ShardCache;
use super::tests::{SHARD_BYTES, cached_shards, first, get, key};
use crate::shard::Shard;

const PROCESSES: usize = 2;
const SHARDS: usize = 6;
/// Shards that fit into the cache.
const PLACES: usize = 3;

#[derive(Debug, Clone)]
enum CacheStep {
    /// Opens a shard, at this time of the clock of the file system.
    Open { process: usize, shard: usize, time: u64 },
    /// Stops using a shard.
    Close { process: usize, shard: usize },
}

#[derive(Debug, Clone, Default)]
struct CacheModel {
    /// Shards with the times of their last use.
    cached: BTreeMap<usize, u64>,
    open: [[bool; SHARDS]; PROCESSES],
    is_full: bool,
}

impl CacheModel {
    fn is_open(&self, shard: usize) -> bool {
        self.open.iter().any(|open| open[shard])
    }

    /// Evicts the least recently used shards that are not in use until another one fits; false if there are too few.
    fn make_room(&mut self) -> bool {
        while self.cached.len() >= PLACES {
            let unused = self.cached.iter().filter(|(shard, _)| !self.is_open(**shard));
            let Some((_, oldest)) = unused.map(|(shard, time)| (*time, *shard)).min() else { return false };
            self.cached.remove(&oldest);
        }
        true
    }
}

impl ReferenceStateMachine for CacheModel {
    type State = Self;
    type Transition = CacheStep;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_: &Self) -> BoxedStrategy<CacheStep> {
        let one = || (0..PROCESSES, 0..SHARDS);
        prop_oneof![
            3 => (one(), 1..100u64).prop_map(|((process, shard), time)| CacheStep::Open { process, shard, time }),
            2 => one().prop_map(|(process, shard)| CacheStep::Close { process, shard }),
        ]
        .boxed()
    }

    fn preconditions(state: &Self, step: &CacheStep) -> bool {
        match *step {
            CacheStep::Open { .. } => true,
            CacheStep::Close { process, shard } => state.open[process][shard],
        }
    }

    fn apply(mut state: Self, step: &CacheStep) -> Self {
        match *step {
            CacheStep::Open { process, shard, time } => {
                state.is_full = !state.cached.contains_key(&shard) && !state.make_room();
                if !state.is_full {
                    state.cached.insert(shard, time);
                    state.open[process][shard] = true;
                }
            }
            CacheStep::Close { process, shard } => state.open[process][shard] = false,
        }
        state
    }
}

/// Two caches over one folder, as in two processes, and their open shards.
struct SharedFolder {
    caches: [ShardCache; PROCESSES],
    open: BTreeMap<(usize, usize), Arc<Shard>>,
    _folder: tempfile::TempDir,
}

impl StateMachineTest for SharedFolder {
    type SystemUnderTest = Self;
    type Reference = CacheModel;

    fn init_test(_: &CacheModel) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let limit = PLACES as u64 * (SHARD_BYTES + 2000);
        let caches = [0, 1].map(|_| ShardCache::open(folder.path(), limit).unwrap());
        Self { caches, open: BTreeMap::new(), _folder: folder }
    }

    fn apply(mut real: Self, model: &CacheModel, step: CacheStep) -> Self {
        match step {
            CacheStep::Open { process, shard, time } => {
                let cache = &real.caches[process];
                let opened = get(cache, shard);
                assert_eq!(opened.is_err(), model.is_full, "{step:?}: {:?}", opened.err());
                if let Ok(opened) = opened {
                    assert_eq!(first(&opened), i64::try_from(shard).unwrap());
                    let used = cache.folder().join("v1/shards").join(key(shard)).join("used");
                    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
                    File::options().write(true).open(used).unwrap().set_modified(time).unwrap();
                    real.open.insert((process, shard), opened);
                }
            }
            CacheStep::Close { process, shard } => drop(real.open.remove(&(process, shard))),
        }
        real
    }

    fn check_invariants(real: &Self, model: &CacheModel) {
        assert_eq!(cached_shards(&real.caches[0]), model.cached.keys().copied().collect::<Vec<_>>());
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig {
        cases: test_data::model_cases(8), max_local_rejects: u32::MAX, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn shards_that_processes_with_wrong_clocks_use_are_evicted_as_in_the_model(sequential 1..40 => SharedFolder);
}
