//! Ranks of the best positives of the queries of one side.

use super::blocks::Scan;
use crate::checkpoint::{PayloadReader, PayloadWriter};
use crate::request::SearchRequest;
use crate::scores::MatrixSide;
use crate::threads::parallel_ranges;
use pairloom_base::error::Result;
use pairloom_kernels::measure::rank::BestMatchRank;

/// Ranking key of an item: its score less its shift. It is never −0, so equal keys have equal bits.
pub fn ranking_key(score: f32, item_shifts: &[f64], item: usize) -> f64 {
    f64::from(score) - item_shifts.get(item).copied().unwrap_or(0.0) + 0.0
}

/// Best positive of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestPositive {
    /// Exact ranking key.
    pub score: f64,
    pub item: usize,
}

impl BestPositive {
    /// Finds the best positive of every query of a side.
    ///
    /// # Errors
    /// The first error of the source.
    pub fn find_all(scan: &Scan<'_>, side: MatrixSide, request: &SearchRequest<'_>) -> Result<Vec<Option<Self>>> {
        let parts = parallel_ranges(scan.threads, request.positives.n_queries().unwrap_or(0), |queries| {
            let mut scores = Vec::new();
            let mut best = |query: usize| -> Result<Option<Self>> {
                let items = request.positives.of_query(query);
                scan.scores.exact_scores(side, query, &items, &mut scores)?;
                let scored = items.into_iter().zip(&scores);
                Ok(scored
                    .map(|(item, &score)| Self { score: ranking_key(score, request.item_shifts, item), item })
                    .reduce(|a, b| if b.score > a.score || (b.score == a.score && b.item < a.item) { b } else { a }))
            };
            queries.map(&mut best).collect::<Result<Vec<_>>>()
        });
        Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    /// Range of uncertain approximate scores: a score below the first number is certainly below the exact key, a score
    /// above the second certainly above it.
    #[expect(clippy::cast_possible_truncation, reason = "rounded outwards by the steps that follow")]
    pub fn uncertain_range(&self, error: f64) -> (f32, f32) {
        (((self.score - error) as f32).next_down(), ((self.score + error) as f32).next_up())
    }
}

/// Counts of the items that rank before the best positive.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RankCounts {
    /// Items with a higher score.
    above: u32,
    /// Items with the same score and a lower index that do not match.
    before: u32,
    /// Items with the same score that do not match.
    ties: u32,
}

impl RankCounts {
    /// Adds items that are certainly above.
    pub fn add(&mut self, above: u32) {
        self.above += above;
    }

    /// Counts an uncertain item by its exact key.
    pub fn add_exact(&mut self, best: &BestPositive, score: f64, item: usize, matches: impl Fn() -> bool) {
        if score > best.score {
            self.above += 1;
        } else if score == best.score && !matches() {
            self.ties += 1;
            self.before += u32::from(item < best.item);
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.above += other.above;
        self.before += other.before;
        self.ties += other.ties;
    }

    pub fn write(&self, payload: &mut PayloadWriter) {
        for count in [self.above, self.before, self.ties] {
            payload.write_index(count as usize);
        }
    }

    /// Reads what [`RankCounts::write`] wrote; `None` if a count is above `most`.
    pub fn read(payload: &mut PayloadReader<'_>, most: usize) -> Option<Self> {
        let mut count = || payload.read_index(most).and_then(|count| u32::try_from(count).ok());
        Some(Self { above: count()?, before: count()?, ties: count()? })
    }

    pub fn rank(&self) -> BestMatchRank {
        let [above, before, ties] = [self.above, self.before, self.ties].map(|count| count as usize);
        BestMatchRank { rank: above + before, optimistic: above, pessimistic: above + ties }
    }
}
