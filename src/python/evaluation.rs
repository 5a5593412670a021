//! `evaluate`, `search`, and the paired comparison of two evaluations.

use arrow::array::RecordBatch;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;

use crate::arrays::{Matrix, Vectors};
use crate::interrupts::Interrupts;
use crate::table::Table;
use crate::{detached, thread_count};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::order_similarity::OrderPenalty;
use pairloom_retrieval::{
    BinaryRelevance, Callbacks, Collection, Evaluation as Request, ImageCaptionVectors, Matches, Method, MethodLabel,
    Protocol, Rankings, VectorSource, rank_items,
};
use pairloom_search::CpuSearchFactory;
use pairloom_stages::test_significance::compare_rankings;

/// Result of `evaluate`.
#[pyclass(frozen, module = "pairloom")]
pub(crate) struct Evaluation {
    /// One row a protocol and method: recalls of both directions, rsum, hs-sum.
    #[pyo3(get)]
    summary: Py<Table>,
    /// One row a measure, with its 95 % interval.
    #[pyo3(get)]
    metrics: Py<Table>,
    /// The best items of each query.
    #[pyo3(get)]
    rankings: Py<Table>,
    /// k-occurrence of each item.
    #[pyo3(get)]
    hubs: Py<Table>,
    /// Ranks of the best match of each method: image to text, text to image.
    ranks: Vec<[Vec<i64>; 2]>,
    #[pyo3(get)]
    warnings: Vec<String>,
}

#[pymethods]
impl Evaluation {
    /// Ranks of the best match of every query by the method number `number` of the first protocol.
    fn ranks(&self, number: usize, captions: bool) -> PyResult<Vec<i64>> {
        let Some(ranks) = self.ranks.get(number) else { return Err(PyKeyError::new_err(number)) };
        Ok(ranks[usize::from(captions)].clone())
    }
}

/// What an evaluation tells while it runs.
struct Collected<'i> {
    interrupts: &'i mut Interrupts,
    rankings: Vec<RecordBatch>,
    hubs: Vec<RecordBatch>,
    warnings: Vec<String>,
    ranks: Vec<[Vec<i64>; 2]>,
    outcome: Result<()>,
}

impl Callbacks for Collected<'_> {
    fn add_rankings(&mut self, rows: RecordBatch) -> Result<()> {
        self.rankings.push(rows);
        Ok(())
    }

    fn add_hubs(&mut self, rows: RecordBatch) -> Result<()> {
        self.hubs.push(rows);
        Ok(())
    }

    fn add_pool(&mut self, _method: &MethodLabel, rankings: &[Rankings; 2]) -> Result<()> {
        // 0 stands for a query without a match, and for the methods that give sets.
        let ranks = |side: &Rankings| {
            side.ranks
                .iter()
                .map(|rank| rank.map_or(0, |rank| i64::try_from(rank.rank + 1).unwrap_or(i64::MAX)))
                .collect()
        };
        self.ranks.push(rankings.each_ref().map(ranks));
        Ok(())
    }

    fn progress(&mut self, done: u64, total: u64) {
        if self.outcome.is_ok() {
            self.outcome = self.interrupts.report(done, total);
        }
    }

    fn check_cancelled(&self) -> Result<()> {
        self.outcome.clone().and_then(|()| self.interrupts.check())
    }

    fn warn(&mut self, subject: String, message: String) {
        self.warnings.push(format!("{subject}: {message}"));
    }
}

/// Methods, from JSON: names, or objects with parameters.
fn parse_methods(json: &str) -> Result<Vec<Method>> {
    serde_json::from_str(json).map_err(|error| Error::usage(format!("`methods`: {error}")))
}

fn parse_protocols(names: &[String], dataset: &str, images: usize) -> Result<Vec<pairloom_retrieval::Folds>> {
    let parse = |name: &String| {
        let protocol: Protocol = serde_json::from_value(serde_json::Value::String(name.clone()))
            .map_err(|_| Error::usage(format!("got the protocol `{name}`, expected all, five_fold or first_fold")))?;
        protocol.pools(dataset, images)
    };
    names.iter().map(parse).collect()
}

