//! Scores of the embeddings of images and captions, with hand-written gradients.

use std::ops::Range;

use tch::Tensor;

use pairloom_spec::similarity::{EmbeddingSimilarity, OrderPenalty};

/// Number of differences of entries that are held at a time: 1 MiB in f32, which stays in a CPU's cache.
const BLOCK: i64 = 1 << 18;

/// Scores of embeddings, and their gradients.
pub trait SimilarityScores {
    /// Computes scores `[n, m]` of images `[n, d]` with captions `[m, d]`, without gradient. Higher is more similar.
    ///
    /// Memory beside the result: none for cosine; 1 MiB for order, or one difference of vectors if that is more.
    fn scores(self, images: &Tensor, captions: &Tensor) -> Tensor;

    /// Computes the gradients `[own, d]` in the vectors of the images `own` and the captions `own` from the gradient in
    /// the scores `[n, n]` of images `[n, d]` with captions `[n, d]`.
    ///
    /// Without violations their norm is not differentiable; its gradient is defined as 0.
    ///
    /// Memory beside the result: as [`Self::scores`].
    fn backward(self, images: &Tensor, captions: &Tensor, d_scores: &Tensor, own: &Range<i64>) -> (Tensor, Tensor);
}

impl SimilarityScores for EmbeddingSimilarity {
    fn scores(self, images: &Tensor, captions: &Tensor) -> Tensor {
        tch::no_grad(|| match self {
            Self::Cosine => images.matmul(&captions.tr()),
            Self::Order { form } => {
                let scores = Tensor::empty([images.size()[0], captions.size()[0]], (images.kind(), images.device()));
                for (rows, columns) in block_ranges(BLOCK, images, captions) {
                    let excesses = violations(&narrow_rows(images, &rows), &narrow_rows(captions, &columns), 1.0);
                    let norms = violation_norms(&excesses);
                    let block = match form {
                        OrderPenalty::Norm => -norms,
                        OrderPenalty::Squared => -norms.square(),
                    };
                    narrow_rows(&scores, &rows).narrow(1, columns.start, columns.end - columns.start).copy_(&block);
                }
                scores
            }
        })
    }

    fn backward(self, images: &Tensor, captions: &Tensor, d_scores: &Tensor, own: &Range<i64>) -> (Tensor, Tensor) {
        let (own_images, own_captions) = (narrow_rows(images, own), narrow_rows(captions, own));
        let (image_rows, caption_rows) = (narrow_rows(d_scores, own), narrow_rows(&d_scores.tr(), own));
        tch::no_grad(|| match self {
            Self::Cosine => (image_rows.matmul(captions), caption_rows.matmul(images)),
            // A score decreases with the caption's entries and increases with the image's.
            Self::Order { form } => (
                order_backward(&own_images, captions, &image_rows, 1.0, form),
                order_backward(&own_captions, images, &caption_rows, -1.0, form),
            ),
        })
    }
}

/// Gradient `[n, d]` in `vectors` `[n, d]` of their order scores with `others` `[m, d]`; `sign` is 1 for images and −1
/// for captions.
fn order_backward(vectors: &Tensor, others: &Tensor, d_scores: &Tensor, sign: f64, form: OrderPenalty) -> Tensor {
    let result = vectors.zeros_like();
    for (rows, columns) in block_ranges(BLOCK, vectors, others) {
        let excesses = violations(&narrow_rows(vectors, &rows), &narrow_rows(others, &columns), sign);
        let d_scores = narrow_rows(d_scores, &rows).narrow(1, columns.start, columns.end - columns.start);
        let slopes = match form {
            OrderPenalty::Norm => {
                let norms = violation_norms(&excesses);
                (d_scores / &norms).masked_fill(&norms.eq(0.0), 0.0)
            }
            OrderPenalty::Squared => d_scores * 2.0,
        };
        let _ = narrow_rows(&result, &rows).g_add_(&(slopes.unsqueeze(1).matmul(&excesses).squeeze_dim(1) * sign));
    }
    result
}

/// Order violations `[n, m, d]`: max(0, sign · (other − vector)).
fn violations(vectors: &Tensor, others: &Tensor, sign: f64) -> Tensor {
    let (vectors, others) = (vectors.unsqueeze(1), others.unsqueeze(0));
    if sign > 0.0 { others - vectors } else { vectors - others }.relu_()
}

/// L2 norms `[n, m]` of the order violations `[n, m, d]`.
fn violation_norms(excesses: &Tensor) -> Tensor {
    excesses.norm_scalaropt_dim(2, [2i64].as_slice(), false)
}

/// Ranges of rows of two matrices with at most `most` differences of entries, but at least one row of each.
pub(super) fn block_ranges(
    most: i64,
    rows: &Tensor,
    columns: &Tensor,
) -> impl Iterator<Item = (Range<i64>, Range<i64>)> {
    let (n, m, width) = (rows.size()[0], columns.size()[0], rows.size()[1].max(1));
    let wide = (most / width).clamp(1, m.max(1));
    let high = (most / (width * wide)).clamp(1, n.max(1));
    ranges(n, high).flat_map(move |rows| ranges(m, wide).map(move |columns| (rows.clone(), columns)))
}

fn ranges(count: i64, each: i64) -> impl Iterator<Item = Range<i64>> {
    (0..(count + each - 1) / each).map(move |block| block * each..((block + 1) * each).min(count))
}

