//! Selection of methods on a validation split, for `best_of`.

use super::callbacks::{Callbacks, MethodProgress};
use super::collection::{Collection, RetrievalTask};
use super::direction_metrics::recall_summary;
use super::label::MethodLabel;
use super::methods::Method;
use super::ranking::{Ranker, RankingRequest};
use super::scores::PoolScores;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::measure::recall::rsum;

/// Method to rank with, and its label in tables.
pub(super) struct SelectedMethod<'e> {
    pub(super) method: &'e Method,
    pub(super) label: MethodLabel,
}

/// Selector of methods on a validation split.
pub(super) struct MethodSelector<'e> {
    pub(super) methods: &'e [Method],
    pub(super) cutoffs: &'e [usize],
    /// Name of the query bank in results.
    pub(super) bank: Option<&'e str>,
    /// Name and content of the validation split.
    pub(super) validation: Option<(&'e str, Collection<'e>)>,
}

impl<'e> MethodSelector<'e> {
    /// Returns the methods, each `best_of` replaced by its method with the largest rsum on the validation split.
    pub(super) fn select(&self, callbacks: &mut dyn Callbacks) -> Result<Vec<SelectedMethod<'e>>> {
        let mut selected: Vec<SelectedMethod<'e>> = Vec::with_capacity(self.methods.len());
        let needs_validation = self.methods.iter().any(|method| method.candidates().is_some());
        let pool = needs_validation.then(|| self.pool()).transpose()?;
        let ranker = pool.as_ref().map(|pool| Ranker::new(pool.scores.as_ref())).transpose()?;
        for (number, method) in self.methods.iter().enumerate() {
            let one = match (method.candidates(), &pool, &ranker) {
                (Some(methods), Some(pool), Some(ranker)) => self.best(methods, pool, ranker, callbacks)?,
                _ => SelectedMethod { method, label: method.label(self.bank, None) },
            };
            if selected.iter().any(|other| other.label == one.label) {
                let MethodLabel { method, parameters, .. } = &one.label;
                let numbers = parameters.as_ref().map(|numbers| format!(" ({numbers})")).unwrap_or_default();
                let message = format!("equals an earlier `{method}`{numbers}, and is left out");
                callbacks.warn(format!("methods.{number}"), message);
            } else {
                selected.push(one);
            }
        }
        Ok(selected)
    }

    /// Returns the validation split as one pool.
    fn pool(&self) -> Result<ValidationPool<'e>> {
        let (name, collection) = self.validation.ok_or_else(|| Error::usage("`best_of` wants a validation split"))?;
        let images = 0..collection.image_ids.len();
        // The scores borrow from the collection.
        let scores = collection.scores.pool(&images, &collection.captions_of(&images)?)?;
        Ok(ValidationPool { name, tasks: collection.tasks(&images)?, scores })
    }

    /// Selects the best of `methods` on the validation split.
    fn best(
        &self,
        methods: &'e [Method],
        pool: &ValidationPool<'e>,
        ranker: &Ranker<'_>,
        callbacks: &mut dyn Callbacks,
    ) -> Result<SelectedMethod<'e>> {
        let wanted = RankingRequest { tasks: &pool.tasks, depth: [0; 2], cutoffs: self.cutoffs };
        let pool_name = format!("split `{}`", pool.name);
        let mut best: Option<(&Method, f64)> = None;
        for method in methods {
            let rankings = method.rank(ranker, &wanted, &mut MethodProgress::silent(callbacks))?;
            let of = |side: usize| recall_summary(&pool.tasks[side], &rankings[side], self.cutoffs, &pool_name);
            let sum = rsum(&of(0)?, &of(1)?);
            if best.is_none_or(|(_, largest)| sum > largest) {
                best = Some((method, sum));
            }
        }
        let (method, _) = best.ok_or_else(|| Error::usage("`best_of` wants methods to select from"))?;
        Ok(SelectedMethod { method, label: method.label(self.bank, Some(pool.name)) })
    }
}

/// Validation split as one pool. Its scores are computed once for all methods.
struct ValidationPool<'e> {
    name: &'e str,
    tasks: [RetrievalTask<'e>; 2],
    scores: Box<dyn PoolScores + 'e>,
}
