//! The methods of an evaluation: of those that `best_of` names, the best on a validation split.

use super::callbacks::{Callbacks, MethodProgress};
use super::collection::{Collection, Task};
use super::label::Label;
use super::measure::recalls;
use super::methods::Method;
use super::ranking::{Ranker, Wanted};
use super::scores::PoolScores;
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
        let chooses = self.methods.iter().any(|method| method.choice().is_some());
        let pool = chooses.then(|| self.pool()).transpose()?;
        let ranker = pool.as_ref().map(|pool| Ranker::new(pool.scores.as_ref())).transpose()?;
        for (number, method) in self.methods.iter().enumerate() {
            let one = match (method.choice(), &pool, &ranker) {
                (Some(methods), Some(pool), Some(ranker)) => self.best(methods, pool, ranker, callbacks)?,
                _ => Chosen { method, label: method.label(self.bank, None) },
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

    /// The validation split as one pool.
    fn pool(&self) -> Result<ValidationPool<'e>> {
        let (name, collection) = self.validation.ok_or_else(|| Error::usage("`best_of` wants a validation split"))?;
        let images = 0..collection.image_ids.len();
        // The scores borrow from what the caller holds.
        let scores = collection.scores.pool(&images, &collection.captions_of(&images)?)?;
        Ok(ValidationPool { name, tasks: collection.tasks(&images)?, scores })
    }

    /// The best of `methods` on the validation split.
    fn best(
        &self,
        methods: &'e [Method],
        pool: &ValidationPool<'e>,
        ranker: &Ranker<'_>,
        callbacks: &mut dyn Callbacks,
    ) -> Result<Chosen<'e>> {
        let wanted = Wanted { tasks: &pool.tasks, depth: [0; 2], cutoffs: self.cutoffs };
        let place = format!("split `{}`", pool.name);
        let mut best: Option<(&Method, f64)> = None;
        for method in methods {
            let rankings = method.rank(ranker, &wanted, &mut MethodProgress::silent(callbacks))?;
            let of = |side: usize| recalls(&pool.tasks[side], &rankings[side], self.cutoffs, &place);
            let sum = rsum(&of(0)?, &of(1)?);
            if best.is_none_or(|(_, largest)| sum > largest) {
                best = Some((method, sum));
            }
        }
        let (method, _) = best.ok_or_else(|| Error::usage("`best_of` wants methods to choose among"))?;
        Ok(Chosen { method, label: method.label(self.bank, Some(pool.name)) })
    }
}

/// Validation split as one pool: its scores are computed once for all methods.
struct ValidationPool<'e> {
    name: &'e str,
    tasks: [Task<'e>; 2],
    scores: Box<dyn PoolScores + 'e>,
}
