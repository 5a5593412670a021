//! Sources of scores: vectors, and stored scores, such as those of a model whose score is not a function of two vectors.

use std::ops::Range;

use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::distance::Distance;
use pairloom_search::{MatrixSide, ScoreTable, Search, SearchFactory, VectorMatrix};

/// Set of images or captions that scores are computed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreSet {
    /// Images of the pool.
    Images,
    /// Captions of the pool.
    Captions,
    /// Images of the query bank.
    BankImages,
    /// Captions of the query bank.
    BankCaptions,
}

impl ScoreSet {
    /// True for captions.
    #[must_use]
    pub fn is_captions(self) -> bool {
        matches!(self, Self::Captions | Self::BankCaptions)
    }

    /// Name of the set in errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Captions => "captions",
            Self::BankImages => "images of the bank",
            Self::BankCaptions => "captions of the bank",
        }
    }
}

/// Source of the scores of a collection: vectors or stored scores.
pub trait ScoreSource {
    /// Scores of a pool: of these images with these captions, and of both with the query bank.
    ///
    /// # Errors
    /// Vectors that cannot be ranked.
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>>;
}

/// Scores of a pool.
pub trait PoolScores {
    /// Number of members of a set; `None` if there is no such set.
    fn size(&self, set: ScoreSet) -> Option<usize>;

    /// Search in the scores of two sets.
    ///
    /// # Errors
    /// There are no scores of these sets.
    fn search(&self, rows: ScoreSet, columns: ScoreSet) -> Result<Search<'_>>;

    /// Conversion of scores into distances.
    ///
    /// # Errors
    /// The scores correspond to no distances.
    fn distance(&self) -> Result<Distance>;

    /// Vectors of a set, for methods that need more than scores.
    ///
    /// # Errors
    /// There are none.
    fn vectors(&self, set: ScoreSet) -> Result<&VectorMatrix<'_>> {
        Err(no_vectors(set))
    }

    /// Passes a search in the scores of `queries` with two sets of items, one after the other, to `apply`.
    ///
    /// # Errors
    /// There are no scores of these sets, or the error of `apply`.
    fn with_joined_items(
        &self,
        queries: ScoreSet,
        items: [ScoreSet; 2],
        apply: &mut dyn FnMut(&Search<'_>) -> Result<()>,
    ) -> Result<()>;
}

fn no_vectors(set: ScoreSet) -> Error {
    Error::usage(format!("wants the vectors of the {}, and there are only scores", set.name()))
        .hint("leave the method out, or rank vectors")
}

/// Error: there are no scores with such a set.
pub(super) fn missing_scores(set: ScoreSet) -> Error {
    Error::usage(format!("wants scores with the {}, and there are none", set.name()))
        .hint("give a query bank, or leave the method out")
}

/// Vectors of images and captions, checked.
pub struct ImageCaptionVectors<'v> {
    images: VectorMatrix<'v>,
    captions: VectorMatrix<'v>,
}

impl<'v> ImageCaptionVectors<'v> {
    /// Checks the vectors.
    ///
    /// # Shapes
    /// `images`, `captions`: rows of `width`, one after the other
    ///
    /// # Errors
    /// As [`VectorMatrix::new`]. Messages name the vectors `images` and `captions`, followed by `of`, such as `" of the
    /// bank"`.
    pub fn new(images: &'v [f32], captions: &'v [f32], width: usize, owner: &str) -> Result<Self> {
        Ok(Self {
            images: VectorMatrix::new(&format!("images{owner}"), images, width)?,
            captions: VectorMatrix::new(&format!("captions{owner}"), captions, width)?,
        })
    }
}

/// Source of scores that are computed from vectors.
pub struct VectorSource<'v> {
    /// Vectors of all images, row-major.
    pub images: &'v [f32],
    /// Vectors of all captions, row-major.
    pub captions: &'v [f32],
    /// Dimensions of a vector.
    pub width: usize,
    /// Query bank: images and captions that methods learn from and that are not ranked.
    pub bank: Option<&'v ImageCaptionVectors<'v>>,
    /// Score function and device.
    pub factory: &'v dyn SearchFactory,
}

