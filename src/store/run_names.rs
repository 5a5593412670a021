//! Names of runs, as people give them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use crate::labels::{self, RUN_FORMS};
use crate::record::{RunLog, RunOutcome, RunRecord};
use pairloom_base::error::{Error, Result, TruncatedList, escape_line};

/// Least number of characters of the beginning of a run's name.
const MIN_PREFIX: usize = 4;

/// Meaning of a name in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameMeaning {
    /// Run with this name, or with a name of this beginning or end.
    Run(String),
    /// Tag of this run.
    Tag(String),
    /// Pipeline with this identity.
    Pipeline(String),
    /// Stage of this run and pipeline.
    Stage(String, String),
}

impl fmt::Display for NameMeaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "the run `{run}`"),
            Self::Tag(run) => write!(f, "the tag of the run `{run}`"),
            Self::Pipeline(pipeline) => write!(f, "the pipeline `{pipeline}`"),
            Self::Stage(run, pipeline) => write!(f, "a stage of the run `{run}` of `{pipeline}`"),
        }
    }
}

impl RunLog {
    /// Run that a person names: by its name, an unambiguous beginning or end of its name, a tag, `latest` (the last
    /// finished run), or a pipeline (the last finished run of this pipeline). A suffix `~N` means the N-th different run
    /// before that one.
    ///
    /// # Errors
    /// No run or several runs have that name, or the store cannot be read.
    pub fn find(&self, name: &str) -> Result<&RunRecord> {
        let (base, steps) = match name.rsplit_once('~') {
            Some((base, steps)) => (base, steps.parse::<usize>().ok()),
            None => (name, Some(0)),
        };
        let Some(steps) = steps else {
            return Err(Error::usage(format!("`{name}`: expected a number after `~`")).hint(RUN_FORMS));
        };
        let start = self.find_start(base)?;
        self.step_back(start, steps)?.ok_or_else(|| {
            let before = match steps {
                1 => "there is no different run".to_owned(),
                _ => format!("there are fewer than {steps} different runs"),
            };
            Error::usage(format!("`{name}`: {before} before `{base}`")).hint("`pairloom runs` lists the runs")
        })
    }

    /// Last run that finished, of the pipeline `pipeline` if given.
    ///
    /// # Errors
    /// `pipeline` names no pipeline of the store or several, or no run of it has finished, or the store cannot be read.
    /// The record of a later run cannot be read: that run may be the last one.
    pub fn last_finished(&self, pipeline: Option<&str>) -> Result<Option<&RunRecord>> {
        let identity = match pipeline {
            Some(name) => Some(self.pipeline(name)?.ok_or_else(|| self.unknown_pipeline(name))?),
            None => None,
        };
        let is_of = |run: &RunRecord| identity.is_none_or(|identity| run.pipeline_identity() == identity);
        for run in self.iter() {
            let run = run.map_err(|error| {
                let error = error.context("the last finished run is not known");
                error.hint("name the run that you mean, or run the pipeline again; `pairloom runs` lists the others")
            })?;
            if run.outcome == RunOutcome::Finished && is_of(run) {
                return Ok(Some(run));
            }
        }
        identity.map_or(Ok(None), |identity| Err(self.none_finished(Some(identity))))
    }

    /// Identity of the pipeline that a person names: by the path of its file, or the last components of the path, with or
    /// without `.toml`. A path from the current folder comes first. `None` if no run has such a pipeline.
    ///
    /// # Errors
    /// The name fits several pipelines, or the store cannot be read.
    pub fn pipeline(&self, name: &str) -> Result<Option<&str>> {
        self.read_all()?;
        let pipelines = self.pipelines();
        if let Some(here) = path_from_here(name)
            && let Some((&identity, _)) = pipelines.get_key_value(here.as_str())
        {
            return Ok(Some(identity));
        }
        let mut fits = self.pipelines_named(name);
        let is_exact = |identity: &&str| *identity == name || pipelines[identity].contains(name);
        if fits.iter().any(is_exact) {
            fits.retain(is_exact);
        }
        // Records of older versions have the text only: it may be that of a pipeline whose path is known by now.
        if fits.iter().filter(|identity| Path::new(identity).is_absolute()).count() == 1 {
            fits.retain(|identity| Path::new(identity).is_absolute());
        }
        match fits.len() {
            0 => Ok(None),
            1 => Ok(fits.pop_first()),
            _ => {
                let shown = TruncatedList::from_iter(fits.iter().map(|path| format!("`{path}`"))).join(", ");
                Err(Error::usage(format!("`{name}` names several pipelines: {shown}"))
                    .hint("name one by its whole path, or by more of its path"))
            }
        }
    }

