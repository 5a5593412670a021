//! Top-k list of one query, from a stream of approximate scores with an error bound.

use pairloom_base::error::Result;

/// Callback that computes exact ranking keys: appends the key of each of the given items.
pub type ExactKeys<'s> = &'s mut dyn FnMut(&[u32], &mut Vec<f64>) -> Result<()>;

/// Items that may still be among the k best.
///
/// An item is dropped if its score plus the error is below the k-th largest of all scores less the error: then k items
/// are certainly better. Exact keys decide among the remaining ones at the end, or earlier, when the list is full (if
/// many scores are nearly equal).
#[derive(Debug, Clone)]
pub struct CandidateList {
    k: usize,
    error_bound: f64,
    threshold: f32,
    capacity: usize,
    approximate: Vec<(f32, u32)>,
    /// Items with exact keys: the k best, best first, and in a list of exact keys some that were offered since.
    exact: Vec<(f64, u32)>,
}

impl CandidateList {
    /// List of the `k` best of scores that are within `error` of the exact ones.
    pub fn new(k: usize, error: f64) -> Self {
        let bar = if k == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Self {
            k,
            error_bound: error,
            threshold: bar,
            capacity: k + k.max(32),
            approximate: Vec::new(),
            exact: Vec::new(),
        }
    }

    /// Raises the threshold by `best`, exact keys of other items, best first. These items do not become candidates.
    pub fn with_known_best(mut self, best: &[(f64, u32)]) -> Self {
        if let Some(&(kth, _)) = self.k.checked_sub(1).and_then(|last| best.get(last)) {
            self.raise_threshold(kth);
        }
        self
    }

    /// Adds items with exact keys.
    pub fn with_exact(mut self, best: &[(f64, u32)]) -> Self {
        self.exact.extend_from_slice(best);
        self
    }

    /// Lowest score that a further item needs.
    pub fn threshold(&self) -> f32 {
        self.threshold
    }

    /// Offers an item. Drops it if its score is below the threshold.
    pub fn offer(&mut self, score: f32, item: u32, exact_keys: ExactKeys<'_>) -> Result<()> {
        if score < self.threshold {
            return Ok(());
        }
        if self.approximate.capacity() == 0 {
            self.approximate.reserve_exact(self.capacity);
        }
        self.approximate.push((score, item));
        if self.approximate.len() >= self.capacity {
            self.prune();
            if 2 * (self.capacity - self.approximate.len()) < self.capacity - self.k {
                self.resolve(exact_keys)?;
            }
        }
        Ok(())
    }

    /// Offers an item with its exact key.
    pub fn offer_exact(&mut self, key: f64, item: u32) {
        if self.k == 0 {
            return;
        }
        if self.exact.capacity() == 0 {
            self.exact.reserve_exact(self.capacity);
        }
        self.exact.push((key, item));
        if self.exact.len() >= self.capacity {
            self.keep_best();
        }
    }

    /// Adds all candidates of another list.
    pub fn merge(&mut self, other: Self) {
        self.approximate.extend(other.approximate);
        self.exact.extend(other.exact);
        sort_best_first(&mut self.exact);
        self.exact.truncate(self.k);
    }

    /// Returns the k best, best first, of equal ones the lower index first.
    ///
    /// # Errors
    /// The first error of `exact_keys`.
    pub fn finish(mut self, exact_keys: ExactKeys<'_>) -> Result<Vec<(f64, u32)>> {
        self.prune();
        self.resolve(exact_keys)?;
        // Lists are kept for long, and some had many more candidates than k.
        self.exact.shrink_to_fit();
        Ok(self.exact)
    }

