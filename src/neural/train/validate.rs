//! Validation: nearest-neighbour retrieval on the validation split.

use super::position::TrainingPosition;
use super::training_data::{TrainingData, ValidationSplit};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::measure::graded_ranking::{official_ncs, ordered_ncs};
use pairloom_kernels::top_k::ScoredItem;
use pairloom_model::device_search::DeviceSearchFactory;
use pairloom_model::family::encode;
use pairloom_model::family::encode::EncodedItems;
use pairloom_model::pair_scores::{CaptionBlocks, PairScoring};
use pairloom_model::training_state::TrainingState;
use pairloom_retrieval::{
    Callbacks, Collection, Evaluation, EvaluationDetail, Matches, MethodLabel, Rankings, ScoreSource, StoredScores,
    VectorSource, evaluate,
};
use pairloom_search::VectorMatrix;
use pairloom_spec::stages::train::SelectionMetric;
use pairloom_stage::{StageContext, ValidationScores};
use pairloom_tables::DEFAULT_CUTOFFS;
use pairloom_tables::summary::SummaryRow;

/// φ of every image of the validation split with every caption of it, row-major.
#[derive(Debug)]
pub(super) struct Phi(pub Vec<f32>);

/// Results of a model on the validation split.
#[derive(Debug)]
pub(super) struct ValidationResult {
    /// Recalls and rsum.
    pub summary: SummaryRow,
    /// Value of the selection metric.
    pub score: f64,
}

impl ValidationResult {
    /// Scores of the epoch that ends at `position`, for the user.
    pub fn scores(
        &self,
        metric: SelectionMetric,
        position: &TrainingPosition,
        loss: f64,
        best: bool,
    ) -> ValidationScores {
        let first = |recalls: &[f64]| std::array::from_fn(|i| recalls.get(i).copied().unwrap_or(0.0));
        ValidationScores {
            epoch: position.epoch,
            step: position.step,
            loss,
            i2t: first(&self.summary.i2t.recalls),
            t2i: first(&self.summary.t2i.recalls),
            rsum: self.summary.rsum,
            selection_metric: metric.name(),
            selection_score: self.score,
            best,
        }
    }
}

/// Embeds the validation split, and evaluates retrieval in both directions. The rank of an image query is that of its
/// best caption.
///
/// # Errors
/// An embedding is not finite or is 0, or the run was cancelled.
pub(super) fn validate(
    training: &TrainingState,
    select: SelectionMetric,
    data: &TrainingData,
    validation: &ValidationSplit,
    phi: Option<&Phi>,
    cx: &StageContext<'_>,
) -> Result<ValidationResult> {
    let model = training.model();
    let (token_ids, values) = (validation.token_ids()?, model.input_spec().values_per_image());
    let mut blocks = Vec::new();
    if validation.features.is_empty() {
        for places in validation.locations.chunks(data.encoding_batch_size()) {
            let images = data.validation_images(places, cx)?;
            blocks.push(encode::images(model, &images, values, cx.cancel())?);
        }
    } else {
        blocks.push(encode::images(model, &validation.features, values, cx.cancel())?);
    }
    let images = EncodedItems::concat(&blocks)?;
    let Some(similarity) = model.similarity() else {
        let ids = [validation.image_ids.as_slice(), &validation.caption_ids];
        let (config, threads) = (training.config(), cx.threads());
        let scoring = PairScoring { config, ids, threads, cancel: cx.cancel() };
        let captions = CaptionBlocks::encode(model, &token_ids, cx.cancel())?;
        let scores = scoring.compute(model, &images, &captions)?;
        let rows: Vec<&[f32]> = scores.chunks_exact(captions.len().max(1)).collect();
        let stored = StoredScores { rows: &rows, captions: captions.len(), bank: None, threads };
        return evaluate_both_directions(collection(validation, &stored), select, phi, &|| cx.check_cancelled());
    };
    let captions = encode::captions(model, &token_ids, cx.cancel())?;
    let (images, captions) = (encode::single_vectors(&images)?, encode::single_vectors(&captions)?);
    let width = images.len() / validation.locations.len();
    check_embeddings("images", &images, width)?;
    check_embeddings("captions", &captions, width)?;
    let factory = &DeviceSearchFactory::new(cx.device(), similarity, cx.threads())?;
    let scores = VectorSource { images: &images, captions: &captions, width, bank: None, factory };
    evaluate_both_directions(collection(validation, &scores), select, phi, &|| cx.check_cancelled())
}

/// Collection of the validation split with these scores.
fn collection<'c>(validation: &'c ValidationSplit, scores: &'c dyn ScoreSource) -> Collection<'c> {
    let ValidationSplit { image_ids, caption_ids, image_of, .. } = validation;
    Collection { image_ids, caption_ids, matches: Matches::ImageOfCaption(image_of), scores }
}

