//! Synthetic pool with its exact scores, for the tests of methods.

use super::Method;
use crate::{
    Callbacks, Collection, Evaluation, EvaluationResults, ImageCaptionVectors, Matches, MethodLabel, Rankings,
    ScoreSource, StoredBankScores, StoredScores, VectorSource, evaluate,
};
use pairloom_base::error::Result;
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::random::Rng;
use pairloom_search::CpuSearchFactory;

const WIDTH: usize = 6;
/// Number of captions of an image.
pub(crate) const CAPTIONS_PER_IMAGE: usize = 3;

/// Random unit vectors around a common direction, so that there are hubs.
#[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
fn vectors(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = Rng::new(seed, &[]);
    let mut vector = || -> Vec<f32> {
        let drawn: Vec<f64> = (0..WIDTH).map(|_| 0.4 + 2.0 * rng.uniform() - 1.0).collect();
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        drawn.iter().map(|x| (x / norm) as f32).collect()
    };
    (0..count).flat_map(|_| vector()).collect()
}

/// Vectors of 12 images with three captions each, and of a query bank of 9 images with two captions each.
pub(crate) struct SyntheticPool {
    images: Vec<f32>,
    captions: Vec<f32>,
    bank_images: Vec<f32>,
    bank_captions: Vec<f32>,
}

/// Results and rankings of several methods.
pub(crate) struct MethodRankings {
    pub(crate) results: EvaluationResults,
    /// Rankings of each method: image to text, text to image.
    pub(crate) rankings: Vec<[Rankings; 2]>,
}

impl Callbacks for Vec<[Rankings; 2]> {
    fn add_pool(&mut self, _: &MethodLabel, rankings: &[Rankings; 2]) -> Result<()> {
        self.push(rankings.clone());
        Ok(())
    }
}

impl SyntheticPool {
    pub(crate) fn new() -> Self {
        Self {
            images: vectors(1, 12),
            captions: vectors(3, 36),
            bank_images: vectors(2, 9),
            bank_captions: vectors(4, 18),
        }
    }

    /// Ranks by each method.
    pub(crate) fn evaluate(&self, methods: &[Method], cutoffs: &[usize]) -> Result<MethodRankings> {
        let bank = ImageCaptionVectors::new(&self.bank_images, &self.bank_captions, WIDTH, " of the bank")?;
        let factory = &CpuSearchFactory { order: None, threads: 2 };
        let (images, captions) = (&self.images, &self.captions);
        let scores = VectorSource { images, captions, width: WIDTH, bank: Some(&bank), factory };
        Self::evaluate_source(&scores, methods, cutoffs)
    }

    /// Ranks by each method, by stored scores of all pairs and of a query bank, which are those of the vectors.
    pub(crate) fn evaluate_stored(&self, methods: &[Method], cutoffs: &[usize]) -> Result<MethodRankings> {
        let stored = |images: &[f32], captions: &[f32]| -> Vec<Vec<f32>> {
            let rows = |values: &'_ [f32]| values.chunks_exact(WIDTH).map(<[f32]>::to_vec).collect::<Vec<_>>();
            let (images, captions) = (rows(images), rows(captions));
            images.iter().map(|image| captions.iter().map(|caption| rounded(image, caption)).collect()).collect()
        };
        let all = [
            stored(&self.images, &self.captions),
            stored(&self.bank_images, &self.captions),
            stored(&self.images, &self.bank_captions),
            stored(&self.bank_images, &self.bank_captions),
        ];
        let [own, images, captions, pairs] =
            all.each_ref().map(|rows| rows.iter().map(Vec::as_slice).collect::<Vec<&[f32]>>());
        let bank = StoredBankScores { images: &images, captions: &captions, pairs: Some(&pairs) };
        let scores = StoredScores { rows: &own, captions: 36, bank: Some(bank), threads: 2 };
        Self::evaluate_source(&scores, methods, cutoffs)
    }

