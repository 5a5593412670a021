//! How a model does on the validation split, by nearest neighbour.

use super::corpus::{Corpus, Validation};
use super::options::Select;
use crate::error::{Error, Result};
use crate::kernels::measure::ncs::{official_ncs, ordered_ncs};
use crate::kernels::top_k::Scored;
use crate::model::family::encode;
use crate::model::family::encoded::Encoded;
use crate::model::scores::ModelScores;
use crate::model::search::Searcher;
use crate::model::training::Training;
use crate::retrieval::{
    Callbacks, Collection, Detail, Evaluation, Label, Matches, Rankings, ScoreSource, VectorSource, WholeScores,
    evaluate,
};
use crate::search::Vectors;
use crate::stage::Cx;
use crate::tables::CUTOFFS;
use crate::tables::summary::Row;

/// φ of every image of the validation split with every caption of it, row-major.
#[derive(Debug)]
pub(super) struct Phi(pub Vec<f32>);

/// How a model did.
#[derive(Debug)]
pub(super) struct Validated {
    /// Recalls, and their sum.
    pub found: Row,
    /// What the best epoch is chosen by.
    pub score: f64,
}

/// Embeds the validation split and ranks it: images look for captions, then captions for images. Of the captions of an
/// image the best placed one counts; images stand in the order of their first caption.
///
/// # Errors
/// Embeddings that are not finite or are 0, or the run was cancelled.
pub(super) fn validate(
    training: &Training,
    select: Select,
    corpus: &Corpus,
    validation: &Validation,
    phi: Option<&Phi>,
    cx: &Cx<'_>,
) -> Result<Validated> {
    let model = training.model();
    let words = validation.words()?;
    let mut blocks = Vec::new();
    if validation.features.is_empty() {
        for places in validation.places.chunks(corpus.together()) {
            blocks.push(encode::images(model, &corpus.images_at(0, places, cx)?)?);
        }
    } else {
        blocks.push(encode::images(model, &validation.features)?);
    }
    let (images, captions) = (Encoded::join(&blocks)?, encode::captions(model, &words)?);
    let Some(similarity) = model.similarity() else {
        let ids = [validation.image_ids.as_slice(), &validation.caption_ids];
        let scores = ModelScores::new(training.config(), model, [images, captions], ids, cx.threads(), cx.cancel())?;
        return rank(collection(validation, &WholeScores(&scores)), select, phi, &|| cx.proceed());
    };
    let (images, captions) = (encode::vectors(&images)?, encode::vectors(&captions)?);
    let width = images.len() / validation.places.len();
    check("images", &images, width)?;
    check("captions", &captions, width)?;
    let factory = &Searcher::new(cx.device(), similarity, cx.threads())?;
    let scores = VectorSource { images: &images, captions: &captions, width, bank: None, factory };
    rank(collection(validation, &scores), select, phi, &|| cx.proceed())
}

/// The split with scores.
fn collection<'c>(validation: &'c Validation, scores: &'c dyn ScoreSource) -> Collection<'c> {
    let Validation { image_ids, caption_ids, image_of, .. } = validation;
    Collection { image_ids, caption_ids, matches: Matches::OfCaptions(image_of), scores }
}

/// Ranks captions for images and images for captions, in one pass.
fn rank(
    collection: Collection<'_>,
    select: Select,
    phi: Option<&Phi>,
    proceed: &dyn Fn() -> Result<()>,
) -> Result<Validated> {
    let lists = if select.wants_relevance() { CUTOFFS.into_iter().max().unwrap_or(0) } else { 0 };
    let mut ranked = Ranked { rankings: None, proceed };
    let detail = Detail::Recalls { lists };
    let results = evaluate(&Evaluation { detail, ..Evaluation::of(collection) }, &mut ranked)?;
    let found = results.summary.into_iter().next();
    let (Some(found), Some([i2t, t2i])) = (found, ranked.rankings) else {
        return Err(Error::internal("a validation split without results"));
    };
    let score = match select {
        Select::Rsum => found.rsum,
        Select::T2i => found.t2i.recalls.iter().sum(),
        Select::Ncs | Select::OrderedNcs => {
            let Phi(phi) = phi.ok_or_else(|| Error::internal("NCS without φ"))?;
            let ncs = if select == Select::OrderedNcs { ordered_ncs } else { official_ncs };
            let (n, m) = (collection.image_ids.len(), collection.caption_ids.len());
            mean_ncs(&i2t, m, ncs, |image, caption| phi[image * m + caption])
                + mean_ncs(&t2i, n, ncs, |caption, image| phi[image * m + caption])
        }
    };
    Ok(Validated { found, score })
}

