//! Promises of every stage to the engine (`src/stage/`), asked of each stage of the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use bytes::Bytes;
use pairloom::engine::cache::CachePlace;
use pairloom::engine::event::Event;
use pairloom::engine::ranks::RankOptions;
use pairloom::engine::run::{Options, Summary, execute};
use pairloom::error::{Kind, Result};
use pairloom::io::shard::Shard;
use pairloom::io::shards::Shards;
use pairloom::pipeline;
use pairloom::plan::{Node, Plan};
use pairloom::runtime::{Cancel, Device, Ranks, Resources};
use pairloom::stage::{Cx, Form, Input, MapFn, Origin, Output, Over, Problem, Run, Stage, StageEvent, World};
use pairloom::stages::AnyStage;
use pairloom::store::{Presence, Store};

use crate::support::tiny_pipeline;

/// Names of what a stage read and wrote.
type Used = Arc<Mutex<BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>>>;

/// A stage that notes what it reads and writes.
#[derive(Debug, Clone)]
struct Watched {
    stage: AnyStage,
    name: String,
    used: Used,
}

impl Stage for Watched {
    fn kind(&self) -> &'static str {
        self.stage.kind()
    }
    fn version(&self) -> u32 {
        self.stage.version()
    }
    fn settings(&self) -> serde_json::Value {
        self.stage.settings()
    }
    fn inputs(&self) -> Vec<Input> {
        self.stage.inputs()
    }
    fn outputs(&self) -> Vec<Output> {
        self.stage.outputs()
    }
    fn check(&self) -> Vec<Problem> {
        self.stage.check()
    }
}

impl Run for Watched {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let inputs = self.stage.inputs().into_iter();
        let sources =
            inputs.filter(|input| matches!(input.origin, Origin::Source(_))).map(|input| input.name).collect();
        self.stage.run(&mut Watch { cx, name: &self.name, used: &self.used, sources })
    }
}

/// The engine's world with a note taken of every name.
struct Watch<'a, 'w> {
    cx: &'a mut Cx<'w>,
    name: &'a str,
    used: &'a Used,
    /// Inputs whose place is all that is read of them here.
    sources: BTreeSet<String>,
}

impl Watch<'_, '_> {
    fn reads(&self, input: &str) {
        self.used.lock().unwrap().entry(self.name.to_owned()).or_default().0.insert(input.to_owned());
    }
    fn writes(&self, output: &str) {
        self.used.lock().unwrap().entry(self.name.to_owned()).or_default().1.insert(output.to_owned());
    }
}

impl World for Watch<'_, '_> {
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.reads(input);
        self.cx.next(input)
    }
    fn shards(&mut self, input: &str) -> Result<Shards> {
        self.reads(input);
        self.cx.shards(input)
    }
    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        self.reads(input);
        self.cx.file(input, name)
    }
    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        let path = self.cx.path(input)?;
        if self.sources.contains(input) {
            self.reads(input);
        }
        Ok(path)
    }
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.writes(output);
        self.cx.write(output, batch)
    }
    fn map(&mut self, over: Over<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<()> {
        if let Over::Rows(input) = over {
            self.reads(input);
        }
        self.writes(output);
        self.cx.map(over, output, size, function)
    }
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.writes(output);
        self.cx.put_file(output, name, content)
    }
    fn kept(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        self.cx.kept(name, settings)
    }
    fn keep(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.cx.keep(name, settings, batch)
    }
    fn state(&mut self) -> Result<Option<Bytes>> {
        self.cx.state()
    }
    fn save(&mut self, state: Bytes, last: usize) -> Result<()> {
        self.cx.save(state, last)
    }
    fn emit(&mut self, event: StageEvent) {
        self.cx.emit(event);
    }
    fn resources(&self) -> &Resources {
        self.cx.resources()
    }
    fn turn(&mut self) -> Result<()> {
        self.cx.turn()
    }
    fn ranks(&mut self, wanted: usize) -> Result<Ranks> {
        self.cx.ranks(wanted)
    }
}

/// A pipeline through every stage, each of them watched.
fn watched(folder: &Path) -> (Plan<Watched>, Used) {
    let file = tiny_pipeline(folder);
    let options = pipeline::Options {
        overrides: &[],
        environment: &|_| None,
        sources_needed: true,
        rehearse: &|_: &Plan<AnyStage>, _: &[_]| vec![],
    };
    let Ok(loaded) = pipeline::load(&file, &options) else { panic!("the tiny pipeline has a mistake") };
    let used = Used::default();
    let nodes = loaded.plan.nodes().iter().map(|node| Node {
        name: node.name.clone(),
        stage: Watched { stage: node.stage.clone(), name: node.name.clone(), used: Arc::clone(&used) },
    });
    let Ok(plan) = Plan::new(nodes.collect()) else { panic!("the tiny pipeline has a fault") };
    (plan, used)
}