    /// Drops the items that cannot be among the k best.
    fn prune(&mut self) {
        if self.k == 0 || self.approximate.len() + self.exact.len() < self.k {
            return;
        }
        let kth = if self.exact.is_empty() {
            let (_, &mut (kth, _), _) = self.approximate.select_nth_unstable_by(self.k - 1, |a, b| b.0.total_cmp(&a.0));
            f64::from(kth) - self.error_bound
        } else {
            let mut lower_bounds: Vec<f64> =
                self.approximate.iter().map(|&(score, _)| f64::from(score) - self.error_bound).collect();
            lower_bounds.extend(self.exact.iter().map(|&(score, _)| score));
            *lower_bounds.select_nth_unstable_by(self.k - 1, |a, b| b.total_cmp(a)).1
        };
        self.raise_threshold(kth);
        self.approximate.retain(|&(score, _)| score >= self.threshold);
    }

    /// Computes the exact keys of all candidates.
    fn resolve(&mut self, exact_keys: ExactKeys<'_>) -> Result<()> {
        let items: Vec<u32> = self.approximate.drain(..).map(|(_, item)| item).collect();
        let mut scores = Vec::with_capacity(items.len());
        exact_keys(&items, &mut scores)?;
        self.exact.extend(scores.into_iter().zip(items));
        self.keep_best();
        Ok(())
    }

    /// Keeps the k best items with exact keys, and raises the threshold by the last of them.
    fn keep_best(&mut self) {
        sort_best_first(&mut self.exact);
        self.exact.truncate(self.k);
        if let Some(&(kth, _)) = self.k.checked_sub(1).and_then(|last| self.exact.get(last)) {
            self.raise_threshold(kth);
        }
    }

    /// Raises the threshold, given that k items have at least the exact key `kth`.
    #[expect(clippy::cast_possible_truncation, reason = "rounded downwards by the step that follows")]
    fn raise_threshold(&mut self, kth: f64) {
        self.threshold = self.threshold.max(((kth - self.error_bound) as f32).next_down());
    }
}

/// Sorts by key, best first, of equal keys the lower index first.
pub fn sort_best_first(items: &mut [(f64, u32)]) {
    items.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_kernels::random::Rng;

    /// The result is that of sorting exact scores for any errors within the bound, in one list or in two that are
    /// merged.
    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
    fn the_k_best_are_those_of_sorting() {
        let mut rng = Rng::new(8, &[]);
        for case in 0..400 {
            let n = rng.uniform_below(900);
            let levels = [1, 3, 1000][case % 3];
            let exact: Vec<f64> = (0..n).map(|_| rng.uniform_below(levels) as f64 / 500.0).collect();
            let k = [0, 1, 10, 90, 2000][case % 5];
            let error = rng.uniform() * 0.01;
            let mut exact_keys = |items: &[u32], scores: &mut Vec<f64>| {
                scores.extend(items.iter().map(|&item| exact[item as usize]));
                Ok(())
            };
            let mut lists = [CandidateList::new(k, error), CandidateList::new(k, error)];
            let mut exact_list = CandidateList::new(k, 0.0);
            for (item, &score) in exact.iter().enumerate() {
                let seen = (score + (2.0 * rng.uniform() - 1.0) * error * 0.9999) as f32;
                let item = u32::try_from(item).expect("few items");
                lists[item as usize / 40 % 2].offer(seen, item, &mut exact_keys).expect("scores");
                if score as f32 >= exact_list.threshold() {
                    exact_list.offer_exact(score, item);
                }
            }
            assert!(lists.iter().all(|list| list.approximate.len() <= list.capacity), "memory is bounded");
            assert!(exact_list.exact.len() <= exact_list.capacity, "memory is bounded");
            let [mut first, second] = lists;
            first.merge(second);
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.sort_by(|&a, &b| exact[b as usize].total_cmp(&exact[a as usize]).then(a.cmp(&b)));
            order.truncate(k);
            for list in [first, exact_list] {
                let best = list.finish(&mut exact_keys).expect("scores");
                let best: Vec<u32> = best.into_iter().map(|(_, item)| item).collect();
                assert_eq!(best, order, "case {case}");
            }
        }
    }
}
