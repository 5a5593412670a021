//! Stored scores, such as those of a model whose score is not a function of two vectors.

use std::ops::Range;

use super::matrix::MatrixPool;
use super::scores::{PoolScores, ScoreSource};
use crate::error::{Error, Result};
use crate::search::{MatrixSide, ScoreMatrix, ScoreTable, Search};

/// Stored scores of all images with all captions. Methods that need a query bank or vectors are refused.
#[derive(Debug, Clone, Copy)]
pub struct StoredScores<'s> {
    /// Scores of each image with all captions; higher is closer.
    pub rows: &'s [&'s [f32]],
    /// Number of captions.
    pub captions: usize,
    /// Number of threads of a search.
    pub threads: usize,
}

impl ScoreSource for StoredScores<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        if self.captions < captions.end || self.rows.len() < images.end {
            let (got, wanted) = ([self.rows.len(), self.captions], [images.end, captions.end]);
            return Err(Error::data(format!("got scores of {got:?} images and captions, wanted {wanted:?}")));
        }
        if let Some(row) = self.rows.iter().find(|row| row.len() != self.captions) {
            return Err(Error::data(format!("got {} scores of an image, wanted {}", row.len(), self.captions)));
        }
        let rows = self.rows[images.clone()].iter().map(|row| &row[captions.clone()]).collect();
        Ok(Box::new(MatrixPool(StoredPool { rows, captions: captions.len(), threads: self.threads })))
    }
}

/// Stored scores of a pool.
struct StoredPool<'s> {
    /// Scores of each image with the captions of the pool.
    rows: Vec<&'s [f32]>,
    captions: usize,
    threads: usize,
}

impl ScoreMatrix for StoredPool<'_> {
    fn shape(&self) -> [usize; 2] {
        [self.rows.len(), self.captions]
    }

    fn search(&self, captions: MatrixSide) -> Result<Search<'_>> {
        let table = match captions {
            MatrixSide::Columns => ScoreTable::from_rows("scores", self.rows.clone(), self.captions)?,
            MatrixSide::Rows => ScoreTable::from_columns("scores", self.rows.clone(), self.captions)?,
        };
        Ok(Search::from_boxed(Box::new(table), self.threads))
    }
}

#[cfg(test)]
mod tests {
    use super::super::methods::{
        Csls, DisSimLocal, DualBankSinkhorn, InvertedSoftmax, LocalScaling, Method, Nnn, Sinkhorn,
    };
    use super::super::{Collection, Evaluation, Folds, Matches, evaluate};
    use super::*;
    use crate::kernels::random::Rng;

    const IMAGES: usize = 10;
    const EACH: usize = 2;

    /// Recalls of random scores, which are not products of vectors, with two folds.
    #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
    fn recalls(method: Method) -> Result<[Vec<f64>; 2]> {
        let mut rng = Rng::new(5, &[]);
        let scores: Vec<f32> = (0..IMAGES * IMAGES * EACH).map(|_| rng.uniform() as f32).collect();
        let ids: Vec<i64> = (0..20).collect();
        let first: Vec<usize> = (0..=IMAGES).map(|image| image * EACH).collect();
        let rows: Vec<&[f32]> = scores.chunks_exact(IMAGES * EACH).collect();
        let source = StoredScores { rows: &rows, captions: IMAGES * EACH, threads: 2 };
        let matches = Matches::Grouped(&first);
        let collection = Collection { image_ids: &ids[..IMAGES], caption_ids: &ids, matches, scores: &source };
        let protocols = [Folds { protocol: "two folds".to_owned(), images: vec![0..6, 6..10] }];
        let methods = [method];
        let of = Evaluation { methods: &methods, protocols: &protocols, ..Evaluation::of(collection) };
        let summary = evaluate(&of, &mut ())?.summary.remove(0);
        Ok([summary.i2t.recalls, summary.t2i.recalls])
    }

    #[test]
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "test values are small")]
    fn recalls_of_stored_scores_equal_the_definition() {
        let mut rng = Rng::new(5, &[]);
        let scores: Vec<f32> = (0..IMAGES * IMAGES * EACH).map(|_| rng.uniform() as f32).collect();
        let at = |image: usize, caption: usize| scores[image * IMAGES * EACH + caption];
        let [i2t, t2i] = recalls(Method::default()).expect("scores are enough");
        // The definition: the share of queries whose nearest item matches, fold by fold.
        let mean = |of_fold: &dyn Fn(Range<usize>) -> f64| f64::midpoint(of_fold(0..6), of_fold(6..10));
        let images = |fold: Range<usize>| {
            let hit = |&image: &usize| {
                let all = fold.start * EACH..fold.end * EACH;
                let best = all.max_by(|&a, &b| at(image, a).total_cmp(&at(image, b)));
                best.is_some_and(|best| best / EACH == image)
            };
            100.0 * fold.clone().filter(hit).count() as f64 / fold.len() as f64
        };
        let captions = |fold: Range<usize>| {
            let hit = |&caption: &usize| {
                fold.clone().max_by(|&a, &b| at(a, caption).total_cmp(&at(b, caption))) == Some(caption / EACH)
            };
            let all = fold.start * EACH..fold.end * EACH;
            100.0 * all.clone().filter(hit).count() as f64 / all.len() as f64
        };
        assert!((i2t[0] - mean(&images)).abs() < 1e-9, "{i2t:?}");
        assert!((t2i[0] - mean(&captions)).abs() < 1e-9, "{t2i:?}");
    }

    #[test]
    fn methods_that_need_more_than_scores_are_refused_by_name() {
        for method in [
            Method::from(Csls { k: 3, ..Csls::default() }),
            InvertedSoftmax::default().into(),
            Sinkhorn { tau: 0.1, ..Sinkhorn::default() }.into(),
        ] {
            recalls(method).expect("scores are enough");
        }
        for (method, wanted) in [
            (Method::from(Nnn { alpha: 0.5, k: 3 }), "method `nnn`: wants scores with the images of the bank"),
            (
                Csls { k: 3, query_bank: true, ..Csls::default() }.into(),
                "method `csls`: wants scores with the images of the bank",
            ),
            (DisSimLocal { k: 3 }.into(), "method `dis_sim_local`: wants scores of images with images"),
            (DualBankSinkhorn::default().into(), "method `dual_bank_sinkhorn`: wants the vectors of the captions"),
            (LocalScaling::default().into(), "method `local_scaling`: wants distances"),
        ] {
            let error = recalls(method).expect_err("scores are not enough").to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
