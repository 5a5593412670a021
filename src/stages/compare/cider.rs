//! φ as CIDEr-D or CIDEr: captions to n-grams, n-grams to vectors, vectors to φ.

use arrow::array::Int64Array;

use super::corpus::{self, Corpus};
use super::rows::{self, Label};
use super::settings::{CAPTION_PART_ROWS, CiderSettings, Compare};
use crate::error::{Error, Result};
use crate::kernels::text::cider::{Cider, Form, Frequency, Idf, Ngrams, Vectors};
use crate::kernels::text::tokens::Tokenizer;
use crate::stage::Cx;
use crate::tables::{self, Lists, repeated};

/// Reads captions, writes their vectors, and φ of the pairs that the form asks for.
pub(super) fn run(stage: &Compare, form: Form, settings: &CiderSettings, cx: &mut Cx<'_>) -> Result<()> {
    let counted = settings.document_frequency.as_deref().filter(|split| *split != stage.split);
    let (corpus, others) = match counted {
        Some(counted) => {
            let [corpus, others] = corpus::read(cx, [&stage.split, counted])?;
            (corpus, Some(others))
        }
        None => {
            let [corpus] = corpus::read(cx, [&stage.split])?;
            (corpus, None)
        }
    };
    let rows = stage.rows(cx, &corpus)?;
    let tokenizer = settings.tokenizer;
    let vectors = vectors(&corpus, others.as_ref(), settings, cx)?;
    write_vectors(cx, &corpus, &vectors, tokenizer)?;
    let Some(rows) = rows else { return Ok(()) };
    let cider = Cider::new(vectors, form, settings.own_caption);
    if cider.is_zero() {
        cx.warn(
            format!("split `{}`", stage.split),
            "φ is 0 for every pair: no n-gram tells images apart, since document frequencies are counted over so few \
             images (over one image all of them are 1 of 1)",
        );
    }
    let label = Label { measure: stage.measure.name(), tokenizer: tokenizer.name() };
    rows::write(cx, &corpus, &cider, &rows, label)
}

/// The vectors of the captions of `corpus`, with document frequencies over `others` where they are given.
fn vectors(corpus: &Corpus, others: Option<&Corpus>, settings: &CiderSettings, cx: &mut Cx<'_>) -> Result<Vectors> {
    let tokenizer = settings.tokenizer;
    let words = |corpus: &Corpus| corpus.map_texts(cx.threads(), |text| tokenizer.words(text, settings.lowercase));
    let mut ngrams = Ngrams::default();
    let lengths: Vec<usize>;
    let counted: Vec<_> = {
        let words = words(corpus);
        lengths = words.iter().map(Vec::len).collect();
        words.iter().map(|words| ngrams.count(words)).collect()
    };
    cx.proceed()?;
    let idf = if settings.uniform {
        Idf::uniform()
    } else {
        let mut frequency = Frequency::default();
        let other: Vec<_> =
            others.map(|others| words(others).iter().map(|words| ngrams.count(words)).collect()).unwrap_or_default();
        let (first, counted) =
            others.map_or((&corpus.first_caption, &counted), |others| (&others.first_caption, &other));
        for ends in first.windows(2) {
            frequency.add(counted[ends[0]..ends[1]].iter().map(Vec::as_slice));
        }
        let images = settings.images.map(u32::try_from).transpose();
        let images = images.map_err(|_| Error::internal("`images` was checked to fit"))?;
        frequency.idf(images).map_err(|problem| Error::data(problem).hint("leave `images` out to count them"))?
    };
    cx.proceed()?;
    let mut vectors = Vectors::default();
    for ((image, words), ngrams) in corpus.image_of().into_iter().zip(lengths).zip(&counted) {
        vectors.push(image, words, ngrams, &idf);
    }
    Ok(vectors)
}

fn write_vectors(cx: &mut Cx<'_>, corpus: &Corpus, vectors: &Vectors, tokenizer: Tokenizer) -> Result<()> {
    let image_of = corpus.image_of();
    for start in (0..vectors.len()).step_by(CAPTION_PART_ROWS) {
        let range = start..vectors.len().min(start + CAPTION_PART_ROWS);
        let captions: Vec<_> = range.clone().map(|caption| vectors.caption(caption)).collect();
        let lengths = || captions.iter().map(|caption| caption.ngrams.len());
        let image_ids = range.clone().map(|caption| corpus.image_ids[image_of[caption]]);
        let ngrams = captions.iter().flat_map(|caption| caption.ngrams.iter().map(|&number| i64::from(number)));
        let columns = tables::caption_ngrams::Columns {
            caption_id: corpus.caption_ids[range.clone()].to_vec().into(),
            image_id: Int64Array::from_iter_values(image_ids),
            words: Int64Array::from_iter_values(captions.iter().map(|caption| i64::from(caption.words))),
            ngrams: Lists::new(lengths(), ngrams)?,
            orders: Lists::new(lengths(), captions.iter().flat_map(|caption| caption.orders.iter().copied()))?,
            counts: Lists::new(lengths(), captions.iter().flat_map(|caption| caption.counts.iter().copied()))?,
            weights: Lists::new(lengths(), captions.iter().flat_map(|caption| caption.weights.iter().copied()))?,
            tokenizer: repeated(tokenizer.name(), range.len()),
        };
        cx.write("caption_ngrams", columns.into_batch()?)?;
    }
    Ok(())
}
