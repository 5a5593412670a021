//! CIDEr, SPICE, scene graphs and tokenisers on lists of captions.

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::interrupts::Interrupts;
use crate::{detached, thread_count};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::text::CaptionSimilarity;
use pairloom_kernels::text::cider::{
    CaptionVectors, Cider, CiderVariant, DocumentFrequency, Ngram, NgramVocabulary, OwnCaption,
};
use pairloom_kernels::text::spice::{SceneGraph, Spice, SpiceBuilder};
use pairloom_kernels::text::tokenizer::Tokenizer;
use pairloom_language::lexicon::Lexicon;
use pairloom_language::scene_graph;
use pairloom_search::parallel_ranges;

fn tokenizer_of(name: &str) -> PyResult<Tokenizer> {
    let found = Tokenizer::ALL.into_iter().find(|tokenizer| tokenizer.name() == name);
    let names = || Tokenizer::ALL.map(Tokenizer::name).join(", ");
    found.ok_or_else(|| PyValueError::new_err(format!("got tokenizer {name:?}, expected one of {}", names())))
}

fn variant_of(name: &str) -> PyResult<CiderVariant> {
    match name {
        "cider_d" => Ok(CiderVariant::CiderD),
        "cider" => Ok(CiderVariant::Cider),
        other => Err(PyValueError::new_err(format!("got variant {other:?}, expected cider_d or cider"))),
    }
}

/// Applies `map` to each of `items` on several threads, and looks for Ctrl-C in between.
fn mapped<T: Sync, U: Send>(
    items: &[T],
    threads: usize,
    interrupts: &Interrupts,
    map: impl Fn(&T) -> U + Sync,
) -> Result<Vec<U>> {
    const AT_ONCE: usize = 4096;
    let mut all = Vec::with_capacity(items.len());
    for part in items.chunks(AT_ONCE) {
        interrupts.report(all.len() as u64, items.len() as u64)?;
        let found = parallel_ranges(threads, part.len(), |range| part[range].iter().map(&map).collect::<Vec<_>>());
        all.extend(found.into_iter().flatten());
    }
    Ok(all)
}

/// Words of each caption.
#[pyfunction]
#[pyo3(signature = (captions, tokenizer, lowercase, threads))]
pub(crate) fn tokenize(
    py: Python<'_>,
    captions: Vec<String>,
    tokenizer: &str,
    lowercase: bool,
    threads: Option<usize>,
) -> PyResult<Vec<Vec<String>>> {
    let tokenizer = tokenizer_of(tokenizer)?;
    detached(py, None, |interrupts| {
        mapped(&captions, thread_count(threads), interrupts, |caption| tokenizer.tokenize(caption, lowercase))
    })
}

/// Captions that are compared with images: those of the images, and others.
struct Corpus {
    /// Image of each caption. Captions that are no references are of images beyond.
    image_of: Vec<usize>,
    captions: Vec<String>,
    images: usize,
}

/// References of the images, followed by one candidate for each.
fn with_candidates(candidates: Vec<String>, references: Vec<Vec<String>>) -> Result<Corpus> {
    let images = references.len();
    if candidates.len() != images {
        return Err(Error::data(format!("got {} candidates, expected {images}, one an image", candidates.len())));
    }
    let mut corpus = Corpus { image_of: vec![], captions: vec![], images };
    for (image, own) in references.into_iter().enumerate() {
        if own.is_empty() {
            return Err(Error::data(format!("image {image} has no references, expected at least one")));
        }
        corpus.image_of.resize(corpus.image_of.len() + own.len(), image);
        corpus.captions.extend(own);
    }
    corpus.image_of.extend((0..candidates.len()).map(|candidate| images + candidate));
    corpus.captions.extend(candidates);
    Ok(corpus)
}

/// Captions of images.
fn without_candidates(captions: Vec<Vec<String>>) -> Corpus {
    let images = captions.len();
    let image_of = captions.iter().enumerate().flat_map(|(image, own)| vec![image; own.len()]).collect();
    Corpus { image_of, captions: captions.into_iter().flatten().collect(), images }
}

impl Corpus {
    fn cider(
        &self,
        tokenizer: Tokenizer,
        variant: CiderVariant,
        threads: usize,
        interrupts: &Interrupts,
    ) -> Result<Cider> {
        let words = mapped(&self.captions, threads, interrupts, |caption| tokenizer.tokenize(caption, true))?;
        let mut vocabulary = NgramVocabulary::default();
        let ngrams: Vec<Vec<Ngram>> = words.iter().map(|words| vocabulary.count_ngrams(words)).collect();
        let mut frequency = DocumentFrequency::default();
        let references = self.image_of.partition_point(|&image| image < self.images);
        for own in self.image_of[..references].chunk_by(|a, b| a == b).scan(0, |start, own| {
            let range = *start..*start + own.len();
            *start = range.end;
            Some(range)
        }) {
            frequency.add_image(ngrams[own].iter().map(Vec::as_slice));
        }
        let idf = frequency.idf(None).map_err(Error::data)?;
        let mut vectors = CaptionVectors::default();
        for ((&image, words), ngrams) in self.image_of.iter().zip(&words).zip(&ngrams) {
            vectors.push(image, words.len(), ngrams, &idf);
        }
        Ok(Cider::new(vectors, variant, OwnCaption::Keep))
    }

