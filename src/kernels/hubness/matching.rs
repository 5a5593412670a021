//! A greedy matching out of lists of candidates, for pools whose pairs nobody wants to sort.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::greedy::Limits;

/// An item that a query may get, and their score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Index of the item.
    pub item: usize,
    /// Score of the pair; any number but NaN.
    pub score: f64,
}

/// A greedy matching under way: the result of [`relaxed_greedy`](super::greedy::relaxed_greedy), from as many candidates of
/// each query as it takes.
///
/// [`Matching::advance`] goes on until it is done, or until queries have used up their candidates before they got their
/// items. From then on nothing is certain, since what such a query would have taken is unknown; so it names these queries,
/// the caller gives each a longer list ([`Matching::extend`]), and it goes on from where the first of them ran out.
///
/// # Cost
/// One step of a heap for each candidate that is looked at; 16 bytes a candidate.
#[derive(Debug, Clone)]
pub struct Matching {
    limits: Limits,
    items: usize,
    lists: Vec<Vec<Candidate>>,
    state: State,
}

/// What a matching has done so far.
#[derive(Debug, Clone)]
struct State {
    next: BinaryHeap<Next>,
    places: Vec<usize>,
    taken: Vec<Vec<usize>>,
    given: Vec<usize>,
    pairs: usize,
}

/// The next candidate of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Next {
    score: f64,
    query: usize,
}

impl Matching {
    /// A matching that has not begun.
    ///
    /// # Shapes
    /// - `lists`: for every query its best items, best first (of equal scores the lower index); the beginning of its ranking
    ///   of all `items`
    #[must_use]
    pub fn new(limits: Limits, items: usize, lists: Vec<Vec<Candidate>>) -> Self {
        let count = lists.len();
        let state = State {
            next: BinaryHeap::with_capacity(count),
            places: vec![0; count],
            taken: vec![Vec::new(); count],
            given: vec![0; items],
            pairs: 0,
        };
        let mut this = Self { limits, items, lists, state };
        if limits.query > 0 {
            (0..count).for_each(|query| _ = this.enqueue(query));
        }
        this
    }

    /// Goes on; the queries that need longer lists, lowest first, or none when the matching is done.
    pub fn advance(&mut self) -> Vec<usize> {
        // Queries without any candidate were never queued.
        let without = |&query: &usize| self.lists[query].is_empty() && self.is_short(query);
        let mut short: Vec<usize> = (0..self.lists.len()).filter(without).collect();
        if !short.is_empty() && self.limits.query > 0 {
            return short;
        }
        short.clear();
        let mut certain: Option<State> = None;
        while self.state.pairs < self.limits.pairs {
            let Some(Next { query, .. }) = self.state.next.pop() else { break };
            let item = self.lists[query][self.state.places[query]].item;
            self.state.places[query] += 1;
            if self.state.given[item] < self.limits.item {
                self.state.given[item] += 1;
                self.state.taken[query].push(item);
                self.state.pairs += 1;
            }
            let wants_more = self.state.taken[query].len() < self.limits.query;
            if wants_more && !self.enqueue(query) && self.is_short(query) && self.state.pairs < self.limits.pairs {
                // The rest is a guess, to find those that will run out next.
                certain.get_or_insert_with(|| self.state.clone());
                short.push(query);
            }
        }
        if let Some(certain) = certain {
            self.state = certain;
        }
        short.sort_unstable();
        short
    }

    /// A longer list for a query, whose beginning is the list it had.
    ///
    /// # Panics
    /// The list is no longer than the one before.
    pub fn extend(&mut self, query: usize, list: Vec<Candidate>) {
        assert!(list.len() > self.lists[query].len(), "query {query} has as many candidates already");
        let waits = self.state.places[query] == self.lists[query].len();
        self.lists[query] = list;
        if waits && self.state.taken[query].len() < self.limits.query {
            self.enqueue(query);
        }
    }

    /// How many candidates a query has been given.
    #[must_use]
    pub fn given(&self, query: usize) -> usize {
        self.lists[query].len()
    }

    /// For every query its items, in the order in which it got them; of a matching that is done.
    #[must_use]
    pub fn finish(self) -> Vec<Vec<usize>> {
        self.state.taken
    }

    /// Queues the next candidate of a query, if it has one.
    fn enqueue(&mut self, query: usize) -> bool {
        let next = self.lists[query].get(self.state.places[query]);
        if let Some(candidate) = next {
            // −0 and 0 are equal.
            self.state.next.push(Next { score: candidate.score + 0.0, query });
        }
        next.is_some()
    }

    /// Whether a query has more candidates than its list.
    fn is_short(&self, query: usize) -> bool {
        self.lists[query].len() < self.items
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    /// The greatest is the next to be looked at.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.query.cmp(&self.query))
    }
}
