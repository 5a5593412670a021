//! Mixture of several data sets in an epoch by weight, interleaved evenly.

/// Number of samples of each data set in an epoch, and their interleaving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mixture {
    draws: Vec<u64>,
}

impl Mixture {
    /// Distributes `total` samples in proportion to `weights` by the largest-remainder method; ties go to the first
    /// data set.
    pub(super) fn new(total: usize, weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "data sets have fewer than 2^53 samples")]
        let exact: Vec<f64> = weights.iter().map(|weight| weight / sum * total as f64).collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is at most `total`")]
        let mut draws: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        let remainder = |i: usize| exact[i] - exact[i].floor();
        order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
        // With rounding errors, the sum of the floors can be one above the total.
        let mut missing = (total as u64).saturating_sub(draws.iter().sum());
        for &i in order.iter().cycle() {
            if missing == 0 {
                break;
            }
            draws[i] += 1;
            missing -= 1;
        }
        Self { draws }
    }

    /// Number of samples of data set `i` in an epoch.
    pub(super) fn samples_of(&self, i: usize) -> u64 {
        self.draws[i]
    }

    /// Number of positions of an epoch.
    pub(super) fn position_count(&self) -> u64 {
        self.draws.iter().sum()
    }

    /// Number of samples drawn from each data set before `position`.
    pub(super) fn draws_before(&self, position: u64) -> Vec<u64> {
        let total = u128::from(self.position_count().max(1));
        // Draw t of data set i is at the fraction (2t + 1) / (2·draws) of the epoch. Draws well before `position` are
        // counted by this formula, and the few around it one by one.
        let slack = self.draws.len() as u64;
        let from = position.saturating_sub(slack);
        let counted = |draws: u64| u64::try_from((2 * u128::from(from) * u128::from(draws) + total) / (2 * total));
        let mut taken: Vec<u64> = self.draws.iter().map(|&draws| counted(draws).unwrap_or(draws).min(draws)).collect();
        let mut behind = position.saturating_sub(taken.iter().sum());
        while behind > 0 {
            let Some(next) = self.next_data_set(&taken) else { break };
            taken[next] += 1;
            behind -= 1;
        }
        taken
    }

    /// The data set of the next sample, after `taken` samples of each: the one with the earliest next draw; ties go to
    /// the first.
    pub(super) fn next_data_set(&self, taken: &[u64]) -> Option<usize> {
        let mut first: Option<usize> = None;
        for (i, (&taken_i, &draws_i)) in taken.iter().zip(&self.draws).enumerate() {
            if taken_i == draws_i {
                continue;
            }
            // Compares (2t + 1) / draws without a division.
            let earlier = |other: usize| {
                let (mine, theirs) = (2 * u128::from(taken_i) + 1, 2 * u128::from(taken[other]) + 1);
                mine * u128::from(self.draws[other]) < theirs * u128::from(draws_i)
            };
            if first.is_none_or(earlier) {
                first = Some(i);
            }
        }
        first
    }
}
