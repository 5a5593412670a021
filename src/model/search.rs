//! Exact nearest-neighbour search: fast products to find out what is in doubt, exact ones to settle it.

use std::ops::Range;

use tch::Tensor;

use super::similarity::Similarity;
use crate::error::{Error, Result};
use crate::kernels::dot::{dot, dot_error};
use crate::kernels::measure::rank::{Rank, best_rank_within};
use crate::kernels::order::{order, order_error};
use crate::kernels::top_k::{Scored, top_k_within};

/// Scores held at a time: 32 MiB.
const BLOCK_SCORES: usize = 1 << 23;

/// What a query found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The place of the best matching item; `None` when no item matches.
    pub rank: Option<Rank>,
    /// The best items, best first.
    pub top: Vec<Scored>,
}

/// How queries and items are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scoring {
    /// The score of an image and a caption.
    pub similarity: Similarity,
    /// Which of the two the queries are.
    pub queries: Side,
}

/// One of the two sides of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// Images.
    #[default]
    Images,
    /// Captions.
    Captions,
}

impl Scoring {
    /// The exact score.
    fn exact(self, query: &[f32], item: &[f32]) -> f32 {
        match (self.similarity, self.queries) {
            (Similarity::Cosine, _) => dot(query, item),
            (Similarity::Order { form }, Side::Images) => order(query, item, form.kernel()),
            (Similarity::Order { form }, Side::Captions) => order(item, query, form.kernel()),
        }
    }

    /// How far a score computed in f32 may be from it, for vectors of these norms.
    fn error(self, width: usize, norm_query: f64, norm_item: f64) -> f64 {
        match self.similarity {
            Similarity::Cosine => dot_error(width, norm_query, norm_item),
            Similarity::Order { form } => order_error(width, form.kernel(), norm_query, norm_item),
        }
    }

    /// All scores, computed in f32.
    fn all(self, queries: &Tensor, items: &Tensor) -> Result<Tensor, tch::TchError> {
        match (self.similarity, self.queries) {
            (Similarity::Cosine, _) => queries.f_matmul(&items.f_tr()?),
            (similarity, Side::Images) => Ok(similarity.scores(queries, items)),
            (similarity, Side::Captions) => similarity.scores(items, queries).f_tr()?.f_contiguous(),
        }
    }
}

/// Ranks all of `items` for every one of `queries` by their score, and hands the results to `found` in the order of the
/// queries, together with the query's index.
///
/// Ranks and scores are those of [`dot`] or [`order`], ties going to the lower index. libtorch computes the scores of a block
/// of queries in f32; only items whose score is too close to call, by the bound of [`dot_error`] or [`order_error`], are
/// computed again. So no bit of the result depends on the block size, on threads, or on what libtorch does with a matrix
/// of some shape.
///
/// # Shapes
/// - `queries`: `n_queries × width`, row-major
/// - `items`: `n_items × width`, row-major
/// - `matches(query)`: indices of the items that match the query
/// - `k`: length of [`Found::top`], where there are as many items
///
/// # Errors
/// A slice that is no whole number of vectors, a failure of libtorch, or the first error of `found`.
///
/// # Cost
/// `O(n_queries · n_items · width)` time; beside the arguments a copy of `items` and 64 MiB of memory, or one row of
/// scores where that is more.
pub fn search<'m>(
    scoring: Scoring,
    queries: &[f32],
    items: &[f32],
    width: usize,
    k: usize,
    matches: impl Fn(usize) -> &'m [usize],
    found: impl FnMut(usize, Found) -> Result<()>,
) -> Result<()> {
    let n_items = items.len() / width.max(1);
    let rows = (BLOCK_SCORES / n_items.max(1)).clamp(1, 1024);
    search_in_blocks(rows, scoring, queries, items, width, k, matches, found)
}

#[expect(clippy::too_many_arguments, reason = "the arguments of `search`, and the block size for tests")]
fn search_in_blocks<'m>(
    rows: usize,
    scoring: Scoring,
    queries: &[f32],
    items: &[f32],
    width: usize,
    k: usize,
    matches: impl Fn(usize) -> &'m [usize],
    mut found: impl FnMut(usize, Found) -> Result<()>,
) -> Result<()> {
    if width == 0 || !queries.len().is_multiple_of(width) || !items.len().is_multiple_of(width) {
        return Err(Error::internal(format!(
            "{} and {} values are no whole numbers of vectors of width {width}",
            queries.len(),
            items.len()
        )));
    }
    let n_items = items.len() / width;
    if n_items == 0 {
        let nothing = || Found { rank: None, top: Vec::new() };
        return (0..queries.len() / width).try_for_each(|query| found(query, nothing()));
    }
    let largest = items.chunks_exact(width).map(norm).fold(0.0, f64::max);
    let all_items = matrix(items, width)?;
    let item = |index: usize| &items[vector(index, width)];

    let mut scores = vec![0.0f32; rows.min(queries.len() / width) * n_items];
    for (block, queries) in queries.chunks(rows * width).enumerate() {
        let products = scoring.all(&matrix(queries, width)?, &all_items).map_err(torch)?;
        let count = products.numel();
        products.f_copy_data(&mut scores[..count], count).map_err(torch)?;
        for ((row, query), scores) in queries.chunks_exact(width).enumerate().zip(scores.chunks_exact(n_items)) {
            let index = block * rows + row;
            let error = scoring.error(width, norm(query), largest);
            let exact = |index: usize| scoring.exact(query, item(index));
            let rank = best_rank_within(scores, error, exact, matches(index));
            let top = top_k_within(scores, error, exact, k);
            found(index, Found { rank, top })?;
        }
    }
    Ok(())
}

