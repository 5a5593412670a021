//! Scores of all images with all captions, and what a gradient in the scores is in the vectors, written out by hand.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

pub use crate::kernels::order::Form;

/// Numbers of the differences of some images and some captions that are held at a time: 1 MiB in f32, which stays in a
/// processor's cache.
const BLOCK: i64 = 1 << 18;

/// The score of an image and a caption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Similarity {
    /// Cosine: the product of unit vectors.
    #[default]
    Cosine,
    /// How little the caption exceeds the image, entry by entry, in the absolute values of unit vectors (order embeddings:
    /// Vendrov et al., ICLR 2016).
    Order {
        /// What is made of the excesses.
        #[serde(default)]
        form: Form,
    },
}

impl Similarity {
    /// Whether encoders give the absolute values of their unit vectors.
    #[must_use]
    pub fn takes_absolute_values(self) -> bool {
        matches!(self, Self::Order { .. })
    }

    /// True if no score is above 0.
    #[must_use]
    pub fn is_never_positive(self) -> bool {
        matches!(self, Self::Order { .. })
    }

    /// Scores `[n, m]` of images `[n, d]` with captions `[m, d]`, higher is closer, without gradient.
    ///
    /// Memory beside the result: none for cosine, 1 MiB (or one difference, if that is more) for order.
    pub fn scores(self, images: &Tensor, captions: &Tensor) -> Tensor {
        tch::no_grad(|| match self {
            Self::Cosine => images.matmul(&captions.tr()),
            Self::Order { form } => {
                let scores = Tensor::empty([images.size()[0], captions.size()[0]], (images.kind(), images.device()));
                for (rows, columns) in blocks(BLOCK, images, captions) {
                    let excesses = excesses(&part(images, &rows), &part(captions, &columns), 1.0);
                    let norms = norms(&excesses);
                    let block = match form {
                        Form::Norm => -norms,
                        Form::Squared => -norms.square(),
                    };
                    part(&scores, &rows).narrow(1, columns.start, columns.end - columns.start).copy_(&block);
                }
                scores
            }
        })
    }

    /// Gradients `[own, d]` in the vectors of the images `own` and of the captions `own`, from the gradient in the scores
    /// `[n, n]` of images `[n, d]` with captions `[n, d]`.
    ///
    /// Where nothing is violated the norm of the violations has a corner; its gradient there is 0.
    ///
    /// Memory beside the result: as [`Similarity::scores`].
    pub fn backward(self, images: &Tensor, captions: &Tensor, d_scores: &Tensor, own: &Range<i64>) -> (Tensor, Tensor) {
        let (own_images, own_captions) = (part(images, own), part(captions, own));
        let (of_images, of_captions) = (part(d_scores, own), part(&d_scores.tr(), own));
        tch::no_grad(|| match self {
            Self::Cosine => (of_images.matmul(captions), of_captions.matmul(images)),
            // A score falls with the caption and rises with the image.
            Self::Order { form } => (
                pull(&own_images, captions, &of_images, 1.0, form),
                pull(&own_captions, images, &of_captions, -1.0, form),
            ),
        })
    }
}

/// `[n, d]`: the gradients in `vectors` `[n, d]` of their scores with `others` `[m, d]`; `sign` is 1 for images and −1
/// for captions.
fn pull(vectors: &Tensor, others: &Tensor, d_scores: &Tensor, sign: f64, form: Form) -> Tensor {
    let result = vectors.zeros_like();
    for (rows, columns) in blocks(BLOCK, vectors, others) {
        let excesses = excesses(&part(vectors, &rows), &part(others, &columns), sign);
        let d_scores = part(d_scores, &rows).narrow(1, columns.start, columns.end - columns.start);
        let slopes = match form {
            Form::Norm => {
                let norms = norms(&excesses);
                (d_scores / &norms).masked_fill(&norms.eq(0.0), 0.0)
            }
            Form::Squared => d_scores * 2.0,
        };
        let _ = part(&result, &rows).g_add_(&(slopes.unsqueeze(1).matmul(&excesses).squeeze_dim(1) * sign));
    }
    result
}

/// `[n, m, d]`: max(0, sign · (other − vector)).
fn excesses(vectors: &Tensor, others: &Tensor, sign: f64) -> Tensor {
    let (vectors, others) = (vectors.unsqueeze(1), others.unsqueeze(0));
    if sign > 0.0 { others - vectors } else { vectors - others }.relu_()
}

/// `[n, m]`: L2 norms of the rows of `[n, m, d]`.
fn norms(excesses: &Tensor) -> Tensor {
    excesses.norm_scalaropt_dim(2, [2i64].as_slice(), false)
}

/// Ranges of rows of two matrices with at most `most` differences of entries, or one row of each.
pub(super) fn blocks(most: i64, rows: &Tensor, columns: &Tensor) -> impl Iterator<Item = (Range<i64>, Range<i64>)> {
    let (n, m, width) = (rows.size()[0], columns.size()[0], rows.size()[1].max(1));
    let wide = (most / width).clamp(1, m.max(1));
    let high = (most / (width * wide)).clamp(1, n.max(1));
    ranges(n, high).flat_map(move |rows| ranges(m, wide).map(move |columns| (rows.clone(), columns)))
}

fn ranges(of: i64, each: i64) -> impl Iterator<Item = Range<i64>> {
    (0..(of + each - 1) / each).map(move |block| block * each..((block + 1) * each).min(of))
}

