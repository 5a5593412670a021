//! The two traits of a stage: what it is, and what it does.

use std::fmt::Debug;

use super::{Cx, Input, Output, Problem};
use crate::error::Result;

/// The settings of a stage: what it is, what it reads and what it writes.
pub trait Stage: Debug + Send + Sync {
    /// The verb used in pipeline files, in the store, in events and in messages: `embed`.
    fn kind(&self) -> &'static str;

    /// Raised whenever the same settings and inputs would give other bytes than before.
    fn version(&self) -> u32;

    /// The settings that enter the key, as JSON. References to tables and sources serialise as null: what they name
    /// enters the key by content, so renaming a stage or moving a folder keeps results.
    fn settings(&self) -> serde_json::Value;

    /// Tables and sources read.
    fn inputs(&self) -> Vec<Input>;

    /// Tables and files written.
    fn outputs(&self) -> Vec<Output>;

    /// Everything wrong with the settings that can be known without data.
    fn check(&self) -> Vec<Problem> {
        Vec::new()
    }
}

/// Work of a stage.
pub trait Run: Stage {
    /// Reads through `cx`, writes through `cx`, and does nothing else to the world.
    ///
    /// # Errors
    /// Whatever the stage meets; the first error ends the stage, and the run.
    fn run(&self, cx: &mut Cx<'_>) -> Result<()>;
}

impl<S: Stage + ?Sized> Stage for Box<S> {
    fn kind(&self) -> &'static str {
        (**self).kind()
    }
    fn version(&self) -> u32 {
        (**self).version()
    }
    fn settings(&self) -> serde_json::Value {
        (**self).settings()
    }
    fn inputs(&self) -> Vec<Input> {
        (**self).inputs()
    }
    fn outputs(&self) -> Vec<Output> {
        (**self).outputs()
    }
    fn check(&self) -> Vec<Problem> {
        (**self).check()
    }
}

impl<S: Run + ?Sized> Run for Box<S> {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        (**self).run(cx)
    }
}
