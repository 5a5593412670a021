//! Facts about outputs that are known before anything runs, such as the width of vectors.
//!
//! A stage states them of its outputs ([`Stage::facts`]), and a later stage checks its settings against those of its inputs
//! ([`Stage::check_inputs`]). So no stage knows another one: both know the type of the fact.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;

use super::{Stage, TableRef};

/// Fact about an output of a stage.
pub struct OutputFact {
    output: &'static str,
    fact: Box<dyn Any>,
}

impl OutputFact {
    /// States `fact` of the output `output`, which has one fact at most.
    pub fn new(output: &'static str, fact: impl Any) -> Self {
        Self { output, fact: Box::new(fact) }
    }
}

/// Facts about the outputs of the stages before one.
#[derive(Default)]
pub struct KnownFacts(HashMap<TableRef, Box<dyn Any>>);

impl KnownFacts {
    /// Adds what `stage`, which is called `name`, states of its outputs. The stages of its inputs come before it.
    pub fn add(&mut self, name: &str, stage: &dyn Stage) {
        for OutputFact { output, fact } in stage.facts(self) {
            self.0.insert(TableRef::new(name, output), fact);
        }
    }

    /// Returns the fact about `output`; `None` if it is unknown or of another type.
    #[must_use]
    pub fn get<F: Any>(&self, output: &TableRef) -> Option<&F> {
        self.0.get(output)?.downcast_ref()
    }
}

impl fmt::Debug for KnownFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
