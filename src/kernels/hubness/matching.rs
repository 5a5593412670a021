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
/// the caller gives each further candidates ([`Matching::extend`]), and it goes on from where the first of them ran out.
/// An item that is full stays full, so further candidates are among those that are not ([`Matching::open`]): with hubs that all
/// want, lists stay as short as without.
///
/// # Cost
/// One step of a heap for each candidate that is looked at; 16 bytes a candidate.
#[derive(Debug, Clone)]
pub struct Matching {
    limits: Limits,
    lists: Vec<Vec<Candidate>>,
    /// Of each query: whether nothing comes after its list.
    whole: Vec<bool>,
    state: State,
}

/// What a matching has done so far.
#[derive(Debug, Clone)]
struct State {
    next: BinaryHeap<Next>,
    /// Queries that have nothing queued until they get longer lists, or before the beginning.
    waiting: Vec<usize>,
    places: Vec<usize>,
    taken: Vec<Vec<Candidate>>,
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
            waiting: if limits.query > 0 { (0..count).collect() } else { Vec::new() },
            places: vec![0; count],
            taken: vec![Vec::new(); count],
            given: vec![0; items],
            pairs: 0,
        };
        let whole = lists.iter().map(|list| list.len() >= items).collect();
        Self { limits, lists, whole, state }
    }

    /// Goes on; the queries that need longer lists, lowest first, or none when the matching is done.
    pub fn advance(&mut self) -> Vec<usize> {
        if self.state.pairs >= self.limits.pairs {
            return Vec::new();
        }
        for query in std::mem::take(&mut self.state.waiting) {
            self.queue_or_wait(query);
        }
        let mut short = self.state.waiting.clone();
        // What is done while a query waits is a guess, to find those that will run out next.
        let mut certain = (!short.is_empty()).then(|| self.state.clone());
        while self.state.pairs < self.limits.pairs {
            let Some(Next { query, .. }) = self.state.next.pop() else { break };
            let candidate = self.lists[query][self.state.places[query]];
            let item = candidate.item;
            self.state.places[query] += 1;
            if self.state.given[item] < self.limits.item {
                self.state.given[item] += 1;
                self.state.taken[query].push(candidate);
                self.state.pairs += 1;
            }
            let goes_on = self.state.pairs < self.limits.pairs && self.state.taken[query].len() < self.limits.query;
            if goes_on && !self.queue_or_wait(query) {
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

    /// The items that are not full, lowest first: those that queries that ran out may still get.
    #[must_use]
    pub fn open(&self) -> Vec<usize> {
        (0..self.state.given.len()).filter(|&item| self.state.given[item] < self.limits.item).collect()
    }

    /// How many of the first open items of its ranking a query has in its list still, or has got.
    #[must_use]
    pub fn known(&self, query: usize) -> usize {
        let is_open = |candidate: &&Candidate| self.state.given[candidate.item] < self.limits.item;
        let State { places, taken, .. } = &self.state;
        let left = self.lists[query][places[query]..].iter().filter(is_open).count();
        left + taken[query].iter().filter(is_open).count()
    }

    /// The candidates in the lists of all queries but these.
    #[must_use]
    pub fn held_beside(&self, queries: &[usize]) -> usize {
        let of_these: usize = queries.iter().map(|&query| self.lists[query].len()).sum();
        self.lists.iter().map(Vec::len).sum::<usize>() - of_these
    }

    /// For some queries the first of the open items in their rankings, more than they know, and whether these are all of them.
    /// They take the place of their lists.
    ///
    /// # Panics
    /// A list is no longer than what the query knows, and not all there is.
    pub fn extend(&mut self, longer: impl IntoIterator<Item = (usize, Vec<Candidate>, bool)>) {
        let mut extended = vec![false; self.lists.len()];
        for (query, mut list, whole) in longer {
            assert!(whole || list.len() > self.known(query), "query {query} knows as many candidates already");
            let taken = &self.state.taken[query];
            list.retain(|candidate| taken.iter().all(|taken| taken.item != candidate.item));
            (self.lists[query], self.whole[query], extended[query]) = (list, whole, true);
            self.state.places[query] = 0;
        }
        // What they had next may be full by now.
        self.state.next.retain(|next| !extended[next.query]);
        self.state.waiting.retain(|&query| !extended[query]);
        self.state.waiting.extend((0..extended.len()).filter(|&query| extended[query]));
    }

    /// For every query what it got, in that order; of a matching that is done.
    #[must_use]
    pub fn taken(&self) -> &[Vec<Candidate>] {
        &self.state.taken
    }

    /// Queues the next candidate of a query that can still be given (an item that is full stays full). Without one the query
    /// has to wait if its list is not the whole ranking: then false.
    fn queue_or_wait(&mut self, query: usize) -> bool {
        let State { next, waiting, places, given, .. } = &mut self.state;
        let rest = &self.lists[query][places[query]..];
        places[query] += rest.iter().take_while(|candidate| given[candidate.item] >= self.limits.item).count();
        if let Some(candidate) = self.lists[query].get(places[query]) {
            // −0 and 0 are equal.
            next.push(Next { score: candidate.score + 0.0, query });
            return true;
        }
        let waits = !self.whole[query];
        if waits {
            waiting.push(query);
        }
        !waits
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