    fn evaluate_source(scores: &dyn ScoreSource, methods: &[Method], cutoffs: &[usize]) -> Result<MethodRankings> {
        let ids: Vec<i64> = (0..36).collect();
        let first: Vec<usize> = (0..=12).map(|image| image * CAPTIONS_PER_IMAGE).collect();
        let matches = Matches::Grouped(&first);
        let collection = Collection { image_ids: &ids[..12], caption_ids: &ids, matches, scores };
        let evaluation = Evaluation { methods, cutoffs, bank: Some("train"), ..Evaluation::of(collection) };
        let mut rankings = Vec::new();
        let results = evaluate(&evaluation, &mut rankings)?;
        Ok(MethodRankings { results, rankings })
    }
}

/// Exact scores of one direction, as dense matrices.
pub(crate) struct ReferenceScores<'d> {
    /// Scores of the queries with the items.
    pub(crate) test: DenseScores,
    /// Scores of the bank's queries with the items.
    pub(crate) bank: DenseScores,
    /// Scores of the queries with the bank's items.
    pub(crate) with_bank_items: DenseScores,
    /// Scores of the bank's items with the items.
    pub(crate) bank_items: DenseScores,
    /// Scores of the bank's queries with the bank's items.
    pub(crate) within_bank: DenseScores,
    pub(crate) queries: Vec<&'d [f32]>,
    pub(crate) items: Vec<&'d [f32]>,
    /// Distance of the scores.
    pub(crate) distance: Distance,
}

impl<'d> ReferenceScores<'d> {
    pub(crate) fn both_directions(data: &'d SyntheticPool) -> [Self; 2] {
        let rows = |values: &'d [f32]| -> Vec<&'d [f32]> { values.chunks_exact(WIDTH).collect() };
        let (images, captions) = (rows(&data.images), rows(&data.captions));
        let (bank_images, bank_captions) = (rows(&data.bank_images), rows(&data.bank_captions));
        let side = |queries: &[&'d [f32]],
                    items: &[&'d [f32]],
                    bank_query_vectors: &[&[f32]],
                    bank_item_vectors: &[&[f32]]| Self {
            test: matrix(queries, items),
            bank: matrix(bank_query_vectors, items),
            with_bank_items: matrix(queries, bank_item_vectors),
            bank_items: matrix(bank_item_vectors, items),
            within_bank: matrix(bank_query_vectors, bank_item_vectors),
            queries: queries.to_vec(),
            items: items.to_vec(),
            distance: Distance::Cosine,
        };
        [side(&images, &captions, &bank_images, &bank_captions), side(&captions, &images, &bank_captions, &bank_images)]
    }

    /// The same scores rounded to f32, without vectors.
    pub(crate) fn stored(mut self) -> Self {
        let all =
            [&mut self.test, &mut self.bank, &mut self.with_bank_items, &mut self.bank_items, &mut self.within_bank];
        for value in all.into_iter().flat_map(|scores| &mut scores.values) {
            *value = f64::from(round(*value));
        }
        Self { distance: Distance::OneMinusScore, ..self }
    }

    /// Scores of the bank's queries with the items if `bank` is true.
    pub(crate) fn bank_if(&self, bank: bool) -> Option<&DenseScores> {
        bank.then_some(&self.bank)
    }

    /// Scores of the items with the items.
    pub(crate) fn among_items(&self) -> DenseScores {
        matrix(&self.items, &self.items)
    }

    /// Scores minus a shift of each item.
    pub(crate) fn minus_item_shifts(&self, h: &[f64]) -> DenseScores {
        DenseScores::from_fn(self.test.queries, self.test.items, |q, i| self.test.at(q, i) - h[i])
    }
}

fn matrix(queries: &[&[f32]], items: &[&[f32]]) -> DenseScores {
    DenseScores::from_fn(queries.len(), items.len(), |q, i| product(queries[q], items[i]))
}

fn product(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

#[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
fn round(score: f64) -> f32 {
    score as f32
}

fn rounded(one: &[f32], other: &[f32]) -> f32 {
    round(product(one, other))
}
