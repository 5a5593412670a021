//! Graph of the stages of a pipeline, sorted topologically.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::connections::Connections;
use crate::{Coordinate, InputOrigin, Problem, Stage, TableRef};
use pairloom_base::suggest::MAX_SUGGESTIONS;

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
    /// the problems that [`Stage::check`] reports.
    pub fn new(nodes: Vec<PlanNode<S>>) -> Result<Self, Vec<StageProblem>> {
        Self::with_doubtful(nodes, &|_| false)
    }

    /// Connects stages as [`Plan::new`]. Settings of the stages that `is_doubtful` names are incomplete, because mistakes
    /// in them are reported already, so no other stage is checked against them.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn with_doubtful(
        nodes: Vec<PlanNode<S>>,
        is_doubtful: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Vec<StageProblem>> {
        let mut found = Vec::new();
        // Connections that fit. A wrong one does not make a cycle.
        let mut all_producers: Vec<Vec<usize>> = Vec::new();
        let index: HashMap<&str, usize> = nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        let named: Vec<(&str, &S)> = nodes.iter().map(|node| (node.name.as_str(), &node.stage)).collect();
        let connections = Connections::new(&named);
        for node in &nodes {
            let mut producers = Vec::new();
            let mut wrong = Vec::new();
            for input in node.stage.inputs() {
                let with_hint = found.len() < MAX_SUGGESTIONS;
                match (connections.problem(&node.name, &input, with_hint), &input.origin) {
                    (Some(problem), _) => wrong.push(problem),
                    (None, InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. }) => {
                        producers.extend(index.get(from.stage()).copied());
                    }
                    (None, InputOrigin::Source(_)) => {}
                }
            }
            all_producers.push(producers);
            let known = |from: &TableRef| index.get(from.stage()).filter(|_| !is_doubtful(from.stage()));
            let writer = |from: &TableRef| known(from).map(|&i| &nodes[i].stage);
            let disagreements = node.stage.check_writers(&writer);
            let problems = node.stage.check().into_iter().chain(wrong).chain(disagreements);
            found.extend(problems.map(|problem| StageProblem { stage: node.name.clone(), problem }));
        }
        let order = topological_order(&nodes, &all_producers).unwrap_or_else(|cycles| {
            for cycle in cycles {
                let message = format!("stages wait for each other: {}", cycle.join(" → "));
                let problem = Problem::new("", message).hint("let one of them read something else");
                found.push(StageProblem { stage: cycle[0].clone(), problem });
            }
            Vec::new()
        });
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

/// Sorts the nodes topologically and returns their indices. The error lists the names along each cycle; the first name
/// is repeated at the end.
fn topological_order<S>(nodes: &[PlanNode<S>], producers: &[Vec<usize>]) -> Result<Vec<usize>, Vec<Vec<String>>> {
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
    if order.len() < nodes.len() {
        return Err(cycles(nodes, producers, &consumers, placed));
    }
    Ok(order)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;

    use super::*;
    use crate::{StageInput, StageOutput};

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
