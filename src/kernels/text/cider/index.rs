//! The inverted index: for every n-gram the captions that have it, so that a row costs what the image's own n-grams cost.
//!
//! What an n-gram adds to φ depends on the caption only through its count, its length and its norm. So the captions of an
//! n-gram are kept in one list a weight, and all references of an image are taken together: one table over the lengths
//! that captions have says what the list adds, before the norm, and the list is read once an image, not once a reference.

use super::measure::{Pairs, order, scale};
use super::ngrams::ORDERS;
use crate::similarity::best_first;

/// The captions of every n-gram.
#[derive(Debug)]
pub struct Index {
    /// Lists of n-gram g: `lists[starts[g]..starts[g + 1]]`.
    starts: Vec<u32>,
    lists: Vec<List>,
    /// The captions of all lists, ascending in each.
    captions: Vec<u32>,
    /// The different lengths of captions, in bigrams, ascending.
    lengths: Vec<u32>,
    /// Which of these lengths a caption has.
    classes: Vec<u32>,
    /// `1/‖c_n‖` by n, then caption.
    inverse_norms: [Vec<f64>; ORDERS],
    /// Twice the largest relative error of a sum over the index and over the pair.
    error: f64,
}

/// Captions in which an n-gram has one weight.
#[derive(Debug)]
struct List {
    weight: f64,
    order: usize,
    start: usize,
    end: usize,
}

/// What a thread keeps between rows.
#[derive(Debug, Default)]
pub struct Scratch {
    sums: Vec<f64>,
    /// One entry an n-gram of a reference: number, place of the reference, weight, `1/‖r_n‖`.
    entries: Vec<(u32, usize, f64, f64)>,
    /// The penalty by reference, then length.
    penalties: Vec<f64>,
    table: Vec<f64>,
    best: Vec<f64>,
}

/// Below this, products may have lost digits to underflow.
const TINY: f64 = 1e-200;