    /// Error for a pipeline that no run has.
    #[must_use]
    pub fn unknown_pipeline(&self, name: &str) -> Error {
        let names: Vec<&str> = self.pipeline_names().map(|names| names.into_values().collect()).unwrap_or_default();
        let error = Error::usage(format!("no run of this store has the pipeline `{}`", escape_line(name)));
        match TruncatedList::from_iter(names.iter().map(|path| format!("`{path}`"))).join(", ") {
            none if none.is_empty() => error.hint("run a pipeline first"),
            known => error.hint(format!("there are {known}")),
        }
    }

    /// Error for a store, or a pipeline of it, of which no run has finished. It tells how the last run ended, and the
    /// command that continues it.
    #[must_use]
    pub fn none_finished(&self, identity: Option<&str>) -> Error {
        let is_of = |run: &&RunRecord| identity.is_none_or(|identity| run.pipeline_identity() == identity);
        let Some(last) = self.readable().find(is_of) else {
            return Error::data("this store has no runs").hint("run a pipeline first");
        };
        let end = match last.outcome {
            RunOutcome::Finished => "finished".to_owned(),
            RunOutcome::Unfinished => "is active or was killed".to_owned(),
            RunOutcome::Interrupted => "was interrupted".to_owned(),
            RunOutcome::Failed => {
                let reason =
                    last.error.as_deref().and_then(|error| error.lines().next()).unwrap_or("without a message");
                format!("failed: {reason}")
            }
        };
        let (run, pipeline) = (&last.run, &last.pipeline);
        let message = match identity {
            Some(_) => format!("no run of `{pipeline}` has finished; the last one, `{run}`, {end}"),
            None => format!("no run of this store has finished; the last one, `{run}` of `{pipeline}`, {end}"),
        };
        let command = last.command_line();
        Error::data(message).hint(format!("go on with `{command}`, or name this run: `{}`", last.short_name()))
    }

    /// Meanings of a name in this store: of a run, of a tag, of pipelines, and of a stage of the latest run that has it.
    pub fn meanings(&self, name: &str) -> Result<Vec<NameMeaning>> {
        self.read_all()?;
        let mut meanings: Vec<NameMeaning> =
            self.runs_named(name).into_iter().map(|i| NameMeaning::Run(self.names()[i].clone())).collect();
        meanings.extend(labels::tagged_run(self.store(), name)?.map(NameMeaning::Tag));
        meanings.extend(match self.pipeline(name) {
            Ok(identity) => identity.map(|identity| NameMeaning::Pipeline(identity.to_owned())),
            Err(_) => self.pipelines_named(name).pop_first().map(|identity| NameMeaning::Pipeline(identity.to_owned())),
        });
        let stage = self.readable().find(|run| run.stage(name).is_some());
        meanings.extend(stage.map(|run| NameMeaning::Stage(run.run.clone(), run.pipeline.clone())));
        Ok(meanings)
    }

    /// Numbers of the runs that a name, its beginning or its end refers to.
    fn runs_named(&self, name: &str) -> Vec<usize> {
        if let Some(exact) = self.names().iter().position(|run| run == name) {
            return vec![exact];
        }
        let ends = |run: &str| run.rsplit_once('-').is_some_and(|(_, end)| end == name);
        let begins = |run: &str| name.len() >= MIN_PREFIX && run.starts_with(name);
        let fits = |&i: &usize| begins(&self.names()[i]) || ends(&self.names()[i]);
        (0..self.names().len()).filter(fits).collect()
    }

