//! Answer of a search: what the vectors of a side found.

use super::checkpoint::{Reader, Writer};
use super::question::Ask;
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::measure::rank::Rank;
use crate::kernels::top_k::Scored;

/// Answers to the vectors of a side, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The best items of each, best first, of equal ones the lower index first; the score is the one they are ranked by,
    /// rounded to f32.
    pub top: Vec<Vec<Scored>>,
    /// The rank of the best positive of each, `None` for a query without any; empty where nobody asked.
    pub ranks: Vec<Option<Rank>>,
    /// Each statistic that was asked for, of every query.
    pub statistics: Vec<Vec<f64>>,
}

/// An answer whose scores are not yet rounded.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Unrounded {
    pub top: Vec<Vec<Candidate>>,
    pub ranks: Vec<Option<Rank>>,
    pub statistics: Vec<Vec<f64>>,
}

impl Unrounded {
    #[expect(clippy::cast_possible_truncation, reason = "a score is given as the nearest f32")]
    pub fn rounded(self) -> Answer {
        let scored = |best: Candidate| Scored { item: best.item, score: best.score as f32 };
        let top = self.top.into_iter().map(|top| top.into_iter().map(scored).collect()).collect();
        Answer { top, ranks: self.ranks, statistics: self.statistics }
    }

    /// Adds the answers to further vectors, which asked the same.
    pub fn append(&mut self, mut other: Self) {
        self.top.append(&mut other.top);
        self.ranks.append(&mut other.ranks);
        self.statistics.resize(other.statistics.len(), Vec::new());
        self.statistics.iter_mut().zip(&mut other.statistics).for_each(|(all, more)| all.append(more));
    }

    /// The payload of a checkpoint.
    pub fn write(&self) -> Vec<i32> {
        let mut payload = Writer::default();
        for best in self.top.iter().flatten() {
            payload.number(best.item);
            payload.double(best.score);
        }
        for rank in &self.ranks {
            payload.number(usize::from(rank.is_some()));
            let Rank { rank, optimistic, pessimistic } =
                rank.unwrap_or(Rank { rank: 0, optimistic: 0, pessimistic: 0 });
            for number in [rank, optimistic, pessimistic] {
                payload.number(number);
            }
        }
        self.statistics.iter().flatten().for_each(|&statistic| payload.double(statistic));
        payload.0
    }

    /// Reads back the answers to `queries` vectors that asked for `ask` in `items` items; `None` where that cannot be.
    pub fn read(payload: &[i32], ask: &Ask<'_>, queries: usize, items: usize) -> Option<Self> {
        let mut payload = Reader(payload);
        let mut answer = Self::default();
        for _ in 0..queries {
            let mut best = || Some(Candidate { item: payload.number(items - 1)?, score: payload.double()? });
            answer.top.push((0..ask.k.min(items)).map(|_| best()).collect::<Option<_>>()?);
        }
        for _ in 0..if ask.positives.queries().is_some() { queries } else { 0 } {
            let some = payload.number(1)? == 1;
            let [rank, optimistic, pessimistic] =
                [payload.number(items)?, payload.number(items)?, payload.number(items)?];
            answer.ranks.push(some.then_some(Rank { rank, optimistic, pessimistic }));
        }
        for _ in ask.statistics {
            answer.statistics.push((0..queries).map(|_| payload.double()).collect::<Option<_>>()?);
        }
        payload.end().map(|()| answer)
    }
}
