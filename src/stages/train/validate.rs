//! How a model does on the validation split, by nearest neighbour.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::corpus::{Corpus, Validation};
use crate::error::{Error, Result};
use crate::kernels::measure::ncs::{official_ncs, ordered_ncs};
use crate::kernels::measure::recall::{CUTOFFS, Retrieval, rsum};
use crate::kernels::top_k::Scored;
use crate::model::search::Searcher;
use crate::model::similarity::Similarity;
use crate::model::vse::Vse;
use crate::search::{Answer, Ask, Positives, Side, Vectors, Watch};
use crate::stage::Cx;

/// What the best epoch is chosen by, on the validation split. Of equal epochs the first one is it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// The sum of the six recalls at 1, 5 and 10, as VSE++ and most others.
    #[default]
    Rsum,
    /// The sum of the three recalls of captions that look for images, as Order embeddings.
    T2i,
    /// NCS at 1, 5 and 10 in both directions by φ of `caption_ngrams`, as the published code of SAM on COCO.
    Ncs,
    /// The same with earlier places counting for more, as that code on Flickr30k.
    OrderedNcs,
}

impl Select {
    /// Whether it wants φ of the validation split.
    pub(super) fn wants_relevance(self) -> bool {
        matches!(self, Self::Ncs | Self::OrderedNcs)
    }
}

/// φ of every image of the validation split with every caption of it, row-major.
#[derive(Debug)]
pub(super) struct Phi(pub Vec<f32>);

/// How a model did.
#[derive(Debug)]
pub(super) struct Validated {
    /// Images that look for captions, captions that look for images.
    pub recalls: [Retrieval; 2],
    /// What the best epoch is chosen by.
    pub score: f64,
}

impl Validated {
    /// The sum of the six recalls, percent.
    pub fn rsum(&self) -> f64 {
        let [i2t, t2i] = &self.recalls;
        rsum(i2t, t2i)
    }
}

/// Embeds the validation split and ranks it: images look for captions, then captions for images. Of the captions of an
/// image the best placed one counts; images stand in the order of their first caption.
///
/// # Errors
/// Embeddings that are not finite or are 0, or the run was cancelled.
pub(super) fn validate(
    vse: &Vse,
    similarity: Similarity,
    select: Select,
    corpus: &Corpus,
    validation: &Validation,
    phi: Option<&Phi>,
    cx: &Cx<'_>,
) -> Result<Validated> {
    let Validation { image_of, captions_of, .. } = validation;
    let words = validation.words()?;
    let words: Vec<&[i64]> = words.iter().map(Vec::as_slice).collect();
    let mut images = vse.images(&validation.features)?;
    if validation.features.is_empty() {
        for places in validation.places.chunks(corpus.together()) {
            images.extend(vse.images(&corpus.images_at(0, places, cx)?)?);
        }
    }
    let captions = vse.captions(&words)?;
    let width = vse.form().joint;
    let sides = [vectors("images", &images, width)?, vectors("captions", &captions, width)?];
    let searcher = Searcher::new(cx.device(), similarity, cx.threads())?;
    rank(&sides, searcher, select, (captions_of, image_of), phi, &mut |_, _| cx.proceed())
}

/// Ranks captions for images and images for captions, in one pass.
fn rank(
    [images, captions]: &[Vectors<'_>; 2],
    searcher: Searcher,
    select: Select,
    (captions_of, image_of): (&[Vec<usize>], &[usize]),
    phi: Option<&Phi>,
    watch: Watch<'_>,
) -> Result<Validated> {
    let search = searcher.search(images, captions, Side::Columns)?;
    let k = if select.wants_relevance() { CUTOFFS.into_iter().max().unwrap_or(0) } else { 0 };
    let image_of: Vec<Range<usize>> = image_of.iter().map(|&image| image..image + 1).collect();
    let of_images = Ask { k, positives: Positives::Lists(captions_of), ..Ask::default() };
    let of_captions = Ask { positives: Positives::Ranges(&image_of), ..of_images };
    let [i2t, t2i] = search.find(&of_images, &of_captions, watch)?;
    let recalls = [retrieval(&i2t)?, retrieval(&t2i)?];
    let score = match select {
        Select::Rsum => rsum(&recalls[0], &recalls[1]),
        Select::T2i => recalls[1].recalls().iter().sum(),
        Select::Ncs | Select::OrderedNcs => {
            let Phi(phi) = phi.ok_or_else(|| Error::internal("NCS without φ"))?;
            let ncs = if select == Select::OrderedNcs { ordered_ncs } else { official_ncs };
            let (n, m) = (images.len(), captions.len());
            mean_ncs(&i2t, m, ncs, |image, caption| phi[image * m + caption])
                + mean_ncs(&t2i, n, ncs, |caption, image| phi[image * m + caption])
        }
    };
    Ok(Validated { recalls, score })
}

/// Vectors that can be ranked.
///
/// # Errors
/// Some are not finite, or 0.
fn vectors<'v>(name: &str, values: &'v [f32], width: usize) -> Result<Vectors<'v>> {
    Vectors::new(name, values, width).map_err(|error| {
        Error::stage(format!("the embeddings of the validation split cannot be ranked: {error}"))
            .hint("try a lower `learning_rate`")
    })
}

fn retrieval(found: &Answer) -> Result<Retrieval> {
    let ranks: Vec<usize> = found.ranks.iter().flatten().map(|rank| rank.rank).collect();
    Retrieval::of(&ranks).ok_or_else(|| Error::internal("a validation split without queries"))
}

