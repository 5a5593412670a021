//! Runs of several ranks: threads of this process that meet as processes do.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use serde_json::json;

use super::{Board, Boards, Place, RankOptions, follow};
use crate::engine::cache::CachePlace;
use crate::engine::run::{Options, Summary, execute};
use crate::error::{Error, Kind, Result};
use crate::model::collective::{Group, KeyStore};
use crate::plan::{Node, Plan};
use crate::runtime::{Cancel, Device};
use crate::stage::{Cx, Input, Output, Run, Stage, TableRef};
use crate::store::Store;
use crate::tables;

#[derive(Debug)]
struct KeyStores;

impl Boards for KeyStores {
    fn serve(&self, host: &str, port: u16, patience: Duration) -> Result<(Box<dyn Board>, u16)> {
        let store = KeyStore::serve(host, port, patience)?;
        let port = store.port();
        Ok((Box::new(Keys(store)), port))
    }
    fn connect(&self, host: &str, port: u16, patience: Duration) -> Result<Box<dyn Board>> {
        Ok(Box::new(Keys(KeyStore::connect(host, port, patience)?)))
    }
}

struct Keys(KeyStore);

impl Board for Keys {
    fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.0.set(key, value)
    }
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.0.get(key)
    }
}

/// What goes wrong on one rank, before the block of this number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    Error,
    Panic,
    /// It is interrupted, as by a signal.
    Signal,
}

/// Counts, or adds up blocks of ten numbers, each rank its share.
#[derive(Debug, Clone)]
enum Toy {
    Count(i64),
    Sum { rows: TableRef, scale: i64, wanted: usize, trouble: Option<(usize, usize, Trouble)>, signal: Cancel },
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]))
}

fn numbers(numbers: Vec<i64>) -> Result<arrow::array::RecordBatch> {
    tables::batch(&schema(), vec![Arc::new(Int64Array::from(numbers))])
}

impl Stage for Toy {
    fn kind(&self) -> &'static str {
        match self {
            Toy::Count(_) => "count",
            Toy::Sum { .. } => "sum",
        }
    }
    fn version(&self) -> u32 {
        1
    }
    fn settings(&self) -> serde_json::Value {
        match self {
            Toy::Count(n) => json!({ "n": n }),
            Toy::Sum { scale, .. } => json!({ "scale": scale }),
        }
    }
    fn inputs(&self) -> Vec<Input> {
        match self {
            Toy::Count(_) => vec![],
            Toy::Sum { rows, .. } => vec![Input::table("rows", rows, schema())],
        }
    }
    fn outputs(&self) -> Vec<Output> {
        match self {
            Toy::Count(_) => vec![Output::table("rows", schema(), 7)],
            Toy::Sum { .. } => vec![Output::table("sums", schema(), 100), Output::files("total")],
        }
    }
}

impl Run for Toy {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let Toy::Sum { scale, wanted, trouble, signal, .. } = self else {
            let Toy::Count(n) = self else { return Err(Error::internal("no such toy")) };
            return cx.write("rows", numbers((0..*n).collect())?);
        };
        let ranks = cx.ranks(*wanted)?;
        let group = Group::join(&ranks, tch::Device::Cpu, cx.cancel())?;
        let all = cx.read_all("rows")?;
        let all: Vec<i64> =
            all.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
        let done = cx.state()?.map_or(0, |state| state[0]).into();
        for (number, block) in all.chunks(10).enumerate().skip(done) {
            match trouble {
                Some((rank, at, how)) if (*rank, *at) == (group.rank(), number) => match how {
                    Trouble::Error => return Err(Error::data(format!("block {number} is bad")).hint("mend it")),
                    Trouble::Panic => panic!("at block {number}"),
                    Trouble::Signal => signal.cancel(),
                },
                _ => {}
            }
            cx.proceed()?;
            let own: i64 = block.iter().skip(group.rank()).step_by(group.ranks()).map(|x| x * scale).sum();
            let sum = tch::Tensor::from_slice(&[own]);
            group.sum(std::slice::from_ref(&sum))?;
            cx.write("sums", numbers(vec![sum.int64_value(&[0])])?)?;
            if number % 2 == 1 {
                cx.save(vec![u8::try_from(number + 1).unwrap()].into(), 1)?;
            }
        }
        cx.put_file("total", "threads", cx.threads().to_string().into())
    }
}

