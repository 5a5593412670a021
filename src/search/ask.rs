//! What the vectors of one side want to know of the other side, and what they get.

use std::ops::Range;

use super::words::{Reader, Writer};
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::measure::rank::Rank;
use crate::kernels::top_k::Scored;

/// What each vector of a side, a query, asks of the vectors of the other side, its items.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// How many of the best items; where there are fewer, all of them.
    pub k: usize,
    /// Of which of its items the rank of the best one is wanted.
    pub positives: Positives<'a>,
    /// A number of each item, h: the query ranks by `f64::from(score) − h`. Empty for the scores themselves.
    pub minus: &'a [f64],
    /// Statistics of its scores with all items, of the scores themselves whatever is taken off.
    pub statistics: &'a [Statistic],
}

/// Which items match each query.
#[derive(Debug, Clone, Copy, Default)]
pub enum Positives<'a> {
    /// Nobody asks.
    #[default]
    None,
    /// Items in a row.
    Ranges(&'a [Range<usize>]),
    /// Items in any order.
    Lists(&'a [Vec<usize>]),
}

impl Positives<'_> {
    /// For how many queries; `None` where nobody asks.
    pub(super) fn queries(&self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Ranges(ranges) => Some(ranges.len()),
            Self::Lists(lists) => Some(lists.len()),
        }
    }

    /// The items that match a query.
    pub(super) fn of(&self, query: usize) -> Vec<usize> {
        match self {
            Self::None => Vec::new(),
            Self::Ranges(ranges) => ranges[query].clone().collect(),
            Self::Lists(lists) => lists[query].clone(),
        }
    }

    /// Whether any item matches the query.
    pub(super) fn any(&self, query: usize) -> bool {
        match self {
            Self::None => false,
            Self::Ranges(ranges) => !ranges[query].is_empty(),
            Self::Lists(lists) => !lists[query].is_empty(),
        }
    }

    /// Whether the item matches the query.
    pub(super) fn contains(&self, query: usize, item: usize) -> bool {
        match self {
            Self::None => false,
            Self::Ranges(ranges) => ranges[query].contains(&item),
            Self::Lists(lists) => lists[query].contains(&item),
        }
    }

    /// The first match that is no item, with its query.
    pub(super) fn beyond(&self, items: usize) -> Option<(usize, usize)> {
        let queries = 0..self.queries().unwrap_or(0);
        match self {
            Self::None => None,
            Self::Ranges(ranges) => queries
                .filter(|&query| !ranges[query].is_empty() && ranges[query].end > items)
                .map(|query| (query, ranges[query].end - 1))
                .next(),
            Self::Lists(lists) => queries
                .flat_map(|query| lists[query].iter().map(move |&item| (query, item)))
                .find(|&(_, item)| item >= items),
        }
    }
}

/// What the vectors of a side found, in their order.
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

    /// What further vectors found, who asked the same.
    pub fn append(&mut self, mut other: Self) {
        self.top.append(&mut other.top);
        self.ranks.append(&mut other.ranks);
        self.statistics.resize(other.statistics.len(), Vec::new());
        self.statistics.iter_mut().zip(&mut other.statistics).for_each(|(all, more)| all.append(more));
    }

    /// For keeping.
    pub fn write(&self) -> Vec<i32> {
        let mut words = Writer::default();
        for best in self.top.iter().flatten() {
            words.number(best.item);
            words.double(best.score);
        }
        for rank in &self.ranks {
            words.number(usize::from(rank.is_some()));
            let Rank { rank, optimistic, pessimistic } =
                rank.unwrap_or(Rank { rank: 0, optimistic: 0, pessimistic: 0 });
            for number in [rank, optimistic, pessimistic] {
                words.number(number);
            }
        }
        self.statistics.iter().flatten().for_each(|&statistic| words.double(statistic));
        words.0
    }

    /// What was written of `queries` vectors who asked for `ask` in `items` items; `None` where that cannot be.
    pub fn read(words: &[i32], ask: &Ask<'_>, queries: usize, items: usize) -> Option<Self> {
        let mut words = Reader(words);
        let mut answer = Self::default();
        for _ in 0..queries {
            let mut best = || Some(Candidate { item: words.number(items - 1)?, score: words.double()? });
            answer.top.push((0..ask.k.min(items)).map(|_| best()).collect::<Option<_>>()?);
        }
        for _ in 0..if ask.positives.queries().is_some() { queries } else { 0 } {
            let some = words.number(1)? == 1;
            let [rank, optimistic, pessimistic] = [words.number(items)?, words.number(items)?, words.number(items)?];
            answer.ranks.push(some.then_some(Rank { rank, optimistic, pessimistic }));
        }
        for _ in ask.statistics {
            answer.statistics.push((0..queries).map(|_| words.double()).collect::<Option<_>>()?);
        }
        words.end().map(|()| answer)
    }
}
