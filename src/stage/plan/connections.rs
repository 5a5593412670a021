//! Checks of the connections between stages: each input against the output that it names.

use std::collections::HashMap;

use crate::{
    InputOrigin, OutputKind, Problem, Stage, StageInput, StageOutput, TableRef, missing_columns, stage_of_instance,
};
use pairloom_base::suggest::{closest_name, quoted_list};

/// Message and optional hint.
type ProblemText = (String, Option<String>);

/// Number of fitting outputs that a hint names.
const NAMED_OUTPUTS: usize = 5;

/// Outputs of all stages of a pipeline.
pub(super) struct Connections<'n> {
    /// Name, kind and outputs of every stage.
    stages: Vec<(&'n str, &'static str, Vec<StageOutput>)>,
    /// Indices of stages by name.
    index: HashMap<&'n str, usize>,
    /// Stages that write an output, see [`Stage::writers`].
    writers: fn(&str) -> Option<&'static str>,
}

impl<'n> Connections<'n> {
    pub(super) fn new<S: Stage>(nodes: &'n [(&str, &S)]) -> Self {
        let stages = nodes.iter().map(|(name, stage)| (*name, stage.kind(), stage.outputs())).collect();
        let index = nodes.iter().enumerate().rev().map(|(i, (name, _))| (*name, i)).collect();
        Self { stages, index, writers: S::writers }
    }

