//! The methods of an evaluation: of those that `best_of` names, the best on a validation split.

use super::callbacks::{Callbacks, MethodProgress};
use super::collection::Collection;
use super::label::Label;
use super::measure::recalls;
use super::methods::Method;
use super::ranking::{Ranker, Wanted};
use crate::error::{Error, Result};
use crate::kernels::measure::recall::rsum;

/// A method to rank with, and how tables name it.
pub(super) struct Chosen<'e> {
    pub(super) method: &'e Method,
    pub(super) label: Label,
}

/// Choice among methods on a validation split.
pub(super) struct Choice<'e> {
    pub(super) methods: &'e [Method],
    pub(super) cutoffs: &'e [usize],
    /// Name of the bank in results.
    pub(super) bank: Option<&'e str>,
    /// Name and content of the validation split.
    pub(super) validation: Option<(&'e str, Collection<'e>)>,
}

impl<'e> Choice<'e> {
    /// The methods, each `best_of` replaced by the one with the largest rsum on the validation split.
    pub(super) fn choose(&self, callbacks: &mut dyn Callbacks) -> Result<Vec<Chosen<'e>>> {
        let mut chosen: Vec<Chosen<'e>> = Vec::with_capacity(self.methods.len());
        for (number, method) in self.methods.iter().enumerate() {
            let one = match method.choice() {
                Some(methods) => self.best(methods, callbacks)?,
                None => Chosen { method, label: method.label(self.bank, None) },
            };
            if chosen.iter().any(|other| other.label == one.label) {
                let Label { method, parameters, .. } = &one.label;
                let numbers = parameters.as_ref().map(|numbers| format!(" ({numbers})")).unwrap_or_default();
                let message = format!("is `{method}`{numbers} once more, and left out");
                callbacks.warn(format!("methods.{number}"), message);
            } else {
                chosen.push(one);
            }
        }
        Ok(chosen)
    }

    fn best(&self, methods: &'e [Method], callbacks: &mut dyn Callbacks) -> Result<Chosen<'e>> {
        let (name, collection) = self.validation.ok_or_else(|| Error::usage("`best_of` wants a validation split"))?;
        let mut best: Option<(&Method, f64)> = None;
        for method in methods {
            let sum = self.rsum(method, name, &collection, callbacks)?;
            if best.is_none_or(|(_, largest)| sum > largest) {
                best = Some((method, sum));
            }
        }
        let (method, _) = best.ok_or_else(|| Error::usage("`best_of` wants methods to choose among"))?;
        Ok(Chosen { method, label: method.label(self.bank, Some(name)) })
    }

    /// rsum of a method on the validation split.
    fn rsum(
        &self,
        method: &Method,
        name: &str,
        collection: &Collection<'_>,
        callbacks: &mut dyn Callbacks,
    ) -> Result<f64> {
        let images = 0..collection.image_ids.len();
        let tasks = collection.tasks(&images)?;
        let scores = collection.scores.pool(&images, &collection.captions_of(&images)?)?;
        let wanted = Wanted { tasks: &tasks, depth: [0; 2], cutoffs: self.cutoffs };
        let ranker = Ranker::new(scores.as_ref())?;
        let rankings = method.rank(&ranker, &wanted, &mut MethodProgress::silent(callbacks))?;
        let of = |side: usize| recalls(&tasks[side], &rankings[side], self.cutoffs, &format!("split `{name}`"));
        Ok(rsum(&of(0)?, &of(1)?))
    }
}
