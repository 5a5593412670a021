//! Search: the operations on a source of scores, and the factory of searches over vectors, for any device.

use std::sync::Arc;

use super::checkpoint::SearchProgress;
use super::matching::{GreedyMatching, GreedyRequest, match_greedily};
use super::remote::distribute;
use super::request::{Positives, SearchRequest, SearchResults, UnroundedResults};
use super::scan::{Scan, ScanOverrides, find, map_rows, rank_corrected, stripe_count};
use super::scores::{MatrixSide, ScoreFunction, Scores, VectorMatrix, VectorScores};
use super::sinkhorn::{Potentials, sinkhorn};
use pairloom_base::error::Result;
use pairloom_base::runtime::RemoteTasks;
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::hubness::method::Correction;
use pairloom_kernels::order_similarity::OrderPenalty;

/// Multi-threaded exact search over all scores of a source.
#[derive(Debug)]
pub struct Search<'s> {
    scores: ScoresHandle<'s>,
    threads: usize,
    /// Processes that compute sections of [`Search::find`].
    remote: Option<Arc<dyn RemoteTasks>>,
    /// Settings that only tests change.
    pub(super) overrides: ScanOverrides,
}

#[derive(Debug)]
enum ScoresHandle<'s> {
    Borrowed(&'s dyn Scores),
    Owned(Box<dyn Scores + 's>),
}

impl<'s> Search<'s> {
    /// Search over `scores` on `threads` threads.
    #[must_use]
    pub fn new(scores: &'s dyn Scores, threads: usize) -> Self {
        Self::of(ScoresHandle::Borrowed(scores), threads)
    }

    /// Search that owns its scores.
    #[must_use]
    pub fn from_boxed(scores: Box<dyn Scores + 's>, threads: usize) -> Self {
        Self::of(ScoresHandle::Owned(scores), threads)
    }

    fn of(scores: ScoresHandle<'s>, threads: usize) -> Self {
        Self { scores, threads: threads.max(1), remote: None, overrides: ScanOverrides::default() }
    }

    /// Lets other processes compute the sections of [`Search::find`], if the scores are those of vectors on the CPU. The
    /// results are the same, bit for bit. All other operations, and other scores, are computed in this process.
    #[must_use]
    pub fn with_remote(self, remote: Option<Arc<dyn RemoteTasks>>) -> Self {
        Self { remote, ..self }
    }

    /// Search over the scores of `rows` with `columns`, computed on the CPU.
    ///
    /// # Errors
    /// The widths differ.
    pub fn from_vectors(
        rows: &'s VectorMatrix<'s>,
        columns: &'s VectorMatrix<'s>,
        scoring: ScoreFunction,
        threads: usize,
    ) -> Result<Self> {
        Ok(Self::from_boxed(Box::new(VectorScores::new(rows, columns, scoring, threads)?), threads))
    }

    /// Returns the source of scores.
    #[must_use]
    pub fn scores(&self) -> &dyn Scores {
        match &self.scores {
            ScoresHandle::Borrowed(scores) => *scores,
            ScoresHandle::Owned(scores) => &**scores,
        }
    }

    /// Notes an operation that this process computes, although other processes could compute parts of a search.
    fn note_computed_here(&self, operation: &str) {
        if let Some(remote) = &self.remote {
            remote.note_computed_here(operation);
        }
    }

    fn scan(&self) -> Scan<'_> {
        Scan { scores: self.scores(), threads: self.threads, overrides: self.overrides }
    }

    /// Answers the requests of rows for columns and of columns for rows, in one pass.
    ///
    /// If `progress` has a [`CheckpointStore`](super::CheckpointStore), a pass of more than
    /// [`MINIMUM_COST`](super::MINIMUM_COST) multiply-adds is cut into sections of rows, 64 at most. After each section
    /// the search saves the results of its rows and the state of all columns. A later search with the same requests and
    /// scores resumes after the last saved section. Its results are those of an uninterrupted search, bit for bit.
    ///
    /// # Errors
    /// An invalid request: a positive that is no item, lists of another length than the side, a shift that is not
    /// finite, a negative β. The first error of `progress`, which is called between blocks of rows. The first error of
    /// the source.
    ///
    /// # Cost
    /// Time: an approximate score of each pair. It is coarse if the source has coarse scores and no statistic is a sum
    /// over all scores, else fine. Each uncertain pair costs an exact score as well; duplicate vectors share theirs. If
    /// all vectors are equal, a search takes about four times as long as usual.
    ///
    /// Memory beside that of the source: for each thread a block of rows; for every column 40 bytes, 8 bytes for each
    /// of `k + max(k, 32)` candidates, and 12 or 16 bytes for each sum. With checkpoints 16·k bytes more for every
    /// column, and while one is saved 12 bytes for each of the k best, 12 bytes if there are ranks, and 12 or 16 bytes
    /// for each sum, all twice.
    pub fn find(
        &self,
        rows: &SearchRequest<'_>,
        columns: &SearchRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[SearchResults; 2]> {
        let found = match (&self.remote, self.scores().as_vectors()) {
            (Some(remote), Some(vectors)) => distribute(&self.scan(), vectors, [rows, columns], &**remote, progress)?,
            _ => {
                self.note_computed_here("scores that are no products of vectors");
                find(&self.scan(), [rows, columns], progress)?
            }
        };
        Ok(found.map(UnroundedResults::into_rounded))
    }

    /// Maps every row of scores with `work` and returns the results in the order of the rows.
    ///
    /// `work` is called on any thread, with the index of a row and its scores with all columns, which it may overwrite.
    /// These are the fine approximate scores of the source: they differ from the exact ones by at most its bound.
    ///
    /// # Errors
    /// The first error of `progress`, which is called between blocks of rows, or of the source.
    ///
    /// # Cost
    /// An approximate score of each pair. Memory beside that of the source: for each thread 32 MiB, or 12 rows of
    /// scores if that is more.
    pub fn map_rows<T: Send>(
        &self,
        work: impl Fn(usize, &mut [f32]) -> T + Sync,
        progress: &mut dyn SearchProgress,
    ) -> Result<Vec<T>> {
        self.note_computed_here("whole rows of scores");
        let scan = self.scan();
        map_rows(&scan, 0..stripe_count(scan.scores.shape()[0]), &work, progress)
    }

    /// Ranks the columns for every row by the scores that `correction` makes of the row. Unlike [`Search::find`] it
    /// takes corrections of any form. Among equal scores the lower index comes first; a score that is not a number counts
    /// as −∞.
    ///
    /// No exact scores are computed: if two corrected scores differ by less than the error of fine scores, their order
    /// may be wrong.
    ///
    /// It saves checkpoints like [`Search::find`]. [`Search::map_rows`] saves none, since its results may be of any
    /// type.
    ///
    /// # Errors
    /// A positive is no column, or there are not as many lists as rows; and as [`Search::map_rows`].
    pub fn rank_corrected(
        &self,
        k: usize,
        positives: Positives<'_>,
        correction: &dyn Correction,
        progress: &mut dyn SearchProgress,
    ) -> Result<SearchResults> {
        self.note_computed_here("corrections of whole rows of scores");
        rank_corrected(&self.scan(), &SearchRequest { k, positives, ..SearchRequest::default() }, correction, progress)
    }

    /// Computes the potentials of Sinkhorn normalisation after some `iterations`, for each query side in `queries`, all
    /// in the same passes. The potentials of the items start at h = τ·ln m. An iteration scales the queries, then the
    /// items.
    ///
    /// If `progress` has a [`CheckpointStore`](super::CheckpointStore) and all passes together cost more than
    /// [`MINIMUM_COST`](super::MINIMUM_COST) multiply-adds, the potentials are saved after each pass, and a later call
    /// with the same arguments resumes after the last saved pass.
    ///
    /// # Errors
    /// τ is not above 0, or so small that 1/τ is no f32. A side is empty. The first error of `progress`, which is
    /// called between blocks of rows, or of the source.
    ///
    /// # Cost
    /// A pass over fine scores for each iteration, and one more if columns are queries; in each pass one or two
    /// exponentials a score. Memory beside that of the source: for each thread 32 MiB, or 12 rows of scores if that is
    /// more. The error is about 10⁻⁶·τ more than that of the scores.
    pub fn sinkhorn(
        &self,
        tau: f64,
        iterations: usize,
        queries: &[MatrixSide],
        progress: &mut dyn SearchProgress,
    ) -> Result<Vec<Potentials>> {
        self.note_computed_here("Sinkhorn potentials");
        sinkhorn(&self.scan(), tau, iterations, queries, progress)
    }

    /// Matches rows with columns, and columns with rows. The matchings are those of
    /// [`relaxed_greedy`](pairloom_kernels::hubness::relaxed_greedy::relaxed_greedy) on exact scores less a shift, in
    /// f64.
    ///
    /// # Errors
    /// A shift is not finite, or the first error of `progress`, which is called between blocks of rows of each pass, or
    /// of the source.
    ///
    /// # Cost
    /// One pass of [`Search::find`] for both sides. Queries that use up their candidates get further passes over the
    /// items that are not full, each time for four times as many candidates, or as many as fit 128 MiB. With λ near 1,
    /// and with strong hubs, many queries do. Memory: 16 bytes a candidate, and during a further pass a copy of the
    /// vectors of its queries and items.
    pub fn match_greedily(
        &self,
        rows: &GreedyRequest<'_>,
        columns: &GreedyRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Vec<GreedyMatching>; 2]> {
        self.note_computed_here("a matching");
        match_greedily(&self.scan(), [rows, columns], progress)
    }
}

/// Factory of searches with one score function on one device.
pub trait SearchFactory {
    /// Creates a search over `rows` and `columns`; `captions` is the side that holds the captions.
    ///
    /// # Errors
    /// The widths differ.
    fn search<'v>(
        &self,
        rows: &'v VectorMatrix<'v>,
        columns: &'v VectorMatrix<'v>,
        captions: MatrixSide,
    ) -> Result<Search<'v>>;

    /// Conversion of scores to distances.
    fn distance(&self) -> Distance;
}

/// Factory of searches on the CPU.
#[derive(Debug, Clone, Copy)]
pub struct CpuSearchFactory {
    /// Form of the order similarity; `None` for the cosine.
    pub order: Option<OrderPenalty>,
    /// Number of threads of a search.
    pub threads: usize,
}

impl CpuSearchFactory {
    /// Score function of a row and a column; `captions` is the side that holds the captions.
    #[must_use]
    pub fn score_function(&self, captions: MatrixSide) -> ScoreFunction {
        self.order.map_or(ScoreFunction::Product, |form| ScoreFunction::Order { form, captions })
    }
}

impl SearchFactory for CpuSearchFactory {
    fn search<'v>(
        &self,
        rows: &'v VectorMatrix<'v>,
        columns: &'v VectorMatrix<'v>,
        captions: MatrixSide,
    ) -> Result<Search<'v>> {
        Search::from_vectors(rows, columns, self.score_function(captions), self.threads)
    }

    fn distance(&self) -> Distance {
        if self.order.is_some() { Distance::Order } else { Distance::Cosine }
    }
}
