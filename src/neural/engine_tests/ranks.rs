//! Tests of runs of several ranks, which are threads of this process here.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use serde_json::json;

use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::{CancelToken, Device};
use pairloom_engine::inputs::CacheOptions;
use pairloom_engine::ranks::{RankEnvironment, RankOptions, RendezvousBackend, RendezvousStore, run_follower};
use pairloom_engine::run::{RunOptions, RunSummary, execute};
use pairloom_model::collective::{CollectiveGroup, TcpStore};
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_stage::{RunnableStage, Stage, StageContext, StageInput, StageOutput, TableRef};
use pairloom_store::Store;
use pairloom_tables as tables;

#[derive(Debug)]
struct TcpBackend;

impl RendezvousBackend for TcpBackend {
    fn serve(
        &self,
        host: &str,
        port: u16,
        timeout: Duration,
        _any_address: bool,
    ) -> Result<(Box<dyn RendezvousStore>, u16)> {
        let store = TcpStore::serve(host, port, timeout, false)?;
        let port = store.port();
        Ok((Box::new(TcpRendezvousStore(store)), port))
    }
    fn connect(&self, host: &str, port: u16, timeout: Duration) -> Result<Box<dyn RendezvousStore>> {
        Ok(Box::new(TcpRendezvousStore(TcpStore::connect(host, port, timeout)?)))
    }
}

struct TcpRendezvousStore(TcpStore);

impl RendezvousStore for TcpRendezvousStore {
    fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.0.set(key, value)
    }
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.0.get(key)
    }
}

/// Failure to inject on one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
enum InjectedFailure {
    Error,
    Panic,
    /// The rank is interrupted, as by a signal.
    Signal,
}

/// Toy stage: writes numbers, or sums blocks of ten numbers. Each rank adds its share of a block. `failure` holds the
/// rank that fails, the block before which it fails, and the kind of failure.
#[derive(Debug, Clone)]
enum RankToyStage {
    Count(i64),
    Sum {
        rows: TableRef,
        scale: i64,
        world_size: usize,
        failure: Option<(usize, usize, InjectedFailure)>,
        signal: CancelToken,
    },
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]))
}

fn numbers(numbers: Vec<i64>) -> Result<arrow::array::RecordBatch> {
    tables::batch(&schema(), vec![Arc::new(Int64Array::from(numbers))])
}

impl Stage for RankToyStage {
    fn kind(&self) -> &'static str {
        match self {
            RankToyStage::Count(_) => "count",
            RankToyStage::Sum { .. } => "sum",
        }
    }
    fn version(&self) -> u32 {
        1
    }
    fn settings(&self) -> serde_json::Value {
        match self {
            RankToyStage::Count(n) => json!({ "n": n }),
            RankToyStage::Sum { scale, .. } => json!({ "scale": scale }),
        }
    }
    fn inputs(&self) -> Vec<StageInput> {
        match self {
            RankToyStage::Count(_) => vec![],
            RankToyStage::Sum { rows, .. } => vec![StageInput::any_table("rows", rows, schema())],
        }
    }
    fn outputs(&self) -> Vec<StageOutput> {
        match self {
            RankToyStage::Count(_) => vec![StageOutput::table("rows", schema(), 7)],
            RankToyStage::Sum { .. } => vec![StageOutput::table("sums", schema(), 100), StageOutput::files("total")],
        }
    }
}

impl RunnableStage for RankToyStage {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let RankToyStage::Sum { scale, world_size, failure, signal, .. } = self else {
            let RankToyStage::Count(n) = self else { return Err(Error::internal("no such toy")) };
            return cx.write("rows", numbers((0..*n).collect())?);
        };
        let ranks = cx.process_group(*world_size)?;
        let group = CollectiveGroup::join(&ranks, tch::Device::Cpu, cx.cancel())?;
        let all = cx.read_all("rows")?;
        let all: Vec<i64> =
            all.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        let done = cx.saved_state()?.map_or(0, |state| state[0]).into();
        for (number, block) in all.chunks(10).enumerate().skip(done) {
            match failure {
                Some((rank, at, how)) if (*rank, *at) == (group.rank(), number) => match how {
                    InjectedFailure::Error => return Err(Error::data(format!("block {number} is bad")).hint("mend it")),
                    InjectedFailure::Panic => panic!("at block {number}"),
                    InjectedFailure::Signal => signal.cancel(),
                },
                _ => {}
            }
            cx.check_cancelled()?;
            let own: i64 = block.iter().skip(group.rank()).step_by(group.world_size()).map(|x| x * scale).sum();
            let sum = tch::Tensor::from_slice(&[own]);
            group.all_reduce_sum(std::slice::from_ref(&sum))?;
            cx.write("sums", numbers(vec![sum.int64_value(&[0])])?)?;
            if number % 2 == 1 {
                cx.save_state(vec![u8::try_from(number + 1).unwrap()].into(), 1)?;
            }
        }
        cx.put_file("total", "threads", cx.threads().to_string().into())
    }
}

