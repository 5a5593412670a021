//! Memory bank of an epoch: draws its training pairs, embeds them on all ranks, and writes those that are kept to the
//! table `memory_bank`.

use std::sync::Arc;

use arrow::array::Int64Array;
use az::SaturatingAs;

use super::training_data::TrainingData;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::{MemoryBankSampling, Shuffle, TrainingPair, rank_share, sample_memory_bank};
use pairloom_loader::{Loader, SelectedRows, pooled_heap};
use pairloom_model::collective::CollectiveGroup;
use pairloom_model::family::encode;
use pairloom_model::family::encode::EncodedItems;
use pairloom_model::memory_bank::MemoryBank;
use pairloom_model::training_state::TrainingState;
use pairloom_spec::stages::train::{KeptBanks, MemoryBankSettings, Train};
use pairloom_stage::StageContext;
use pairloom_tables::{VectorColumn, memory_bank};

/// Rows per write to `memory_bank`.
const WRITE_ROWS: usize = 2048;

/// Draws the training pairs of the bank of an epoch, as a function of the seed and the epoch.
///
/// # Errors
/// The training pairs cannot be read.
pub(super) fn draw_pairs(
    stage: &Train,
    bank: &MemoryBankSettings,
    data: &TrainingData,
    epoch: u64,
) -> Result<Vec<TrainingPair>> {
    draw_rows(stage, bank, data, epoch).into_iter().map(|row| data.loader_data.pair(row)).collect()
}

/// Draws the rows of `samples` in the bank of an epoch.
fn draw_rows(stage: &Train, bank: &MemoryBankSettings, data: &TrainingData, epoch: u64) -> Vec<usize> {
    let samples = data.samples.rows();
    sample_memory_bank(samples, bank.sampling(samples, stage.batch_size), stage.seed, epoch)
}

/// True if the bank of this epoch is kept in the table.
pub(super) fn is_kept(stage: &Train, bank: &MemoryBankSettings, data: &TrainingData, epoch: u64) -> bool {
    match bank.keep {
        KeptBanks::None => false,
        // An epoch may draw no batch, and then has no bank.
        KeptBanks::Last => {
            (epoch + 1..u64::from(stage.epochs)).all(|later| draw_rows(stage, bank, data, later).is_empty())
        }
        KeptBanks::All => true,
    }
}

/// Checks the size of the bank.
///
/// # Errors
/// The bank is larger than the number of training pairs, or smaller than the number of neighbours.
pub(super) fn check_size(stage: &Train, bank: &MemoryBankSettings, data: &TrainingData) -> Result<()> {
    let samples = data.samples.rows();
    if let Some(rows) = bank.samples.filter(|&rows| rows > samples) {
        return Err(Error::data(format!("`memory_bank.samples` is {rows}, but there are {samples} training pairs"))
            .hint("a memory bank is a sample of the training pairs: set a smaller number, or `fraction`"));
    }
    // The size of a bank of whole batches varies by epoch; with fewer samples than neighbours, all of them are
    // neighbours.
    if let MemoryBankSampling::Samples(rows) = bank.sampling(samples, stage.batch_size)
        && rows < bank.weights.neighbours
    {
        let neighbours = bank.weights.neighbours;
        return Err(Error::data(format!(
            "`memory_bank.neighbours` is {neighbours}, but the bank has {rows} of {samples} training pairs"
        ))
        .hint("set a larger `fraction`, or fewer `neighbours`"));
    }
    Ok(())
}

/// Embeds the training pairs of the bank, each rank its share, and gathers them on all ranks.
///
/// # Errors
/// A shard cannot be read, a vector is not finite, another rank ended, or the run was cancelled.
pub(super) fn encode_memory_bank(
    epoch: u64,
    pairs: Vec<TrainingPair>,
    training: &TrainingState,
    data: &TrainingData,
    group: &CollectiveGroup,
    cx: &StageContext<'_>,
) -> Result<MemoryBank> {
    let own = &pairs[rank_share(pairs.len(), group.rank(), group.world_size())];
    let rows = SelectedRows {
        rows: own.iter().map(|pair| pair.row).collect(),
        batch_size: data.encoding_batch_size(),
        // A global shuffle keeps reading from all shards.
        release_shards: data.order.shuffle() != Shuffle::Global,
    };
    let threads = data.bank_loader_threads(cx.threads());
    let mut loader = Loader::start_on_rows(Arc::clone(&data.loader_data), rows, threads, &pooled_heap())?;
    let model = training.model();
    // The share of a rank may be empty.
    let (no_image, no_caption) = encode::encode_nothing(model)?;
    let (mut images, mut captions) = (vec![no_image], vec![no_caption]);
    while let Some(batch) = loader.next(|| cx.check_cancelled())? {
        cx.check_cancelled()?;
        images.push(encode::images(model, batch.images(), model.input_spec().values_per_image(), cx.cancel())?);
        captions.push(encode::captions(model, &batch.token_ids(), cx.cancel())?);
    }
    let [images, captions] = [EncodedItems::concat(&images)?, EncodedItems::concat(&captions)?];
    if !(images.is_finite() && captions.is_finite()) {
        let message = format!("the memory bank of epoch {epoch} has vectors that are not finite");
        return Err(Error::stage(message).hint("try a lower `learning_rate`"));
    }
    MemoryBank::gather(epoch, pairs, &images, &captions, group)
}

/// Writes the bank of an epoch to `memory_bank`.
pub(super) fn write_memory_bank(bank: &MemoryBank, data: &TrainingData, cx: &mut StageContext<'_>) -> Result<()> {
    let width = bank.width();
    for start in (0..bank.len()).step_by(WRITE_ROWS) {
        let end = bank.len().min(start + WRITE_ROWS);
        let pairs = &bank.pairs()[start..end];
        let caption_ids = pairs.iter().map(|pair| data.caption_id(pair.row)).collect::<Result<Vec<_>>>()?;
        let (images, captions) = bank.vectors(start, end)?;
        let rows = memory_bank::TableColumns {
            epoch: vec![bank.epoch.saturating_as::<i64>(); pairs.len()].into(),
            data_set: Int64Array::from_iter_values(pairs.iter().map(|pair| pair.image.0)),
            caption_id: caption_ids.into(),
            image_id: Int64Array::from_iter_values(pairs.iter().map(|pair| pair.image.1)),
            image: VectorColumn::new(images, width)?,
            caption: VectorColumn::new(captions, width)?,
        };
        cx.write("memory_bank", rows.into_batch()?)?;
    }
    Ok(())
}
