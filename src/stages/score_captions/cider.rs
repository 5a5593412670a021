//! φ as CIDEr-D or CIDEr: captions → n-grams → tf-idf vectors → φ.

use arrow::array::Int64Array;

use super::{
    CAPTION_PART_ROWS, CiderSettings, MeasureInfo, ScoreCaptions, SplitCaptions, read_splits, write_similarities,
};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::text::cider::{
    CaptionVectors, Cider, CiderVariant, DocumentFrequency, Idf, NgramVocabulary, OwnCaption,
};
use pairloom_kernels::text::tokenizer::Tokenizer;
use pairloom_stage::StageContext;
use pairloom_tables::{self as tables, ListColumn, repeated};

/// Reads captions; writes their tf-idf vectors, and φ of the selected pairs.
pub(super) fn run(
    stage: &ScoreCaptions,
    variant: CiderVariant,
    settings: &CiderSettings,
    cx: &mut StageContext<'_>,
) -> Result<()> {
    let counted = settings.document_frequency_split.as_deref().filter(|split| *split != stage.split);
    let (corpus, others) = match counted {
        Some(counted) => {
            let [corpus, others] = read_splits(cx, [&stage.split, counted])?;
            (corpus, Some(others))
        }
        None => {
            let [corpus] = read_splits(cx, [&stage.split])?;
            (corpus, None)
        }
    };
    let rows = stage.selected_pairs(cx, &corpus)?;
    let tokenizer = settings.tokenizer;
    let vectors = tf_idf_vectors(&corpus, others.as_ref(), settings, cx)?;
    write_vectors(cx, &corpus, &vectors, tokenizer)?;
    let Some(rows) = rows else { return Ok(()) };
    let cider = Cider::new(vectors, variant, settings.own_caption);
    if cider.is_zero() {
        cx.warn(
            format!("split `{}`", stage.split),
            "φ is 0 for every pair: all idf weights are 0, because document frequencies are counted over too few \
             images (over one image, each is 1 of 1)",
        );
    }
    if settings.own_caption == OwnCaption::LeaveOut {
        let single = corpus.first_caption.windows(2).filter(|ends| ends[1] - ends[0] == 1).count();
        if single > 0 {
            cx.warn(
                format!("split `{}`", stage.split),
                format!(
                    "φ of an image and its only caption is 0, because `own_caption = \"leave_out\"` leaves it no \
                     reference: {single} of {} images have one caption",
                    corpus.image_ids.len()
                ),
            );
        }
    }
    let info = MeasureInfo { measure: stage.measure.name(), tokenizer: tokenizer.name() };
    write_similarities(cx, &corpus, &cider, &rows, info)
}

/// Computes the tf-idf vectors of the captions of `corpus`, with document frequencies over `others` if given.
fn tf_idf_vectors(
    corpus: &SplitCaptions,
    others: Option<&SplitCaptions>,
    settings: &CiderSettings,
    cx: &mut StageContext<'_>,
) -> Result<CaptionVectors> {
    let tokenizer = settings.tokenizer;
    let words = |corpus: &SplitCaptions| {
        corpus.parallel_map(cx.resources(), |text| tokenizer.tokenize(text, settings.lowercase))
    };
    let mut ngrams = NgramVocabulary::default();
    let mut count = |words: &Vec<String>| cx.check_cancelled().map(|()| ngrams.count_ngrams(words));
    let lengths: Vec<usize>;
    let counted: Vec<_> = {
        let words = words(corpus)?;
        lengths = words.iter().map(Vec::len).collect();
        words.iter().map(&mut count).collect::<Result<_>>()?
    };
    let idf = if settings.uniform {
        Idf::uniform()
    } else {
        let mut frequency = DocumentFrequency::default();
        let other: Vec<_> = match others {
            Some(others) => words(others)?.iter().map(&mut count).collect::<Result<_>>()?,
            None => vec![],
        };
        let (first, counted) =
            others.map_or((&corpus.first_caption, &counted), |others| (&others.first_caption, &other));
        for ends in first.windows(2) {
            frequency.add_image(counted[ends[0]..ends[1]].iter().map(Vec::as_slice));
        }
        let images = settings.document_count.map(u32::try_from).transpose();
        let images = images.map_err(|_| Error::internal("`document_count` was checked to fit in 32 bits"))?;
        frequency
            .idf(images)
            .map_err(|problem| Error::data(problem).hint("leave `document_count` out to count the images"))?
    };
    let mut vectors = CaptionVectors::default();
    for ((image, words), ngrams) in corpus.image_of().into_iter().zip(lengths).zip(&counted) {
        cx.check_cancelled()?;
        vectors.push(image, words, ngrams, &idf);
    }
    Ok(vectors)
}

fn write_vectors(
    cx: &mut StageContext<'_>,
    corpus: &SplitCaptions,
    vectors: &CaptionVectors,
    tokenizer: Tokenizer,
) -> Result<()> {
    let image_of = corpus.image_of();
    for start in (0..vectors.len()).step_by(CAPTION_PART_ROWS) {
        let range = start..vectors.len().min(start + CAPTION_PART_ROWS);
        let captions: Vec<_> = range.clone().map(|caption| vectors.caption(caption)).collect();
        let lengths = || captions.iter().map(|caption| caption.ngrams.len());
        let image_ids = range.clone().map(|caption| corpus.image_ids[image_of[caption]]);
        let ngrams = captions.iter().flat_map(|caption| caption.ngrams.iter().map(|&number| i64::from(number)));
        let columns = tables::caption_ngrams::TableColumns {
            caption_id: corpus.caption_ids[range.clone()].to_vec().into(),
            image_id: Int64Array::from_iter_values(image_ids),
            n_tokens: Int64Array::from_iter_values(captions.iter().map(|caption| i64::from(caption.words))),
            ngrams: ListColumn::new(lengths(), ngrams)?,
            orders: ListColumn::new(lengths(), captions.iter().flat_map(|caption| caption.orders.iter().copied()))?,
            counts: ListColumn::new(lengths(), captions.iter().flat_map(|caption| caption.counts.iter().copied()))?,
            weights: ListColumn::new(lengths(), captions.iter().flat_map(|caption| caption.weights.iter().copied()))?,
            tokenizer: repeated(tokenizer.name(), range.len()),
        };
        cx.write("caption_ngrams", columns.into_batch()?)?;
    }
    Ok(())
}
