//! `pairloom show RUN|STAGE|KEY` and `show RUN STAGE`: a run with its stages, or a result with its files and lineage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use az::SaturatingAs;
use serde_json::json;

use super::args::{CommonArgs, ShowArgs};
use super::console::{Console, align_columns, one_line};
use super::open;
use super::run_choice::{ResultTarget, find_target, require_stage};
use super::run_texts::{StageGroup, counts, difference_text, run_time, stage_groups};
use super::units::{format_age, format_bytes, format_count, format_duration, format_items, format_score};
use pairloom_base::error::{Result, TruncatedList};
use pairloom_stage::{INSTANCE_SIGN, names_of_instances, stage_of_instance};
use pairloom_store::comparison::compare_runs;
use pairloom_store::key::InputIdentity;
use pairloom_store::labels::Labels;
use pairloom_store::lineage::{ArtefactName, Lineage};
use pairloom_store::record::{RunLog, RunRecord, ScoreRecord, StageRecord};
use pairloom_store::{Manifest, Store, comparison};

/// Files of an output that are listed.
const SHOWN_FILES: usize = 5;

/// Warnings of a stage that a run lists. The stage lists all.
const SHOWN_WARNINGS: usize = 3;

/// Shows a run, or a result by its stage or key.
///
/// # Errors
/// Nothing has that name, or the store cannot be read.
pub(super) fn show(common: &CommonArgs, arguments: &ShowArgs, console: Console) -> Result<()> {
    let store = open::open_existing_store(common)?;
    let log = open::open_log(&store, console)?;
    let target = match (&arguments.target, &arguments.stage) {
        (Some(run), Some(stage)) => {
            let run = log.find(run)?;
            ResultTarget::Stage(run, require_stage(run, stage)?)
        }
        (target, _) => find_target(&log, target.as_deref(), &arguments.of)?,
    };
    match target {
        ResultTarget::Run(run) => show_run(&store, &log, run, console),
        ResultTarget::Stage(run, stage) => show_stage(&store, &log, run, stage, console),
    }
}

fn show_run(store: &Store, log: &RunLog, run: &RunRecord, console: Console) -> Result<()> {
    let labels = Labels::read(store)?;
    let manifests = store.manifests_of(run.stages.iter().map(|stage| (stage.kind.as_str(), &stage.key)))?;
    let manifests: Vec<Option<Manifest>> =
        manifests.into_iter().map(|manifest| manifest.and_then(Result::ok)).collect();
    if console.json {
        let mut object = json!(run);
        if let Some(members) = object.as_object_mut() {
            members.insert("command_line".to_owned(), json!(run.command_line()));
            members.insert("tags".to_owned(), json!(labels.tags_of(&run.run).collect::<Vec<_>>()));
            members.insert("note".to_owned(), json!(labels.notes.get(&run.run)));
            members.insert("pinned".to_owned(), json!(labels.pinned_runs.contains(&run.run)));
        }
        return console.print_json(&object);
    }
    let mut facts = vec![
        ("run", run.run.clone()),
        ("pipeline", run.pipeline.clone()),
        ("file", run.command.file.clone().unwrap_or_default()),
        ("started", format!("{} ({})", run.started.strftime("%Y-%m-%d %H:%M:%S UTC"), format_age(run.started))),
        ("outcome", run.outcome.name().to_owned()),
        ("time", run_time(run)),
        ("command", run.command_line()),
        ("seed", seed_text(run)),
        ("device", run.command.device.clone()),
        ("pairloom", run.pairloom.clone()),
        ("tags", labels.tags_of(&run.run).collect::<Vec<_>>().join(", ")),
        ("note", labels.notes.get(&run.run).cloned().unwrap_or_default()),
        ("pinned", if labels.pinned_runs.contains(&run.run) { "yes".to_owned() } else { String::new() }),
        ("error", run.error.clone().unwrap_or_default()),
    ];
    facts.extend(score_texts(&run.scores, console.verbose).into_iter().map(|text| ("score", text)));
    for expectation in &run.expectations {
        let held = if expectation.held { "held" } else { "did not hold" };
        let value = expectation.value.map_or("no value".to_owned(), format_score);
        facts.push(("expectation", format!("{held}: {value}, expected {}: {}", expectation.wanted, expectation.sql)));
    }
    let stages: Vec<(&StageRecord, &Option<Manifest>)> = run.stages.iter().zip(&manifests).collect();
    let groups = stage_groups(&stages, console.verbose);
    for group in &groups {
        let all: Vec<&str> = group.members.iter().map(|(stage, _)| stage.name.as_str()).collect();
        let mut with_text: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (stage, manifest) in &group.members {
            for text in warning_texts(stage, manifest.as_ref()) {
                let names = with_text.entry(text).or_default();
                if names.last() != Some(&stage.name.as_str()) {
                    names.push(&stage.name);
                }
            }
        }
        let mut warnings = TruncatedList::new(SHOWN_WARNINGS);
        for (text, names) in &with_text {
            let names = TruncatedList::from_iter(names_of_instances(names, &all));
            warnings.push(format!("{}: {text}", names.join(", ")));
        }
        if !warnings.is_empty() {
            facts.push(("warning", warnings.join("; ")));
        }
    }
    log.read_all()?;
    if let Some(before) = log.before(run) {
        let differences = compare_runs(before, run);
        let texts = differences.iter().filter(|difference| !difference.is_detail).map(difference_text);
        facts.push(("differs", format!("from {}: {}", before.run, TruncatedList::from_iter(texts).join("; "))));
    }
    console.print(&fact_lines(&facts))?;
    let title = ["stage", "kind", "key", "was", "rows", "size", "time", "outputs"].map(str::to_owned).to_vec();
    let mut rows = vec![title];
    rows.extend(groups.iter().map(group_row));
    console.print("\n")?;
    console.print(&align_columns(&rows, &[false, false, false, false, true, true, true, false]))
}

