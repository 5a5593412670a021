//! A small pool with a bank, and the matrices that definitions are written on.

use crate::error::Result;
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::sample::Sample;
use crate::retrieval::{
    Callbacks, Collection, Evaluation, Label, Matches, Method, Rankings, Results, VectorPair, VectorSource, evaluate,
};
use crate::search::Processor;

const WIDTH: usize = 6;
/// Captions of an image.
pub(in crate::retrieval) const EACH: usize = 3;

/// Unit vectors around a common direction, so that there are hubs.
#[expect(clippy::cast_possible_truncation, reason = "f32 is what embeddings are")]
fn vectors(seed: u64, count: usize) -> Vec<f32> {
    let mut sample = Sample::new(seed, &[]);
    let mut vector = || -> Vec<f32> {
        let drawn: Vec<f64> = (0..WIDTH).map(|_| 0.4 + 2.0 * sample.unit() - 1.0).collect();
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        drawn.iter().map(|x| (x / norm) as f32).collect()
    };
    (0..count).flat_map(|_| vector()).collect()
}

/// 12 images with three captions each, and a bank of 9 with two.
pub(in crate::retrieval) struct Data {
    images: Vec<f32>,
    captions: Vec<f32>,
    bank_images: Vec<f32>,
    bank_captions: Vec<f32>,
}

/// Results and rankings of methods.
pub(in crate::retrieval) struct Found {
    pub(in crate::retrieval) results: Results,
    /// By method: image to text, text to image.
    pub(in crate::retrieval) rankings: Vec<[Rankings; 2]>,
}

impl Callbacks for Vec<[Rankings; 2]> {
    fn ranked(&mut self, _: &Label, rankings: &[Rankings; 2]) -> Result<()> {
        self.push(rankings.clone());
        Ok(())
    }
}

impl Data {
    pub(in crate::retrieval) fn new() -> Self {
        Self {
            images: vectors(1, 12),
            captions: vectors(3, 36),
            bank_images: vectors(2, 9),
            bank_captions: vectors(4, 18),
        }
    }

    /// Ranks by methods.
    pub(in crate::retrieval) fn evaluate(&self, methods: &[Method], cutoffs: &[usize]) -> Result<Found> {
        let bank = VectorPair::new(&self.bank_images, &self.bank_captions, WIDTH, " of the bank")?;
        let factory = &Processor { order: None, threads: 2 };
        let (images, captions) = (&self.images, &self.captions);
        let scores = VectorSource { images, captions, width: WIDTH, bank: Some(&bank), factory };
        let ids: Vec<i64> = (0..36).collect();
        let first: Vec<usize> = (0..=12).map(|image| image * EACH).collect();
        let matches = Matches::Grouped(&first);
        let collection = Collection { image_ids: &ids[..12], caption_ids: &ids, matches, scores: &scores };
        let evaluation = Evaluation { methods, cutoffs, bank: Some("train"), ..Evaluation::of(collection) };
        let mut rankings = Vec::new();
        let results = evaluate(&evaluation, &mut rankings)?;
        Ok(Found { results, rankings })
    }
}

/// Matrices of scores of one direction.
pub(in crate::retrieval) struct Sides<'d> {
    /// Scores of the queries with the items.
    pub(in crate::retrieval) test: Matrix,
    /// Scores of the bank's queries with the items.
    pub(in crate::retrieval) bank: Matrix,
    /// Scores of the queries with the bank's items.
    pub(in crate::retrieval) of_queries: Matrix,
    /// Scores of the bank's items with the items.
    pub(in crate::retrieval) bank_items: Matrix,
    /// Scores of the bank's queries with the bank's items.
    pub(in crate::retrieval) within: Matrix,
    pub(in crate::retrieval) queries: Vec<&'d [f32]>,
    pub(in crate::retrieval) items: Vec<&'d [f32]>,
}

impl<'d> Sides<'d> {
    pub(in crate::retrieval) fn both(data: &'d Data) -> [Self; 2] {
        let rows = |values: &'d [f32]| -> Vec<&'d [f32]> { values.chunks_exact(WIDTH).collect() };
        let (images, captions) = (rows(&data.images), rows(&data.captions));
        let (bank_images, bank_captions) = (rows(&data.bank_images), rows(&data.bank_captions));
        let side = |queries: &[&'d [f32]], items: &[&'d [f32]], of_queries: &[&[f32]], of_items: &[&[f32]]| Self {
            test: matrix(queries, items),
            bank: matrix(of_queries, items),
            of_queries: matrix(queries, of_items),
            bank_items: matrix(of_items, items),
            within: matrix(of_queries, of_items),
            queries: queries.to_vec(),
            items: items.to_vec(),
        };
        [side(&images, &captions, &bank_images, &bank_captions), side(&captions, &images, &bank_captions, &bank_images)]
    }

    /// The bank's scores, where a method learns from a bank.
    pub(in crate::retrieval) fn bank_if(&self, bank: bool) -> Option<&Matrix> {
        bank.then_some(&self.bank)
    }

    /// Scores of the items with each other.
    pub(in crate::retrieval) fn among_items(&self) -> Matrix {
        matrix(&self.items, &self.items)
    }

    /// `s − h`.
    pub(in crate::retrieval) fn less(&self, h: &[f64]) -> Matrix {
        Matrix::from_fn(self.test.queries, self.test.items, |q, i| self.test.at(q, i) - h[i])
    }
}

fn matrix(queries: &[&[f32]], items: &[&[f32]]) -> Matrix {
    Matrix::from_fn(queries.len(), items.len(), |q, i| {
        queries[q].iter().zip(items[i]).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    })
}