fn toys(
    scale: i64,
    world_size: usize,
    failure: Option<(usize, usize, InjectedFailure)>,
    signal: &CancelToken,
) -> Plan<RankToyStage> {
    let rows = "numbers.rows".to_owned().try_into().unwrap();
    let nodes = [
        ("numbers", RankToyStage::Count(45)),
        ("sums", RankToyStage::Sum { rows, scale, world_size, failure, signal: signal.clone() }),
    ];
    Plan::new(nodes.map(|(name, stage)| PlanNode { name: name.to_owned(), coordinates: vec![], stage }).to_vec())
        .unwrap()
}

/// Makes the plan of one rank from its cancellation token.
type RankPlan<'r> = &'r (dyn Fn(&CancelToken) -> Plan<RankToyStage> + Sync);

/// Runs a plan on each rank. Returns the summary of rank 0 and the results of the others.
fn run(store: &Store, ranks: &[RankPlan<'_>]) -> (Result<RunSummary>, Vec<Result<()>>) {
    // A store as that of `torchrun`, so that no other test can take its port.
    let agent = TcpStore::serve("127.0.0.1", 0, Duration::from_secs(10), false).unwrap();
    let port = agent.port();
    let world_size = ranks.len();
    let options = |rank| {
        let environment = RankEnvironment {
            rank,
            world_size,
            local_rank: rank,
            local_world_size: world_size,
            host: "127.0.0.1".to_owned(),
            port,
            has_launcher_store: true,
            prefix: "pairloom/0".to_owned(),
            token: None,
            nccl_host_id: None,
            is_launched_here: false,
        };
        let ranks = RankOptions {
            backend: Some(&TcpBackend),
            environment: Some(environment),
            timeout: Duration::from_secs(30),
            ..RankOptions::default()
        };
        let cache = CacheOptions { folder: None, limit: 0 };
        RunOptions {
            pipeline: "toy".to_owned(),
            command: pairloom_store::record::RunCommand::default(),
            threads: 7,
            jobs: 1,
            keep_going: false,
            trust_folder_times: false,
            memory: 1 << 20,
            device: Device::Cpu,
            cache,
            ranks,
            remote: None,
        }
    };
    std::thread::scope(|scope| {
        let followers: Vec<_> = (1..world_size)
            .map(|rank| {
                let (options, plan) = (options(rank), ranks[rank]);
                scope.spawn(move || {
                    let cancel = CancelToken::new();
                    let environment = options.ranks.environment.clone().unwrap();
                    run_follower(&plan(&cancel), RunnableStage::run, store, &options, &environment, &cancel)
                })
            })
            .collect();
        let cancel = CancelToken::new();
        let summary = execute(&ranks[0](&cancel), RunnableStage::run, store, &options(0), &cancel, &|_| {});
        (summary, followers.into_iter().map(|follower| follower.join().unwrap()).collect())
    })
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

/// Sums of a finished run, and the number of threads of a rank.
fn sums(store: &Store, summary: &RunSummary) -> (Vec<i64>, String) {
    let manifest = &summary.manifests["sums"];
    let artefact = store.artefact(&manifest.identity.kind, &manifest.identity.key());
    let mut sums = Vec::new();
    for part in &manifest.tables["sums"] {
        let name = pairloom_store::Artefact::part_name("sums", part.index);
        for batch in pairloom_storage::parquet::decode(artefact.read(&name, part.bytes, &part.digest).unwrap()).unwrap()
        {
            sums.extend_from_slice(tables::int_column(&batch.unwrap(), "x").unwrap().values());
        }
    }
    (sums, String::from_utf8(artefact.get("total/threads").unwrap().unwrap().to_vec()).unwrap())
}

const SUMS: [i64; 5] = [45, 145, 245, 345, 210];

#[test]
fn ranks_work_together_and_rank_0_writes() {
    let (_folder, store) = store();
    let plan: RankPlan<'_> = &|signal| toys(1, 1, None, signal);
    let (summary, followers) = run(&store, &[plan, plan, plan]);
    assert_eq!(sums(&store, &summary.unwrap()), (SUMS.to_vec(), "2".to_owned()));
    assert!(followers.into_iter().all(|follower| follower.is_ok()));
    // In a second run nothing is left to do, and all ranks end.
    let (summary, followers) = run(&store, &[plan, plan]);
    assert!(summary.unwrap().error.is_none());
    assert!(followers.into_iter().all(|follower| follower.is_ok()));
}

#[test]
fn a_stage_may_request_one_rank_or_as_many_as_there_are() {
    for (expected, threads) in [(1, "3"), (2, "3")] {
        let (_folder, store) = store();
        let plan: RankPlan<'_> = &|signal| toys(1, expected, None, signal);
        let (summary, followers) = run(&store, &[plan, plan]);
        assert_eq!(sums(&store, &summary.unwrap()), (SUMS.to_vec(), threads.to_owned()));
        assert!(followers[0].is_ok());
    }
    let (_folder, store) = store();
    let plan: RankPlan<'_> = &|signal| toys(1, 3, None, signal);
    let (summary, followers) = run(&store, &[plan, plan]);
    let error = summary.unwrap().error.unwrap();
    let expected = "stage `sums`: the stage requests 3 ranks, but the program was launched as 2";
    assert_eq!((error.category(), error.to_string().as_str()), (ErrorCategory::Usage, expected));
    assert_eq!(followers[0].as_ref().unwrap_err().to_string(), expected);
}

#[test]
fn ranks_with_different_settings_are_an_error_before_the_run() {
    let (folder, store) = store();
    let (own, other): (RankPlan<'_>, RankPlan<'_>) =
        (&|signal| toys(1, 1, None, signal), &|signal| toys(5, 1, None, signal));
    let (summary, followers) = run(&store, &[own, own, other]);
    let error = summary.unwrap_err();
    let expected = "ranks must have the same settings: `sums.sum.scale` is 1 on rank 0 and 5 on rank 2";
    assert_eq!((error.category(), error.to_string().as_str()), (ErrorCategory::Usage, expected));
    for follower in followers {
        let error = follower.unwrap_err();
        assert_eq!((error.category(), error.to_string().as_str()), (ErrorCategory::Usage, expected));
    }
    assert!(!folder.path().join("v1/runs").exists(), "no run began");
}

#[test]
fn a_failing_rank_ends_all_ranks_and_is_named_and_the_next_run_resumes() {
    for (failure, kind, expected) in [
        (InjectedFailure::Error, ErrorCategory::Data, "stage `sums`: rank 1 of 2: block 3 is bad"),
        (InjectedFailure::Panic, ErrorCategory::Internal, "stage `sums`: rank 1 of 2: panicked: at block 3"),
        (InjectedFailure::Signal, ErrorCategory::Interrupted, "interrupted"),
    ] {
        let (_folder, store) = store();
        let plan: RankPlan<'_> = &|signal| toys(1, 1, Some((1, 3, failure)), signal);
        let (summary, followers) = run(&store, &[plan, plan]);
        let error = summary.unwrap().error.unwrap();
        assert_eq!((error.category(), error.to_string().as_str()), (kind, expected));
        assert_eq!(followers[0].as_ref().unwrap_err().category(), kind);
        // The next run resumes from the state at block 2, with another number of ranks.
        let plan: RankPlan<'_> = &|signal| toys(1, 1, Some((1, 1, InjectedFailure::Error)), signal);
        let (summary, followers) = run(&store, &[plan, plan, plan]);
        assert_eq!(sums(&store, &summary.unwrap()).0, SUMS);
        assert!(followers.into_iter().all(|follower| follower.is_ok()));
    }
}

#[test]
fn when_rank_0_fails_the_others_end_with_its_error() {
    for (failure, kind, expected) in [
        (InjectedFailure::Error, ErrorCategory::Data, "stage `sums`: block 2 is bad"),
        (InjectedFailure::Panic, ErrorCategory::Internal, "stage `sums`: panicked: at block 2"),
        (InjectedFailure::Signal, ErrorCategory::Interrupted, "interrupted"),
    ] {
        let (_folder, store) = store();
        let plan: RankPlan<'_> = &|signal| toys(1, 1, Some((0, 2, failure)), signal);
        let (summary, followers) = run(&store, &[plan, plan, plan]);
        let error = summary.unwrap().error.unwrap();
        assert_eq!((error.category(), error.to_string().as_str()), (kind, expected));
        for follower in followers {
            let error = follower.unwrap_err();
            assert_eq!((error.category(), error.to_string().as_str()), (kind, expected));
        }
    }
}
