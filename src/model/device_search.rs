//! Searches of images and captions by their embeddings, on the device of the run, and the scores that libtorch computes
//! for them on a GPU.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use tch::{Kind, TchError, Tensor};

use super::device::to_tch;
use super::similarity::block_ranges;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{Device, RemoteTasks};
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::order_similarity::OrderPenalty;
use pairloom_kernels::product::TILE_COLUMNS;
use pairloom_search::{
    ConsumePanel, CpuSearchFactory, Duplicates, MatrixSide, PanelRow, ScoreBound, ScoreFunction, ScorePrecision,
    Scores, Search, SearchFactory, VectorMatrix, VectorScores, rows_per_buffer,
};
use pairloom_spec::similarity::EmbeddingSimilarity;

/// Factory of searches that compute their scores on one device.
///
/// On the CPU the scores are [`VectorScores`], without libtorch. On a GPU libtorch computes them ([`LibtorchScores`])
/// and the CPU ranks by them. Ranks and lists are equal bit for bit; sums over scores are rounded in other places.
#[derive(Debug, Clone)]
pub struct DeviceSearchFactory {
    similarity: EmbeddingSimilarity,
    threads: usize,
    /// Device on which libtorch computes the scores; `None` for the CPU kernels without libtorch.
    libtorch: Option<tch::Device>,
    remote: Option<Arc<dyn RemoteTasks>>,
}

impl DeviceSearchFactory {
    /// Creates searches whose scores are computed on `device` and ranked on `threads` threads.
    ///
    /// # Errors
    /// As [`to_tch`]: the GPU is not available.
    pub fn new(device: Device, similarity: EmbeddingSimilarity, threads: usize) -> Result<Self> {
        let device = to_tch(device)?;
        Ok(Self { similarity, threads, libtorch: device.is_cuda().then_some(device), remote: None })
    }

    /// Lets other processes compute the sections of searches on the CPU.
    #[must_use]
    pub fn with_remote(self, remote: Option<Arc<dyn RemoteTasks>>) -> Self {
        Self { remote, ..self }
    }

    /// Uses libtorch on the CPU, for tests of the GPU's code without a GPU.
    #[doc(hidden)]
    #[must_use]
    pub fn with_libtorch(similarity: EmbeddingSimilarity, threads: usize) -> Self {
        Self { similarity, threads, libtorch: Some(tch::Device::Cpu), remote: None }
    }

    fn cpu_factory(&self) -> CpuSearchFactory {
        let order = match self.similarity {
            EmbeddingSimilarity::Cosine => None,
            EmbeddingSimilarity::Order { form } => Some(form),
        };
        CpuSearchFactory { order, threads: self.threads }
    }
}

impl SearchFactory for DeviceSearchFactory {
    fn search<'v>(
        &self,
        rows: &'v VectorMatrix<'v>,
        columns: &'v VectorMatrix<'v>,
        captions: MatrixSide,
    ) -> Result<Search<'v>> {
        let cpu_factory = self.cpu_factory();
        let Some(device) = self.libtorch else {
            return Ok(cpu_factory.search(rows, columns, captions)?.with_remote(self.remote.clone()));
        };
        let vectors = VectorScores::new(rows, columns, cpu_factory.score_function(captions), self.threads)?;
        Ok(Search::from_boxed(Box::new(LibtorchScores::new(device, vectors)), self.threads))
    }

    fn distance(&self) -> Distance {
        self.cpu_factory().distance()
    }
}

/// Number of differences of entries that one thread holds at a time for order similarity: 64 MiB.
const MAX_DIFFERENCES: i64 = 1 << 24;

/// Scores of vectors on a device of libtorch.
///
/// Exact scores and subsets are computed on the CPU from the same vectors. Approximate scores are f32 sums within
/// [`VectorScores::bounds_of_foreign_f32`].
///
/// The columns are copied to the device once, with the first block of rows; rows are copied block by block. Inner
/// products are one f32 matrix product for each block (TF32 is off: [`to_tch`]); order
/// similarities are f32 sums over blocks of differences.
///
/// Threads of a search compute concurrently. All use the default stream of the device, so the device runs their kernels
/// and copies one after the other, while other threads rank scores on the CPU.
///
/// # Cost
/// Memory of the device: the columns, and for each thread twice the scores of its block (at most 32 MiB, but at least
/// 12 rows); for order similarity also 64 MiB, or the differences of one row and one column if that is more. Memory of
/// the CPU: the scores of the block during the copy from the device.
#[derive(Debug)]
pub struct LibtorchScores<'v> {
    device: tch::Device,
    vectors: VectorScores<'v>,
    /// Columns on the device, `[panels · TILE_COLUMNS, width]`, padded with zeros; `None` before the first block.
    device_columns: Mutex<Option<Tensor>>,
}