/// Seed of the pipeline, and those of the stages that have others: `7; fit 8`.
fn seed_text(run: &RunRecord) -> String {
    let Some(seed) = run.command.seed else { return String::new() };
    let mut seeds: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for stage in &run.stages {
        let settings = stage.identity.as_ref().map(|identity| comparison::flatten(&identity.settings));
        let own = settings.into_iter().flatten().filter(|(name, _)| name.rsplit('.').next() == Some("seed"));
        seeds.entry(stage_of_instance(&stage.name)).or_default().extend(own.map(|(_, value)| comparison::text(&value)));
    }
    let seed = seed.to_string();
    seeds.retain(|_, own| own.iter().any(|own| *own != seed));
    let texts = seeds.into_iter().map(|(stage, own)| format!("{stage} {}", TruncatedList::from_iter(own).join(", ")));
    std::iter::once(seed).chain(texts).collect::<Vec<_>>().join("; ")
}

/// Texts of the best scores of the stages. Instances of a stage have one text, with the range of their scores.
fn score_texts(scores: &[ScoreRecord], is_verbose: bool) -> Vec<String> {
    let place = |score: &ScoreRecord| format!("{} {}: {}", score.stage, score.table, score.metric);
    let mut groups: Vec<Vec<&ScoreRecord>> = Vec::new();
    // Expectations have lines of their own.
    for score in scores.iter().filter(|score| !score.stage.is_empty()) {
        let base = (stage_of_instance(&score.stage), &score.table);
        let known = groups.iter_mut().find(|group| {
            !is_verbose
                && score.stage.contains(INSTANCE_SIGN)
                && (stage_of_instance(&group[0].stage), &group[0].table) == base
        });
        match known {
            Some(group) => group.push(score),
            None => groups.push(vec![score]),
        }
    }
    let text = |group: Vec<&ScoreRecord>| {
        let best = group.iter().copied().max_by(|a, b| a.value.total_cmp(&b.value))?;
        let best_text = format!("{} {} ({})", place(best), format_score(best.value), best.of);
        let least = group.iter().map(|score| score.value).fold(f64::INFINITY, f64::min);
        Some(match group.len() {
            1 => best_text,
            n => format!("{best_text}, the best of {n}; the least is {}", format_score(least)),
        })
    };
    groups.into_iter().filter_map(text).collect()
}