/// Evaluates both directions in one pass over the scores.
fn evaluate_both_directions(
    collection: Collection<'_>,
    select: SelectionMetric,
    phi: Option<&Phi>,
    cancel_check: &dyn Fn() -> Result<()>,
) -> Result<ValidationResult> {
    let lists = if select.needs_relevance() { DEFAULT_CUTOFFS.into_iter().max().unwrap_or(0) } else { 0 };
    let mut ranked = RankingCollector { rankings: None, cancel_check };
    let detail = EvaluationDetail::Recalls { lists };
    let results = evaluate(&Evaluation { detail, ..Evaluation::of(collection) }, &mut ranked)?;
    let summary = results.summary.into_iter().next();
    let (Some(summary), Some([i2t, t2i])) = (summary, ranked.rankings) else {
        return Err(Error::internal("a validation split without results"));
    };
    let score = match select {
        SelectionMetric::Rsum => summary.rsum,
        SelectionMetric::T2i => summary.t2i.recalls.iter().sum(),
        SelectionMetric::R1R5 => {
            let at_1_and_5 = |recalls: &[f64]| recalls.iter().take(2).sum::<f64>();
            at_1_and_5(&summary.i2t.recalls) + at_1_and_5(&summary.t2i.recalls)
        }
        SelectionMetric::Ncs | SelectionMetric::OrderedNcs => {
            let Phi(phi) = phi.ok_or_else(|| Error::internal("NCS without φ"))?;
            let ncs = if select == SelectionMetric::OrderedNcs { ordered_ncs } else { official_ncs };
            let (n, m) = (collection.image_ids.len(), collection.caption_ids.len());
            mean_ncs(&i2t, m, ncs, |image, caption| phi[image * m + caption])
                + mean_ncs(&t2i, n, ncs, |caption, image| phi[image * m + caption])
        }
    };
    Ok(ValidationResult { summary, score })
}

/// Callbacks that keep the rankings, and stop when the run is cancelled.
struct RankingCollector<'r> {
    rankings: Option<[Rankings; 2]>,
    cancel_check: &'r dyn Fn() -> Result<()>,
}

impl Callbacks for RankingCollector<'_> {
    fn add_pool(&mut self, _: &MethodLabel, rankings: &[Rankings; 2]) -> Result<()> {
        self.rankings = Some(rankings.clone());
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        (self.cancel_check)()
    }
}

/// Checks that vectors can be ranked.
///
/// # Errors
/// A vector is not finite, or 0.
fn check_embeddings(name: &str, values: &[f32], width: usize) -> Result<()> {
    VectorMatrix::new(name, values, width).map(drop).map_err(|error| {
        Error::stage(format!("the embeddings of the validation split cannot be ranked: {error}"))
            .hint("try a lower `learning_rate`")
    })
}