fn narrow_rows(matrix: &Tensor, rows: &Range<i64>) -> Tensor {
    matrix.narrow(0, rows.start, rows.end - rows.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    const ALL: [EmbeddingSimilarity; 3] = [
        EmbeddingSimilarity::Cosine,
        EmbeddingSimilarity::Order { form: OrderPenalty::Norm },
        EmbeddingSimilarity::Order { form: OrderPenalty::Squared },
    ];

    fn vectors(seed: i64, n: i64, width: i64, similarity: EmbeddingSimilarity) -> Tensor {
        tch::manual_seed(seed);
        let vectors = Tensor::randn([n, width], (Kind::Double, Device::Cpu));
        let vectors = &vectors / vectors.norm_scalaropt_dim(2, [1i64].as_slice(), true);
        if similarity.takes_absolute_values() { vectors.abs() } else { vectors }
    }

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.contiguous().flatten(0, -1)).expect("f64 values")
    }

    /// Score of two vectors, and its gradients in the first and in the second, by definition on slices.
    fn plain(image: &[f64], caption: &[f64], similarity: EmbeddingSimilarity) -> (f64, Vec<f64>, Vec<f64>) {
        match similarity {
            EmbeddingSimilarity::Cosine => {
                (image.iter().zip(caption).map(|(x, c)| x * c).sum(), caption.to_vec(), image.to_vec())
            }
            EmbeddingSimilarity::Order { form } => {
                let violations: Vec<f64> = image.iter().zip(caption).map(|(x, c)| (c - x).max(0.0)).collect();
                let sum: f64 = violations.iter().map(|violation| violation * violation).sum();
                let (score, slope) = match form {
                    OrderPenalty::Norm if sum == 0.0 => (0.0, 0.0),
                    OrderPenalty::Norm => (-sum.sqrt(), -1.0 / sum.sqrt()),
                    OrderPenalty::Squared => (-sum, -2.0),
                };
                let in_caption: Vec<f64> = violations.iter().map(|violation| slope * violation).collect();
                (score, in_caption.iter().map(|slope| -slope).collect(), in_caption)
            }
        }
    }

    /// One block and many, both directions, and equal vectors.
    #[test]
    fn scores_and_gradients_are_those_of_the_definition() {
        for (n, width, own) in [(1, 3, 0..1), (7, 5, 2..6), (9, 40_000, 0..9), (5, 300_000, 4..5)] {
            for similarity in ALL {
                let (images, captions) = (vectors(1, n, width, similarity), vectors(2, n, width, similarity));
                // An image that equals its caption has no violations.
                captions.narrow(0, n - 1, 1).copy_(&images.narrow(0, n - 1, 1));
                let d_scores = vectors(3, n, n, EmbeddingSimilarity::Cosine);
                let got = numbers(&similarity.scores(&images, &captions));
                let (d_images, d_captions) = similarity.backward(&images, &captions, &d_scores, &own);
                let (d_images, d_captions) = (numbers(&d_images), numbers(&d_captions));

                let size = |size: i64| usize::try_from(size).expect("a small number");
                let (n, width, own) = (size(n), size(width), size(own.start)..size(own.end));
                let (images, captions, d_scores) = (numbers(&images), numbers(&captions), numbers(&d_scores));
                let mut expected = [vec![0.0; own.len() * width], vec![0.0; own.len() * width]];
                for (i, image) in images.chunks_exact(width).enumerate() {
                    for (j, caption) in captions.chunks_exact(width).enumerate() {
                        let (score, in_image, in_caption) = plain(image, caption, similarity);
                        assert!((got[i * n + j] - score).abs() < 1e-12, "{similarity:?}");
                        for ((at, slopes), expected) in [(i, in_image), (j, in_caption)].into_iter().zip(&mut expected)
                        {
                            if own.contains(&at) {
                                let into = &mut expected[(at - own.start) * width..][..width];
                                into.iter_mut().zip(slopes).for_each(|(into, s)| *into += d_scores[i * n + j] * s);
                            }
                        }
                    }
                }
                for (got, expected) in [(d_images, &expected[0]), (d_captions, &expected[1])] {
                    assert_eq!(got.len(), expected.len());
                    let near = |(got, expected): (&f64, &f64)| (got - expected).abs() < 1e-10;
                    assert!(got.iter().zip(expected).all(near), "{similarity:?}");
                }
            }
        }
    }

    /// Comparison with libtorch's automatic differentiation of the formula.
    #[test]
    fn gradients_agree_with_automatic_differentiation() {
        let n = 8;
        for similarity in ALL {
            let leaf = |seed| vectors(seed, n, 6, similarity).set_requires_grad(true);
            let (images, captions) = (leaf(4), leaf(5));
            let d_scores = vectors(6, n, n, EmbeddingSimilarity::Cosine);
            let violations =
                (captions.unsqueeze(0) - images.unsqueeze(1)).relu().square().sum_dim_intlist(2, false, None);
            let scores = match similarity {
                EmbeddingSimilarity::Cosine => images.mm(&captions.tr()),
                EmbeddingSimilarity::Order { form: OrderPenalty::Norm } => -violations.sqrt(),
                EmbeddingSimilarity::Order { form: OrderPenalty::Squared } => -violations,
            };
            let value = (scores * &d_scores).sum(Kind::Double);
            let expected = Tensor::run_backward(&[&value], &[&images, &captions], false, false);
            let (d_images, d_captions) = similarity.backward(&images, &captions, &d_scores, &(0..n));
            for (got, expected) in [(d_images, &expected[0]), (d_captions, &expected[1])] {
                assert!((got - expected).abs().max().double_value(&[]) < 1e-12, "{similarity:?}");
            }
        }
    }
}
