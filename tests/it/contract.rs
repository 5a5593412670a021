//! Tests of the contract between stages and engine (`src/stage/`), for every stage of the registry.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use bytes::Bytes;
use pairloom_base::error::{ErrorCategory, Result};
use pairloom_base::runtime::{CancelToken, Device, ProcessGroup, Resources};
use pairloom_engine::event::Event;
use pairloom_engine::inputs::CacheOptions;
use pairloom_engine::ranks::RankOptions;
use pairloom_engine::run::RunOptions;
use pairloom_engine::run::RunSummary;
use pairloom_engine::run::execute;
use pairloom_neural::run_stage;
use pairloom_pipeline as pipeline;
use pairloom_registry::AnyStage;
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_stage::{
    FileKeys, InputOrigin, MapFn, MapInput, MapSummary, OutputKind, Problem, SharedEarlierRows, Stage, StageContext,
    StageEvent, StageHost, StageInput, StageLineage, StageOutput,
};
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::TableShards;
use pairloom_store::{Presence, Store};

use crate::support::tiny_pipeline;

/// Names of the inputs that a stage read and of the outputs that it wrote, by stage.
type AccessLog = Arc<Mutex<BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>>>;

/// Stage whose reads and writes are recorded.
#[derive(Debug, Clone)]
struct RecordedStage {
    stage: AnyStage,
    name: String,
    used: AccessLog,
}

impl Stage for RecordedStage {
    fn kind(&self) -> &'static str {
        self.stage.kind()
    }
    fn version(&self) -> u32 {
        self.stage.version()
    }
    fn settings(&self) -> serde_json::Value {
        self.stage.settings()
    }
    fn inputs(&self) -> Vec<StageInput> {
        self.stage.inputs()
    }
    fn outputs(&self) -> Vec<StageOutput> {
        self.stage.outputs()
    }
    fn check(&self) -> Vec<Problem> {
        self.stage.check()
    }
}

/// Runs a stage on a host that records.
fn run_recorded(stage: &RecordedStage, cx: &mut StageContext<'_>) -> Result<()> {
    let inputs = stage.stage.inputs().into_iter();
    let sources =
        inputs.filter(|input| matches!(input.origin, InputOrigin::Source(_))).map(|input| input.name).collect();
    run_stage(&stage.stage, &mut RecordingHost { cx, name: &stage.name, used: &stage.used, sources })
}

/// Host that records the name of every input and output, and forwards to the engine's host.
struct RecordingHost<'a, 'w> {
    cx: &'a mut StageContext<'w>,
    name: &'a str,
    used: &'a AccessLog,
    /// Inputs that are sources, which are read by their path only.
    sources: BTreeSet<String>,
}

impl RecordingHost<'_, '_> {
    fn reads(&self, input: &str) {
        self.used.lock().unwrap().entry(self.name.to_owned()).or_default().0.insert(input.to_owned());
    }
    fn writes(&self, output: &str) {
        self.used.lock().unwrap().entry(self.name.to_owned()).or_default().1.insert(output.to_owned());
    }
}

impl StageHost for RecordingHost<'_, '_> {
    fn read_next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.reads(input);
        self.cx.read_next(input)
    }
    fn shards(&mut self, input: &str) -> Result<TableShards> {
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
    fn store_folder(&self) -> Option<&Path> {
        self.cx.store_folder()
    }
    fn objects(&self, input: &str) -> Result<Option<ObjectStorage>> {
        let objects = self.cx.objects(input)?;
        if objects.is_some() {
            self.reads(input);
        }
        Ok(objects)
    }
    fn lineage(&self) -> Result<StageLineage> {
        self.cx.lineage()
    }
    fn write(&mut self, output: &str, batch: RecordBatch) -> Result<()> {
        self.writes(output);
        self.cx.write(output, batch)
    }
    fn map(&mut self, over: MapInput<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<MapSummary> {
        if let MapInput::Table(input) = over {
            self.reads(input);
        }
        self.writes(output);
        self.cx.map(over, output, size, function)
    }
    fn earlier_rows(&mut self, output: &str, not_of_rows: &[&str]) -> Result<SharedEarlierRows> {
        self.cx.earlier_rows(output, not_of_rows)
    }
    fn file_keys(&mut self, input: &str) -> Result<FileKeys> {
        self.cx.file_keys(input)
    }
    fn put_file(&mut self, output: &str, name: &str, content: Bytes) -> Result<()> {
        self.writes(output);
        self.cx.put_file(output, name, content)
    }
    fn cached(&mut self, name: &str, settings: &serde_json::Value) -> Result<Option<Arc<Shard>>> {
        self.cx.cached(name, settings)
    }
    fn cache(&mut self, name: &str, settings: &serde_json::Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.cx.cache(name, settings, batch)
    }
    fn saved_state(&mut self) -> Result<Option<Bytes>> {
        self.cx.saved_state()
    }
    fn save_state(&mut self, state: Bytes, last: usize) -> Result<()> {
        self.cx.save_state(state, last)
    }
    fn emit(&mut self, event: StageEvent) {
        self.cx.emit(event);
    }
    fn resources(&self) -> &Resources {
        self.cx.resources()
    }
    fn wait_for_exclusive(&mut self) -> Result<()> {
        self.cx.wait_for_exclusive()
    }
    fn process_group(&mut self, wanted: usize) -> Result<ProcessGroup> {
        self.cx.process_group(wanted)
    }
}

/// Plan of the tiny pipeline, with every stage recorded.
fn recorded_plan(folder: &Path) -> (Plan<RecordedStage>, AccessLog) {
    let file = tiny_pipeline(folder);
    let options = pipeline::LoadOptions {
        overrides: &[],
        profile: None,
        only: &[],
        except: &[],
        environment: &|_| None,
        sources_must_exist: true,
        check_queries: &|_: &[PlanNode<AnyStage>], _: &[_]| vec![],
    };
    let Ok(loaded) = pipeline::load(&file, &options) else { panic!("the tiny pipeline has a mistake") };
    let used = AccessLog::default();
    let nodes = loaded.plan.stages().iter().map(|node| PlanNode {
        coordinates: node.coordinates.clone(),
        name: node.name.clone(),
        stage: RecordedStage { stage: node.stage.clone(), name: node.name.clone(), used: Arc::clone(&used) },
    });
    let Ok(plan) = Plan::new(nodes.collect()) else { panic!("the tiny pipeline has a fault") };
    (plan, used)
}

fn run(plan: &Plan<RecordedStage>, store: &Store, cancel_at: Option<&str>) -> RunSummary {
    let shards = store.objects().folder().unwrap().join("../../shards");
    let options = RunOptions {
        pipeline: "tiny".to_owned(),
        command: pairloom_store::record::RunCommand::default(),
        threads: 2,
        jobs: 1,
        keep_going: false,
        trust_folder_times: false,
        memory: 64 << 20,
        device: Device::Cpu,
        cache: CacheOptions { folder: Some(shards), limit: 1 << 30 },
        ranks: RankOptions::default(),
        remote: None,
    };
    let cancel = CancelToken::new();
    let observer = |event: &Event| match event {
        Event::StageStarted { stage, .. } if Some(stage.as_str()) == cancel_at => cancel.cancel(),
        _ => {}
    };
    execute(plan, run_recorded, store, &options, &cancel, &observer).unwrap()
}

/// Contents of all objects of stages in a store, by path. Without manifests, locks, runs and sources.
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
fn the_tiny_pipeline_has_every_stage_of_the_registry() {
    let folder = tempfile::tempdir().unwrap();
    let schema = schemars::schema_for!(AnyStage).to_value();
    let kinds: BTreeSet<String> = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|kind| kind["properties"].as_object().unwrap().keys().cloned())
        .collect();
    let (plan, _) = recorded_plan(folder.path());
    assert_eq!(plan.stages().iter().map(|node| node.stage.kind().to_owned()).collect::<BTreeSet<_>>(), kinds);
}

