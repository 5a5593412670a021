//! DBNorm: dual inverted softmax and its dynamic form, over a bank of queries and a bank of items.
//!
//! Wang, Jian, Xue, "Balance Act: Mitigating Hubness in Cross-Modal Retrieval with Query and Gallery Banks", EMNLP 2023;
//! free numbers as in its published code.

use super::dynamic::{Dynamic, activation_set};
use super::matrix::Matrix;
use super::problems::{Problems, none, not_a_beta};
use super::shift::Shift;
use super::statistic::{Statistic, log_sum_exp};

/// DualIS, `s'(q, i) = exp(β₁·s(q, i)) / Σ exp(β₁·s(b, i)) · exp(β₂·s(q, i)) / Σ exp(β₂·s(c, i))` over the queries b of one
/// bank and the items c of another; s(c, i) compares two items.
///
/// In a ranking `s − (L₁(i) + L₂(i)) / (β₁ + β₂)`, one number an item, where L are the logarithms of the sums. DualDIS leaves
/// a bank out for those queries whose nearest item no member of that bank retrieves, and keeps the scores where both banks
/// are left out. (The published code multiplies by the score itself instead of leaving a bank out, and so ranks by s² where
/// both are; negative scores would then come first.) Inductive. Scores of different queries can be compared with DualIS only.
///
/// # Cost
/// One pass over the scores of each bank with the items; one subtraction a score after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DbNorm {
    /// Inverse temperature over the bank of queries, β₁.
    pub beta_queries: f64,
    /// Inverse temperature over the bank of items, β₂.
    pub beta_items: f64,
    /// First items of a member of a bank that count as retrieved; DualDIS only.
    pub k: usize,
}

impl Default for DbNorm {
    fn default() -> Self {
        Self { beta_queries: 1.0 / 1.99, beta_items: 3.0, k: 1 }
    }
}

impl DbNorm {
    /// What is wrong with the free numbers.
    #[must_use]
    pub fn problems(&self) -> Problems {
        let betas = [("beta_queries", self.beta_queries), ("beta_items", self.beta_items)];
        betas.into_iter().filter_map(|(name, beta)| not_a_beta(name, beta)).chain(none("k", self.k)).collect()
    }

    /// The statistics of an item's scores with the bank of queries and with the bank of items.
    #[must_use]
    pub fn of_items(&self) -> [Statistic; 2] {
        [self.beta_queries, self.beta_items].map(|beta| Statistic::LogSumExp { beta })
    }

    /// DualIS, from [`DbNorm::of_items`] of every item.
    #[must_use]
    pub fn dual_is(&self, log_sums: [&[f64]; 2]) -> Shift {
        self.shift(log_sums, [true, true])
    }

    /// DualDIS.
    ///
    /// # Shapes
    /// - `log_sums`: [`DbNorm::of_items`] of every item
    /// - `activated`: for each bank, whether each item is in its [`activation_set`]
    /// - `nearest`: for every test query its nearest item by uncorrected scores
    #[must_use]
    pub fn dual_dis(&self, log_sums: [&[f64]; 2], activated: [&[bool]; 2], nearest: &[usize]) -> Dynamic {
        let choices = (0..4).map(|choice| self.shift(log_sums, [choice & 1 == 1, choice & 2 == 2])).collect();
        let choice = |item: usize| usize::from(activated[0][item]) + 2 * usize::from(activated[1][item]);
        Dynamic::new(choices, nearest.iter().map(|&item| choice(item)).collect())
    }

    /// The shift of the banks that count.
    fn shift(&self, log_sums: [&[f64]; 2], counts: [bool; 2]) -> Shift {
        let betas = [self.beta_queries, self.beta_items];
        let chosen: Vec<usize> = (0..2).filter(|&bank| counts[bank]).collect();
        if chosen.is_empty() {
            return Shift::new(Vec::new(), Vec::new());
        }
        let beta: f64 = chosen.iter().map(|&bank| betas[bank]).sum();
        let sum = |item: usize| chosen.iter().map(|&bank| log_sums[bank][item]).sum::<f64>();
        Shift::new((0..log_sums[0].len()).map(|item| sum(item) / beta).collect(), Vec::new())
    }
}

/// The definition of DualIS, or of DualDIS where `dynamic`; logarithms, where anything is corrected.
///
/// # Shapes
/// - `banks`: scores of the bank's queries, and of the bank's items, with the same items as `scores`
#[must_use]
pub fn db_norm(scores: &Matrix, banks: [&Matrix; 2], settings: &DbNorm, dynamic: bool) -> Matrix {
    let betas = [settings.beta_queries, settings.beta_items];
    let activated = banks.map(|bank| {
        let retrieved = bank.rankings();
        activation_set(retrieved.iter().map(|items| &items[..settings.k.min(items.len())]), bank.items)
    });
    let nearest: Vec<usize> = scores.rankings().iter().map(|items| items[0]).collect();
    Matrix::from_fn(scores.queries, scores.items, |query, item| {
        let score = scores.at(query, item);
        let counts = |bank: usize| !dynamic || activated[bank][nearest[query]];
        let logarithm =
            |bank: usize| betas[bank] * score - log_sum_exp(banks[bank].column(item).map(|other| betas[bank] * other));
        if counts(0) || counts(1) { (0..2).filter(|&bank| counts(bank)).map(logarithm).sum() } else { score }
    })
}
