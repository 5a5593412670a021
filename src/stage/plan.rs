//! Plan of a pipeline: its named stages in topological order, connections checked.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::{
    Coordinate, InputOrigin, KnownFacts, OutputKind, Problem, Stage, StageInput, StageOutput, TableRef,
    missing_columns, stage_of_instance,
};
use pairloom_base::suggest::{MAX_SUGGESTIONS, closest_name, quoted_list};

/// Named stage: a node of the graph of a pipeline.
#[derive(Debug, Clone)]
pub struct PlanNode<S> {
    /// Its name in the pipeline file, with its coordinates if the matrix repeats it.
    pub name: String,
    /// Coordinates in the matrix of the pipeline; empty for a stage that is not repeated.
    pub coordinates: Vec<Coordinate>,
    /// Its settings.
    pub stage: S,
}

/// Acyclic graph of stages in topological order. The input tables of every stage exist.
#[derive(Debug)]
pub struct Plan<S> {
    nodes: Vec<PlanNode<S>>,
    warnings: Vec<StageProblem>,
}

/// Problem of one stage in a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageProblem {
    /// Name of the stage.
    pub stage: String,
    /// The problem.
    pub problem: Problem,
}

impl<S: Stage> Plan<S> {
    /// Connects stages and sorts them topologically: producers before consumers, otherwise in the given order.
    ///
    /// # Errors
    /// All problems at once: unknown tables and stages, tables of another kind, missing or mistyped columns, cycles, and
    /// the problems that [`Stage::check`] and [`Stage::check_headers`] report.
    pub fn new(nodes: Vec<PlanNode<S>>) -> Result<Self, Vec<StageProblem>> {
        Self::with_doubtful(nodes, &|_| false)
    }

    /// Connects stages as [`Plan::new`]. Settings of the stages that `is_doubtful` names are incomplete, because mistakes
    /// in them are reported already, so no other stage is checked against them.
    pub fn with_doubtful(
        nodes: Vec<PlanNode<S>>,
        is_doubtful: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Vec<StageProblem>> {
        // Connections that fit. A wrong one does not make a cycle.
        let mut all_producers: Vec<Vec<usize>> = Vec::new();
        let mut all_wrong = Vec::new();
        let mut suggestions = MAX_SUGGESTIONS;
        let index: HashMap<&str, usize> = nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        let named: Vec<(&str, &S)> = nodes.iter().map(|node| (node.name.as_str(), &node.stage)).collect();
        let connections = Connections::new(&named);
        for node in &nodes {
            let mut producers = Vec::new();
            let mut wrong = Vec::new();
            for input in node.stage.inputs() {
                match (connections.problem(&node.name, &input, suggestions > 0), &input.origin) {
                    (Some(problem), _) => {
                        suggestions = suggestions.saturating_sub(1);
                        wrong.push(problem);
                    }
                    (None, InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. }) => {
                        producers.extend(index.get(from.stage()).copied());
                    }
                    (None, InputOrigin::Source(_)) => {}
                }
            }
            all_producers.push(producers);
            all_wrong.push(wrong);
        }
        let (order, cycles) = topological_order(&nodes, &all_producers);
        let mut facts = KnownFacts::default();
        for node in order.iter().map(|&i| &nodes[i]).filter(|node| !is_doubtful(&node.name)) {
            facts.add(&node.name, &node.stage);
        }
        let mut found = Vec::new();
        for (node, wrong) in nodes.iter().zip(all_wrong) {
            let headers = if is_doubtful(&node.name) { Vec::new() } else { node.stage.check_headers() };
            let problems = node.stage.check().into_iter().chain(headers).chain(wrong);
            let problems = problems.chain(node.stage.check_inputs(&facts));
            found.extend(problems.map(|problem| StageProblem { stage: node.name.clone(), problem }));
        }
        for cycle in cycles {
            let message = format!("stages wait for each other: {}", cycle.join(" → "));
            let problem = Problem::new("", message).hint("let one of them read something else");
            found.push(StageProblem { stage: cycle[0].clone(), problem });
        }
        if found.iter().any(|found| !found.problem.is_warning()) {
            return Err(found);
        }
        let mut slots: Vec<Option<PlanNode<S>>> = nodes.into_iter().map(Some).collect();
        Ok(Self { nodes: order.into_iter().filter_map(|i| slots[i].take()).collect(), warnings: found })
    }

