//! Scores by libtorch, for a search on a GPU.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tch::{Device, Kind, TchError, Tensor};

use crate::error::{Error, Result};
use crate::kernels::order::Form;
use crate::kernels::product::COLUMNS;
use crate::search::{Products, Scoring, Side, Vectors};

/// Differences of rows and columns that one thread holds at a time, in order similarity: 64 MiB.
const DIFFERENCES: i64 = 1 << 24;

/// Scores of rows and columns on a device of libtorch.
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
/// 12 rows do) and for order similarity 64 MiB, or one row of differences of one column, if that is more.
#[derive(Debug)]
pub struct Libtorch<'v> {
    device: Device,
    rows: &'v Vectors<'v>,
    columns: &'v Vectors<'v>,
    scoring: Scoring,
    /// The columns on the device, `[panels · COLUMNS, width]`, filled up with zeros.
    there: Mutex<Option<Tensor>>,
}

impl<'v> Libtorch<'v> {
    /// Scores of `rows` with `columns`, of one width.
    #[must_use]
    pub fn new(device: Device, rows: &'v Vectors<'v>, columns: &'v Vectors<'v>, scoring: Scoring) -> Self {
        Self { device, rows, columns, scoring, there: Mutex::default() }
    }

    /// The columns on the device.
    fn columns(&self) -> Result<Tensor, TchError> {
        let mut there = self.there.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(columns) = &*there {
            return Ok(columns.shallow_clone());
        }
        let values = matrix(self.columns, 0..self.columns.len())?;
        let (count, width) = values.size2()?;
        let places = (count + PANEL - 1) / PANEL * PANEL;
        let columns = Tensor::f_zeros([places, width], (Kind::Float, self.device))?;
        columns.f_narrow(0, 0, count)?.f_copy_(&values)?;
        Ok(there.insert(columns).shallow_clone())
    }

    fn block(&self, rows: Range<usize>, scores: &mut [f32]) -> Result<(), TchError> {
        let columns = self.columns()?;
        let rows = matrix(self.rows, rows)?.f_to_device(self.device)?;
        let all = match self.scoring {
            Scoring::Product => rows.f_mm(&columns.f_tr()?)?,
            Scoring::Order { form, captions } => order(&rows, &columns, form, captions)?,
        };
        let by_panel = all.f_view([rows.size2()?.0, -1, PANEL])?.f_transpose(0, 1)?.f_contiguous()?;
        by_panel.f_copy_data(scores, scores.len())
    }
}

impl Products for Libtorch<'_> {
    fn scores(&self, rows: Range<usize>, scores: &mut [[f32; COLUMNS]]) -> Result<()> {
        if scores.is_empty() {
            return Ok(());
        }
        self.block(rows, scores.as_flattened_mut()).map_err(|error| {
            let error = error.to_string();
            // The rest of it is where in libtorch it happened.
            let message = error.lines().next().unwrap_or_default();
            Error::stage(format!("libtorch could not compute scores on {:?}: {message}", self.device))
        })
    }
}

#[expect(clippy::cast_possible_wrap, reason = "a panel has few columns")]
const PANEL: i64 = COLUMNS as i64;

/// Scores `[n, m]` of rows `[n, width]` with columns `[m, width]`, in blocks of [`DIFFERENCES`].
fn order(rows: &Tensor, columns: &Tensor, form: Form, captions: Side) -> Result<Tensor, TchError> {
    let ((n, width), (m, _)) = (rows.size2()?, columns.size2()?);
    let scores = Tensor::f_empty([n, m], (rows.kind(), rows.device()))?;
    let wide = (DIFFERENCES / width).clamp(1, m);
    let high = (DIFFERENCES / (width * wide)).clamp(1, n);
    for (row, column) in starts(n, high).flat_map(|row| starts(m, wide).map(move |column| (row, column))) {
        let (high, wide) = (high.min(n - row), wide.min(m - column));
        let of_rows = rows.f_narrow(0, row, high)?.f_unsqueeze(1)?;
        let of_columns = columns.f_narrow(0, column, wide)?.f_unsqueeze(0)?;
        let mut over = match captions {
            Side::Columns => of_columns.f_sub(&of_rows)?,
            Side::Rows => of_rows.f_sub(&of_columns)?,
        };
        let mut sums = over.f_relu_()?.f_square_()?.f_sum_dim_intlist(2, false, None)?;
        if form == Form::Norm {
            sums = sums.f_sqrt_()?;
        }
        scores.f_narrow(0, row, high)?.f_narrow(1, column, wide)?.f_copy_(&sums.f_neg_()?)?;
    }
    Ok(scores)
}

fn starts(of: i64, each: i64) -> impl Iterator<Item = i64> {
    (0..(of + each - 1) / each).map(move |block| block * each)
}

/// Some vectors, on the processor.
fn matrix(vectors: &Vectors<'_>, some: Range<usize>) -> Result<Tensor, TchError> {
    let width = i64::try_from(vectors.width()).map_err(|_| TchError::Shape("a width beyond i64".to_owned()))?;
    Tensor::f_from_slice(vectors.rows(some))?.f_view([-1, width])
}