/// Returns the mean over queries of the sum of NCS at the cut-offs, in percent. `phi` is φ of a query and an item.
#[expect(clippy::cast_precision_loss, reason = "a validation split has far fewer than 2⁵³ queries")]
fn mean_ncs(
    rankings: &Rankings,
    items: usize,
    ncs: fn(&[f32], &[f32], usize) -> f64,
    phi: impl Fn(usize, usize) -> f32,
) -> f64 {
    let of_query = |(query, top): (usize, &Vec<ScoredItem>)| -> f64 {
        let mut ideal: Vec<f32> = (0..items).map(|item| phi(query, item)).collect();
        ideal.sort_unstable_by(|a, b| b.total_cmp(a));
        let retrieved: Vec<f32> = top.iter().map(|best| phi(query, best.item)).collect();
        DEFAULT_CUTOFFS.into_iter().map(|k| 100.0 * ncs(&retrieved, &ideal, k)).sum()
    };
    rankings.top.iter().enumerate().map(of_query).sum::<f64>() / rankings.top.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;
    use pairloom_base::runtime::Device;
    use pairloom_kernels::distance::dot;
    use pairloom_kernels::measure::recall::{RecallSummary, best_rank, rsum};
    use pairloom_kernels::order_similarity::{OrderPenalty, order_similarity};
    use pairloom_kernels::random::Rng;
    use pairloom_kernels::top_k::top_k;
    use pairloom_spec::similarity::EmbeddingSimilarity;

    /// Bit for bit, with ties, images without captions, and captions of one image that are not adjacent.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn validation_equals_sorting_all_scores() {
        let (n, m, width) = (40, 130, 16);
        let mut rng = Rng::new(6, &[]);
        // Few distinct values, so that scores tie.
        let mut draw =
            |count: usize| -> Vec<f32> { (0..count).map(|_| (1 + rng.uniform_below(3)) as f32 / 8.0).collect() };
        let (images, captions, phi) = (draw(n * width), draw(m * width), Phi(draw(n * m)));
        let image_of: Vec<usize> = (0..m).map(|caption| caption * 7 % (n - 2)).collect();
        let of_image = |image: usize| (0..m).filter(|&caption| image_of[caption] == image).collect();
        let captions_of: Vec<Vec<usize>> = (0..n).map(of_image).collect();
        let ids: Vec<i64> = (0..130).collect();
        let form = OrderPenalty::Norm;
        for similarity in [EmbeddingSimilarity::Cosine, EmbeddingSimilarity::Order { form }] {
            let score = |image: usize, caption: usize| {
                let (image, caption) = (&images[image * width..][..width], &captions[caption * width..][..width]);
                if similarity == EmbeddingSimilarity::Cosine {
                    dot(image, caption)
                } else {
                    order_similarity(image, caption, form)
                }
            };
            let i2t: Vec<Vec<f32>> = (0..n).map(|i| (0..m).map(|c| score(i, c)).collect()).collect();
            let t2i: Vec<Vec<f32>> = (0..m).map(|c| (0..n).map(|i| score(i, c)).collect()).collect();
            let all = |of: &[Vec<f32>], matches: &dyn Fn(usize) -> Vec<usize>| {
                let ranks: Vec<_> = of.iter().enumerate().filter_map(|(q, of)| best_rank(of, &matches(q))).collect();
                assert!(ranks.iter().filter(|rank| rank.optimistic < rank.pessimistic).count() > 5, "there are ties");
                RecallSummary::of(&ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), &DEFAULT_CUTOFFS)
                    .expect("queries")
            };
            let recalls =
                [all(&i2t, &|image| captions_of[image].clone()), all(&t2i, &|caption| vec![image_of[caption]])];
            let ncs = |of: &[Vec<f32>], ncs: fn(&[f32], &[f32], usize) -> f64, phi: &dyn Fn(usize, usize) -> f32| {
                let mut sum = 0.0;
                for (query, scores) in of.iter().enumerate() {
                    let retrieved: Vec<f32> = top_k(scores, 10).iter().map(|best| phi(query, best.item)).collect();
                    let mut ideal: Vec<f32> = (0..scores.len()).map(|item| phi(query, item)).collect();
                    ideal.sort_by(|a, b| b.total_cmp(a));
                    sum += [1, 5, 10].map(|k| 100.0 * ncs(&retrieved, &ideal, k)).iter().sum::<f64>();
                }
                sum / of.len() as f64
            };
            let both = |kind| {
                ncs(&i2t, kind, &|image, caption| phi.0[image * m + caption])
                    + ncs(&t2i, kind, &|caption, image| phi.0[image * m + caption])
            };
            for (metric, expected) in [
                (SelectionMetric::Rsum, rsum(&recalls[0], &recalls[1])),
                (SelectionMetric::T2i, recalls[1].recalls.iter().sum()),
                (
                    SelectionMetric::R1R5,
                    recalls[0].recalls[0] + recalls[0].recalls[1] + (recalls[1].recalls[0] + recalls[1].recalls[1]),
                ),
                (SelectionMetric::Ncs, both(official_ncs)),
                (SelectionMetric::OrderedNcs, both(ordered_ncs)),
            ] {
                let factory = &DeviceSearchFactory::new(Device::Cpu, similarity, 2).expect("a processor");
                let scores = VectorSource { images: &images, captions: &captions, width, bank: None, factory };
                let (image_ids, matches) = (&ids[..n], Matches::ImageOfCaption(&image_of));
                let collection = Collection { image_ids, caption_ids: &ids, matches, scores: &scores };
                let got = evaluate_both_directions(collection, metric, Some(&phi), &|| Ok(())).expect("a ranking");
                assert_eq!(got.score.to_bits(), expected.to_bits(), "{similarity:?} {metric:?}");
                for (got, expected) in [&got.summary.i2t, &got.summary.t2i].into_iter().zip(&recalls) {
                    assert_eq!(got.recalls, expected.recalls);
                }
            }
        }
    }

    #[test]
    fn embeddings_that_cannot_be_ranked_are_a_stage_error() {
        for (values, expected) in [
            (&[0.6, 0.8, f32::NAN, 1.0][..], "`images` row 1: got NaN at 0"),
            (&[0.0, 0.0, 0.6, 0.8], "`images` row 0: got a vector of zeros"),
        ] {
            let error = check_embeddings("images", values, 2).expect_err("bad");
            let text = error.to_string();
            assert!(text.starts_with("the embeddings of the validation split") && text.contains(expected), "{text}");
            assert_eq!(
                (error.category(), error.hint_text()),
                (ErrorCategory::Stage, Some("try a lower `learning_rate`"))
            );
        }
    }
}