impl Index {
    pub fn new(pairs: &Pairs) -> Self {
        let vectors = &pairs.vectors;
        let all = || (0..vectors.len()).map(|caption| vectors.caption(caption));
        let numbers = all().filter_map(|caption| caption.ngrams.last()).max().map_or(0, |&last| last as usize + 1);

        // Sorted by n-gram with one pass to count and one to place; captions stay ascending.
        let mut ends = vec![0usize; numbers + 1];
        for &number in all().flat_map(|caption| caption.ngrams) {
            ends[number as usize + 1] += 1;
        }
        for number in 0..numbers {
            ends[number + 1] += ends[number];
        }
        let total = ends[numbers];
        let mut places = vec![(0u32, 0u8, 0.0f64); total];
        for (index, caption) in (0u32..).zip(all()) {
            for ((&number, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
                places[ends[number as usize]] = (index, n.unsigned_abs(), weight);
                ends[number as usize] += 1;
            }
        }

        let mut starts = Vec::with_capacity(numbers + 1);
        let mut lists: Vec<List> = Vec::new();
        let mut start = 0;
        for &end in &ends[..numbers] {
            starts.push(small(lists.len()));
            places[start..end].sort_by(|a, b| a.2.total_cmp(&b.2));
            for group in places[start..end].chunk_by(|a, b| a.2 == b.2) {
                let (_, n, weight) = group[0];
                // An n-gram that weighs nothing adds nothing.
                if weight > 0.0 {
                    lists.push(List { weight, order: usize::from(n) - 1, start, end: start + group.len() });
                }
                start += group.len();
            }
        }
        starts.push(small(lists.len()));

        let captions = places.into_iter().map(|(caption, ..)| caption).collect();
        let mut lengths: Vec<u32> = (0..vectors.len()).map(|caption| pairs.length(caption)).collect();
        let own = lengths.clone();
        lengths.sort_unstable();
        lengths.dedup();
        let classes = own.iter().map(|length| small(lengths.partition_point(|l| l < length))).collect();
        let inverse_norms = std::array::from_fn(|n| pairs.inverse_norms.iter().map(|norms| norms[n]).collect());

        // All terms are positive: a sum of k of them, each the product of few factors, errs by at most (k + 16) units.
        let terms = all().map(|caption| caption.ngrams.len()).max().unwrap_or(0)
            * (0..pairs.images()).map(|image| pairs.references(image).len()).max().unwrap_or(0);
        let error = 4.0 * f64::from(small(terms.min(1 << 31)) + 16) * f64::EPSILON;
        Self { starts, lists, captions, lengths, classes, inverse_norms, error }
    }

    pub fn row(&self, pairs: &Pairs, image: usize, scratch: &mut Scratch, values: &mut [f32]) {
        self.sum(pairs, image, scratch);
        let scale = scale(pairs.references(image).len());
        for (value, &sum) in values.iter_mut().zip(&scratch.sums) {
            // `+ 0.0` takes the sign from a zero.
            *value = single(sum * scale + 0.0);
        }
        for &caption in pairs.references(image).iter().filter(|&&caption| pairs.leaves_out(image, caption)) {
            values[caption] = single(pairs.pair(image, caption));
        }
    }

    pub fn top(&self, pairs: &Pairs, image: usize, m: usize, scratch: &mut Scratch) -> Vec<(usize, f64)> {
        let m = m.min(pairs.captions());
        if m == 0 {
            return Vec::new();
        }
        self.sum(pairs, image, scratch);
        let factor = scale(pairs.references(image).len());
        for &caption in pairs.references(image).iter().filter(|&&caption| pairs.leaves_out(image, caption)) {
            // In units of the other sums, so that they compare.
            scratch.sums[caption] = if factor > 0.0 { pairs.pair(image, caption) / factor } else { 0.0 };
        }
        let bar = nth_largest(&scratch.sums, m, &mut scratch.best);
        // What is further below the bar than both errors cannot be among the best. Where the bar is 0, or next to it, all
        // are in question.
        let bar = if bar < TINY { 0.0 } else { bar * (1.0 - self.error) };
        let candidates = scratch.sums.iter().enumerate().filter(|&(_, &sum)| sum >= bar);
        let value = |(c, sum): (usize, &f64)| (c, if sum.is_sign_negative() { 0.0 } else { pairs.pair(image, c) });
        let mut best: Vec<(usize, f64)> = candidates.map(value).collect();
        best_first(&mut best, m);
        best
    }

    /// Σ over references, n and n-grams for every caption, no reference left out. A caption that shares nothing with the
    /// image keeps −0, so that nobody has to look at the pair again; any term, even one that underflows, makes it +0.
    fn sum(&self, pairs: &Pairs, image: usize, scratch: &mut Scratch) {
        let references = pairs.references(image);
        let Scratch { sums, entries, penalties, table, .. } = scratch;
        sums.clear();
        sums.resize(pairs.captions(), -0.0);
        entries.clear();
        penalties.clear();
        for (place, &reference) in references.iter().enumerate() {
            let caption = pairs.vectors.caption(reference);
            let norms = pairs.inverse_norms[reference];
            for ((&number, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
                entries.push((number, place, weight, norms[order(n)]));
            }
            let length = pairs.length(reference);
            penalties.extend(self.lengths.iter().map(|&other| pairs.penalty(length.abs_diff(other))));
        }
        entries.sort_unstable_by_key(|&(number, place, ..)| (number, place));
        let lengths = self.lengths.len();
        for same in entries.chunk_by(|a, b| a.0 == b.0) {
            let number = same[0].0 as usize;
            for list in &self.lists[self.starts[number] as usize..self.starts[number + 1] as usize] {
                let add = |class: usize| -> f64 {
                    let terms = same.iter().map(|&(_, place, weight, inverse)| {
                        pairs.product(list.weight, weight) * inverse * penalties[place * lengths + class]
                    });
                    terms.sum()
                };
                let captions = &self.captions[list.start..list.end];
                let norms = &self.inverse_norms[list.order];
                if captions.len() > lengths {
                    table.clear();
                    table.extend((0..lengths).map(add));
                    for &caption in captions {
                        let caption = caption as usize;
                        sums[caption] += table[self.classes[caption] as usize] * norms[caption];
                    }
                } else {
                    for &caption in captions {
                        let caption = caption as usize;
                        sums[caption] += add(self.classes[caption] as usize) * norms[caption];
                    }
                }
            }
        }
    }
}

/// The `n`-th largest of `values`, n from 1 to their number; what is kept in `best` does not matter.
fn nth_largest(values: &[f64], n: usize, best: &mut Vec<f64>) -> f64 {
    best.clear();
    let mut bar = f64::NEG_INFINITY;
    let cut = |best: &mut Vec<f64>| {
        best.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a));
        best.truncate(n);
        best[n - 1]
    };
    for &value in values {
        if value > bar {
            best.push(value);
            if best.len() >= 2 * n {
                bar = cut(best);
            }
        }
    }
    cut(best)
}

fn small(index: usize) -> u32 {
    u32::try_from(index).expect("2^32 captions or lists of captions do not fit into memory")
}

#[expect(clippy::cast_possible_truncation, reason = "similarities are kept in single precision")]
fn single(value: f64) -> f32 {
    value as f32
}