/// The sum of NCS at the cut-offs, in percent, a mean over queries; `phi` of a query and an item.
#[expect(clippy::cast_precision_loss, reason = "a validation split has far fewer than 2^53 queries")]
fn mean_ncs(
    found: &Answer,
    items: usize,
    ncs: fn(&[f32], &[f32], usize) -> f64,
    phi: impl Fn(usize, usize) -> f32,
) -> f64 {
    let of_query = |(query, top): (usize, &Vec<Scored>)| -> f64 {
        let mut ideal: Vec<f32> = (0..items).map(|item| phi(query, item)).collect();
        ideal.sort_unstable_by(|a, b| b.total_cmp(a));
        let found: Vec<f32> = top.iter().map(|best| phi(query, best.item)).collect();
        CUTOFFS.into_iter().map(|k| 100.0 * ncs(&found, &ideal, k)).sum()
    };
    found.top.iter().enumerate().map(of_query).sum::<f64>() / found.top.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use crate::kernels::dot::dot;
    use crate::kernels::measure::rank::best_rank;
    use crate::kernels::order::order;
    use crate::kernels::sample::Sample;
    use crate::kernels::top_k::top_k;
    use crate::model::similarity::Form;
    use crate::stage::Device;

    /// Bit for bit, with ties, images without captions, and captions of an image apart from each other.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn validation_is_what_sorting_all_scores_says() {
        let (n, m, width) = (40, 130, 16);
        let mut sample = Sample::new(6, &[]);
        // Of few levels, so that scores are equal.
        let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| (1 + sample.below(3)) as f32 / 8.0).collect() };
        let (images, captions, phi) = (draw(n * width), draw(m * width), Phi(draw(n * m)));
        let image_of: Vec<usize> = (0..m).map(|caption| caption * 7 % (n - 2)).collect();
        let of_image = |image: usize| (0..m).filter(|&caption| image_of[caption] == image).collect();
        let captions_of: Vec<Vec<usize>> = (0..n).map(of_image).collect();
        let sides = [("images", &images), ("captions", &captions)]
            .map(|(name, side)| vectors(name, side, width).expect("good"));
        let form = Form::Norm;
        for similarity in [Similarity::Cosine, Similarity::Order { form }] {
            let score = |image: usize, caption: usize| {
                let (image, caption) = (sides[0].row(image), sides[1].row(caption));
                if similarity == Similarity::Cosine {
                    dot(image, caption)
                } else {
                    order(image, caption, form.kernel())
                }
            };
            let i2t: Vec<Vec<f32>> = (0..n).map(|i| (0..m).map(|c| score(i, c)).collect()).collect();
            let t2i: Vec<Vec<f32>> = (0..m).map(|c| (0..n).map(|i| score(i, c)).collect()).collect();
            let all = |of: &[Vec<f32>], matches: &dyn Fn(usize) -> Vec<usize>| {
                let ranks: Vec<_> = of.iter().enumerate().filter_map(|(q, of)| best_rank(of, &matches(q))).collect();
                assert!(ranks.iter().filter(|rank| rank.optimistic < rank.pessimistic).count() > 5, "there are ties");
                Retrieval::of(&ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>()).expect("queries")
            };
            let recalls =
                [all(&i2t, &|image| captions_of[image].clone()), all(&t2i, &|caption| vec![image_of[caption]])];
            let ncs = |of: &[Vec<f32>], ncs: fn(&[f32], &[f32], usize) -> f64, phi: &dyn Fn(usize, usize) -> f32| {
                let mut sum = 0.0;
                for (query, scores) in of.iter().enumerate() {
                    let found: Vec<f32> = top_k(scores, 10).iter().map(|best| phi(query, best.item)).collect();
                    let mut ideal: Vec<f32> = (0..scores.len()).map(|item| phi(query, item)).collect();
                    ideal.sort_by(|a, b| b.total_cmp(a));
                    sum += [1, 5, 10].map(|k| 100.0 * ncs(&found, &ideal, k)).iter().sum::<f64>();
                }
                sum / of.len() as f64
            };
            let both = |kind| {
                ncs(&i2t, kind, &|image, caption| phi.0[image * m + caption])
                    + ncs(&t2i, kind, &|caption, image| phi.0[image * m + caption])
            };
            for (select, wanted) in [
                (Select::Rsum, rsum(&recalls[0], &recalls[1])),
                (Select::T2i, recalls[1].recalls().iter().sum()),
                (Select::Ncs, both(official_ncs)),
                (Select::OrderedNcs, both(ordered_ncs)),
            ] {
                let searcher = Searcher::new(Device::Cpu, similarity, 2).expect("a processor");
                let places = (captions_of.as_slice(), image_of.as_slice());
                let got = rank(&sides, searcher, select, places, Some(&phi), &mut |_, _| Ok(())).expect("a ranking");
                assert_eq!(got.score.to_bits(), wanted.to_bits(), "{similarity:?} {select:?}");
                for (got, wanted) in got.recalls.iter().zip(&recalls) {
                    assert_eq!(got.recalls().map(f64::to_bits), wanted.recalls().map(f64::to_bits));
                }
            }
        }
    }

    #[test]
    fn embeddings_that_nobody_can_rank_are_the_trainings_fault() {
        for (values, wanted) in [
            (&[0.6, 0.8, f32::NAN, 1.0][..], "`images` row 1: got NaN at 0"),
            (&[0.0, 0.0, 0.6, 0.8], "`images` row 0: got a vector of zeros"),
        ] {
            let error = vectors("images", values, 2).expect_err("bad");
            let text = error.to_string();
            assert!(text.starts_with("the embeddings of the validation split") && text.contains(wanted), "{text}");
            assert_eq!((error.kind(), error.hint_text()), (Kind::Stage, Some("try a lower `learning_rate`")));
        }
    }
}
