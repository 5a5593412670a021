//! Scores by libtorch, for a search on a GPU.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tch::{Device, Kind, TchError, Tensor};

use super::similarity::blocks;
use crate::error::{Error, Result};
use crate::kernels::identity::Fields;
use crate::kernels::order::Form;
use crate::kernels::product::COLUMNS;
use crate::search::{
    Bound, Consume, Duplicates, Lane, Precision, Scores, Scoring, Side, VectorScores, Vectors, rows_held,
};

/// Differences of rows and columns that one thread holds at a time, in order similarity: 64 MiB.
const DIFFERENCES: i64 = 1 << 24;

/// Scores of vectors on a device of libtorch.
///
/// Exact scores are those of the same vectors on the processor, and so are subsets. Approximate scores are f32 sums, within
/// [`VectorScores::bounds_of_any_f32`].
///
/// The columns go there once, when the first block of rows does; of the rows each block by itself. A product is one f32 matrix
/// product a block (TF32 is off: [`to_tch`](super::device::to_tch)); order similarities are f32 sums over blocks of
/// differences.
///
/// Threads of a search compute side by side. Each uses its own current stream of the device, which for all of them is the
/// default one, so the device works off their kernels and copies one after the other, while the others look at scores.
///
/// # Cost
/// On the device the columns, and for each thread at a time twice the scores of its block (a search has them fit 32 MiB, where
/// 12 rows do) and for order similarity 64 MiB, or one row of differences of one column, if that is more. On the processor the
/// scores of the block once more, while they come from the device.
#[derive(Debug)]
pub struct Libtorch<'v> {
    device: Device,
    vectors: VectorScores<'v>,
    /// The columns on the device, `[panels · COLUMNS, width]`, filled up with zeros.
    there: Mutex<Option<Tensor>>,
}

impl<'v> Libtorch<'v> {
    /// The scores of these vectors.
    #[must_use]
    pub fn new(device: Device, vectors: VectorScores<'v>) -> Self {
        Self { device, vectors, there: Mutex::default() }
    }

    /// The columns on the device.
    fn columns(&self) -> Result<Tensor, TchError> {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(columns) = &*there {
            return Ok(columns.shallow_clone());
        }
        let values = matrix(self.vectors.columns(), 0..self.vectors.columns().len())?;
        let (count, width) = values.size2()?;
        let places = (count + PANEL - 1) / PANEL * PANEL;
        let columns = Tensor::f_zeros([places, width], (Kind::Float, self.device))?;
        columns.f_narrow(0, 0, count)?.f_copy_(&values)?;
        Ok(there.insert(columns).shallow_clone())
    }

    /// The scores of some rows, panel by panel.
    fn panels(&self, rows: Range<usize>, scores: &mut [f32]) -> Result<(), TchError> {
        let columns = self.columns()?;
        let rows = matrix(self.vectors.rows(), rows)?.f_to_device(self.device)?;
        let all = match self.vectors.scoring() {
            Scoring::Product => rows.f_mm(&columns.f_tr()?)?,
            Scoring::Order { form, captions } => order(DIFFERENCES, &rows, &columns, form, captions)?,
        };
        let by_panel = all.f_view([rows.size2()?.0, -1, PANEL])?.f_transpose(0, 1)?.f_contiguous()?;
        by_panel.f_copy_data(scores, scores.len())
    }
}

impl Scores for Libtorch<'_> {
    fn sizes(&self) -> [usize; 2] {
        self.vectors.sizes()
    }

    fn cost(&self) -> u64 {
        self.vectors.cost()
    }

    fn bounds(&self, _precision: Precision) -> [Vec<Bound>; 2] {
        self.vectors.bounds_of_any_f32()
    }

    fn block_rows(&self, _precision: Precision) -> usize {
        rows_held(self.vectors.columns().len())
    }

    fn block(
        &self,
        _precision: Precision,
        rows: Range<usize>,
        buffer: &mut Vec<Lane>,
        consume: Consume<'_>,
    ) -> Result<()> {
        buffer.resize(self.vectors.columns().len().div_ceil(COLUMNS) * rows.len(), [0.0; COLUMNS]);
        if buffer.is_empty() {
            return Ok(());
        }
        self.panels(rows.clone(), buffer.as_flattened_mut()).map_err(|error| {
            let error = error.to_string();
            // The rest of it is where in libtorch it happened.
            let message = error.lines().next().unwrap_or_default();
            Error::stage(format!("libtorch could not compute scores on {:?}: {message}", self.device))
        })?;
        buffer.chunks_exact(rows.len()).enumerate().try_for_each(|(panel, scores)| consume(panel, scores))
    }

    fn exact(&self, side: Side, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        self.vectors.exact(side, query, items, scores)
    }

    fn duplicates(&self) -> Option<&Duplicates> {
        self.vectors.duplicates()
    }

    fn subset(&self, side: Side, queries: &[usize], items: &[usize]) -> Result<Option<Box<dyn Scores + '_>>> {
        self.vectors.subset(side, queries, items)
    }

    /// Sums are rounded in other places than on the processor.
    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("libtorch");
        self.vectors.identity(fields);
    }
}

#[expect(clippy::cast_possible_wrap, reason = "a panel has few columns")]
const PANEL: i64 = COLUMNS as i64;

