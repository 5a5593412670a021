//! Where the scores of a retrieval come from.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::kernels::hubness::distance::Distance;
use crate::search::{Search, SearchFactory, Side, Vectors};

/// One of the sets that scores are between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Images of the pool.
    Images,
    /// Captions of the pool.
    Captions,
    /// Images of the bank.
    BankImages,
    /// Captions of the bank.
    BankCaptions,
}

impl Set {
    /// True for captions.
    #[must_use]
    pub fn captions(self) -> bool {
        matches!(self, Self::Captions | Self::BankCaptions)
    }

    /// The set as an error calls it.
    fn name(self) -> &'static str {
        match self {
            Self::Images => "images",
            Self::Captions => "captions",
            Self::BankImages => "images of the bank",
            Self::BankCaptions => "captions of the bank",
        }
    }
}

/// Source of the scores of a collection: vectors, or scores that are stored.
pub trait ScoreSource {
    /// The scores of a pool: of these images with these captions, and of both with the bank.
    ///
    /// # Errors
    /// Vectors that cannot be ranked.
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>>;
}

/// Scores of a pool.
pub trait PoolScores {
    /// Size of a set; `None` where there is no such set.
    fn size(&self, set: Set) -> Option<usize>;

    /// Search of the scores of two sets.
    ///
    /// # Errors
    /// There are no scores of these sets.
    fn search(&self, rows: Set, columns: Set) -> Result<Search<'_>>;

    /// Distance that a score stands for, if it does.
    fn distance(&self) -> Option<Distance>;

    /// Vectors of a set, for methods that look at more than scores.
    ///
    /// # Errors
    /// There are none.
    fn vectors(&self, set: Set) -> Result<&Vectors<'_>> {
        Err(no_vectors(set))
    }

    /// Search of other vectors, made of those of the sets.
    ///
    /// # Errors
    /// There are no vectors.
    fn search_vectors<'v>(&self, _: &'v Vectors<'v>, _: &'v Vectors<'v>, captions: Side) -> Result<Search<'v>> {
        Err(no_vectors(if captions == Side::Rows { Set::Captions } else { Set::Images }))
    }
}

fn no_vectors(set: Set) -> Error {
    Error::usage(format!("wants the vectors of the {}, and there are scores alone", set.name()))
        .hint("leave the method out, or rank vectors")
}

/// Error: there are no scores with such a set.
pub(super) fn missing(set: Set) -> Error {
    Error::usage(format!("wants scores with the {}, and there are none", set.name()))
        .hint("give vectors and a bank of vectors, or leave the method out")
}

/// Images and captions as vectors, checked.
pub struct VectorPair<'v> {
    images: Vectors<'v>,
    captions: Vectors<'v>,
}

impl<'v> VectorPair<'v> {
    /// Checks them.
    ///
    /// # Shapes
    /// `images`, `captions`: rows of `width`, one after the other
    ///
    /// # Errors
    /// As [`Vectors::new`]; `of` follows the name of the side in messages: `" of the bank"`.
    pub fn new(images: &'v [f32], captions: &'v [f32], width: usize, of: &str) -> Result<Self> {
        Ok(Self {
            images: Vectors::new(&format!("images{of}"), images, width)?,
            captions: Vectors::new(&format!("captions{of}"), captions, width)?,
        })
    }
}

/// Scores of vectors.
pub struct VectorSource<'v> {
    /// Vectors of all images, row-major.
    pub images: &'v [f32],
    /// Vectors of all captions, row-major.
    pub captions: &'v [f32],
    /// Numbers of a vector.
    pub width: usize,
    /// Images and captions that are not ranked, from which methods learn.
    pub bank: Option<&'v VectorPair<'v>>,
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
        let own = VectorPair::new(part(self.images, images)?, part(self.captions, captions)?, self.width, "")?;
        Ok(Box::new(VectorPool { own, bank: self.bank, factory: self.factory }))
    }
}

/// Scores of the vectors of a pool.
pub(super) struct VectorPool<'v> {
    own: VectorPair<'v>,
    bank: Option<&'v VectorPair<'v>>,
    factory: &'v dyn SearchFactory,
}

impl VectorPool<'_> {
    fn find(&self, set: Set) -> Option<&Vectors<'_>> {
        match set {
            Set::Images => Some(&self.own.images),
            Set::Captions => Some(&self.own.captions),
            Set::BankImages => self.bank.map(|bank| &bank.images),
            Set::BankCaptions => self.bank.map(|bank| &bank.captions),
        }
    }
}

impl PoolScores for VectorPool<'_> {
    fn size(&self, set: Set) -> Option<usize> {
        self.find(set).map(Vectors::len)
    }

    fn search(&self, rows: Set, columns: Set) -> Result<Search<'_>> {
        let captions = if columns.captions() { Side::Columns } else { Side::Rows };
        self.factory.search(self.vectors(rows)?, self.vectors(columns)?, captions)
    }

    fn distance(&self) -> Option<Distance> {
        Some(self.factory.distance())
    }

    fn vectors(&self, set: Set) -> Result<&Vectors<'_>> {
        self.find(set).ok_or_else(|| missing(set))
    }

    fn search_vectors<'v>(
        &self,
        rows: &'v Vectors<'v>,
        columns: &'v Vectors<'v>,
        captions: Side,
    ) -> Result<Search<'v>> {
        self.factory.search(rows, columns, captions)
    }
}