impl ScoreSource for VectorSource<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        let part = |vectors: &'s [f32], rows: &Range<usize>| {
            let (got, expected) = (vectors.len(), rows.end * self.width);
            let message =
                || format!("got {got} numbers for vectors of width {}, expected {expected} at least", self.width);
            vectors.get(rows.start * self.width..expected).ok_or_else(|| Error::usage(message()))
        };
        let own = ImageCaptionVectors::new(part(self.images, images)?, part(self.captions, captions)?, self.width, "")?;
        Ok(Box::new(VectorPool { own, bank: self.bank, factory: self.factory }))
    }
}

/// Scores of the vectors of a pool.
pub(super) struct VectorPool<'v> {
    own: ImageCaptionVectors<'v>,
    bank: Option<&'v ImageCaptionVectors<'v>>,
    factory: &'v dyn SearchFactory,
}

impl VectorPool<'_> {
    fn find(&self, set: ScoreSet) -> Option<&VectorMatrix<'_>> {
        match set {
            ScoreSet::Images => Some(&self.own.images),
            ScoreSet::Captions => Some(&self.own.captions),
            ScoreSet::BankImages => self.bank.map(|bank| &bank.images),
            ScoreSet::BankCaptions => self.bank.map(|bank| &bank.captions),
        }
    }
}

impl PoolScores for VectorPool<'_> {
    fn size(&self, set: ScoreSet) -> Option<usize> {
        self.find(set).map(VectorMatrix::len)
    }

    fn search(&self, rows: ScoreSet, columns: ScoreSet) -> Result<Search<'_>> {
        let captions = if columns.is_captions() { MatrixSide::Columns } else { MatrixSide::Rows };
        self.factory.search(self.vectors(rows)?, self.vectors(columns)?, captions)
    }

    fn distance(&self) -> Result<Distance> {
        Ok(self.factory.distance())
    }

    fn vectors(&self, set: ScoreSet) -> Result<&VectorMatrix<'_>> {
        self.find(set).ok_or_else(|| missing_scores(set))
    }

    fn with_joined_items(
        &self,
        queries: ScoreSet,
        items: [ScoreSet; 2],
        apply: &mut dyn FnMut(&Search<'_>) -> Result<()>,
    ) -> Result<()> {
        let captions = if queries.is_captions() { MatrixSide::Rows } else { MatrixSide::Columns };
        let (queries, [items, beside]) = (self.vectors(queries)?, items.map(|set| self.vectors(set)));
        let (items, beside) = (items?, beside?);
        let rows = [items, beside].into_iter().flat_map(|side| (0..side.len()).map(|row| side.row(row)));
        let joined = rows.collect::<Vec<_>>().concat();
        let joined = VectorMatrix::new("items and bank", &joined, items.width())?;
        apply(&self.factory.search(queries, &joined, captions)?)
    }
}

/// Largest score of which 1 − s is a distance, with room for rounding.
const LARGEST_SCORE: f32 = 1.0 + 1e-4;

/// Stored scores of all images with all captions. Methods that compare images with images, or captions with captions,
/// are refused.
#[derive(Debug, Clone, Copy)]
pub struct StoredScores<'s> {
    /// Scores of each image with all captions; higher is closer.
    pub rows: &'s [&'s [f32]],
    /// Number of captions.
    pub captions: usize,
    /// Scores with a query bank.
    pub bank: Option<StoredBankScores<'s>>,
    /// Number of threads of a search.
    pub threads: usize,
}

/// Stored scores with a query bank.
#[derive(Debug, Clone, Copy)]
pub struct StoredBankScores<'s> {
    /// Scores of each image of the bank with all captions.
    pub images: &'s [&'s [f32]],
    /// Scores of each image with all captions of the bank.
    pub captions: &'s [&'s [f32]],
    /// Scores of each image of the bank with all captions of the bank; `None` if there are none.
    pub pairs: Option<&'s [&'s [f32]]>,
}