    /// Warnings about settings that are possible, but implausible.
    #[must_use]
    pub fn warnings(&self) -> &[StageProblem] {
        &self.warnings
    }

    /// Stages, producers before consumers.
    #[must_use]
    pub fn stages(&self) -> &[PlanNode<S>] {
        &self.nodes
    }
}

/// Sorts the nodes topologically and returns the indices of those that are in or behind no cycle, and the names along each
/// cycle; the first name is repeated at the end.
fn topological_order<S>(nodes: &[PlanNode<S>], producers: &[Vec<usize>]) -> (Vec<usize>, Vec<Vec<String>>) {
    let mut order = Vec::with_capacity(nodes.len());
    let mut consumers = vec![Vec::new(); nodes.len()];
    for (i, producers) in producers.iter().enumerate() {
        for &producer in producers {
            consumers[producer].push(i);
        }
    }
    let mut waited_for: Vec<usize> = producers.iter().map(Vec::len).collect();
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&i| waited_for[i] == 0).collect();
    let mut placed = vec![false; nodes.len()];
    while let Some(i) = ready.pop_first() {
        placed[i] = true;
        order.push(i);
        for &consumer in &consumers[i] {
            waited_for[consumer] -= 1;
            if waited_for[consumer] == 0 {
                ready.insert(consumer);
            }
        }
    }
    let cycles = if order.len() < nodes.len() { cycles(nodes, producers, &consumers, placed) } else { Vec::new() };
    (order, cycles)
}

/// Shortest cycle of every strongly connected component.
fn cycles<S>(
    nodes: &[PlanNode<S>],
    producers: &[Vec<usize>],
    consumers: &[Vec<usize>],
    mut done: Vec<bool>,
) -> Vec<Vec<String>> {
    let mut cycles = Vec::new();
    for start in 0..nodes.len() {
        if done[start] {
            continue;
        }
        let (before, after) = (shortest_paths(producers, start), shortest_paths(consumers, start));
        if before[start].is_some() {
            // Names along the cycle are in the direction of the data.
            let mut names = vec![nodes[start].name.clone()];
            let mut at = before[start];
            while let Some(i) = at.filter(|&i| i != start) {
                names.push(nodes[i].name.clone());
                at = before[i];
            }
            names.push(nodes[start].name.clone());
            cycles.push(names);
        }
        for (i, done) in done.iter_mut().enumerate() {
            *done |= before[i].is_some() && after[i].is_some();
        }
    }
    cycles
}