impl<'v> LibtorchScores<'v> {
    /// Creates the scores of these vectors.
    #[must_use]
    pub fn new(device: tch::Device, vectors: VectorScores<'v>) -> Self {
        Self { device, vectors, device_columns: Mutex::default() }
    }

    /// Returns the columns on the device, and copies them there first if necessary.
    fn columns(&self) -> Result<Tensor, TchError> {
        let mut device_columns = self.device_columns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(columns) = &*device_columns {
            return Ok(columns.shallow_clone());
        }
        let values = to_tensor(self.vectors.columns(), 0..self.vectors.columns().len())?;
        let (count, width) = values.size2()?;
        let places = (count + PANEL - 1) / PANEL * PANEL;
        let columns = Tensor::f_zeros([places, width], (Kind::Float, self.device))?;
        columns.f_narrow(0, 0, count)?.f_copy_(&values)?;
        Ok(device_columns.insert(columns).shallow_clone())
    }

    /// Computes the scores of a range of rows, panel by panel.
    fn panels(&self, rows: Range<usize>, scores: &mut [f32]) -> Result<(), TchError> {
        let columns = self.columns()?;
        let rows = to_tensor(self.vectors.rows(), rows)?.f_to_device(self.device)?;
        let all = match self.vectors.score_function() {
            ScoreFunction::Product => rows.f_mm(&columns.f_tr()?)?,
            ScoreFunction::Order { form, captions } => order_scores(MAX_DIFFERENCES, &rows, &columns, form, captions)?,
        };
        let by_panel = all.f_view([rows.size2()?.0, -1, PANEL])?.f_transpose(0, 1)?.f_contiguous()?;
        by_panel.f_copy_data(scores, scores.len())
    }
}

impl Scores for LibtorchScores<'_> {
    fn shape(&self) -> [usize; 2] {
        self.vectors.shape()
    }

    fn cost(&self) -> u64 {
        self.vectors.cost()
    }

    fn bounds(&self, _precision: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        self.vectors.bounds_of_foreign_f32()
    }

    fn block_rows(&self, _precision: ScorePrecision) -> usize {
        rows_per_buffer(self.vectors.columns().len())
    }

    fn compute_block(
        &self,
        _precision: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        buffer.resize(self.vectors.columns().len().div_ceil(TILE_COLUMNS) * rows.len(), [0.0; TILE_COLUMNS]);
        if buffer.is_empty() {
            return Ok(());
        }
        self.panels(rows.clone(), buffer.as_flattened_mut()).map_err(|error| {
            let error = error.to_string();
            // The following lines are a stack trace of libtorch.
            let message = error.lines().next().unwrap_or_default();
            Error::stage(format!("libtorch could not compute scores on {:?}: {message}", self.device))
        })?;
        buffer.chunks_exact(rows.len()).enumerate().try_for_each(|(panel, scores)| consume(panel, scores))
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        self.vectors.exact_scores(side, query, items, scores)
    }

    fn duplicates(&self) -> Option<&Duplicates> {
        self.vectors.duplicates()
    }

    fn subset(&self, side: MatrixSide, queries: &[usize], items: &[usize]) -> Result<Option<Box<dyn Scores + '_>>> {
        self.vectors.subset(side, queries, items)
    }

    /// Differs from the identity on the CPU, because sums are rounded in other places.
    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("libtorch");
        self.vectors.identity(fields);
    }
}

#[expect(clippy::cast_possible_wrap, reason = "a panel has few columns")]
const PANEL: i64 = TILE_COLUMNS as i64;

/// Computes order similarities `[n, m]` of rows `[n, width]` with columns `[m, width]`, in blocks of at most `most`
/// differences, but at least one row and one column.
///
/// Scores are sums of squares, whose rounding
/// [`order_similarity_error`](pairloom_kernels::order_similarity::order_similarity_error) bounds.
/// [`EmbeddingSimilarity::scores`](super::similarity::EmbeddingSimilarity::scores) computes norms instead, which
/// training differentiates.
fn order_scores(
    most: i64,
    rows: &Tensor,
    columns: &Tensor,
    form: OrderPenalty,
    captions: MatrixSide,
) -> Result<Tensor, TchError> {
    let scores = Tensor::f_empty([rows.size2()?.0, columns.size2()?.0], (rows.kind(), rows.device()))?;
    for (row, column) in block_ranges(most, rows, columns) {
        let (high, wide) = (row.end - row.start, column.end - column.start);
        let row_vectors = rows.f_narrow(0, row.start, high)?.f_unsqueeze(1)?;
        let column_vectors = columns.f_narrow(0, column.start, wide)?.f_unsqueeze(0)?;
        let mut over = match captions {
            MatrixSide::Columns => column_vectors.f_sub(&row_vectors)?,
            MatrixSide::Rows => row_vectors.f_sub(&column_vectors)?,
        };
        let mut sums = over.f_relu_()?.f_square_()?.f_sum_dim_intlist(2, false, None)?;
        if form == OrderPenalty::Norm {
            sums = sums.f_sqrt_()?;
        }
        scores.f_narrow(0, row.start, high)?.f_narrow(1, column.start, wide)?.f_copy_(&sums.f_neg_()?)?;
    }
    Ok(scores)
}