impl ScoreSource for StoredScores<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        if self.captions < captions.end || self.rows.len() < images.end {
            let (got, expected) = ([self.rows.len(), self.captions], [images.end, captions.end]);
            return Err(Error::data(format!("got scores of {got:?} images and captions, expected {expected:?}")));
        }
        let own = StoredMatrix::new(self.rows, self.captions)?.part(images.clone(), captions.clone());
        let bank = match &self.bank {
            Some(StoredBankScores { images: image_matrix, captions: caption_matrix, pairs }) => {
                let bank_captions = caption_matrix.first().map_or(0, |row| row.len());
                let caption_matrix = StoredMatrix::new(caption_matrix, bank_captions)?;
                if caption_matrix.rows.len() != self.rows.len() {
                    let (got, expected) = (caption_matrix.rows.len(), self.rows.len());
                    return Err(Error::data(format!("got {got} images with scores of the bank, expected {expected}")));
                }
                let image_matrix = StoredMatrix::new(image_matrix, self.captions)?;
                let bank_images = image_matrix.rows.len();
                let pairs = pairs.map(|rows| StoredMatrix::new(rows, bank_captions)).transpose()?;
                if let Some(pairs) = pairs.as_ref().filter(|pairs| pairs.rows.len() != bank_images) {
                    let got = pairs.rows.len();
                    return Err(Error::data(format!(
                        "got {got} images in the scores of the bank, expected {bank_images}"
                    )));
                }
                let image_matrix = image_matrix.part(0..bank_images, captions.clone());
                Some(BankMatrices {
                    image_matrix,
                    caption_matrix: caption_matrix.part(images.clone(), 0..bank_captions),
                    pairs,
                })
            }
            None => None,
        };
        Ok(Box::new(StoredPool { own, bank, threads: self.threads }))
    }
}

/// Scores of images with captions in memory.
struct StoredMatrix<'s> {
    /// Scores of each image.
    rows: Vec<&'s [f32]>,
    captions: usize,
}

impl<'s> StoredMatrix<'s> {
    fn new(rows: &[&'s [f32]], captions: usize) -> Result<Self> {
        match rows.iter().find(|row| row.len() != captions) {
            Some(row) => Err(Error::data(format!("got {} scores of an image, expected {captions}", row.len()))),
            None => Ok(Self { rows: rows.to_vec(), captions }),
        }
    }

    /// Scores of some images with some captions.
    fn part(self, images: Range<usize>, captions: Range<usize>) -> Self {
        let rows = self.rows[images].iter().map(|row| &row[captions.clone()]).collect();
        Self { rows, captions: captions.len() }
    }

    /// Search with images as rows, or with captions as rows.
    fn search(&self, images_are_rows: bool, threads: usize) -> Result<Search<'s>> {
        let table = if images_are_rows {
            ScoreTable::from_rows("scores", self.rows.clone(), self.captions)?
        } else {
            ScoreTable::from_columns("scores", self.rows.clone(), self.captions)?
        };
        Ok(Search::from_boxed(Box::new(table), threads))
    }
}

/// Stored scores of a pool.
struct StoredPool<'s> {
    own: StoredMatrix<'s>,
    bank: Option<BankMatrices<'s>>,
    threads: usize,
}

/// Stored scores of a pool with a query bank, as in [`StoredBankScores`].
struct BankMatrices<'s> {
    image_matrix: StoredMatrix<'s>,
    caption_matrix: StoredMatrix<'s>,
    pairs: Option<StoredMatrix<'s>>,
}

impl<'s> StoredPool<'s> {
    /// Scores of a set of images with a set of captions, in either order.
    fn matrix(&self, sets: [ScoreSet; 2]) -> Result<&StoredMatrix<'s>> {
        let [one, other] = sets;
        let (images, captions) = if one.is_captions() { (other, one) } else { (one, other) };
        if images.is_captions() || !captions.is_captions() {
            let message = format!("wants scores of {} with {}, and there are none", one.name(), other.name());
            return Err(Error::usage(message).hint("leave the method out, or rank vectors"));
        }
        let bank = self.bank.as_ref();
        match (images, captions) {
            (ScoreSet::BankImages, ScoreSet::BankCaptions) => {
                let pairs = bank.ok_or_else(|| missing_scores(images))?.pairs.as_ref();
                let message = "wants scores of the bank's images with its captions, and there are none";
                pairs.ok_or_else(|| Error::usage(message).hint("leave the method out, or score these pairs"))
            }
            (ScoreSet::BankImages, _) => bank.map(|bank| &bank.image_matrix).ok_or_else(|| missing_scores(images)),
            (_, ScoreSet::BankCaptions) => {
                bank.map(|bank| &bank.caption_matrix).ok_or_else(|| missing_scores(captions))
            }
            _ => Ok(&self.own),
        }
    }
}