/// Breadth-first search from `start` along `next`. Returns the predecessor of every reachable node on a shortest path.
fn shortest_paths(next: &[Vec<usize>], start: usize) -> Vec<Option<usize>> {
    let mut from = vec![None; next.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &i in &next[at] {
            if from[i].is_none() {
                from[i] = Some(at);
                queue.push_back(i);
            }
        }
    }
    from
}

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
        let expected = match (&input.origin, &output.kind) {
            (
                InputOrigin::Table { expected, required_columns, required_values, .. },
                OutputKind::Table { schema, empty_columns, .. },
            ) if expected.is_none_or(|expected| expected == output.name) => {
                let missing = missing_columns(required_columns, schema);
                if !missing.is_empty() {
                    return Some((format!("`{from}` does not fit: {}", missing.join("; ")), None));
                }
                let values = required_values
                    .filter(|values| values.columns.iter().all(|column| empty_columns.contains(column)))?;
                let columns = quoted_list(values.columns.iter().copied());
                let message = format!("`{from}` does not fit: no row has a value in {columns}, expected one of them");
                return Some((message, Some(values.hint.to_owned())));
            }
            (InputOrigin::Files { expected, .. }, OutputKind::Files) if *expected == output.name => return None,
            (InputOrigin::Table { expected: Some(table), .. }, _) => {
                format!("the table `{table}`{}", self.written_by(table))
            }
            (InputOrigin::Files { expected, .. }, _) => format!("the `{expected}`{}", self.written_by(expected)),
            _ => "a table".to_owned(),
        };
        let setting = setting_name(&input.name);
        let got = if is_table { format!("the table `{}`", output.name) } else { format!("the `{}`", output.name) };
        Some((format!("`{from}` is {got} of {} `{kind}`; {setting} wants {expected}", article(kind)), None))
    }

    fn written_by(&self, output: &str) -> String {
        (self.writers)(output).map(|stages| format!(" of {stages}")).unwrap_or_default()
    }

    /// Hint that names the outputs of other stages that fit an input.
    fn fitting_outputs(&self, consumer: &str, origin: &InputOrigin) -> Option<String> {
        let fits = |output: &StageOutput| match (origin, &output.kind) {
            (
                InputOrigin::Table { expected, required_columns, required_values, .. },
                OutputKind::Table { schema, empty_columns, .. },
            ) => {
                let has_values = |column: &&str| !empty_columns.contains(column);
                expected.is_none_or(|expected| expected == output.name)
                    && missing_columns(required_columns, schema).is_empty()
                    && required_values.is_none_or(|values| values.columns.iter().any(has_values))
            }
            (InputOrigin::Files { expected, .. }, OutputKind::Files) => *expected == output.name,
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
            ([], InputOrigin::Table { expected: Some(expected), .. } | InputOrigin::Files { expected, .. }) => {
                Some(format!("add a stage: `{expected}` is the output of {}", (self.writers)(expected)?))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;

    use super::*;

    /// Stage that writes a table `rows`, and reads another one if `Pass`.
    #[derive(Debug, Clone)]
    enum ToyStage {
        Source,
        Pass { rows: TableRef },
    }

    impl ToyStage {
        fn pass(rows: &str) -> Self {
            Self::Pass { rows: rows.to_owned().try_into().unwrap() }
        }
    }

    impl Stage for ToyStage {
        fn kind(&self) -> &'static str {
            match self {
                Self::Source => "source",
                Self::Pass { .. } => "pass",
            }
        }
        fn version(&self) -> u32 {
            1
        }
        fn settings(&self) -> serde_json::Value {
            serde_json::json!({})
        }
        fn inputs(&self) -> Vec<StageInput> {
            match self {
                Self::Source => vec![],
                Self::Pass { rows } => vec![StageInput::any_table("rows", rows, Arc::new(Schema::empty()))],
            }
        }
        fn outputs(&self) -> Vec<StageOutput> {
            vec![StageOutput::table("rows", Arc::new(Schema::empty()), 10)]
        }
        fn check(&self) -> Vec<Problem> {
            vec![]
        }
    }

    fn node(name: &str, stage: ToyStage) -> PlanNode<ToyStage> {
        PlanNode { name: name.to_owned(), coordinates: vec![], stage }
    }

    fn faults(nodes: Vec<PlanNode<ToyStage>>) -> Vec<String> {
        let faults = Plan::new(nodes).expect_err("the plan is wrong");
        faults
            .into_iter()
            .map(|fault| format!("{}/{}: {}", fault.stage, fault.problem.setting, fault.problem.message))
            .collect()
    }

    #[test]
    fn producers_come_before_consumers() {
        let plan = Plan::new(vec![
            node("c", ToyStage::pass("b.rows")),
            node("b", ToyStage::pass("a.rows")),
            node("a", ToyStage::Source),
        ]);
        let names: Vec<_> = plan.unwrap().stages().iter().map(|node| node.name.clone()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn all_problems_are_reported_together() {
        let nodes =
            vec![node("a", ToyStage::Source), node("b", ToyStage::pass("aa.rows")), node("c", ToyStage::pass("a.row"))];
        assert_eq!(
            faults(nodes),
            [
                "b/rows: `rows` is `aa.rows`, but no stage is called `aa`; there are `a`, `b`, `c`",
                "c/rows: `rows` is `a.row`, but stage `a` writes no `row`; it writes `rows`",
            ]
        );
    }

    #[test]
    fn a_cycle_is_printed_in_the_direction_of_the_data() {
        let nodes = vec![
            node("a", ToyStage::pass("c.rows")),
            node("b", ToyStage::pass("a.rows")),
            node("c", ToyStage::pass("b.rows")),
        ];
        assert_eq!(faults(nodes), ["a/: stages wait for each other: a → b → c → a"]);
    }

    #[test]
    fn every_cycle_is_reported_once_and_stages_downstream_of_one_are_not() {
        let nodes = vec![
            node("after", ToyStage::pass("a.rows")),
            node("a", ToyStage::pass("b.rows")),
            node("b", ToyStage::pass("a.rows")),
            node("self", ToyStage::pass("self.rows")),
            node("c", ToyStage::pass("d.rows")),
            node("d", ToyStage::pass("c.rows")),
        ];
        assert_eq!(
            faults(nodes),
            [
                "a/: stages wait for each other: a → b → a",
                "self/: stages wait for each other: self → self",
                "c/: stages wait for each other: c → d → c",
            ]
        );
    }
}