fn order_penalty(similarity: &str) -> PyResult<Option<OrderPenalty>> {
    match similarity {
        "cosine" => Ok(None),
        "order" => Ok(Some(OrderPenalty::Norm)),
        "order_squared" => Ok(Some(OrderPenalty::Squared)),
        other => {
            Err(PyValueError::new_err(format!("got similarity {other:?}, expected cosine, order or order_squared")))
        }
    }
}

/// Offsets of the captions of each image, if they are in the order of the images.
fn offsets(image_of: &[usize], images: usize) -> Option<Vec<usize>> {
    image_of.is_sorted().then(|| (0..=images).map(|image| image_of.partition_point(|&of| of < image)).collect())
}

fn concatenated(batches: Vec<RecordBatch>, like: impl FnOnce() -> Result<RecordBatch>) -> Result<Table> {
    match batches.first() {
        Some(first) => Ok(Table::new(first.schema(), batches)),
        None => like().map(Table::of),
    }
}

/// Evaluates retrieval; `pairloom.evaluate` documents it.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the settings of an evaluation, which Python names")]
#[pyo3(signature = (images, captions, image_of_caption, relevant, protocols, dataset, methods, cutoffs, bank, similarity, depth, threads, progress))]
pub(crate) fn evaluate(
    py: Python<'_>,
    images: Matrix<'_>,
    captions: Matrix<'_>,
    image_of_caption: Vec<usize>,
    relevant: Vec<(usize, usize)>,
    protocols: Vec<String>,
    dataset: &str,
    methods: &str,
    cutoffs: Vec<usize>,
    bank: Option<(Matrix<'_>, Matrix<'_>)>,
    similarity: &str,
    depth: usize,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Evaluation> {
    let threads = thread_count(threads);
    let order = order_penalty(similarity)?;
    let [images, captions] = [Vectors::new(&images)?, Vectors::new(&captions)?];
    let bank = match &bank {
        Some((bank_images, bank_captions)) => Some([Vectors::new(bank_images)?, Vectors::new(bank_captions)?]),
        None => None,
    };
    let (summary, metrics, rankings, hubs, ranks, warnings) = detached(py, progress, |interrupts| {
        let width = images.width;
        let named = [("images", Some(images)), ("captions", Some(captions))];
        let banks =
            [("images of the bank", bank.map(|bank| bank[0])), ("captions of the bank", bank.map(|bank| bank[1]))];
        for (name, vectors) in named.into_iter().chain(banks) {
            let Some(vectors) = vectors else { continue };
            if vectors.width != width {
                return Err(Error::data(format!("`{name}` has vectors of width {}, expected {width}", vectors.width)));
            }
            if order.is_none() {
                vectors.check_norms(name, threads)?;
            }
        }
        let (n_images, n_captions) = (images.rows(), captions.rows());
        if image_of_caption.len() != n_captions {
            let got = image_of_caption.len();
            return Err(Error::data(format!("got the images of {got} captions, expected {n_captions}")));
        }
        if let Some((caption, image)) = image_of_caption.iter().enumerate().find(|(_, image)| **image >= n_images) {
            return Err(Error::data(format!("caption {caption} is of image {image}, expected fewer than {n_images}")));
        }
        let bank = bank.map(|[bank_images, bank_captions]| {
            ImageCaptionVectors::new(bank_images.values, bank_captions.values, width, " of the bank")
        });
        let bank = bank.transpose()?;
        let factory = CpuSearchFactory { order, threads };
        let (images, captions) = (images.values, captions.values);
        let scores = VectorSource { images, captions, width, bank: bank.as_ref(), factory: &factory };
        let ids = |count: usize| (0..).take(count).collect::<Vec<i64>>();
        let (image_ids, caption_ids) = (ids(n_images), ids(n_captions));
        let offsets = offsets(&image_of_caption, n_images);
        let matches = offsets.as_deref().map_or(Matches::ImageOfCaption(&image_of_caption), Matches::Grouped);
        let collection = Collection { image_ids: &image_ids, caption_ids: &caption_ids, matches, scores: &scores };
        let mut binary = BinaryRelevance::without_pairs("relevant", n_images, n_captions);
        for &(image, caption) in &relevant {
            if image >= n_images || caption >= n_captions {
                let message = format!("`relevant` has ({image}, {caption}), expected below ({n_images}, {n_captions})");
                return Err(Error::data(message));
            }
            binary.captions_of[image].push(caption);
            binary.images_of[caption].push(image);
        }
        let binary = if relevant.is_empty() { vec![] } else { vec![binary] };
        let mut collected =
            Collected { interrupts, rankings: vec![], hubs: vec![], warnings: vec![], ranks: vec![], outcome: Ok(()) };
        let request = Request {
            methods: &parse_methods(methods)?,
            cutoffs: &cutoffs,
            protocols: &parse_protocols(&protocols, dataset, n_images)?,
            binary_relevance: &binary,
            bank: bank.as_ref().map(|_| "bank"),
            ranking_depth: depth,
            ..Request::of(collection)
        };
        let results = pairloom_retrieval::evaluate(&request, &mut collected)?;
        let Collected { rankings, hubs, warnings, ranks, .. } = collected;
        let empty = || results.summary();
        let rankings = concatenated(rankings, empty)?;
        let hubs = concatenated(hubs, empty)?;
        Ok((Table::of(results.summary()?), Table::of(results.metrics()?), rankings, hubs, ranks, warnings))
    })?;
    Ok(Evaluation {
        summary: Py::new(py, summary)?,
        metrics: Py::new(py, metrics)?,
        rankings: Py::new(py, rankings)?,
        hubs: Py::new(py, hubs)?,
        ranks,
        warnings,
    })
}

/// Rows of [`compare`]: protocol, method, rsum of both, interval, p-value, images.
type Comparison = (String, String, [f64; 2], (f64, f64), f64, usize);

/// Compares the rankings of two evaluations of the same test set, second minus first.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, first: &Evaluation, second: &Evaluation) -> PyResult<Vec<Comparison>> {
    let rows = |evaluation: &Evaluation| evaluation.rankings.get().batches.clone().into_iter().map(Ok);
    let (first, second) = (rows(first), rows(second));
    let found = detached(py, None, |_| compare_rankings(first, second))?;
    let row = |row: pairloom_stages::test_significance::RankingComparison| {
        (row.protocol, row.method, row.rsum, row.ci95, row.p_value, row.n_images)
    };
    Ok(found.into_iter().map(row).collect())
}

