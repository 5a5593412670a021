//! `pairloom trec --direction i2t|t2i`: rankings of an evaluation as a TREC run.

use std::fmt;
use std::fmt::Write as _;
use std::io::Write as _;

use arrow::array::{Array, RecordBatch};

use super::args::{CommonArgs, TrecArgs};
use super::console::{Console, check_output, write_file};
use super::open;
use super::open::read_table;
use super::run_choice::{announce_run, require_run, require_stage};
use super::units::format_items;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_formats::trec::{RunLine, check_tag};
use pairloom_store::Store;
use pairloom_store::record::{RunLog, RunRecord, StageRecord};
use pairloom_tables as tables;
use pairloom_tables::rankings;

/// Size of the text that is written at once.
const CHUNK_BYTES: usize = 1 << 16;

/// Rankings of one protocol and method.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RankingName {
    protocol: String,
    method: String,
    parameters: Option<String>,
}

impl fmt::Display for RankingName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--protocol '{}' --method '{}'", self.protocol, self.method)?;
        self.parameters.iter().try_for_each(|parameters| write!(f, " --parameters '{parameters}'"))
    }
}

/// Writes the rankings to stdout or a file, part by part.
///
/// # Errors
/// There are no such rankings, or those of several protocols or methods; the tag is not one word; the file exists, or
/// the output cannot be written.
pub(super) fn trec(common: &CommonArgs, arguments: &TrecArgs, console: Console) -> Result<()> {
    if let Some(tag) = &arguments.tag {
        check_tag(tag).map_err(|message| Error::usage(format!("`--tag`: {message}")))?;
    }
    if let Some(path) = &arguments.output {
        check_output(path, arguments.force)?;
    }
    let store = open::open_existing_store(common)?;
    let log = open::open_log(&store, console)?;
    let (run, stage) = find_evaluation(&log, arguments)?;
    let name = choose_rankings(&store, stage, arguments)?;
    let tag = arguments.tag.clone().unwrap_or_else(|| default_tag(&stage.name, &name));
    announce_run(run, &arguments.of, console);
    let mut queries = 0;
    let mut write_all = |write: &mut dyn FnMut(&str) -> Result<()>| -> Result<()> {
        for batch in read_table(&store, stage, "rankings")? {
            queries += write_batch(&batch?, &name, &arguments.direction, &tag, write)?;
        }
        Ok(())
    };
    match &arguments.output {
        None => write_all(&mut |text| console.print(text))?,
        Some(path) => {
            let failed = |error: std::io::Error| Error::io("write", path, &error);
            write_file(path, |mut file| {
                write_all(&mut |text| file.write_all(text.as_bytes()).map_err(failed))?;
                file.flush().map_err(failed)
            })?;
            console.note(&format!("{} of {} in `{}`", format_items(queries, "queries"), tag, path.display()));
        }
    }
    Ok(())
}

/// Stage of the arguments, or the last `evaluate` stage, with its run.
fn find_evaluation<'l>(log: &'l RunLog, arguments: &TrecArgs) -> Result<(&'l RunRecord, &'l StageRecord)> {
    let run = require_run(log, &arguments.of)?;
    let stage = match &arguments.stage {
        Some(name) => {
            let stage = require_stage(run, name)?;
            (stage.kind == "evaluate").then_some(stage).ok_or_else(|| {
                Error::usage(format!("stage `{name}` is of kind `{}`, expected `evaluate`", stage.kind))
            })?
        }
        None => run.stages.iter().rfind(|stage| stage.kind == "evaluate").ok_or_else(|| {
            Error::data(format!("the run `{}` of `{}` has no stage of kind `evaluate`", run.run, run.pipeline))
                .hint("`--run` and `--pipeline` choose another run")
        })?,
    };
    Ok((run, stage))
}