/// Row of a stage, or of the instances of a repeated one, with the sums of their rows, sizes and times.
fn group_row(group: &StageGroup<'_, (&StageRecord, &Option<Manifest>)>) -> Vec<String> {
    let was = |(stage, manifest): &(&StageRecord, &Option<Manifest>)| match (stage.reused, manifest) {
        (_, None) => missing_result(stage),
        (true, _) => "reused",
        (false, _) => "run",
    };
    let manifests: Vec<&Manifest> = group.members.iter().filter_map(|(_, manifest)| manifest.as_ref()).collect();
    let sum = |of: fn(&Manifest) -> u64, format: fn(u64) -> String| {
        if manifests.is_empty() { String::new() } else { format(manifests.iter().map(|manifest| of(manifest)).sum()) }
    };
    let seconds: Vec<f64> = group.members.iter().filter_map(|(stage, _)| stage.seconds).collect();
    let outputs = manifests
        .first()
        .map(|manifest| manifest.tables.keys().chain(manifest.files.keys()).cloned().collect::<Vec<_>>());
    let stage = group.members[0].0;
    let row = [
        group.name.clone(),
        stage.kind.clone(),
        if group.members.len() == 1 { stage.key.short().to_owned() } else { String::new() },
        counts(group.members.iter().map(|member| was(member))),
        sum(Manifest::rows, format_count),
        sum(Manifest::bytes, format_bytes),
        if seconds.is_empty() { String::new() } else { format_duration(seconds.iter().sum()) },
        outputs.unwrap_or_default().join(", "),
    ];
    row.map(|cell| one_line(&cell)).to_vec()
}

/// State of a stage whose result is not in the store.
fn missing_result(stage: &StageRecord) -> &'static str {
    if stage.reused || stage.seconds.is_some() { "removed" } else { "not finished" }
}

fn show_stage(store: &Store, log: &RunLog, run: &RunRecord, stage: &StageRecord, console: Console) -> Result<()> {
    let artefact = store.artefact(&stage.kind, &stage.key);
    let manifest = artefact.manifest()?;
    let identity = stage.identity(store)?;
    log.read_all()?;
    let users: Vec<&RunRecord> = log.readable().filter(|run| run.stages.iter().any(|of| of.key == stage.key)).collect();
    if console.json {
        return console.print_json(&json!({
            "stage": stage.name, "kind": stage.kind, "key": stage.key, "run": run.run, "pipeline": run.pipeline,
            "path": artefact.display_path(""), "identity": identity, "manifest": manifest,
            "runs": users.iter().map(|run| &run.run).collect::<Vec<_>>(),
        }));
    }
    let mut facts = vec![
        ("stage", format!("{} of {}", stage.name, run.pipeline)),
        ("kind", stage.kind.clone()),
        ("key", stage.key.to_string()),
        ("path", open::relative_to_current(artefact.display_path(""))),
        ("run", run.run.clone()),
        ("command", run.command_line()),
    ];
    match &manifest {
        Some(manifest) => {
            let (size, rows) = (format_bytes(manifest.bytes()), format_items(manifest.rows().saturating_as(), "rows"));
            facts.extend([
                ("size", format!("{size}, {rows}")),
                ("computed", format!("{}, in {}", format_age(manifest.finished), format_duration(manifest.seconds))),
                ("pairloom", manifest.pairloom.clone()),
            ]);
        }
        None => facts.push(("size", missing_result(stage).to_owned())),
    }
    facts.extend(warning_texts(stage, manifest.as_ref()).map(|text| ("warning", text)));
    if let Some(identity) = &identity {
        facts.push(("version", identity.version.to_string()));
        let settings = comparison::flatten(&identity.settings);
        facts.extend(settings.iter().map(|(name, value)| ("setting", format!("{name} = {}", comparison::text(value)))));
    } else {
        facts.push(("settings", "not in the record of the run, and its result was removed".to_owned()));
    }
    console.print(&fact_lines(&facts))?;
    if let Some(manifest) = &manifest {
        console.print(&file_lines(manifest))?;
    }
    let mut lineage = Lineage::of_runs(log)?;
    if let Some(identity) = identity {
        lineage.insert(identity);
    }
    let tree = lineage_tree(&lineage, &log.latest_uses()?, &(stage.kind.clone(), stage.key.clone()));
    console.print(&format!("\nlineage of {}\n{tree}", one_line(&stage.name)))?;
    let mut names = TruncatedList::new(SHOWN_FILES);
    names.extend(users.iter().map(|run| format!("{} of {}", run.run, run.pipeline)));
    let count = format_items(users.len(), "runs");
    console.info(&format!("\nused by {count}: {}\n", one_line(&names.join(", "))));
    Ok(())
}

/// Texts of the warnings about a stage's settings and of its result.
fn warning_texts<'w>(stage: &'w StageRecord, manifest: Option<&'w Manifest>) -> impl Iterator<Item = String> + 'w {
    let result_warnings = manifest.into_iter().flat_map(|manifest| &manifest.warnings);
    stage.warnings.iter().chain(result_warnings).map(|warning| format!("{}: {}", warning.subject, warning.message))
}