/// Items and scores, each `[queries, k]`.
type Found<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<f32>>);

/// The best items of each query; `pairloom.search` documents it.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the settings of a search, which Python names")]
#[pyo3(signature = (queries, items, k, method, bank, item_bank, threads, progress))]
pub(crate) fn search<'py>(
    py: Python<'py>,
    queries: Matrix<'_>,
    items: Matrix<'_>,
    k: usize,
    method: &str,
    bank: Option<Matrix<'_>>,
    item_bank: Option<Matrix<'_>>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Found<'py>> {
    let threads = thread_count(threads);
    let (queries, items) = (Vectors::new(&queries)?, Vectors::new(&items)?);
    let banks = bank.iter().chain(item_bank.iter()).map(Vectors::new).collect::<PyResult<Vec<_>>>()?;
    let k = k.min(items.rows());
    let (ids, scores) = detached(py, progress, |interrupts| {
        for (name, vectors) in
            [("queries", queries), ("items", items)].into_iter().chain(banks.iter().map(|&bank| ("bank", bank)))
        {
            if vectors.width != queries.width {
                let message = format!("`{name}` has vectors of width {}, expected {}", vectors.width, queries.width);
                return Err(Error::data(message));
            }
            vectors.check_norms(name, threads)?;
        }
        let method = parse_methods(&format!("[{method}]"))?.remove(0);
        let banks: Vec<&[f32]> = banks.iter().map(|bank| bank.values).collect();
        let mut report = |done: u64, total: u64| interrupts.report(done, total);
        let lists =
            rank_items(&method, [queries.values, items.values], &banks, queries.width, k, threads, &mut report)?;
        let ids = lists.iter().flatten().map(|best| i64::try_from(best.item).unwrap_or(i64::MAX)).collect::<Vec<i64>>();
        Ok((ids, lists.iter().flatten().map(|best| best.score).collect::<Vec<_>>()))
    })?;
    let shape = (queries.rows(), k);
    let wrong = |error| PyValueError::new_err(format!("{error}"));
    let ids = Array2::from_shape_vec(shape, ids).map_err(wrong)?;
    let scores = Array2::from_shape_vec(shape, scores).map_err(wrong)?;
    Ok((ids.into_pyarray(py), scores.into_pyarray(py)))
}