fn toys(scale: i64, wanted: usize, trouble: Option<(usize, usize, Trouble)>, signal: &Cancel) -> Plan<Toy> {
    let rows = "numbers.rows".to_owned().try_into().unwrap();
    let nodes =
        [("numbers", Toy::Count(45)), ("sums", Toy::Sum { rows, scale, wanted, trouble, signal: signal.clone() })];
    Plan::new(nodes.map(|(name, stage)| Node { name: name.to_owned(), stage }).to_vec()).unwrap()
}

/// One rank: its plan by what interrupts it.
type Rank<'r> = &'r (dyn Fn(&Cancel) -> Plan<Toy> + Sync);

/// Runs a plan on each rank; gives rank 0's summary, and how the others ended.
fn run(store: &Store, ranks: &[Rank<'_>]) -> (Result<Summary>, Vec<Result<()>>) {
    // As that of `torchrun`: no other test can take its port.
    let agent = KeyStore::serve("127.0.0.1", 0, Duration::from_secs(10)).unwrap();
    let port = agent.port();
    let of = ranks.len();
    let options = |rank| {
        let place = Place {
            rank,
            of,
            local: rank,
            locals: of,
            host: "127.0.0.1".to_owned(),
            port,
            served: true,
            name: "pairloom/0".to_owned(),
            token: None,
        };
        let ranks = RankOptions {
            boards: Some(&KeyStores),
            place: Some(place),
            patience: Duration::from_secs(30),
            ..RankOptions::default()
        };
        let cache = CachePlace { folder: None, limit: 0 };
        Options { pipeline: "toy".to_owned(), threads: 7, memory: 1 << 20, device: Device::Cpu, cache, ranks }
    };
    std::thread::scope(|scope| {
        let followers: Vec<_> = (1..of)
            .map(|rank| {
                let (options, plan) = (options(rank), ranks[rank]);
                scope.spawn(move || {
                    let cancel = Cancel::new();
                    let place = options.ranks.place.clone().unwrap();
                    follow(&plan(&cancel), store, &options, &place, &cancel)
                })
            })
            .collect();
        let cancel = Cancel::new();
        let summary = execute(&ranks[0](&cancel), store, &options(0), &cancel, &|_| {});
        (summary, followers.into_iter().map(|follower| follower.join().unwrap()).collect())
    })
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

/// The sums of a finished run, and the threads that each rank had.
fn sums(store: &Store, summary: &Summary) -> (Vec<i64>, String) {
    let manifest = &summary.manifests["sums"];
    let artefact = store.artefact(&manifest.identity.kind, &manifest.identity.key());
    let mut sums = Vec::new();
    for part in &manifest.tables["sums"] {
        let name = crate::store::Artefact::part_name("sums", part.index);
        for batch in crate::io::parquet::decode(artefact.read(&name, part.bytes, &part.digest).unwrap()).unwrap() {
            sums.extend_from_slice(tables::ids(&batch.unwrap(), "x").unwrap().values());
        }
    }
    (sums, String::from_utf8(artefact.get("total/threads").unwrap().unwrap().to_vec()).unwrap())
}

const SUMS: [i64; 5] = [45, 145, 245, 345, 210];

#[test]
fn ranks_work_together_and_rank_0_writes() {
    let (_folder, store) = store();
    let plan: Rank<'_> = &|signal| toys(1, 1, None, signal);
    let (summary, followers) = run(&store, &[plan, plan, plan]);
    assert_eq!(sums(&store, &summary.unwrap()), (SUMS.to_vec(), "2".to_owned()));
    assert!(followers.into_iter().all(|follower| follower.is_ok()));
    // There is nothing to run any more, and all ranks end.
    let (summary, followers) = run(&store, &[plan, plan]);
    assert!(summary.unwrap().error.is_none());
    assert!(followers.into_iter().all(|follower| follower.is_ok()));
}

#[test]
fn a_stage_may_want_as_many_ranks_as_there_are_and_no_others() {
    for (wanted, threads) in [(1, "3"), (2, "3")] {
        let (_folder, store) = store();
        let plan: Rank<'_> = &|signal| toys(1, wanted, None, signal);
        let (summary, followers) = run(&store, &[plan, plan]);
        assert_eq!(sums(&store, &summary.unwrap()), (SUMS.to_vec(), threads.to_owned()));
        assert!(followers[0].is_ok());
    }
    let (_folder, store) = store();
    let plan: Rank<'_> = &|signal| toys(1, 3, None, signal);
    let (summary, followers) = run(&store, &[plan, plan]);
    let error = summary.unwrap().error.unwrap();
    let wanted = "stage `sums`: the stage wants 3 ranks, and this program was started as 2";
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Usage, wanted));
    assert_eq!(followers[0].as_ref().unwrap_err().to_string(), wanted);
}