/// Lines `name  value`, without those that have no value.
fn fact_lines(facts: &[(&str, String)]) -> String {
    let mut last = "";
    let rows: Vec<Vec<String>> = facts
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| {
            let shown = if *name == last { "" } else { name };
            last = name;
            vec![shown.to_owned(), one_line(value)]
        })
        .collect();
    align_columns(&rows, &[false, false])
}

fn file_lines(manifest: &Manifest) -> String {
    let mut rows = vec![["file", "rows", "size"].map(str::to_owned).to_vec()];
    for (table, parts) in &manifest.tables {
        let (count, bytes): (u64, u64) =
            (parts.iter().map(|part| part.rows).sum(), parts.iter().map(|part| part.bytes).sum());
        let name = if parts.len() == 1 {
            format!("{table}/part-00000.parquet")
        } else {
            format!("{table}/part-*.parquet ({} parts)", parts.len())
        };
        rows.push(vec![name, format_count(count), format_bytes(bytes)]);
    }
    for (output, files) in &manifest.files {
        for file in files {
            rows.push(vec![format!("{output}/{}", one_line(&file.name)), String::new(), format_bytes(file.bytes)]);
        }
    }
    format!("\n{}", align_columns(&rows, &[false, true, true]))
}

/// Latest stage that uses an artefact, by kind and key, as [`RunLog::latest_uses`](pairloom_store::record::RunLog) gives.
type LatestUses<'r> = HashMap<(&'r str, &'r str), &'r StageRecord>;

/// Inputs of an artefact, one a line. The inputs of a producer are written where it appears first.
fn lineage_tree(lineage: &Lineage, uses: &LatestUses<'_>, name: &ArtefactName) -> String {
    let mut tree = LineageTree { lineage, uses, shown: BTreeSet::new(), text: String::new() };
    tree.add_inputs(name, 1);
    tree.text
}

struct LineageTree<'l> {
    lineage: &'l Lineage,
    uses: &'l LatestUses<'l>,
    /// Producers that have been written.
    shown: BTreeSet<ArtefactName>,
    text: String,
}

impl LineageTree<'_> {
    fn add_inputs(&mut self, name: &ArtefactName, depth: usize) {
        let Some(identity) = self.lineage.identity(name) else { return };
        let indent = "  ".repeat(depth);
        let stage_of = |(kind, key): &ArtefactName| self.uses.get(&(kind.as_str(), key.as_str())).copied();
        for (input, of) in &identity.inputs {
            match of {
                InputIdentity::Source(digest) => {
                    let path = stage_of(name).and_then(|stage| stage.sources.get(input)).map_or("", String::as_str);
                    let digest = digest.get(..8).unwrap_or(digest);
                    let _ = writeln!(self.text, "{indent}{input}: {} (digest {digest})", one_line(path));
                }
                InputIdentity::Artefact { kind, key, output } => {
                    let producer = (kind.clone(), key.clone());
                    let stage = stage_of(&producer).map_or("", |stage| &stage.name);
                    let is_new = self.shown.insert(producer.clone());
                    let has_inputs = self.lineage.identity(&producer).is_some_and(|of| !of.inputs.is_empty());
                    let above = if !is_new && has_inputs { ", as above" } else { "" };
                    let _ = writeln!(
                        self.text,
                        "{indent}{input}: {}.{output} ({kind} {}{above})",
                        one_line(stage),
                        key.short()
                    );
                    if is_new {
                        self.add_inputs(&producer, depth + 1);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_store::testing::{finished_run, stage};

    #[test]
    fn seeds_of_stages_are_shown_beside_that_of_the_pipeline() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let stages = [
            stage("pairs", "ingest", json!({ "synthetic": { "seed": 7 } }), &[]),
            stage("fit", "train", json!({ "seed": 8 }), &["pairs"]),
            stage("test", "evaluate", json!({ "depth": 3 }), &["fit"]),
        ];
        let mut run = finished_run(&store, "20260101T000000.000Z-0001", "p.toml", &stages);
        run.command.seed = Some(7);
        assert_eq!(seed_text(&run), "7; fit 8");
        run.command.seed = Some(8);
        assert_eq!(seed_text(&run), "8; pairs 7");
        run.command.seed = None;
        assert_eq!(seed_text(&run), "");
    }
}