    fn spice(&self, threads: usize, interrupts: &Interrupts) -> Result<Spice> {
        let graphs = mapped(&self.captions, threads, interrupts, |caption| scene_graph::parse(caption))?;
        let mut builder = SpiceBuilder::default();
        for graph in &graphs {
            builder.push(graph, Lexicon::wordnet());
        }
        let mut references = vec![vec![]; self.images];
        for (caption, &image) in self.image_of.iter().enumerate() {
            if let Some(own) = references.get_mut(image) {
                own.push(caption);
            }
        }
        Ok(builder.build(&references))
    }

    /// Index of the candidate of each image.
    fn candidates(&self) -> impl Iterator<Item = (usize, usize)> {
        let first = self.captions.len() - self.images;
        (0..self.images).map(move |image| (image, first + image))
    }
}

/// CIDEr-D or CIDEr of one candidate an image.
#[pyfunction]
#[pyo3(signature = (candidates, references, variant, tokenizer, threads))]
pub(crate) fn cider(
    py: Python<'_>,
    candidates: Vec<String>,
    references: Vec<Vec<String>>,
    variant: &str,
    tokenizer: &str,
    threads: Option<usize>,
) -> PyResult<Vec<f64>> {
    let (variant, tokenizer, threads) = (variant_of(variant)?, tokenizer_of(tokenizer)?, thread_count(threads));
    detached(py, None, |interrupts| {
        let corpus = with_candidates(candidates, references)?;
        let cider = corpus.cider(tokenizer, variant, threads, interrupts)?;
        let pairs: Vec<(usize, usize)> = corpus.candidates().collect();
        mapped(&pairs, threads, interrupts, |&(image, candidate)| cider.pair(image, candidate))
    })
}

/// F-score of SPICE, precision, recall; F-scores of objects, attributes, relations, colours, counts and sizes.
type SpiceRow = (f64, f64, f64, Vec<Option<f64>>);

/// SPICE of one candidate an image.
#[pyfunction]
#[pyo3(signature = (candidates, references, threads))]
pub(crate) fn spice(
    py: Python<'_>,
    candidates: Vec<String>,
    references: Vec<Vec<String>>,
    threads: Option<usize>,
) -> PyResult<Vec<SpiceRow>> {
    let threads = thread_count(threads);
    detached(py, None, |interrupts| {
        let corpus = with_candidates(candidates, references)?;
        let spice = corpus.spice(threads, interrupts)?;
        let row = |(image, candidate)| {
            let scores = spice.scores(image, candidate);
            let parts = vec![scores.object, scores.attribute, scores.relation, scores.color, scores.count, scores.size];
            (scores.f_score, scores.precision, scores.recall, parts)
        };
        Ok(corpus.candidates().map(row).collect())
    })
}

/// Similarity φ of every image with every caption, `[images, captions]`.
#[pyfunction]
#[pyo3(signature = (captions, measure, tokenizer, threads))]
pub(crate) fn caption_similarity<'py>(
    py: Python<'py>,
    captions: Vec<Vec<String>>,
    measure: &str,
    tokenizer: &str,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (tokenizer, threads) = (tokenizer_of(tokenizer)?, thread_count(threads));
    let variant = if measure == "spice" { None } else { Some(variant_of(measure)?) };
    let shape = (captions.len(), captions.iter().map(Vec::len).sum());
    let values = detached(py, None, |interrupts| {
        let corpus = without_candidates(captions);
        match variant {
            Some(variant) => {
                matrix(&corpus.cider(tokenizer, variant, threads, interrupts)?, shape, threads, interrupts)
            }
            None => matrix(&corpus.spice(threads, interrupts)?, shape, threads, interrupts),
        }
    })?;
    let values = Array2::from_shape_vec(shape, values).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(values.into_pyarray(py))
}

/// All rows of φ.
fn matrix<S: CaptionSimilarity>(
    similarity: &S,
    (images, captions): (usize, usize),
    threads: usize,
    interrupts: &Interrupts,
) -> Result<Vec<f32>> {
    let mut values = Vec::with_capacity(images * captions);
    let rows: Vec<usize> = (0..images).collect();
    for part in rows.chunks(256) {
        interrupts.check()?;
        let found = parallel_ranges(threads, part.len(), |range| {
            let mut scratch = S::Scratch::default();
            let mut found = vec![0.0; range.len() * captions];
            for (row, values) in range.zip(found.chunks_mut(captions.max(1))) {
                // The last images may have no captions, and then the similarity does not know them.
                if part[row] < similarity.image_count() {
                    similarity.row(part[row], &mut scratch, values);
                }
            }
            found
        });
        values.extend(found.into_iter().flatten());
    }
    Ok(values)
}

/// Objects, attributes and relations of a caption.
type Graph = (Vec<String>, Vec<(String, String)>, Vec<(String, String, String)>);

/// Scene graph of each caption.
#[pyfunction]
#[pyo3(signature = (captions, threads))]
pub(crate) fn scene_graphs(py: Python<'_>, captions: Vec<String>, threads: Option<usize>) -> PyResult<Vec<Graph>> {
    let graph = |caption: &String| {
        let SceneGraph { objects, attributes, relations } = scene_graph::parse(caption);
        (objects, attributes, relations)
    };
    detached(py, None, |interrupts| mapped(&captions, thread_count(threads), interrupts, graph))
}