#[test]
fn ranks_with_other_settings_are_refused_before_anything_runs() {
    let (folder, store) = store();
    let (own, other): (Rank<'_>, Rank<'_>) = (&|signal| toys(1, 1, None, signal), &|signal| toys(5, 1, None, signal));
    let (summary, followers) = run(&store, &[own, own, other]);
    let error = summary.unwrap_err();
    let wanted = "ranks must have the same settings: `sums.sum.scale` is 1 on rank 0 and 5 on rank 2";
    assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Usage, wanted));
    for follower in followers {
        let error = follower.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Usage, wanted));
    }
    assert!(!folder.path().join("v1/runs").exists(), "no run began");
}

#[test]
fn a_rank_that_fails_ends_all_and_is_named_and_a_rerun_goes_on() {
    for (trouble, kind, wanted) in [
        (Trouble::Error, Kind::Data, "stage `sums`: rank 1 of 2: block 3 is bad"),
        (Trouble::Panic, Kind::Internal, "stage `sums`: rank 1 of 2: panicked: at block 3"),
        (Trouble::Signal, Kind::Interrupted, "interrupted"),
    ] {
        let (_folder, store) = store();
        let plan: Rank<'_> = &|signal| toys(1, 1, Some((1, 3, trouble)), signal);
        let (summary, followers) = run(&store, &[plan, plan]);
        let error = summary.unwrap().error.unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, wanted));
        assert_eq!(followers[0].as_ref().unwrap_err().kind(), kind);
        // It goes on from the state at block 2, with another number of ranks.
        let plan: Rank<'_> = &|signal| toys(1, 1, Some((1, 1, Trouble::Error)), signal);
        let (summary, followers) = run(&store, &[plan, plan, plan]);
        assert_eq!(sums(&store, &summary.unwrap()).0, SUMS);
        assert!(followers.into_iter().all(|follower| follower.is_ok()));
    }
}

#[test]
fn when_rank_0_fails_the_others_end_with_its_error() {
    for (trouble, kind, wanted) in [
        (Trouble::Error, Kind::Data, "stage `sums`: block 2 is bad"),
        (Trouble::Panic, Kind::Internal, "stage `sums`: panicked: at block 2"),
        (Trouble::Signal, Kind::Interrupted, "interrupted"),
    ] {
        let (_folder, store) = store();
        let plan: Rank<'_> = &|signal| toys(1, 1, Some((0, 2, trouble)), signal);
        let (summary, followers) = run(&store, &[plan, plan, plan]);
        let error = summary.unwrap().error.unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, wanted));
        for follower in followers {
            let error = follower.unwrap_err();
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, wanted));
        }
    }
}