#[test]
fn settings_do_not_contain_input_references_and_outputs_are_defined_tables() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, _) = recorded_plan(folder.path());
    for node in plan.stages() {
        let stage = &node.stage;
        assert!(stage.check().is_empty() && stage.version() > 0, "{}", node.name);
        assert!(stage.settings().is_object(), "{}: {}", node.name, stage.settings());
        let settings = stage.settings().to_string();
        for input in stage.inputs() {
            if let InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. } = &input.origin {
                assert!(!settings.contains(&from.to_string()), "{}: {settings}", node.name);
            }
        }
        for output in stage.outputs() {
            if let OutputKind::Table { schema, .. } = output.kind {
                let tables = pairloom_tables::all();
                let table = tables.iter().find(|table| table.name == output.name);
                let table = table.unwrap_or_else(|| {
                    panic!("`{}` writes `{}`, which no file of tables/ defines", node.name, output.name)
                });
                assert!(pairloom_stage::missing_columns(&table.schema(), &schema).is_empty(), "{}", node.name);
                assert_eq!(table.schema().fields().len(), schema.fields().len(), "{}", node.name);
            }
        }
    }
}

#[test]
fn stages_use_all_declared_inputs_and_outputs_and_are_reproducible() {
    let folder = tempfile::tempdir().unwrap();
    let stores = ["one", "two"].map(|name| Store::open(&folder.path().join(name)).unwrap());
    let (plan, used) = recorded_plan(folder.path());
    for store in &stores {
        let summary = run(&plan, store, None);
        assert!(summary.error.is_none(), "{:?}", summary.error);
    }
    let used = used.lock().unwrap();
    for node in plan.stages() {
        let (read, written) = &used[&node.name];
        let inputs: BTreeSet<String> = node.stage.inputs().into_iter().map(|input| input.name).collect();
        let outputs: BTreeSet<String> = node.stage.outputs().into_iter().map(|output| output.name.to_owned()).collect();
        assert_eq!((read, written), (&inputs, &outputs), "`{}`", node.name);
    }
    let [one, two] = stores.map(|store| content(&store));
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    let other: Vec<_> = one.iter().filter(|(name, bytes)| two[*name] != **bytes).map(|(name, _)| name).collect();
    assert!(other.is_empty(), "different bytes in {other:?}");
}

#[test]
fn a_cancelled_stage_is_absent_and_resumes_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, _) = recorded_plan(folder.path());
    let whole = Store::open(&folder.path().join("whole")).unwrap();
    let summary = run(&plan, &whole, None);
    let expected = content(&whole);
    // All stages start at once. `ingest` may finish before it sees the cancellation; the others wait for their inputs.
    for stage in summary.record.stages.iter().filter(|stage| stage.kind != "ingest") {
        let store = Store::open(&folder.path().join(&stage.name)).unwrap();
        let error = run(&plan, &store, Some(&stage.name)).error.expect("the run was cancelled");
        assert_eq!(error.category(), ErrorCategory::Interrupted, "`{}`: {error}", stage.name);
        let presence = store.artefact(&stage.kind, &stage.key).presence().unwrap();
        assert!(matches!(presence, Presence::Absent), "`{}` is {presence:?}", stage.name);
        let summary = run(&plan, &store, None);
        assert!(summary.error.is_none(), "`{}`: {:?}", stage.name, summary.error);
        assert_eq!(content(&store).len(), expected.len(), "`{}`", stage.name);
        assert!(content(&store) == expected, "`{}` resumed to different bytes", stage.name);
    }
}
