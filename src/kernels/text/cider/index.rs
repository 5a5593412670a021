//! Inverted index of CIDEr: for every n-gram the captions that contain it. The cost of a row depends on the n-grams of
//! the image only.
//!
//! The contribution of an n-gram to φ depends on the caption only through the n-gram's count in it, its length and its
//! norm. So an n-gram has one posting list for each weight. All references of an image are processed together: a table
//! over the distinct caption lengths has the contribution of a posting list before division by the norm, and each list
//! is read once an image, not once a reference.

use super::vectors::ORDERS;
use super::{CiderScorer, order_index, scale};
use crate::text::keep_top;

/// Inverted index: the posting lists of every n-gram.
#[derive(Debug)]
pub struct InvertedIndex {
    /// The lists of n-gram g are `lists[starts[g]..starts[g + 1]]`.
    starts: Vec<u32>,
    lists: Vec<PostingList>,
    /// The captions of all lists, ascending in each.
    captions: Vec<u32>,
    /// The distinct lengths of captions, in bigrams, ascending.
    lengths: Vec<u32>,
    /// Index into `lengths` for each caption.
    classes: Vec<u32>,
    /// `1/‖c_n‖`, indexed by n, then caption.
    inverse_norms: [Vec<f64>; ORDERS],
    /// Twice the sum of the largest relative rounding errors of a sum over the index and of one over a pair.
    error: f64,
}

/// Posting list: the captions in which an n-gram has the same weight.
#[derive(Debug)]
struct PostingList {
    weight: f64,
    order: usize,
    start: usize,
    end: usize,
}

/// Buffers of [`Cider`](super::Cider) that a thread reuses between rows.
#[derive(Debug, Default)]
pub struct CiderScratch {
    sums: Vec<f64>,
    /// N-grams of the references: id, position of the reference, weight, `1/‖r_n‖`.
    entries: Vec<(u32, usize, f64, f64)>,
    /// The length penalty, indexed by reference, then length.
    penalties: Vec<f64>,
    table: Vec<f64>,
    best: Vec<f64>,
}

/// Products below this may have lost digits to underflow.
const TINY: f64 = 1e-200;

