//! Log of runs: the records of all runs of a store, read on demand, and the names that people give for a run.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use crate::error::{Error, Result, TruncatedList};
use crate::store::Store;
use crate::store::labels::{self, RUN_FORMS};
use crate::store::record::{RunOutcome, RunRecord, StageRecord};

/// Log of the runs of a store, latest first. Opening it lists the names of the runs; records are read on first use.
#[derive(Debug)]
pub struct RunLog {
    store: Store,
    /// Names of the runs, latest first.
    names: Vec<String>,
    /// Records in the order of `names`; the inner `None` stands for a run that was removed since.
    records: Vec<OnceLock<Option<Result<RunRecord>>>>,
}

impl RunLog {
    /// Opens the log of a store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(store: &Store) -> Result<Self> {
        let mut names: Vec<String> = store
            .objects()
            .list("runs")?
            .into_iter()
            .filter_map(|name| Some(name.strip_prefix("runs/")?.strip_suffix(".json")?.to_owned()))
            .collect();
        names.reverse();
        let records = names.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { store: store.clone(), names, records })
    }

    /// Store of the log.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Records of all runs, latest first, each read when the iterator reaches it. An unreadable record is an error in
    /// its place.
    pub fn iter(&self) -> impl Iterator<Item = Result<&RunRecord>> {
        (0..self.names.len()).filter_map(|i| self.record(i))
    }

    /// Readable records of all runs, latest first, each read when the iterator reaches it.
    pub fn readable(&self) -> impl Iterator<Item = &RunRecord> {
        self.iter().filter_map(Result::ok)
    }

    /// Reads the records that were not read yet, several at a time.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn read_all(&self) -> Result<()> {
        let missing: Vec<usize> = (0..self.names.len()).filter(|&i| self.records[i].get().is_none()).collect();
        let objects: Vec<String> = missing.iter().map(|&i| object_name(&self.names[i])).collect();
        for (i, content) in missing.into_iter().zip(self.store.objects().get_all(&objects)?) {
            // Another thread may have read the same record meanwhile.
            let _ = self.records[i].set(content.map(|content| self.parse(i, &content)));
        }
        Ok(())
    }

    /// Run that a person names: by its name, an unambiguous beginning or end of its name, a tag, `latest` (the last
    /// finished run), or a pipeline (the last finished run of this pipeline file). A suffix `~N` means the N-th
    /// different run before that one.
    ///
    /// # Errors
    /// No run or several runs have that name, or the store cannot be read.
    pub fn find(&self, name: &str) -> Result<&RunRecord> {
        let (base, steps) = match name.rsplit_once('~') {
            Some((base, steps)) => (base, steps.parse::<usize>().ok()),
            None => (name, Some(0)),
        };
        let Some(steps) = steps else {
            return Err(Error::usage(format!("`{name}`: wanted a number after `~`")).hint(RUN_FORMS));
        };
        let start = self.find_start(base)?;
        self.step_back(start, steps)?.ok_or_else(|| {
            Error::usage(format!("`{name}`: there are fewer than {steps} different runs before `{base}`"))
                .hint("`pairloom runs` lists the runs")
        })
    }

    /// Last run that finished, of the pipeline `pipeline` if given.
    ///
    /// # Errors
    /// `pipeline` names no pipeline of the store or several, or the store cannot be read.
    pub fn last_finished(&self, pipeline: Option<&str>) -> Result<Option<&RunRecord>> {
        let finished = |run: &&RunRecord| run.outcome == RunOutcome::Finished;
        let Some(name) = pipeline else { return Ok(self.readable().find(finished)) };
        let path = self.pipeline(name)?.ok_or_else(|| self.unknown_pipeline(name))?;
        self.readable().find(|run| run.pipeline == path && finished(run)).map(Some).ok_or_else(|| {
            Error::data(format!("no run of `{path}` has finished")).hint("name an unfinished run with `--run RUN`")
        })
    }

    /// Pipeline file of the runs that `name` refers to: the path as in the records, or its last components, with or
    /// without `.toml`. `None` if no run has such a pipeline.
    ///
    /// # Errors
    /// Several pipeline files have this name, or the store cannot be read.
    pub fn pipeline(&self, name: &str) -> Result<Option<&str>> {
        self.read_all()?;
        let mut paths = self.pipelines();
        if let Some(&exact) = paths.get(name) {
            return Ok(Some(exact));
        }
        paths.retain(|path| is_pipeline_named(path, name));
        match paths.len() {
            0 => Ok(None),
            1 => Ok(paths.pop_first()),
            _ => {
                let shown = TruncatedList::from_iter(paths.iter().map(|path| format!("`{path}`"))).join(", ");
                Err(Error::usage(format!("`{name}` names several pipelines: {shown}")).hint("name more of the path"))
            }
        }
    }

    /// Stage of the latest run that uses an artefact, by kind and key of the artefact.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn latest_uses(&self) -> Result<HashMap<(&str, &str), &StageRecord>> {
        self.read_all()?;
        let mut uses = HashMap::new();
        for stage in self.readable().flat_map(|run| &run.stages) {
            uses.entry((stage.kind.as_str(), stage.key.as_str())).or_insert(stage);
        }
        Ok(uses)
    }

    /// Distinct pipeline files of the readable runs.
    fn pipelines(&self) -> BTreeSet<&str> {
        self.readable().map(|run| run.pipeline.as_str()).collect()
    }

    fn record(&self, i: usize) -> Option<Result<&RunRecord>> {
        let read = self.records[i].get_or_init(|| match self.store.objects().get(&object_name(&self.names[i])) {
            Ok(content) => content.map(|content| self.parse(i, &content)),
            Err(error) => Some(Err(error)),
        });
        read.as_ref().map(|record| record.as_ref().map_err(Clone::clone))
    }

    fn parse(&self, i: usize, content: &[u8]) -> Result<RunRecord> {
        serde_json::from_slice(content).map_err(|error| {
            let path = self.store.objects().display_path(&object_name(&self.names[i]));
            Error::data(format!("the record of a run cannot be read: {error}: `{path}`"))
        })
    }

    fn find_start(&self, name: &str) -> Result<&RunRecord> {
        let at = |i: usize| {
            self.record(i).unwrap_or_else(|| Err(Error::data(format!("the run `{}` was removed", self.names[i]))))
        };
        if name == "latest" {
            return self.last_finished(None)?.ok_or_else(|| Error::data("no run of this store has finished"));
        }
        if let Some(i) = self.names.iter().position(|run| run == name) {
            return at(i);
        }
        if let Some(run) = labels::tagged_run(&self.store, name)? {
            let i = self.names.iter().position(|known| *known == run);
            return at(i.ok_or_else(|| Error::data(format!("the tag `{name}` names the run `{run}`, which is gone")))?);
        }
        let ends = |run: &String| run.rsplit_once('-').is_some_and(|(_, end)| end == name);
        let fits: Vec<usize> = (0..self.names.len())
            .filter(|&i| (name.len() >= 4 && self.names[i].starts_with(name)) || ends(&self.names[i]))
            .collect();
        match fits[..] {
            [i] => return at(i),
            [] => {}
            _ => {
                let shown = TruncatedList::from_iter(fits.iter().map(|&i| format!("`{}`", self.names[i]))).join(", ");
                return Err(
                    Error::usage(format!("`{name}` names several runs: {shown}")).hint("name one of them in full")
                );
            }
        }
        if self.pipeline(name)?.is_some() {
            return self.last_finished(Some(name))?.ok_or_else(|| Error::internal("a pipeline without runs"));
        }
        Err(Error::usage(format!("there is no run `{name}`")).hint(RUN_FORMS))
    }

    /// The N-th different run before `start`, of the same pipeline. Repeats of the same results count once.
    fn step_back<'l>(&'l self, start: &'l RunRecord, steps: usize) -> Result<Option<&'l RunRecord>> {
        if steps == 0 {
            return Ok(Some(start));
        }
        self.read_all()?;
        let mut different: Vec<&RunRecord> = vec![start];
        let earlier = self
            .readable()
            .filter(|run| run.run < start.run && run.pipeline == start.pipeline && run.outcome == RunOutcome::Finished);
        for run in earlier {
            if !different.iter().any(|seen| run.is_repeat_of(seen)) {
                different.push(run);
            }
            if different.len() > steps {
                return Ok(different.pop());
            }
        }
        Ok(None)
    }

    fn unknown_pipeline(&self, name: &str) -> Error {
        let paths = self.pipelines();
        let error = Error::usage(format!("no run of this store has the pipeline `{name}`"));
        match TruncatedList::from_iter(paths.iter().map(|path| format!("`{path}`"))).join(", ") {
            none if none.is_empty() => error.hint("run a pipeline first"),
            known => error.hint(format!("there are {known}")),
        }
    }
}

fn object_name(run: &str) -> String {
    format!("runs/{run}.json")
}

/// Returns true if `name` is the path of a pipeline file or its last components, with or without `.toml`.
fn is_pipeline_named(path: &str, name: &str) -> bool {
    let components = |text: &str| -> Vec<String> {
        let text = text.strip_suffix(".toml").unwrap_or(text);
        text.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
    };
    let (path, name) = (components(path), components(name));
    !name.is_empty() && path.ends_with(&name)
}