impl PoolScores for StoredPool<'_> {
    fn size(&self, set: ScoreSet) -> Option<usize> {
        match set {
            ScoreSet::Images => Some(self.own.rows.len()),
            ScoreSet::Captions => Some(self.own.captions),
            ScoreSet::BankImages => self.bank.as_ref().map(|bank| bank.image_matrix.rows.len()),
            ScoreSet::BankCaptions => self.bank.as_ref().map(|bank| bank.caption_matrix.captions),
        }
    }

    fn search(&self, rows: ScoreSet, columns: ScoreSet) -> Result<Search<'_>> {
        self.matrix([rows, columns])?.search(columns.is_captions(), self.threads)
    }

    /// Distance 1 − s.
    fn distance(&self) -> Result<Distance> {
        let bank = self.bank.iter().flat_map(|bank| [&bank.image_matrix, &bank.caption_matrix]);
        let all = std::iter::once(&self.own).chain(bank);
        let largest =
            all.flat_map(|matrix| matrix.rows.iter().copied().flatten()).copied().fold(f32::NEG_INFINITY, f32::max);
        if largest <= LARGEST_SCORE {
            return Ok(Distance::OneMinusScore);
        }
        let message = format!("scales the distances 1 − s, and there is a score of {largest}, expected at most 1");
        Err(Error::usage(message).hint("leave the method out"))
    }

    /// Captions are joined in a copy of their scores.
    fn with_joined_items(
        &self,
        queries: ScoreSet,
        items: [ScoreSet; 2],
        apply: &mut dyn FnMut(&Search<'_>) -> Result<()>,
    ) -> Result<()> {
        let [first, second] = [self.matrix([queries, items[0]])?, self.matrix([queries, items[1]])?];
        if queries.is_captions() {
            let rows = [first.rows.as_slice(), &second.rows].concat();
            return apply(&StoredMatrix { rows, captions: first.captions }.search(false, self.threads)?);
        }
        let rows: Vec<Vec<f32>> =
            first.rows.iter().zip(&second.rows).map(|(one, other)| [*one, other].concat()).collect();
        let captions = first.captions + second.captions;
        let joined = StoredMatrix { rows: rows.iter().map(Vec::as_slice).collect(), captions };
        apply(&joined.search(true, self.threads)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::methods::{
        Csls, DisSimLocal, DualBankSinkhorn, InvertedSoftmax, LocalScaling, Method, Nnn, Sinkhorn,
    };
    use super::super::{Collection, Evaluation, Folds, Matches, evaluate};
    use super::*;
    use pairloom_kernels::random::Rng;

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
        let source = StoredScores { rows: &rows, captions: IMAGES * EACH, bank: None, threads: 2 };
        let matches = Matches::Grouped(&first);
        let collection = Collection { image_ids: &ids[..IMAGES], caption_ids: &ids, matches, scores: &source };
        let protocols = [Folds { protocol: "two folds".to_owned(), images: vec![0..6, 6..10] }];
        let methods = [method];
        let evaluation = Evaluation { methods: &methods, protocols: &protocols, ..Evaluation::of(collection) };
        let summary = evaluate(&evaluation, &mut ())?.summary.remove(0);
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
        let mean = |fold_value: &dyn Fn(Range<usize>) -> f64| f64::midpoint(fold_value(0..6), fold_value(6..10));
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
            LocalScaling { k: 3, query_bank: false }.into(),
        ] {
            recalls(method).expect("scores are enough");
        }
        for (method, expected) in [
            (Method::from(Nnn { alpha: 0.5, k: 3 }), "method `nnn`: wants scores with the images of the bank"),
            (
                Csls { k: 3, query_bank: true, ..Csls::default() }.into(),
                "method `csls`: wants scores with the images of the bank",
            ),
            (DisSimLocal { k: 3 }.into(), "method `dis_sim_local`: wants scores of captions with captions"),
            (
                DualBankSinkhorn::default().into(),
                "method `dual_bank_sinkhorn`: wants scores with the images of the bank",
            ),
        ] {
            let error = recalls(method).expect_err("scores are not enough").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    /// A score above 1 has no distance 1 − s.
    #[test]
    fn methods_of_distances_refuse_scores_above_1() {
        let pool = |largest: f32| {
            let rows: [&[f32]; 2] = [&[0.5, 0.25], &[0.0, largest]];
            let scores = StoredScores { rows: &rows, captions: 2, bank: None, threads: 1 };
            let distance = scores.pool(&(0..2), &(0..2)).expect("a pool").distance();
            distance.map_err(|error| error.to_string())
        };
        assert_eq!(pool(1.000_01), Ok(Distance::OneMinusScore));
        let message = "scales the distances 1 − s, and there is a score of 1.5, expected at most 1";
        assert_eq!(pool(1.5), Err(message.to_owned()));
    }
}
