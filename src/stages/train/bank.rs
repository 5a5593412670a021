//! The memory bank of an epoch: drawn, embedded by all ranks together, written.

use arrow::array::Int64Array;
use az::SaturatingAs;

use super::Train;
use super::corpus::Corpus;
use super::options;
use crate::error::{Error, Result};
use crate::kernels::epoch::{Draw, draw, share};
use crate::model::bank::{Bank, Member};
use crate::model::collective::Group;
use crate::model::family::encode;
use crate::model::family::encoded::Encoded;
use crate::model::training::Training;
use crate::stage::Cx;
use crate::tables::{Vectors, memory_bank};

/// Rows that are written at a time.
const BLOCK: usize = 2048;

/// The samples of the bank of an epoch: a function of the seed and the epoch.
///
/// # Errors
/// The samples cannot be read.
pub(super) fn members(stage: &Train, bank: &options::Bank, corpus: &Corpus, epoch: u64) -> Result<Vec<Member>> {
    let samples = corpus.samples.rows();
    let rows = draw(samples, bank.draw(samples, stage.batch), stage.seed, epoch);
    rows.into_iter().map(|row| Ok(Member { row, image: corpus.sample(row)?.image_key() })).collect()
}

/// Whether there can be such a bank.
///
/// # Errors
/// More rows than there are samples, or fewer than neighbours are wanted.
pub(super) fn check(stage: &Train, bank: &options::Bank, corpus: &Corpus) -> Result<()> {
    let samples = corpus.samples.rows();
    if let Some(rows) = bank.rows.filter(|&rows| rows > samples) {
        return Err(Error::data(format!("`bank.rows` is {rows}, but there are {samples} training samples"))
            .hint("a bank is a sample of the training data: ask for fewer rows, or for a `fraction`"));
    }
    // Of whole batches, some epochs have few: then all that there are count.
    if let Draw::Rows(rows) = bank.draw(samples, stage.batch)
        && rows < bank.weights.neighbours
    {
        let neighbours = bank.weights.neighbours;
        return Err(Error::data(format!(
            "`bank.neighbours` is {neighbours}, but the bank has {rows} rows, of {samples} training samples"
        ))
        .hint("a larger `fraction`, or fewer `neighbours`"));
    }
    Ok(())
}

/// Embeds the samples, each rank its share.
///
/// # Errors
/// A shard cannot be read, a vector is not finite, another rank is gone, or the run was cancelled.
pub(super) fn refresh(
    epoch: u64,
    members: Vec<Member>,
    training: &Training,
    corpus: &Corpus,
    group: &Group,
    cx: &Cx<'_>,
) -> Result<Bank> {
    let own = &members[share(members.len(), group.rank(), group.ranks())];
    let model = training.model();
    // A rank may have no share.
    let (no_image, no_caption) = encode::nothing(model)?;
    let (mut images, mut captions) = (vec![no_image], vec![no_caption]);
    for block in own.chunks(corpus.together()) {
        let rows: Vec<usize> = block.iter().map(|member| member.row).collect();
        let words = rows.iter().map(|&row| corpus.words(row)).collect::<Result<Vec<_>>>()?;
        images.push(encode::images(model, &corpus.images(&rows, cx)?)?);
        captions.push(encode::captions(model, &words)?);
    }
    let [images, captions] = [Encoded::join(&images)?, Encoded::join(&captions)?];
    if !(images.is_finite() && captions.is_finite()) {
        let message = format!("the memory bank of epoch {epoch} has vectors that are not finite");
        return Err(Error::stage(message).hint("try a lower `learning_rate`"));
    }
    Bank::gather(epoch, members, &images, &captions, group)
}

/// Writes a version of the bank.
pub(super) fn write(bank: &Bank, corpus: &Corpus, cx: &mut Cx<'_>) -> Result<()> {
    let width = bank.width();
    for start in (0..bank.len()).step_by(BLOCK) {
        let end = bank.len().min(start + BLOCK);
        let samples = bank.members()[start..end].iter().map(|member| corpus.sample(member.row));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        let (images, captions) = bank.vectors(start, end)?;
        let rows = memory_bank::Columns {
            epoch: vec![bank.epoch.saturating_as::<i64>(); samples.len()].into(),
            data_set: Int64Array::from_iter_values(samples.iter().map(|sample| sample.set)),
            caption_id: Int64Array::from_iter_values(samples.iter().map(|sample| sample.caption)),
            image_id: Int64Array::from_iter_values(samples.iter().map(|sample| sample.image)),
            image: Vectors::new(images, width)?,
            caption: Vectors::new(captions, width)?,
        };
        cx.write("memory_bank", rows.into_batch()?)?;
    }
    Ok(())
}
