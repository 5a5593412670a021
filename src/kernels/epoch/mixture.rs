//! Several data sets in one epoch, each with its share, spread as evenly as can be.

/// How many samples of an epoch come from each data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mixture {
    draws: Vec<u64>,
}

impl Mixture {
    /// `total` samples in the ratio of `weights`; what does not divide goes to the largest remainders, of equal ones to the
    /// first.
    pub(super) fn new(total: usize, weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "data sets have fewer than 2^53 samples")]
        let exact: Vec<f64> = weights.iter().map(|weight| weight / sum * total as f64).collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares of a number of samples")]
        let mut draws: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        let remainder = |i: usize| exact[i] - exact[i].floor();
        order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
        // Rounding may leave the sum of the floors one above or some below the total.
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

    /// Samples of an epoch that come from data set `i`.
    pub(super) fn draws(&self, i: usize) -> u64 {
        self.draws[i]
    }

    /// Samples of an epoch.
    pub(super) fn total(&self) -> u64 {
        self.draws.iter().sum()
    }

    /// Draws of each data set before `position`.
    pub(super) fn before(&self, position: u64) -> Vec<u64> {
        let total = u128::from(self.total().max(1));
        // Draw t of data set i stands at (2t + 1) / 2·draws of the epoch. Those well before `position` are counted at once,
        // the few around it one by one.
        let slack = self.draws.len() as u64;
        let from = position.saturating_sub(slack);
        let counted = |draws: u64| u64::try_from((2 * u128::from(from) * u128::from(draws) + total) / (2 * total));
        let mut taken: Vec<u64> = self.draws.iter().map(|&draws| counted(draws).unwrap_or(draws).min(draws)).collect();
        let mut behind = position.saturating_sub(taken.iter().sum());
        while behind > 0 {
            let Some(next) = self.next(&taken) else { break };
            taken[next] += 1;
            behind -= 1;
        }
        taken
    }

    /// The data set of the next sample after `taken` of each: whose next draw stands first, of equal ones the first.
    pub(super) fn next(&self, taken: &[u64]) -> Option<usize> {
        let mut first: Option<usize> = None;
        for (i, (&taken_i, &draws_i)) in taken.iter().zip(&self.draws).enumerate() {
            if taken_i == draws_i {
                continue;
            }
            // (2t + 1) / draws, compared without a division.
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
