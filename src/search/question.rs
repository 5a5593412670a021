//! Question of a search: what each vector of a side wants to know of the other side.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::identity::Fields;

/// Question of each vector of a side, a query, to the vectors of the other side, its items.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// How many of the best items; where there are fewer, all of them.
    pub k: usize,
    /// Items of which the rank of the best one is wanted.
    pub positives: Positives<'a>,
    /// A number of each item, h: the query ranks by `f64::from(score) − h`. Empty for the scores themselves.
    pub minus: &'a [f64],
    /// Statistics of its scores with all items, of the scores themselves whatever is taken off.
    pub statistics: &'a [Statistic],
}

impl Ask<'_> {
    /// How many items must be kept of each query.
    ///
    /// # Errors
    /// The question cannot be asked.
    pub(super) fn keep(&self, queries: usize, items: usize) -> Result<usize> {
        let wrong = |what: &str, got: usize, wanted: usize| {
            Err(Error::internal(format!("got {what} of {got}, wanted {wanted}")))
        };
        if let Some(got) = self.positives.queries().filter(|&got| got != queries) {
            return wrong("positives", got, queries);
        }
        if let Some((query, item)) = self.positives.beyond(items) {
            return Err(Error::internal(format!("item {item} matches query {query}, but there are {items} items")));
        }
        if !self.minus.is_empty() && self.minus.len() != items {
            return wrong("corrections", self.minus.len(), items);
        }
        let largest = |statistic: &Statistic| match *statistic {
            Statistic::MeanOfLargest { k } | Statistic::KthLargest { k } => Some(k),
            _ => None,
        };
        let most = self.statistics.iter().filter_map(largest).max();
        if most.is_some() && !self.minus.is_empty() {
            return Err(Error::internal("the largest scores and the best of corrected ones are two passes"));
        }
        Ok(self.k.max(most.unwrap_or(0)).min(items))
    }

    /// Writes everything that an answer follows from, beside the scores.
    pub(super) fn identity(&self, fields: &mut Fields<'_>) {
        let Self { k, positives, minus, statistics } = self;
        fields.number(*k);
        positives.identity(fields);
        fields.floats(minus);
        fields.list(statistics.len());
        for statistic in *statistics {
            match *statistic {
                Statistic::LogSumExp { beta } => {
                    fields.text("log_sum_exp");
                    fields.float(beta);
                }
                Statistic::MeanOfLargest { k } => {
                    fields.text("mean_of_largest");
                    fields.number(k);
                }
                Statistic::KthLargest { k } => {
                    fields.text("kth_largest");
                    fields.number(k);
                }
                Statistic::Mean => fields.text("mean"),
                Statistic::StandardDeviation => fields.text("standard_deviation"),
            }
        }
    }
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

    /// True if any item matches the query.
    pub(super) fn any(&self, query: usize) -> bool {
        match self {
            Self::None => false,
            Self::Ranges(ranges) => !ranges[query].is_empty(),
            Self::Lists(lists) => !lists[query].is_empty(),
        }
    }

    /// True if the item matches the query.
    pub(super) fn contains(&self, query: usize, item: usize) -> bool {
        match self {
            Self::None => false,
            Self::Ranges(ranges) => ranges[query].contains(&item),
            Self::Lists(lists) => lists[query].contains(&item),
        }
    }

    /// Writes them.
    fn identity(&self, fields: &mut Fields<'_>) {
        match self {
            Self::None => fields.text("none"),
            Self::Ranges(ranges) => {
                fields.text("ranges");
                fields.list(ranges.len());
                for range in *ranges {
                    fields.number(range.start);
                    fields.number(range.end);
                }
            }
            Self::Lists(lists) => {
                fields.text("lists");
                fields.list(lists.len());
                lists.iter().for_each(|list| fields.numbers(list));
            }
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
