//! What the vectors of one side want to know of the other side, and what they get.

use std::ops::Range;

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
