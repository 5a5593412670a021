//! Stages with names, connected and in order: what a pipeline file comes down to.

use std::collections::{HashMap, VecDeque};

use crate::stage::{Form, Origin, Output, Problem, Stage, TableRef, missing_columns};
use crate::suggest::{quoted, similar};

/// A stage with its name.
#[derive(Debug, Clone)]
pub struct Node<S> {
    /// Its name in the pipeline file.
    pub name: String,
    /// Its settings.
    pub stage: S,
}

/// Stages whose inputs all exist and whose connections have no cycle.
#[derive(Debug)]
pub struct Plan<S> {
    nodes: Vec<Node<S>>,
}

/// Something wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The stage at fault.
    pub stage: String,
    /// What is wrong with it.
    pub problem: Problem,
}

impl<S: Stage> Plan<S> {
    /// Connects stages, and puts producers before consumers; otherwise the order is kept.
    ///
    /// # Errors
    /// All that is wrong: tables and stages that do not exist, columns that do not fit, cycles, and what the stages
    /// themselves find ([`Stage::check`]).
    pub fn new(nodes: Vec<Node<S>>) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let index: HashMap<&str, usize> = nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        for node in &nodes {
            let mut found = node.stage.check();
            for input in node.stage.inputs() {
                let problem = match &input.origin {
                    Origin::Source(_) => None,
                    Origin::Table { from, .. } | Origin::Files { from } => {
                        producer(&nodes, &index, from).and_then(|output| fits(&input.origin, from, &output)).err()
                    }
                };
                found.extend(problem.map(|(message, hint)| Problem { setting: input.name, message, hint }));
            }
            faults.extend(found.into_iter().map(|problem| Fault { stage: node.name.clone(), problem }));
        }
        let order = order(&nodes, &index).unwrap_or_else(|cycles| {
            for cycle in cycles {
                let message = format!("stages wait for each other: {}", cycle.join(" → "));
                let problem = Problem::new("", message).hint("let one of them read something else");
                faults.push(Fault { stage: cycle[0].clone(), problem });
            }
            Vec::new()
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut slots: Vec<Option<Node<S>>> = nodes.into_iter().map(Some).collect();
        Ok(Self { nodes: order.into_iter().filter_map(|i| slots[i].take()).collect() })
    }

    /// The stages, producers before consumers.
    #[must_use]
    pub fn nodes(&self) -> &[Node<S>] {
        &self.nodes
    }
}

/// A message and perhaps a hint.
type Message = (String, Option<String>);

/// The output that `from` names.
fn producer<S: Stage>(nodes: &[Node<S>], index: &HashMap<&str, usize>, from: &TableRef) -> Result<Output, Message> {
    let Some(&i) = index.get(from.stage()) else {
        let mut names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
        names.sort_unstable();
        let message =
            format!("`{from}`: no stage is called `{}`; there are {}", from.stage(), quoted(names.iter().copied()));
        return Err((
            message,
            similar(from.stage(), names).map(|name| format!("did you mean `{name}.{}`?", from.table())),
        ));
    };
    let outputs = nodes[i].stage.outputs();
    outputs.iter().find(|output| output.name == from.table()).cloned().ok_or_else(|| {
        let names: Vec<_> = outputs.iter().map(|output| output.name).collect();
        let message = format!(
            "`{from}`: stage `{}` writes no `{}`; it writes {}",
            from.stage(),
            from.table(),
            quoted(names.iter().copied())
        );
        (message, similar(from.table(), names).map(|name| format!("did you mean `{}.{name}`?", from.stage())))
    })
}

/// Whether an output is what an input wants.
fn fits(wanted: &Origin, from: &TableRef, output: &Output) -> Result<(), Message> {
    match (wanted, &output.form) {
        (Origin::Table { wanted, .. }, Form::Table { schema, .. }) => {
            let missing = missing_columns(wanted, schema);
            if missing.is_empty() {
                Ok(())
            } else {
                Err((format!("`{from}` does not fit: {}", missing.join("; ")), None))
            }
        }
        (Origin::Table { .. }, Form::Files) => Err((format!("`{from}` is files, wanted a table"), None)),
        (Origin::Files { .. }, Form::Table { .. }) => {
            Err((format!("`{from}` is a table, wanted files such as a model"), None))
        }
        _ => Ok(()),
    }
}

/// Indices with producers first, or the names along cycles, the first one again at the end of each.
fn order<S: Stage>(nodes: &[Node<S>], index: &HashMap<&str, usize>) -> Result<Vec<usize>, Vec<Vec<String>>> {
    let producers: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let inputs = node.stage.inputs();
            let from = inputs.iter().filter_map(|input| match &input.origin {
                Origin::Table { from, .. } | Origin::Files { from } => index.get(from.stage()).copied(),
                Origin::Source(_) => None,
            });
            from.collect()
        })
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    let mut placed = vec![false; nodes.len()];
    while order.len() < nodes.len() {
        let ready = (0..nodes.len()).find(|&i| !placed[i] && producers[i].iter().all(|&p| placed[p]));
        let Some(i) = ready else { return Err(cycles(nodes, &producers, placed)) };
        placed[i] = true;
        order.push(i);
    }
    Ok(order)
}

