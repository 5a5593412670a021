//! Sources of scores.

use std::ops::Range;

use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::distance::Distance;
use pairloom_search::{MatrixSide, Search, SearchFactory, VectorMatrix};

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
    pub fn new(images: &'v [f32], captions: &'v [f32], width: usize, of: &str) -> Result<Self> {
        Ok(Self {
            images: VectorMatrix::new(&format!("images{of}"), images, width)?,
            captions: VectorMatrix::new(&format!("captions{of}"), captions, width)?,
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
            let (got, wanted) = (vectors.len(), rows.end * self.width);
            let message = || format!("got {got} numbers for vectors of width {}, wanted {wanted} at least", self.width);
            vectors.get(rows.start * self.width..wanted).ok_or_else(|| Error::usage(message()))
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