impl InvertedIndex {
    pub fn new(scorer: &CiderScorer) -> Self {
        let vectors = &scorer.vectors;
        let all = || (0..vectors.len()).map(|caption| vectors.caption(caption));
        let n_ngrams = all().filter_map(|caption| caption.ngrams.last()).max().map_or(0, |&last| last as usize + 1);

        // Counting sort by n-gram; captions stay ascending.
        let mut ends = vec![0usize; n_ngrams + 1];
        for &id in all().flat_map(|caption| caption.ngrams) {
            ends[id as usize + 1] += 1;
        }
        for id in 0..n_ngrams {
            ends[id + 1] += ends[id];
        }
        let total = ends[n_ngrams];
        let mut postings = vec![(0u32, 0u8, 0.0f64); total];
        for (index, caption) in (0u32..).zip(all()) {
            for ((&id, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
                postings[ends[id as usize]] = (index, n.unsigned_abs(), weight);
                ends[id as usize] += 1;
            }
        }

        let mut starts = Vec::with_capacity(n_ngrams + 1);
        let mut lists: Vec<PostingList> = Vec::new();
        let mut start = 0;
        for &end in &ends[..n_ngrams] {
            starts.push(to_u32(lists.len()));
            postings[start..end].sort_by(|a, b| a.2.total_cmp(&b.2));
            for group in postings[start..end].chunk_by(|a, b| a.2 == b.2) {
                let (_, n, weight) = group[0];
                // N-grams of weight 0 contribute nothing.
                if weight > 0.0 {
                    lists.push(PostingList { weight, order: usize::from(n) - 1, start, end: start + group.len() });
                }
                start += group.len();
            }
        }
        starts.push(to_u32(lists.len()));

        let captions = postings.into_iter().map(|(caption, ..)| caption).collect();
        let mut lengths: Vec<u32> = (0..vectors.len()).map(|caption| scorer.length(caption)).collect();
        let caption_lengths = lengths.clone();
        lengths.sort_unstable();
        lengths.dedup();
        let classes = caption_lengths.iter().map(|length| to_u32(lengths.partition_point(|l| l < length))).collect();
        let inverse_norms = std::array::from_fn(|n| scorer.inverse_norms.iter().map(|norms| norms[n]).collect());

        // All terms are positive, and each is a product of few factors: the relative error of a sum of k is at most
        // (k + 16) · ε.
        let terms = all().map(|caption| caption.ngrams.len()).max().unwrap_or(0)
            * (0..scorer.image_count()).map(|image| scorer.references(image).len()).max().unwrap_or(0);
        let error = 4.0 * f64::from(to_u32(terms.min(1 << 31)) + 16) * f64::EPSILON;
        Self { starts, lists, captions, lengths, classes, inverse_norms, error }
    }

    pub fn row(&self, scorer: &CiderScorer, image: usize, scratch: &mut CiderScratch, values: &mut [f32]) {
        self.sum(scorer, image, scratch);
        let scale = scale(scorer.references(image).len());
        for (value, &sum) in values.iter_mut().zip(&scratch.sums) {
            // `+ 0.0` turns −0 into 0.
            *value = to_f32(sum * scale + 0.0);
        }
        for &caption in scorer.references(image).iter().filter(|&&caption| scorer.leaves_out(image, caption)) {
            values[caption] = to_f32(scorer.pair(image, caption));
        }
    }

    pub fn top_captions(
        &self,
        scorer: &CiderScorer,
        image: usize,
        m: usize,
        scratch: &mut CiderScratch,
    ) -> Vec<(usize, f64)> {
        let m = m.min(scorer.caption_count());
        if m == 0 {
            return Vec::new();
        }
        self.sum(scorer, image, scratch);
        let factor = scale(scorer.references(image).len());
        for &caption in scorer.references(image).iter().filter(|&&caption| scorer.leaves_out(image, caption)) {
            // Divided by the factor, so that it is comparable with the other sums.
            scratch.sums[caption] = if factor > 0.0 { scorer.pair(image, caption) / factor } else { 0.0 };
        }
        let threshold = nth_largest(&scratch.sums, m, &mut scratch.best);
        // A sum that is below the threshold by more than both errors is not among the best. If the threshold is 0, or
        // close to it, every caption is a candidate.
        let threshold = if threshold < TINY { 0.0 } else { threshold * (1.0 - self.error) };
        let candidates = scratch.sums.iter().enumerate().filter(|&(_, &sum)| sum >= threshold);
        let value = |(c, sum): (usize, &f64)| (c, if sum.is_sign_negative() { 0.0 } else { scorer.pair(image, c) });
        let mut best: Vec<(usize, f64)> = candidates.map(value).collect();
        keep_top(&mut best, m);
        best
    }

    /// Computes Σ over references, n and n-grams for every caption, without leaving out a reference. The sum of a
    /// caption that shares no n-gram with the image stays −0, so that the pair need not be recomputed; any term, even
    /// one that underflows, makes it +0 or positive.
    fn sum(&self, scorer: &CiderScorer, image: usize, scratch: &mut CiderScratch) {
        let references = scorer.references(image);
        let CiderScratch { sums, entries, penalties, table, .. } = scratch;
        sums.clear();
        sums.resize(scorer.caption_count(), -0.0);
        entries.clear();
        penalties.clear();
        for (position, &reference) in references.iter().enumerate() {
            let caption = scorer.vectors.caption(reference);
            let norms = scorer.inverse_norms[reference];
            for ((&id, &n), &weight) in caption.ngrams.iter().zip(caption.orders).zip(caption.weights) {
                entries.push((id, position, weight, norms[order_index(n)]));
            }
            let length = scorer.length(reference);
            penalties.extend(self.lengths.iter().map(|&other| scorer.penalty(length.abs_diff(other))));
        }
        entries.sort_unstable_by_key(|&(id, position, ..)| (id, position));
        let lengths = self.lengths.len();
        for occurrences in entries.chunk_by(|a, b| a.0 == b.0) {
            let id = occurrences[0].0 as usize;
            for list in &self.lists[self.starts[id] as usize..self.starts[id + 1] as usize] {
                let add = |class: usize| -> f64 {
                    let terms = occurrences.iter().map(|&(_, position, weight, inverse)| {
                        scorer.product(list.weight, weight) * inverse * penalties[position * lengths + class]
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

/// The `n`-th largest of `values`, for n from 1 to their number. `best` is a buffer.
fn nth_largest(values: &[f64], n: usize, best: &mut Vec<f64>) -> f64 {
    best.clear();
    let mut threshold = f64::NEG_INFINITY;
    let cut = |best: &mut Vec<f64>| {
        best.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a));
        best.truncate(n);
        best[n - 1]
    };
    for &value in values {
        if value > threshold {
            best.push(value);
            if best.len() >= 2 * n {
                threshold = cut(best);
            }
        }
    }
    cut(best)
}

fn to_u32(index: usize) -> u32 {
    u32::try_from(index).expect("2^32 captions or lists of captions do not fit into memory")
}

#[expect(clippy::cast_possible_truncation, reason = "similarities are stored as f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}
