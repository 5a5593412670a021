//! The ranks of the best positives of the queries of one side.

use super::blocks::Scan;
use crate::error::Result;
use crate::kernels::measure::rank::Rank;
use crate::search::checkpoint::{Reader, Writer};
use crate::search::question::Ask;
use crate::search::scores::Side;
use crate::search::threads::in_parts;

/// Number that a query ranks an item by. Not −0, so that numbers that are equal have equal bits.
pub fn ranked_by(score: f32, minus: &[f64], item: usize) -> f64 {
    f64::from(score) - minus.get(item).copied().unwrap_or(0.0) + 0.0
}

/// The best positive of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    /// What it is ranked by, exactly.
    pub score: f64,
    pub item: usize,
}

impl Best {
    /// Of every query of a side.
    ///
    /// # Errors
    /// The first one of the source.
    pub fn of_all(scan: &Scan<'_>, side: Side, ask: &Ask<'_>) -> Result<Vec<Option<Self>>> {
        let parts = in_parts(scan.threads, ask.positives.queries().unwrap_or(0), |queries| {
            let mut scores = Vec::new();
            let mut best = |query: usize| -> Result<Option<Self>> {
                let items = ask.positives.of(query);
                scan.scores.exact(side, query, &items, &mut scores)?;
                let scored = items.into_iter().zip(&scores);
                Ok(scored
                    .map(|(item, &score)| Self { score: ranked_by(score, ask.minus, item), item })
                    .reduce(|a, b| if b.score > a.score || (b.score == a.score && b.item < a.item) { b } else { a }))
            };
            queries.map(&mut best).collect::<Result<Vec<_>>>()
        });
        Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    /// An approximate score below the first number is surely below this one, one above the second surely above it.
    #[expect(clippy::cast_possible_truncation, reason = "rounded outwards by the steps that follow")]
    pub fn doubt(&self, error: f64) -> (f32, f32) {
        (((self.score - error) as f32).next_down(), ((self.score + error) as f32).next_up())
    }
}

/// Items before the best positive, counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Count {
    /// With a higher score.
    above: u32,
    /// With the same score and a lower index, not matching.
    before: u32,
    /// With the same score, not matching.
    ties: u32,
}

impl Count {
    /// Items that are surely above.
    pub fn add(&mut self, above: u32) {
        self.above += above;
    }

    /// An item that was in doubt, by its exact score.
    pub fn settle(&mut self, best: &Best, score: f64, item: usize, matches: impl Fn() -> bool) {
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

    pub fn write(&self, payload: &mut Writer) {
        for count in [self.above, self.before, self.ties] {
            payload.number(count as usize);
        }
    }

    /// What was written; `None` where it counts more than `most` items.
    pub fn read(payload: &mut Reader<'_>, most: usize) -> Option<Self> {
        let mut count = || payload.number(most).and_then(|count| u32::try_from(count).ok());
        Some(Self { above: count()?, before: count()?, ties: count()? })
    }

    pub fn rank(&self) -> Rank {
        let [above, before, ties] = [self.above, self.before, self.ties].map(|count| count as usize);
        Rank { rank: above + before, optimistic: above, pessimistic: above + ties }
    }
}