fn run(plan: &Plan<Watched>, store: &Store, cancel_at: Option<&str>) -> Summary {
    let shards = store.objects().folder().unwrap().join("../../shards");
    let options = Options {
        pipeline: "tiny".to_owned(),
        threads: 2,
        memory: 64 << 20,
        device: Device::Cpu,
        cache: CachePlace { folder: Some(shards), limit: 1 << 30 },
        ranks: RankOptions::default(),
    };
    let cancel = Cancel::new();
    let observer = |event: &Event| match event {
        Event::StageStarted { stage, .. } if Some(stage.as_str()) == cancel_at => cancel.cancel(),
        _ => {}
    };
    execute(plan, store, &options, &cancel, &observer).unwrap()
}

/// Everything that a store holds of stages, by name below it.
fn content(store: &Store) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = walkdir::WalkDir::new(store.objects().folder().unwrap()).into_iter().map(std::result::Result::unwrap);
    let of_stages = |path: &Path| {
        let name = path.to_string_lossy();
        !["manifest.json", "lock"].iter().any(|end| name.ends_with(end))
            && !name.contains("/runs/")
            && !name.contains("/sources/")
    };
    let files = all.filter(|entry| entry.file_type().is_file() && of_stages(entry.path()));
    files
        .map(|entry| {
            let name = entry.path().strip_prefix(store.objects().folder().unwrap()).unwrap().to_owned();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn the_tiny_pipeline_goes_through_every_stage_of_the_registry() {
    let folder = tempfile::tempdir().unwrap();
    let schema = schemars::schema_for!(AnyStage).to_value();
    let kinds: BTreeSet<String> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|kind| kind["properties"].as_object().unwrap().keys().cloned())
        .collect();
    let (plan, _) = watched(folder.path());
    assert_eq!(plan.nodes().iter().map(|node| node.stage.kind().to_owned()).collect::<BTreeSet<_>>(), kinds);
}

#[test]
fn settings_say_nothing_of_names_and_places_and_tables_are_those_of_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, _) = watched(folder.path());
    for node in plan.nodes() {
        let stage = &node.stage;
        assert!(stage.check().is_empty() && stage.version() > 0, "{}", node.name);
        assert!(stage.settings().is_object(), "{}: {}", node.name, stage.settings());
        let settings = stage.settings().to_string();
        for input in stage.inputs() {
            if let Origin::Table { from, .. } | Origin::Files { from } = &input.origin {
                assert!(!settings.contains(&from.to_string()), "{}: {settings}", node.name);
            }
        }
        for output in stage.outputs() {
            if let Form::Table { schema, .. } = output.form {
                let tables = pairloom::tables::all();
                let table = tables.iter().find(|table| table.name == output.name);
                let table = table.unwrap_or_else(|| {
                    panic!("`{}` writes `{}`, which no file of tables/ defines", node.name, output.name)
                });
                assert!(pairloom::stage::missing_columns(&table.schema(), &schema).is_empty(), "{}", node.name);
                assert_eq!(table.schema().fields().len(), schema.fields().len(), "{}", node.name);
            }
        }
    }
}

#[test]
fn what_a_stage_declares_is_what_it_reads_and_writes_and_it_gives_the_same_bytes_again() {
    let folder = tempfile::tempdir().unwrap();
    let stores = ["one", "two"].map(|name| Store::open(&folder.path().join(name)).unwrap());
    let (plan, used) = watched(folder.path());
    for store in &stores {
        let summary = run(&plan, store, None);
        assert!(summary.error.is_none(), "{:?}", summary.error);
    }
    let used = used.lock().unwrap();
    for node in plan.nodes() {
        let (read, written) = &used[&node.name];
        let inputs: BTreeSet<String> = node.stage.inputs().into_iter().map(|input| input.name).collect();
        let outputs: BTreeSet<String> = node.stage.outputs().into_iter().map(|output| output.name.to_owned()).collect();
        assert_eq!((read, written), (&inputs, &outputs), "`{}`", node.name);
    }
    let [one, two] = stores.map(|store| content(&store));
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    let other: Vec<_> = one.iter().filter(|(name, bytes)| two[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(other.is_empty(), "other bytes in {other:?}");
}

#[test]
fn a_cancelled_stage_publishes_nothing_whole_and_goes_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, _) = watched(folder.path());
    let whole = Store::open(&folder.path().join("whole")).unwrap();
    let summary = run(&plan, &whole, None);
    let expected = content(&whole);
    // All stages begin at once; `ingest` could be done before the flag is seen, the others wait for their inputs.
    for stage in summary.record.stages.iter().filter(|stage| stage.kind != "ingest") {
        let store = Store::open(&folder.path().join(&stage.name)).unwrap();
        let error = run(&plan, &store, Some(&stage.name)).error.expect("the run was cancelled");
        assert_eq!(error.kind(), Kind::Interrupted, "`{}`: {error}", stage.name);
        let presence = store.artefact(&stage.kind, &stage.key).presence().unwrap();
        assert!(matches!(presence, Presence::Absent), "`{}` is {presence:?}", stage.name);
        let summary = run(&plan, &store, None);
        assert!(summary.error.is_none(), "`{}`: {:?}", stage.name, summary.error);
        assert_eq!(content(&store).len(), expected.len(), "`{}`", stage.name);
        assert!(content(&store) == expected, "`{}` resumed to other bytes", stage.name);
    }
}