/// Copies a range of vectors to a tensor on the CPU.
fn to_tensor(vectors: &VectorMatrix<'_>, some: Range<usize>) -> Result<Tensor, TchError> {
    let width = i64::try_from(vectors.width()).map_err(|_| TchError::Shape("a width beyond i64".to_owned()))?;
    Tensor::f_from_slice(vectors.rows(some))?.f_view([-1, width])
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_kernels::order_similarity::order_similarity_error;
    use pairloom_kernels::product::{NormBound, product_error_bound};
    use pairloom_kernels::random::Rng;

    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
    fn values(seed: u64, count: usize) -> Vec<f32> {
        let mut rng = Rng::new(seed, &[]);
        // Values of very different sizes, some of them subnormal.
        let size = |rng: &mut Rng| {
            if rng.uniform_below(4) == 0 { (rng.uniform_below(140) as f64).exp2().recip() } else { 1.0 }
        };
        (0..count).map(|_| ((rng.uniform() - 0.5) * size(&mut rng)) as f32).collect()
    }

    const ALL: [ScoreFunction; 5] = [
        ScoreFunction::Product,
        ScoreFunction::Order { form: OrderPenalty::Norm, captions: MatrixSide::Columns },
        ScoreFunction::Order { form: OrderPenalty::Norm, captions: MatrixSide::Rows },
        ScoreFunction::Order { form: OrderPenalty::Squared, captions: MatrixSide::Columns },
        ScoreFunction::Order { form: OrderPenalty::Squared, captions: MatrixSide::Rows },
    ];

    /// Every score is at its place and within its error bound, for several ranges of rows.
    #[test]
    fn scores_are_within_the_bound_of_the_exact_ones() {
        for (n, m, width) in [(1, 1, 1), (5, 31, 67), (40, 32, 256), (33, 97, 2)] {
            let (a, b) = (values(1, n * width), values(2, m * width));
            let rows = VectorMatrix::new("rows", &a, width).expect("valid vectors");
            let columns = VectorMatrix::new("columns", &b, width).expect("valid vectors");
            for scoring in ALL {
                let vectors = VectorScores::new(&rows, &columns, scoring, 1).expect("equal widths");
                let products = LibtorchScores::new(tch::Device::Cpu, vectors);
                for some in [0..n, n / 2..n, 0..1] {
                    let (mut buffer, mut scores) = (vec![[f32::NAN; TILE_COLUMNS]; 3], Vec::new());
                    let mut consume = |panel: usize, lanes: &[PanelRow]| {
                        assert_eq!((panel * some.len(), lanes.len()), (scores.len(), some.len()));
                        scores.extend_from_slice(lanes);
                        Ok(())
                    };
                    products
                        .compute_block(ScorePrecision::Fine, some.clone(), &mut buffer, &mut consume)
                        .expect("scores on the CPU");
                    for (i, j) in some.clone().flat_map(|i| (0..m).map(move |j| (i, j))) {
                        let got = scores[j / TILE_COLUMNS * some.len() + i - some.start][j % TILE_COLUMNS];
                        let norm =
                            |vectors: &VectorMatrix<'_>, i: usize| NormBound::of_unpacked(vectors.norms()[i], width);
                        let bound = match scoring {
                            ScoreFunction::Product => product_error_bound(width, norm(&rows, i), norm(&columns, j)),
                            ScoreFunction::Order { form, .. } => {
                                order_similarity_error(width, form, norm(&rows, i), norm(&columns, j))
                            }
                        };
                        let error = (f64::from(got) - f64::from(scoring.score(rows.row(i), columns.row(j)))).abs();
                        assert!(error <= bound, "{scoring:?} {n}x{m}x{width} ({i}, {j}): {error:e} > {bound:e}");
                    }
                }
            }
        }
    }

    /// Block sizes: one difference, a few columns, and a number of rows that does not divide all.
    #[test]
    fn order_similarities_do_not_depend_on_blocks() {
        let matrix = |seed: u64, n: usize| Tensor::from_slice(&values(seed, n * 6)).view([-1, 6]);
        let (rows, columns) = (matrix(1, 7), matrix(2, 64));
        for (form, captions) in [(OrderPenalty::Norm, MatrixSide::Columns), (OrderPenalty::Squared, MatrixSide::Rows)] {
            let scores_by = |most| order_scores(most, &rows, &columns, form, captions).expect("scores on the CPU");
            let whole = scores_by(MAX_DIFFERENCES);
            for most in [1, 6 * 5, 6 * 64 * 3] {
                assert!((scores_by(most) - &whole).abs().max().double_value(&[]) < 1e-6, "{form:?} {most}");
            }
        }
    }
}