/// Scores `[n, m]` of rows `[n, width]` with columns `[m, width]`, in blocks of `most` differences, or one
/// column and one row.
///
/// Sums of squares, as [`order_error`](crate::kernels::order::order_error) bounds their rounding;
/// [`Similarity::scores`](super::similarity::Similarity::scores) takes norms, which training differentiates.
fn order(most: i64, rows: &Tensor, columns: &Tensor, form: Form, captions: Side) -> Result<Tensor, TchError> {
    let scores = Tensor::f_empty([rows.size2()?.0, columns.size2()?.0], (rows.kind(), rows.device()))?;
    for (row, column) in blocks(most, rows, columns) {
        let (high, wide) = (row.end - row.start, column.end - column.start);
        let of_rows = rows.f_narrow(0, row.start, high)?.f_unsqueeze(1)?;
        let of_columns = columns.f_narrow(0, column.start, wide)?.f_unsqueeze(0)?;
        let mut over = match captions {
            Side::Columns => of_columns.f_sub(&of_rows)?,
            Side::Rows => of_rows.f_sub(&of_columns)?,
        };
        let mut sums = over.f_relu_()?.f_square_()?.f_sum_dim_intlist(2, false, None)?;
        if form == Form::Norm {
            sums = sums.f_sqrt_()?;
        }
        scores.f_narrow(0, row.start, high)?.f_narrow(1, column.start, wide)?.f_copy_(&sums.f_neg_()?)?;
    }
    Ok(scores)
}

/// Some vectors, on the processor.
fn matrix(vectors: &Vectors<'_>, some: Range<usize>) -> Result<Tensor, TchError> {
    let width = i64::try_from(vectors.width()).map_err(|_| TchError::Shape("a width beyond i64".to_owned()))?;
    Tensor::f_from_slice(vectors.rows(some))?.f_view([-1, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::order::order_error;
    use crate::kernels::product::{Extent, product_error};
    use crate::kernels::sample::Sample;

    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
    fn values(seed: u64, count: usize) -> Vec<f32> {
        let mut sample = Sample::new(seed, &[]);
        // Far apart, and some below the smallest normal number.
        let size =
            |sample: &mut Sample| if sample.below(4) == 0 { (sample.below(140) as f64).exp2().recip() } else { 1.0 };
        (0..count).map(|_| ((sample.unit() - 0.5) * size(&mut sample)) as f32).collect()
    }

    const ALL: [Scoring; 5] = [
        Scoring::Product,
        Scoring::Order { form: Form::Norm, captions: Side::Columns },
        Scoring::Order { form: Form::Norm, captions: Side::Rows },
        Scoring::Order { form: Form::Squared, captions: Side::Columns },
        Scoring::Order { form: Form::Squared, captions: Side::Rows },
    ];

    /// Every score stands where it should, within the bound, of any rows.
    #[test]
    fn scores_are_within_the_bound_of_the_exact_ones() {
        for (n, m, width) in [(1, 1, 1), (5, 31, 67), (40, 32, 256), (33, 97, 2)] {
            let (a, b) = (values(1, n * width), values(2, m * width));
            let rows = Vectors::new("rows", &a, width).expect("good");
            let columns = Vectors::new("columns", &b, width).expect("good");
            for scoring in ALL {
                let vectors = VectorScores::new(&rows, &columns, scoring, 1).expect("of one width");
                let products = Libtorch::new(Device::Cpu, vectors);
                for some in [0..n, n / 2..n, 0..1] {
                    let (mut buffer, mut scores) = (vec![[f32::NAN; COLUMNS]; 3], Vec::new());
                    let mut consume = |panel: usize, lanes: &[Lane]| {
                        assert_eq!((panel * some.len(), lanes.len()), (scores.len(), some.len()));
                        scores.extend_from_slice(lanes);
                        Ok(())
                    };
                    products.block(Precision::Fine, some.clone(), &mut buffer, &mut consume).expect("a processor");
                    for (i, j) in some.clone().flat_map(|i| (0..m).map(move |j| (i, j))) {
                        let got = scores[j / COLUMNS * some.len() + i - some.start][j % COLUMNS];
                        let of = |vectors: &Vectors<'_>, i: usize| Extent::elsewhere(vectors.norms()[i], width);
                        let bound = match scoring {
                            Scoring::Product => product_error(width, of(&rows, i), of(&columns, j)),
                            Scoring::Order { form, .. } => order_error(width, form, of(&rows, i), of(&columns, j)),
                        };
                        let error = (f64::from(got) - f64::from(scoring.score(rows.row(i), columns.row(j)))).abs();
                        assert!(error <= bound, "{scoring:?} {n}x{m}x{width} ({i}, {j}): {error:e} > {bound:e}");
                    }
                }
            }
        }
    }

    /// A block may be one difference, a few columns, or rows that do not divide.
    #[test]
    fn order_similarities_do_not_depend_on_blocks() {
        let matrix = |seed: u64, n: usize| Tensor::from_slice(&values(seed, n * 6)).view([-1, 6]);
        let (rows, columns) = (matrix(1, 7), matrix(2, 64));
        for (form, captions) in [(Form::Norm, Side::Columns), (Form::Squared, Side::Rows)] {
            let of = |most| order(most, &rows, &columns, form, captions).expect("a processor");
            let whole = of(DIFFERENCES);
            for most in [1, 6 * 5, 6 * 64 * 3] {
                assert!((of(most) - &whole).abs().max().double_value(&[]) < 1e-6, "{form:?} {most}");
            }
        }
    }
}