/// Rankings that the arguments name: the only ones of the stage with that protocol, method and parameters.
fn choose_rankings(store: &Store, stage: &StageRecord, arguments: &TrecArgs) -> Result<RankingName> {
    let mut names = Vec::new();
    for batch in read_table(store, stage, "summary")? {
        let batch = batch?;
        let text = |name: &str| tables::text_column(&batch, name);
        let (protocols, methods, parameters) = (text("protocol")?, text("method")?, text("parameters")?);
        names.extend((0..batch.num_rows()).map(|row| RankingName {
            protocol: protocols.value(row).to_owned(),
            method: methods.value(row).to_owned(),
            parameters: parameters.is_valid(row).then(|| parameters.value(row).to_owned()),
        }));
    }
    if names.is_empty() {
        let message = format!("the results of stage `{}` were removed, or it did not finish", stage.name);
        return Err(Error::data(message).hint("run the pipeline again"));
    }
    let is_chosen = |name: &&RankingName| {
        let agrees = |expected: &Option<String>, got: &str| expected.as_ref().is_none_or(|expected| expected == got);
        agrees(&arguments.protocol, &name.protocol)
            && agrees(&arguments.method, &name.method)
            && agrees(&arguments.parameters, name.parameters.as_deref().unwrap_or_default())
    };
    let chosen: Vec<&RankingName> = names.iter().filter(is_chosen).collect();
    let hint = |names: &[&RankingName]| format!("choose one of:\n  {}", TruncatedList::from_iter(names).join("\n  "));
    match chosen[..] {
        [name] => Ok(name.clone()),
        [] => Err(Error::usage(format!("stage `{}` has no such rankings", stage.name))
            .hint(hint(&names.iter().collect::<Vec<_>>()))),
        _ => {
            let count = chosen.len();
            Err(Error::usage(format!("stage `{}` has {count} rankings of that name", stage.name)).hint(hint(&chosen)))
        }
    }
}

/// Tag of stage, method and parameters, without white space.
fn default_tag(stage: &str, name: &RankingName) -> String {
    let parameters = name.parameters.iter().flat_map(|parameters| ["-", parameters]);
    let tag: String = [stage, "-", &name.method].into_iter().chain(parameters).collect();
    tag.split_whitespace().collect()
}

/// Writes the rankings of a name and direction in a batch of `rankings`. Returns the number of queries.
fn write_batch(
    batch: &RecordBatch,
    name: &RankingName,
    direction: &str,
    tag: &str,
    write: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<usize> {
    let text = |name: &str| tables::text_column(batch, name);
    let (protocols, methods, parameters) = (text("protocol")?, text("method")?, text("parameters")?);
    let directions = text("direction")?;
    let (mut chunk, mut queries) = (String::new(), 0);
    for (row, ranking) in rankings::top_items(batch)?.iter().enumerate() {
        let of = parameters.is_valid(row).then(|| parameters.value(row));
        let is_wanted = directions.value(row) == direction
            && protocols.value(row) == name.protocol
            && methods.value(row) == name.method
            && of == name.parameters.as_deref();
        if !is_wanted {
            continue;
        }
        queries += 1;
        for (rank, (&item, &score)) in (1..).zip(ranking.item_ids.iter().zip(ranking.scores)) {
            // Writing to a text cannot fail.
            let _ = writeln!(chunk, "{}", RunLine { query: ranking.query_id, item, rank, score, tag });
        }
        if chunk.len() > CHUNK_BYTES {
            write(&chunk)?;
            chunk.clear();
        }
    }
    write(&chunk)?;
    Ok(queries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_tag_is_one_word() {
        let name = |parameters: Option<&str>| RankingName {
            protocol: "coco-5k".to_owned(),
            method: "csls".to_owned(),
            parameters: parameters.map(str::to_owned),
        };
        assert_eq!(default_tag("test", &name(None)), "test-csls");
        let tag = default_tag("test", &name(Some("k = 10, query bank train")));
        assert_eq!(tag, "test-csls-k=10,querybanktrain");
        assert_eq!(check_tag(&tag), Ok(()));
    }
}
