//! The best items of one query, from scores that are known up to an error and come one after the other.

use crate::error::Result;

/// Settles approximate scores: given items, adds what they are ranked by, exactly.
pub type Settle<'s> = &'s mut dyn FnMut(&[u32], &mut Vec<f64>) -> Result<()>;

/// What may still be among the k best.
///
/// An item is out when k items are surely better than it surely is: its score plus the error is below the k-th largest of the
/// scores less the error. What is left at the end is settled by exact scores. Where so many are left before that there is
/// no room for more (scores that are all alike), they are settled at once.
#[derive(Debug, Clone)]
pub struct Candidates {
    k: usize,
    error: f64,
    bar: f32,
    room: usize,
    pending: Vec<(f32, u32)>,
    /// Exact, best first, at most k.
    settled: Vec<(f64, u32)>,
}

impl Candidates {
    /// For the `k` best of scores that are within `error` of the exact ones.
    pub fn new(k: usize, error: f64) -> Self {
        let bar = if k == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Self { k, error, bar, room: k + k.max(32), pending: Vec::new(), settled: Vec::new() }
    }

    /// Knows that `best`, best first, are in the race as well; they are not among what it gives.
    pub fn beside(mut self, best: &[(f64, u32)]) -> Self {
        if let Some(&(kth, _)) = self.k.checked_sub(1).and_then(|last| best.get(last)) {
            self.raise(kth);
        }
        self
    }

    /// With these as well, which are exact.
    pub fn with(mut self, best: &[(f64, u32)]) -> Self {
        self.settled.extend_from_slice(best);
        self
    }

    /// The lowest score that an item needs from now on.
    pub fn bar(&self) -> f32 {
        self.bar
    }

    /// One more item.
    pub fn offer(&mut self, score: f32, item: u32, settle: Settle<'_>) -> Result<()> {
        if score < self.bar {
            return Ok(());
        }
        if self.pending.capacity() == 0 {
            self.pending.reserve_exact(self.room);
        }
        self.pending.push((score, item));
        if self.pending.len() >= self.room {
            self.prune();
            if 2 * (self.room - self.pending.len()) < self.room - self.k {
                self.settle(settle)?;
            }
        }
        Ok(())
    }

    /// All that another one has seen.
    pub fn merge(&mut self, other: Self) {
        self.pending.extend(other.pending);
        self.settled.extend(other.settled);
        sort(&mut self.settled);
        self.settled.truncate(self.k);
    }

    /// The k best, best first, of equal ones the lower index first.
    ///
    /// # Errors
    /// The first one of `settle`.
    pub fn finish(mut self, settle: Settle<'_>) -> Result<Vec<(f64, u32)>> {
        self.prune();
        self.settle(settle)?;
        // Lists are kept, and some had many more candidates than they need.
        self.settled.shrink_to_fit();
        Ok(self.settled)
    }

    /// Drops what is out.
    fn prune(&mut self) {
        if self.k == 0 || self.pending.len() + self.settled.len() < self.k {
            return;
        }
        let kth = if self.settled.is_empty() {
            let (_, &mut (kth, _), _) = self.pending.select_nth_unstable_by(self.k - 1, |a, b| b.0.total_cmp(&a.0));
            f64::from(kth) - self.error
        } else {
            let mut sure: Vec<f64> = self.pending.iter().map(|&(score, _)| f64::from(score) - self.error).collect();
            sure.extend(self.settled.iter().map(|&(score, _)| score));
            *sure.select_nth_unstable_by(self.k - 1, |a, b| b.total_cmp(a)).1
        };
        self.raise(kth);
        self.pending.retain(|&(score, _)| score >= self.bar);
    }

    /// Makes all exact.
    fn settle(&mut self, settle: Settle<'_>) -> Result<()> {
        let items: Vec<u32> = self.pending.drain(..).map(|(_, item)| item).collect();
        let mut scores = Vec::with_capacity(items.len());
        settle(&items, &mut scores)?;
        self.settled.extend(scores.into_iter().zip(items));
        sort(&mut self.settled);
        self.settled.truncate(self.k);
        if let Some(&(kth, _)) = self.k.checked_sub(1).and_then(|last| self.settled.get(last)) {
            self.raise(kth);
        }
        Ok(())
    }

    /// k items have at least this exact score.
    #[expect(clippy::cast_possible_truncation, reason = "rounded downwards by the step that follows")]
    fn raise(&mut self, kth: f64) {
        self.bar = self.bar.max(((kth - self.error) as f32).next_down());
    }
}

fn sort(settled: &mut [(f64, u32)]) {
    settled.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::sample::Sample;

    /// Whatever the errors are, in one heap or in two that are merged, the result is that of sorting exact scores.
    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
    fn the_best_are_those_of_sorting() {
        let mut sample = Sample::new(8, &[]);
        for case in 0..400 {
            let n = sample.below(900);
            let levels = [1, 3, 1000][case % 3];
            let exact: Vec<f64> = (0..n).map(|_| sample.below(levels) as f64 / 500.0).collect();
            let k = [0, 1, 10, 90, 2000][case % 5];
            let error = sample.unit() * 0.01;
            let mut settle = |items: &[u32], scores: &mut Vec<f64>| {
                scores.extend(items.iter().map(|&item| exact[item as usize]));
                Ok(())
            };
            let mut heaps = [Candidates::new(k, error), Candidates::new(k, error)];
            for (item, &score) in exact.iter().enumerate() {
                let seen = (score + (2.0 * sample.unit() - 1.0) * error * 0.9999) as f32;
                let item = u32::try_from(item).expect("few items");
                heaps[item as usize / 40 % 2].offer(seen, item, &mut settle).expect("scores");
            }
            assert!(heaps.iter().all(|heap| heap.pending.len() <= heap.room), "memory is bounded");
            let [mut first, second] = heaps;
            first.merge(second);
            let mut order: Vec<u32> = (0..n as u32).collect();
            order.sort_by(|&a, &b| exact[b as usize].total_cmp(&exact[a as usize]).then(a.cmp(&b)));
            order.truncate(k);
            let best: Vec<u32> = first.finish(&mut settle).expect("scores").into_iter().map(|(_, item)| item).collect();
            assert_eq!(best, order, "case {case}");
        }
    }
}