/// Values of a vector in a row-major matrix.
fn vector(index: usize, width: usize) -> Range<usize> {
    index * width..(index + 1) * width
}

fn norm(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

fn matrix(values: &[f32], width: usize) -> Result<Tensor> {
    let width = i64::try_from(width).map_err(|_| Error::internal("a width fits an i64"))?;
    Tensor::f_from_slice(values).and_then(|tensor| tensor.f_view([-1, width])).map_err(torch)
}

fn torch(error: tch::TchError) -> Error {
    Error::stage(format!("libtorch could not multiply embeddings: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::similarity::Form;
    use super::*;
    use crate::kernels::measure::rank::best_rank;
    use crate::kernels::sample::Sample;
    use crate::kernels::top_k::top_k;

    /// Unit vectors; every fourth one repeats an earlier one, so that there are exact ties.
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    fn vectors(seed: u64, count: usize, width: usize) -> Vec<f32> {
        let mut sample = Sample::new(seed, &[]);
        let mut values: Vec<f32> = Vec::with_capacity(count * width);
        for index in 0..count {
            if index % 4 == 3 {
                values.extend_from_within(vector(index / 2, width));
                continue;
            }
            // Close to each other, as the embeddings of an untrained model are.
            let drawn: Vec<f64> = (0..width).map(|_| 1.0 + 1e-3 * sample.unit()).collect();
            let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
            values.extend(drawn.iter().map(|x| (x / norm) as f32));
        }
        values
    }

    /// The same numbers as the plain definition, bit for bit, in blocks of any size.
    #[test]
    fn ranks_are_those_of_the_definition_whatever_the_block_size() {
        let (width, n_queries, n_items) = (67, 53, 210);
        let (queries, items) = (vectors(1, n_queries, width), vectors(2, n_items, width));
        let matches: Vec<Vec<usize>> = (0..n_queries).map(|q| vec![q * 4 % n_items, (q * 4 + 3) % n_items]).collect();

        let order = |form: Form, image: &[f32], caption: &[f32]| order(image, caption, form.kernel());
        type Plain = Box<dyn Fn(&[f32], &[f32]) -> f32>;
        let mut scorings: Vec<(Scoring, Plain)> = vec![(Scoring::default(), Box::new(dot))];
        for form in [Form::Norm, Form::Squared] {
            let scoring = |queries| Scoring { similarity: Similarity::Order { form }, queries };
            scorings.push((scoring(Side::Images), Box::new(move |query, item| order(form, query, item))));
            scorings.push((scoring(Side::Captions), Box::new(move |query, item| order(form, item, query))));
        }
        for (scoring, score) in scorings {
            let plain: Vec<Found> = queries
                .chunks_exact(width)
                .zip(&matches)
                .map(|(query, matches)| {
                    let scores: Vec<f32> = items.chunks_exact(width).map(|item| score(query, item)).collect();
                    Found { rank: best_rank(&scores, matches), top: top_k(&scores, 10) }
                })
                .collect();
            let ties = plain.iter().filter_map(|f| f.rank).filter(|r| r.optimistic != r.pessimistic).count();
            assert!(ties > 10, "the data must have ties, got {ties}");

            for rows in [1, 2, 7, 52, 53, 1000] {
                let mut got = Vec::new();
                search_in_blocks(
                    rows,
                    scoring,
                    &queries,
                    &items,
                    width,
                    10,
                    |q| &matches[q],
                    |query, found| {
                        assert_eq!(query, got.len());
                        got.push(found);
                        Ok(())
                    },
                )
                .expect("valid input");
                assert_eq!(got, plain, "{scoring:?} in blocks of {rows}");
            }
        }
    }

    #[test]
    fn empty_sides_and_bad_shapes() {
        let mut count = 0;
        search(
            Scoring::default(),
            &[1.0, 0.0],
            &[],
            2,
            3,
            |_| &[],
            |_, found| {
                count += 1;
                assert_eq!(found, Found { rank: None, top: vec![] });
                Ok(())
            },
        )
        .expect("a pool may be empty");
        assert_eq!(count, 1);
        search(Scoring::default(), &[], &[1.0, 0.0], 2, 3, |_| &[], |_, _| Err(Error::internal("no query")))
            .expect("no query, no call");
        assert!(search(Scoring::default(), &[1.0], &[1.0, 0.0], 2, 3, |_| &[], |_, _| Ok(())).is_err());
        assert!(search(Scoring::default(), &[1.0], &[1.0], 0, 3, |_| &[], |_, _| Ok(())).is_err());
    }
}