    fn find_start(&self, name: &str) -> Result<&RunRecord> {
        let at = |i: usize| {
            self.record(i).unwrap_or_else(|| Err(Error::data(format!("the run `{}` was removed", self.names()[i]))))
        };
        if name == "latest" {
            return self.last_finished(None)?.ok_or_else(|| self.none_finished(None));
        }
        let fits = self.runs_named(name);
        if let [i] = fits[..]
            && self.names()[i] == name
        {
            return at(i);
        }
        if let Some(run) = labels::tagged_run(self.store(), name)? {
            if let Ok(Some(identity)) = self.pipeline(name) {
                let (tag, pipeline) = (NameMeaning::Tag(run), NameMeaning::Pipeline(identity.to_owned()));
                return Err(Error::usage(format!("`{name}` means several things: {tag}, {pipeline}"))
                    .hint("name the run by its last four digits, and the pipeline by more of its path"));
            }
            let i = self.names().iter().position(|known| *known == run);
            return at(i.ok_or_else(|| Error::data(format!("the tag `{name}` names the run `{run}`, which is gone")))?);
        }
        match fits[..] {
            [i] => return at(i),
            [] => {}
            _ => {
                let shown = TruncatedList::from_iter(fits.iter().map(|&i| format!("`{}`", self.names()[i]))).join(", ");
                return Err(
                    Error::usage(format!("`{name}` names several runs: {shown}")).hint("name one of them in full")
                );
            }
        }
        if self.pipeline(name)?.is_some() {
            return self.last_finished(Some(name))?.ok_or_else(|| Error::internal("a pipeline without runs"));
        }
        Err(Error::usage(format!("there is no run `{}`", escape_line(name))).hint(RUN_FORMS))
    }

    /// The N-th different run before `start`, of the same pipeline. Repeats of the same results count once.
    fn step_back<'l>(&'l self, start: &'l RunRecord, steps: usize) -> Result<Option<&'l RunRecord>> {
        if steps == 0 {
            return Ok(Some(start));
        }
        self.read_all()?;
        let mut different: Vec<&RunRecord> = vec![start];
        for run in self.finished_before(start) {
            if !different.iter().any(|seen| run.is_repeat_of(seen)) {
                different.push(run);
            }
            if different.len() > steps {
                return Ok(different.pop());
            }
        }
        Ok(None)
    }

    /// Texts that named each pipeline of the readable runs, by identity.
    fn pipelines(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut pipelines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for run in self.readable() {
            pipelines.entry(run.pipeline_identity()).or_default().insert(&run.pipeline);
        }
        pipelines
    }

    /// Identities of the pipelines that a path or its last components may mean.
    fn pipelines_named(&self, name: &str) -> BTreeSet<&str> {
        let is_named = |identity: &str, texts: &BTreeSet<&str>| {
            ends_with_components(identity, name) || texts.iter().any(|text| ends_with_components(text, name))
        };
        let pipelines = self.pipelines().into_iter();
        pipelines.filter(|(identity, texts)| is_named(identity, texts)).map(|(identity, _)| identity).collect()
    }
}

/// Canonical path of the file that `name`, with or without `.toml`, means from the current folder; `None` if there is no
/// such file.
fn path_from_here(name: &str) -> Option<String> {
    let canonical = |name: &str| Path::new(name).canonicalize().ok().filter(|path| path.is_file());
    let path = canonical(name).or_else(|| canonical(&format!("{name}.toml")))?;
    Some(path.display().to_string())
}

/// Returns true if `name` is a path or its last components, with or without `.toml`. An absolute path is whole.
fn ends_with_components(path: &str, name: &str) -> bool {
    let components = |text: &str| -> Vec<String> {
        let text = text.strip_suffix(".toml").unwrap_or(text);
        text.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
    };
    let is_whole = name.starts_with('/');
    let (path, name) = (components(path), components(name));
    !name.is_empty() && if is_whole { path == name } else { path.ends_with(&name) }
}
