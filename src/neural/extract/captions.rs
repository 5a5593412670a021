//! Vectors of captions by the text tower of CLIP.

use std::io::Read;
use std::path::Path;
use std::sync::Mutex;

use arrow::array::{Int64Array, StringArray};
use rayon::prelude::*;

use super::batches::normalize;
use super::run::{MAX_WEIGHTS, published_network};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_language::clip_tokenizer::ClipTokenizer;
use pairloom_model::networks::TextEncoder;
use pairloom_model::{device, threads};
use pairloom_spec::stages::extract::{CAPTION_ROWS, CAPTIONS, EmbeddedCaptions, Extract, WeightSource};
use pairloom_stage::{MapBlock, MapInput, MapOutput, StageContext};
use pairloom_storage::bounded;
use pairloom_tables::{self as tables, VectorColumn, repeated};

/// Number of captions of a batch.
const BATCH: usize = 64;
/// Maximum size of the merges, in bytes: several times that of the published file.
const MAX_MERGES: u64 = 16 << 20;
/// Name of the tokeniser in the table.
const TOKENIZER: &str = "clip";

/// Embeds the captions of the chosen splits, in the order of their table.
pub(super) fn embed_captions(
    stage: &Extract,
    captions: &EmbeddedCaptions,
    local_rank: usize,
    cx: &mut StageContext<'_>,
) -> Result<()> {
    let merges = cx.source("captions.merges")?;
    let in_merges = |error: Error| error.context(format!("merges `{}`", merges.display()));
    let tokenizer = ClipTokenizer::new(&read_merges(&merges)?).map_err(in_merges)?;
    let encoder = load_text_encoder(stage, local_rank, cx)?.prepare(stage.is_mixed())?.with_cancel(cx.cancel().clone());
    let (encoder, pool, cancel) = (Mutex::new(encoder), threads::pool(cx.threads())?, cx.cancel().clone());
    let summary = cx.map(MapInput::Table("captions.table"), CAPTIONS, CAPTION_ROWS, &|block| {
        pool.install(|| embed_block(stage, block, &tokenizer, &encoder, &cancel))
    })?;
    if summary.rows == 0 {
        let table = &captions.table;
        let error = Error::data(format!("nothing to embed: no caption of the chosen splits in `{table}`"));
        return Err(error.hint("choose with `splits` of this stage, or of `ingest`"));
    }
    Ok(())
}

fn load_text_encoder(stage: &Extract, local_rank: usize, cx: &mut StageContext<'_>) -> Result<TextEncoder> {
    let device = device::device_of_rank(cx.device(), local_rank)?;
    let network = published_network(stage)?;
    match &stage.weights {
        Some(WeightSource::Random) => TextEncoder::random(network, stage.seed, device),
        Some(WeightSource::File(_)) => {
            let path = cx.source("weights.file")?;
            let bytes = bounded::read(&path, MAX_WEIGHTS)?;
            let in_weights = |error: Error| error.context(format!("weights `{}`", path.display()));
            TextEncoder::from_file(network, &bytes, device).map_err(in_weights)
        }
        Some(WeightSource::Model(_)) | None => Err(Error::internal("no weights of a text tower")),
    }
}

fn embed_block(
    stage: &Extract,
    block: &MapBlock,
    tokenizer: &ClipTokenizer,
    encoder: &Mutex<TextEncoder>,
    cancel: &CancelToken,
) -> Result<MapOutput> {
    let share = || {
        let broken = |_| Error::internal("another thread panicked while it copied the handles of the text tower");
        encoder.lock().map(|encoder| encoder.share()).map_err(broken)
    };
    let (length, width) = share().map(|encoder| (encoder.length(), encoder.width()))?;
    let batch = stage.rows_of_splits(&block.rows)?;
    let texts = tables::text_column(&batch, "text")?;
    let tokens_of = |row| cancel.check().map(|()| tokenizer.encode(texts.value(row), length));
    let tokens: Vec<Vec<i32>> = (0..batch.num_rows()).map(tokens_of).collect::<Result<_>>()?;
    // Captions of like length are computed together.
    let mut order: Vec<usize> = (0..tokens.len()).collect();
    order.sort_by_key(|&row| tokens[row].len());
    let encode = |rows: &[usize]| {
        let chosen: Vec<Vec<i32>> = rows.iter().map(|&row| tokens[row].clone()).collect();
        share()?.encode(&chosen)
    };
    let encoded: Vec<Result<Vec<f32>>> = order.par_chunks(BATCH).map(encode).collect();
    let mut vectors = vec![0.0; tokens.len() * width];
    for (rows, values) in order.chunks(BATCH).zip(encoded) {
        let values = values?;
        for (&row, vector) in rows.iter().zip(values.chunks_exact(width)) {
            if !vector.iter().all(|value| value.is_finite()) {
                let id = tables::int_column(&batch, "caption_id")?.value(row);
                let message = format!("the vector of caption {id} holds a NaN or an infinity");
                return Err(Error::stage(message).hint("the weights are too large for the network"));
            }
            let place = &mut vectors[row * width..][..width];
            place.copy_from_slice(vector);
            normalize(place);
        }
    }
    let ids =
        |name| tables::int_column(&batch, name).map(|ids| Int64Array::from_iter_values(ids.values().iter().copied()));
    let splits = tables::text_column(&batch, "split")?;
    let rows = tables::caption_embeddings::TableColumns {
        caption_id: ids("caption_id")?,
        image_id: ids("image_id")?,
        split: StringArray::from_iter_values((0..batch.num_rows()).map(|row| splits.value(row))),
        tokenizer: repeated(TOKENIZER, batch.num_rows()),
        embedding: VectorColumn::new(vectors, width)?,
    };
    Ok(MapOutput::new(stage.stored(rows.into_batch()?)?))
}

/// Reads a file of merges, which is packed if its name ends in `.gz`.
fn read_merges(path: &Path) -> Result<String> {
    let packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let content = bounded::open_text(path, packed)?;
    let mut text = String::new();
    let read = content.take(MAX_MERGES).read_to_string(&mut text);
    read.map_err(|error| Error::data(format!("cannot read `{}`: {error}", path.display())))?;
    Ok(text)
}