    /// Problem of an input of the stage `consumer`, if it has one. With `with_hint`, an output that fits is looked for.
    pub(super) fn problem(&self, consumer: &str, input: &StageInput, with_hint: bool) -> Option<Problem> {
        let (InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. }) = &input.origin else { return None };
        let (message, hint) = match self.find(from, with_hint) {
            Ok((kind, output)) => self.misfit(input, from, kind, output)?,
            Err((message, hint)) => (format!("{} is `{from}`, but {message}", setting_name(&input.name)), hint),
        };
        let fitting = || if with_hint { self.fitting_outputs(consumer, &input.origin) } else { None };
        let hint = hint.or_else(fitting);
        let problem = Problem::new(&input.name, message);
        Some(match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        })
    }

    /// Finds the output that `from` refers to, and the kind of its stage. Otherwise returns a message and a hint.
    fn find(&self, from: &TableRef, with_hint: bool) -> Result<(&'static str, &StageOutput), ProblemText> {
        let Some((name, kind, outputs)) = self.index.get(from.stage()).map(|&i| &self.stages[i]) else {
            let message = format!("no stage is called `{}`", from.stage());
            if !with_hint {
                return Err((message, None));
            }
            let mut names: Vec<_> = self.stages.iter().map(|(name, ..)| stage_of_instance(name)).collect();
            names.sort_unstable();
            names.dedup();
            let list = quoted_list(names.iter().copied());
            let message = format!("{message}; there are {list}");
            let closest = closest_name(from.stage(), names);
            return Err((message, closest.map(|name| format!("did you mean `{name}.{}`?", from.table()))));
        };
        outputs.iter().find(|output| output.name == from.table()).map(|output| (*kind, output)).ok_or_else(|| {
            let names: Vec<_> = outputs.iter().map(|output| output.name).collect();
            let list = quoted_list(names.iter().copied());
            let message = format!("stage `{name}` writes no `{}`; it writes {list}", from.table());
            (message, closest_name(from.table(), names).map(|table| format!("did you mean `{name}.{table}`?")))
        })
    }

    /// Message, and hint if there is one, if `input` cannot read the output `from` of a stage of this kind: the output is
    /// another table, lacks columns, or has no values in columns that need them.
    fn misfit(&self, input: &StageInput, from: &TableRef, kind: &str, output: &StageOutput) -> Option<ProblemText> {
        let is_table = matches!(output.kind, OutputKind::Table { .. });
        let wanted = match (&input.origin, &output.kind) {
            (
                InputOrigin::Table { wanted, required_columns, required_values, .. },
                OutputKind::Table { schema, empty_columns, .. },
            ) if wanted.is_none_or(|wanted| wanted == output.name) => {
                let missing = missing_columns(required_columns, schema);
                if !missing.is_empty() {
                    return Some((format!("`{from}` does not fit: {}", missing.join("; ")), None));
                }
                let values = required_values
                    .filter(|values| values.columns.iter().all(|column| empty_columns.contains(column)))?;
                let columns = quoted_list(values.columns.iter().copied());
                let message = format!("`{from}` does not fit: no row has a value in {columns}, wanted one of them");
                return Some((message, Some(values.hint.to_owned())));
            }
            (InputOrigin::Files { wanted, .. }, OutputKind::Files) if *wanted == output.name => return None,
            (InputOrigin::Table { wanted: Some(table), .. }, _) => {
                format!("the table `{table}`{}", self.written_by(table))
            }
            (InputOrigin::Files { wanted, .. }, _) => format!("the `{wanted}`{}", self.written_by(wanted)),
            _ => "a table".to_owned(),
        };
        let setting = setting_name(&input.name);
        let got = if is_table { format!("the table `{}`", output.name) } else { format!("the `{}`", output.name) };
        Some((format!("`{from}` is {got} of {} `{kind}`; {setting} wants {wanted}", article(kind)), None))
    }

    fn written_by(&self, output: &str) -> String {
        (self.writers)(output).map(|stages| format!(" of {stages}")).unwrap_or_default()
    }

    /// Hint that names the outputs of other stages that fit an input.
    fn fitting_outputs(&self, consumer: &str, origin: &InputOrigin) -> Option<String> {
        let fits = |output: &StageOutput| match (origin, &output.kind) {
            (
                InputOrigin::Table { wanted, required_columns, required_values, .. },
                OutputKind::Table { schema, empty_columns, .. },
            ) => {
                let has_values = |column: &&str| !empty_columns.contains(column);
                wanted.is_none_or(|wanted| wanted == output.name)
                    && missing_columns(required_columns, schema).is_empty()
                    && required_values.is_none_or(|values| values.columns.iter().any(has_values))
            }
            (InputOrigin::Files { wanted, .. }, OutputKind::Files) => *wanted == output.name,
            _ => false,
        };
        let others = self.stages.iter().filter(|(name, ..)| *name != consumer);
        let mut fitting: Vec<String> = others
            .flat_map(|(name, _, outputs)| {
                let stage = stage_of_instance(name);
                outputs.iter().filter(|output| fits(output)).map(move |output| format!("{stage}.{}", output.name))
            })
            .collect();
        // Instances of a stage follow each other.
        fitting.dedup();
        match (fitting.as_slice(), origin) {
            ([only], _) => Some(format!("did you mean `{only}`?")),
            ([_, _, ..], _) => {
                let more = if fitting.len() > NAMED_OUTPUTS { " …" } else { "" };
                let names = quoted_list(fitting.iter().take(NAMED_OUTPUTS).map(String::as_str));
                Some(format!("did you mean one of {names}{more}?"))
            }
            ([], InputOrigin::Table { wanted: Some(wanted), .. } | InputOrigin::Files { wanted, .. }) => {
                Some(format!("add a stage: `{wanted}` is the output of {}", (self.writers)(wanted)?))
            }
            _ => None,
        }
    }
}

/// Name of a setting in a message: `` `features` ``, or `` item 2 of `scores` ``.
#[must_use]
pub fn setting_name(setting: &str) -> String {
    let mut parts = setting.rsplit('.');
    let last = parts.next().unwrap_or(setting);
    match (last.parse::<usize>(), parts.next()) {
        (Ok(item), Some(list)) => format!("item {} of `{list}`", item + 1),
        _ => format!("`{last}`"),
    }
}

/// Indefinite article of the name of a kind.
fn article(kind: &str) -> &'static str {
    if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}