/// One cycle of every group of stages that all wait for each other (a strongly connected component).
fn cycles<S>(nodes: &[Node<S>], producers: &[Vec<usize>], mut done: Vec<bool>) -> Vec<Vec<String>> {
    let mut consumers = vec![Vec::new(); nodes.len()];
    for (i, producers) in producers.iter().enumerate() {
        for &producer in producers {
            consumers[producer].push(i);
        }
    }
    let mut cycles = Vec::new();
    for start in 0..nodes.len() {
        if done[start] {
            continue;
        }
        let (before, after) = (reach(producers, start), reach(&consumers, start));
        if before[start].is_some() {
            // The shortest way round; stages come in the order in which data would flow.
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

/// For every stage that can be reached from `start` along `next`, the one before it on a shortest way.
fn reach(next: &[Vec<usize>], start: usize) -> Vec<Option<usize>> {
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
    use super::*;
    use crate::engine::testing::{Toy, node};

    fn faults(nodes: Vec<Node<Toy>>) -> Vec<String> {
        let faults = Plan::new(nodes).expect_err("the plan is wrong");
        faults
            .into_iter()
            .map(|fault| format!("{}/{}: {}", fault.stage, fault.problem.setting, fault.problem.message))
            .collect()
    }

    #[test]
    fn producers_come_first_whatever_the_order_of_the_file() {
        let plan =
            Plan::new(vec![node("c", Toy::pass("b.rows")), node("b", Toy::pass("a.rows")), node("a", Toy::count(3))]);
        let names: Vec<_> = plan.unwrap().nodes().iter().map(|node| node.name.clone()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let nodes = vec![node("a", Toy::count(3)), node("b", Toy::pass("aa.rows")), node("c", Toy::pass("a.row"))];
        assert_eq!(
            faults(nodes),
            [
                "b/rows: `aa.rows`: no stage is called `aa`; there are `a`, `b`, `c`",
                "c/rows: `a.row`: stage `a` writes no `row`; it writes `rows`",
            ]
        );
    }

    #[test]
    fn a_cycle_is_printed_as_data_would_flow() {
        let nodes =
            vec![node("a", Toy::pass("c.rows")), node("b", Toy::pass("a.rows")), node("c", Toy::pass("b.rows"))];
        assert_eq!(faults(nodes), ["a/: stages wait for each other: a → b → c → a"]);
    }

    #[test]
    fn every_cycle_is_told_once_and_what_merely_waits_for_one_is_none() {
        let nodes = vec![
            node("after", Toy::pass("a.rows")),
            node("a", Toy::pass("b.rows")),
            node("b", Toy::pass("a.rows")),
            node("self", Toy::pass("self.rows")),
            node("c", Toy::pass("d.rows")),
            node("d", Toy::pass("c.rows")),
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