fn part(matrix: &Tensor, rows: &Range<i64>) -> Tensor {
    matrix.narrow(0, rows.start, rows.end - rows.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    const ALL: [Similarity; 3] =
        [Similarity::Cosine, Similarity::Order { form: Form::Norm }, Similarity::Order { form: Form::Squared }];

    fn vectors(seed: i64, n: i64, width: i64, similarity: Similarity) -> Tensor {
        tch::manual_seed(seed);
        let vectors = Tensor::randn([n, width], (Kind::Double, Device::Cpu));
        let vectors = &vectors / vectors.norm_scalaropt_dim(2, [1i64].as_slice(), true);
        if similarity.takes_absolute_values() { vectors.abs() } else { vectors }
    }

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.contiguous().flatten(0, -1)).expect("f64 values")
    }

    /// The score of two vectors and its gradients in the first and the second, on slices.
    fn plain(image: &[f64], caption: &[f64], similarity: Similarity) -> (f64, Vec<f64>, Vec<f64>) {
        match similarity {
            Similarity::Cosine => {
                (image.iter().zip(caption).map(|(x, c)| x * c).sum(), caption.to_vec(), image.to_vec())
            }
            Similarity::Order { form } => {
                let violations: Vec<f64> = image.iter().zip(caption).map(|(x, c)| (c - x).max(0.0)).collect();
                let sum: f64 = violations.iter().map(|violation| violation * violation).sum();
                let (score, slope) = match form {
                    Form::Norm if sum == 0.0 => (0.0, 0.0),
                    Form::Norm => (-sum.sqrt(), -1.0 / sum.sqrt()),
                    Form::Squared => (-sum, -2.0),
                };
                let in_caption: Vec<f64> = violations.iter().map(|violation| slope * violation).collect();
                (score, in_caption.iter().map(|slope| -slope).collect(), in_caption)
            }
        }
    }

    /// In one block and in many, in both directions, also where vectors are equal.
    #[test]
    fn scores_and_gradients_are_those_of_the_definition() {
        for (n, width, own) in [(1, 3, 0..1), (7, 5, 2..6), (9, 40_000, 0..9), (5, 300_000, 4..5)] {
            for similarity in ALL {
                let (images, captions) = (vectors(1, n, width, similarity), vectors(2, n, width, similarity));
                // An image that is its caption: nothing is violated.
                captions.narrow(0, n - 1, 1).copy_(&images.narrow(0, n - 1, 1));
                let d_scores = vectors(3, n, n, Similarity::Cosine);
                let got = numbers(&similarity.scores(&images, &captions));
                let (d_images, d_captions) = similarity.backward(&images, &captions, &d_scores, &own);
                let (d_images, d_captions) = (numbers(&d_images), numbers(&d_captions));

                let size = |size: i64| usize::try_from(size).expect("a small number");
                let (n, width, own) = (size(n), size(width), size(own.start)..size(own.end));
                let (images, captions, d_scores) = (numbers(&images), numbers(&captions), numbers(&d_scores));
                let mut wanted = [vec![0.0; own.len() * width], vec![0.0; own.len() * width]];
                for (i, image) in images.chunks_exact(width).enumerate() {
                    for (j, caption) in captions.chunks_exact(width).enumerate() {
                        let (score, in_image, in_caption) = plain(image, caption, similarity);
                        assert!((got[i * n + j] - score).abs() < 1e-12, "{similarity:?}");
                        for ((at, slopes), wanted) in [(i, in_image), (j, in_caption)].into_iter().zip(&mut wanted) {
                            if own.contains(&at) {
                                let into = &mut wanted[(at - own.start) * width..][..width];
                                into.iter_mut().zip(slopes).for_each(|(into, s)| *into += d_scores[i * n + j] * s);
                            }
                        }
                    }
                }
                for (got, wanted) in [(d_images, &wanted[0]), (d_captions, &wanted[1])] {
                    assert_eq!(got.len(), wanted.len());
                    let near = |(got, wanted): (&f64, &f64)| (got - wanted).abs() < 1e-10;
                    assert!(got.iter().zip(wanted).all(near), "{similarity:?}");
                }
            }
        }
    }

    /// Against libtorch's automatic differentiation of the formula.
    #[test]
    fn gradients_agree_with_automatic_differentiation() {
        let n = 8;
        for similarity in ALL {
            let leaf = |seed| vectors(seed, n, 6, similarity).set_requires_grad(true);
            let (images, captions) = (leaf(4), leaf(5));
            let d_scores = vectors(6, n, n, Similarity::Cosine);
            let violations =
                (captions.unsqueeze(0) - images.unsqueeze(1)).relu().square().sum_dim_intlist(2, false, None);
            let scores = match similarity {
                Similarity::Cosine => images.mm(&captions.tr()),
                Similarity::Order { form: Form::Norm } => -violations.sqrt(),
                Similarity::Order { form: Form::Squared } => -violations,
            };
            let value = (scores * &d_scores).sum(Kind::Double);
            let wanted = Tensor::run_backward(&[&value], &[&images, &captions], false, false);
            let (d_images, d_captions) = similarity.backward(&images, &captions, &d_scores, &(0..n));
            for (got, wanted) in [(d_images, &wanted[0]), (d_captions, &wanted[1])] {
                assert!((got - wanted).abs().max().double_value(&[]) < 1e-12, "{similarity:?}");
            }
        }
    }

    #[test]
    fn settings_are_read() {
        let read = |text: &str| serde_json::from_str::<Similarity>(text).expect("a similarity");
        assert_eq!(read(r#""cosine""#), Similarity::Cosine);
        assert_eq!(read(r#"{"order":{}}"#), Similarity::Order { form: Form::Norm });
        assert_eq!(read(r#"{"order":{"form":"squared"}}"#), Similarity::Order { form: Form::Squared });
        assert!(serde_json::from_str::<Similarity>(r#"{"order":{"from":"norm"}}"#).is_err());
    }
}
