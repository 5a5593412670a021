//! Plan of a pipeline: its named stages in topological order, connections checked.

pub mod graph;
mod connections;

pub use connections::setting_name;
pub use graph::{Plan, PlanNode, StageProblem};