/// Keeps the rankings, and ends them when the run is cancelled.
struct Ranked<'r> {
    rankings: Option<[Rankings; 2]>,
    proceed: &'r dyn Fn() -> Result<()>,
}

impl Callbacks for Ranked<'_> {
    fn ranked(&mut self, _: &Label, rankings: &[Rankings; 2]) -> Result<()> {
        self.rankings = Some(rankings.clone());
        Ok(())
    }

    fn proceed(&self) -> Result<()> {
        (self.proceed)()
    }
}

/// Refuses vectors that cannot be ranked.
///
/// # Errors
/// Some are not finite, or 0.
fn check(name: &str, values: &[f32], width: usize) -> Result<()> {
    Vectors::new(name, values, width).map(drop).map_err(|error| {
        Error::stage(format!("the embeddings of the validation split cannot be ranked: {error}"))
            .hint("try a lower `learning_rate`")
    })
}

/// The sum of NCS at the cut-offs, in percent, a mean over queries; `phi` of a query and an item.
#[expect(clippy::cast_precision_loss, reason = "a validation split has far fewer than 2^53 queries")]
fn mean_ncs(
    found: &Rankings,
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
    use crate::kernels::measure::recall::{Retrieval, rsum};
    use crate::kernels::order::{Form, order};
    use crate::kernels::sample::Sample;
    use crate::kernels::top_k::top_k;
    use crate::model::similarity::Similarity;
    use crate::runtime::Device;

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
        let ids: Vec<i64> = (0..130).collect();
        let form = Form::Norm;
        for similarity in [Similarity::Cosine, Similarity::Order { form }] {
            let score = |image: usize, caption: usize| {
                let (image, caption) = (&images[image * width..][..width], &captions[caption * width..][..width]);
                if similarity == Similarity::Cosine { dot(image, caption) } else { order(image, caption, form) }
            };
            let i2t: Vec<Vec<f32>> = (0..n).map(|i| (0..m).map(|c| score(i, c)).collect()).collect();
            let t2i: Vec<Vec<f32>> = (0..m).map(|c| (0..n).map(|i| score(i, c)).collect()).collect();
            let all = |of: &[Vec<f32>], matches: &dyn Fn(usize) -> Vec<usize>| {
                let ranks: Vec<_> = of.iter().enumerate().filter_map(|(q, of)| best_rank(of, &matches(q))).collect();
                assert!(ranks.iter().filter(|rank| rank.optimistic < rank.pessimistic).count() > 5, "there are ties");
                Retrieval::of(&ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), &CUTOFFS).expect("queries")
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
                (Select::T2i, recalls[1].recalls.iter().sum()),
                (Select::Ncs, both(official_ncs)),
                (Select::OrderedNcs, both(ordered_ncs)),
            ] {
                let factory = &Searcher::new(Device::Cpu, similarity, 2).expect("a processor");
                let scores = VectorSource { images: &images, captions: &captions, width, bank: None, factory };
                let (image_ids, matches) = (&ids[..n], Matches::OfCaptions(&image_of));
                let collection = Collection { image_ids, caption_ids: &ids, matches, scores: &scores };
                let got = rank(collection, select, Some(&phi), &|| Ok(())).expect("a ranking");
                assert_eq!(got.score.to_bits(), wanted.to_bits(), "{similarity:?} {select:?}");
                for (got, wanted) in [&got.found.i2t, &got.found.t2i].into_iter().zip(&recalls) {
                    assert_eq!(got.recalls, wanted.recalls);
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
            let error = check("images", values, 2).expect_err("bad");
            let text = error.to_string();
            assert!(text.starts_with("the embeddings of the validation split") && text.contains(wanted), "{text}");
            assert_eq!((error.kind(), error.hint_text()), (Kind::Stage, Some("try a lower `learning_rate`")));
        }
    }
}
