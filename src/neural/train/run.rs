//! Training loop: epochs, steps, checkpoints, validation.

use std::sync::Arc;

use az::SaturatingAs;

use arrow::array::{Float64Array, Int64Array};

use super::history;
use super::history::{HistoryBuffer, write_validation};
use super::initial_model::create_training;
use super::memory_bank;
use super::position::{BestEpoch, DataOrderIdentity, TrainingPosition};
use super::relevance::CaptionRelevance;
use super::training_data::{TrainingData, ValidationSplit};
use super::validate::{Phi, validate};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::runtime::{Device, Stalls};
use pairloom_kernels::epoch::{Shuffle, TrainingPair};
use pairloom_loader::{AllocateBuffer, Loader, LoaderStart};
use pairloom_model::collective::CollectiveGroup;
use pairloom_model::device;
use pairloom_model::device::{device_of_rank, set_thread_count};
use pairloom_model::family::registry::{DescribeModel, ModelConfig};
use pairloom_model::malloc::return_freed_memory;
use pairloom_model::memory_bank::MemoryBank;
use pairloom_model::step::{MemoryBankComparison, PairBatch, StepOptions, StepResult};
use pairloom_model::trained_model::{DESCRIPTION_FILE, ModelDescription, PARAMETERS_FILE};
use pairloom_model::training_state::TrainingState;
use pairloom_spec::family::BatchNormStatistics;
use pairloom_spec::input_spec;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::Objective;
use pairloom_spec::stages::train::{SameImagePolicy, Train};
use pairloom_stage::{Stage, StageContext, StageEvent, TrainedStep};
use pairloom_tables::{self as tables, Nullable};

/// Trains for `epochs` epochs. An epoch visits every training pair once, in an order that depends on the seed and
/// the epoch only; a step takes `batch_size` pairs over all ranks. The last step of an epoch takes the remaining
/// pairs, even a single one, which has no negatives.
///
/// # Errors
/// Any error of the stage.
pub fn run(stage: &Train, cx: &mut StageContext<'_>) -> Result<()> {
    let data = TrainingData::open(stage, cx)?;
    let relevance = stage.caption_ngrams.as_ref().map(|_| CaptionRelevance::read(&data, cx)).transpose()?;
    let initial = match &stage.init_from {
        Some(_) => Some((cx.file("init_from", DESCRIPTION_FILE)?, cx.file("init_from", PARAMETERS_FILE)?)),
        None => None,
    };
    if let Some(bank) = &stage.memory_bank {
        memory_bank::check_size(stage, bank, &data)?;
    }
    // Only after all inputs were read: a stage that waits for an input from another training must not block it.
    cx.wait_for_exclusive()?;
    let ranks = cx.process_group(stage.ranks)?;
    stage.check_world_size(ranks.world_size)?;
    cx.warn_of_other_ranks(&ranks)?;
    set_thread_count(cx.threads());
    let device = device_of_rank(cx.device(), ranks.local_rank)?;
    let allocate = device::allocator_for_device(device);
    let group = CollectiveGroup::join(&ranks, device, cx.cancel())?;
    if let (Device::Cuda(_), Some(why)) =
        (cx.device(), group.nccl_unavailable_reason().filter(|_| group.world_size() > 1))
    {
        let message = format!("ranks exchange tensors through CPU memory, not by NCCL: {why}");
        cx.warn("device", message);
    }
    let order = DataOrderIdentity::new(stage, &data);
    let (mut training, position, bank) = match cx.saved_state()? {
        Some(bytes) => {
            let (training, text, bank) = TrainingState::from_bytes(&bytes, &config(stage, &data), device)?;
            let position = TrainingPosition::from_json(&text, &order)?;
            let bank = match (bank, &stage.memory_bank) {
                (Some(kept), Some(settings)) => {
                    let bank_pairs = memory_bank::draw_pairs(stage, settings, &data, position.epoch)?;
                    Some(kept.with_pairs(position.epoch, bank_pairs)?)
                }
                _ => None,
            };
            (training, position, bank)
        }
        None => {
            // A resumed training has written and reported all this before.
            write_data_order(stage, &data, cx)?;
            for (subject, message) in &data.warnings {
                cx.warn(subject, message);
            }
            let training = create_training(stage, &data, initial, ranks.local_rank, cx)?;
            let mut position = TrainingPosition::new(order);
            if !device.is_cuda() {
                position.choose_products(stage, &group)?;
            }
            (training, position, None)
        }
    };
    training.model_mut().set_precision(position.precision(stage.precision))?;
    let (data, validation, stalls) = (&data, None, Stalls::default());
    let mut run = TrainingRun { data, relevance, group, training, position, bank, validation, allocate, stalls };
    while run.position.epoch < u64::from(stage.epochs) {
        run_epoch(stage, &mut run, cx)?;
    }
    if run.group.rank() > 0 {
        return Ok(());
    }
    cx.put_file("model", PARAMETERS_FILE, run.training.best_parameters()?)?;
    cx.put_file("model", DESCRIPTION_FILE, description_json(stage, data, &run.position)?.into())?;
    // The stages that follow have no use for the memory of a step.
    drop(run);
    return_freed_memory();
    Ok(())
}

/// State of a running training.
struct TrainingRun<'c> {
    data: &'c TrainingData,
    relevance: Option<CaptionRelevance>,
    group: CollectiveGroup,
    training: TrainingState,
    position: TrainingPosition,
    /// Memory bank of the current epoch.
    bank: Option<MemoryBank>,
    /// Validation split, read when the first epoch ends.
    validation: Option<(ValidationSplit, Option<Phi>)>,
    allocate: AllocateBuffer,
    /// Loading stalls of the completed epochs.
    stalls: Stalls,
}

/// Runs the remaining steps of an epoch, its validation, and its checkpoint.
fn run_epoch(stage: &Train, run: &mut TrainingRun<'_>, cx: &mut StageContext<'_>) -> Result<()> {
    refresh_memory_bank(stage, run, cx)?;
    let TrainingRun { data, relevance, group, training, position, bank, allocate, stalls, .. } = run;
    let batches = data.order.batch_count();
    let steps = batches as u64 * u64::from(stage.epochs);
    let learning_rate = learning_rate_at(stage, position.epoch);
    let options = step_options(stage, position.epoch);
    let bank_use = bank.as_ref().zip(stage.memory_bank.as_ref()).zip(training.model().similarity());
    let bank_use = bank_use.map(|((bank, settings), similarity)| MemoryBankComparison {
        memory_bank: bank,
        similarity,
        mask: settings.mask,
        weights: &settings.weights,
    });
    let mut history = HistoryBuffer::default();
    cx.progress(position.step, Some(steps), "steps");
    // Copying rows from shards is much faster than a training step: one loader thread suffices.
    let loader_start = LoaderStart {
        rank: group.rank(),
        world_size: group.world_size(),
        ..LoaderStart::single_rank(position.epoch, position.batches, 1)
    };
    let mut loader = Loader::start(Arc::clone(&data.loader_data), Arc::clone(&data.order), loader_start, allocate)?;
    while let Some(batch) = loader.next(|| cx.check_cancelled())? {
        // A loader that is faster than the training never waits, so it does not check.
        cx.check_cancelled()?;
        let (token_ids, pairs) = (batch.token_ids(), batch.pairs());
        let relevance = relevance.as_ref().filter(|_| options.objective.semantic_margin.is_some());
        let relevance = relevance.map(|relevance| relevance.block(pairs));
        let pair_batch =
            PairBatch { images: batch.images(), captions: &token_ids, pairs, relevance: relevance.as_deref() };
        let result = training.step(&pair_batch, &options, bank_use, learning_rate, position.step, group)?;
        if !result.is_finite() {
            return Err(divergence_error(&result, position, pairs, data));
        }
        let collapsed = options.objective.collapse_value(pairs.len());
        history.push(position, pairs.len(), &result, collapsed, learning_rate);
        position.step += 1;
        position.batches += 1;
        position.loss += result.loss;
        position.gradient = position.gradient.max(result.gradient_norm);
        position.collapsed_loss += collapsed.unwrap_or(0.0);
        cx.progress(position.step, Some(steps), "steps");
        let (epoch, epochs) = (position.epoch, u64::from(stage.epochs));
        cx.emit(StageEvent::Trained(TrainedStep { epoch, epochs, step: position.step, loss: result.loss }));
        let mut so_far = *stalls;
        so_far += loader.stalls();
        cx.emit(StageEvent::Stalls(so_far));
        if position.step.is_multiple_of(stage.checkpoint_steps) && position.batches < batches {
            history.write(cx)?;
            save_checkpoint(stage, training, position, bank.as_ref(), cx)?;
        }
    }
    *stalls += loader.stalls();
    drop(loader);
    finish_epoch(stage, run, history, cx)
}

/// Finishes an epoch: warnings, validation, selection of the best epoch, checkpoint.
fn finish_epoch(
    stage: &Train,
    run: &mut TrainingRun<'_>,
    mut history: HistoryBuffer,
    cx: &mut StageContext<'_>,
) -> Result<()> {
    let TrainingRun { data, relevance, group, training, position, validation, .. } = run;
    history::warn_of_collapse(stage, position, cx);
    history::warn_of_vanished_gradient(position, cx);
    if group.rank() > 0 {
        // Only rank 0 validates, and keeps the best model.
        position.next_epoch();
        return cx.check_cancelled();
    }
    let validated = if data.has_validation() {
        if validation.is_none() {
            let split = data.validation(cx)?;
            let phi = relevance.as_ref().filter(|_| stage.selection_metric.needs_relevance());
            let phi = phi.map(|relevance| relevance.validation(&split)).transpose()?;
            *validation = Some((split, phi));
        }
        let validation = validation.as_ref();
        validation
            .map(|(split, phi)| validate(training, stage.selection_metric, data, split, phi.as_ref(), cx))
            .transpose()?
    } else {
        None
    };
    // Of equal epochs the first is the best, as in published code. Without a validation split, every epoch is the
    // best so far.
    let score = validated.as_ref().map(|validated| validated.score);
    let best = position.best.is_none_or(|best| score.is_none() || best.score < score);
    if best {
        training.save_best()?;
        let rsum = validated.as_ref().map(|validated| validated.summary.rsum);
        position.best = Some(BestEpoch { epoch: position.epoch, step: position.step, rsum, score });
    }
    history.write(cx)?;
    if let Some(validated) = &validated {
        let loss = position.mean_loss(data.order.batch_count());
        write_validation(position, loss, validated, best, cx)?;
        cx.emit(StageEvent::Validated(validated.scores(stage.selection_metric, position, loss, best)));
        history::warn_of_falling_score(validated.score, position, cx);
    }
    position.next_epoch();
    save_checkpoint(stage, training, position, None, cx)
}

/// Draws and embeds the memory bank at the start of an epoch.
fn refresh_memory_bank(stage: &Train, run: &mut TrainingRun<'_>, cx: &mut StageContext<'_>) -> Result<()> {
    let TrainingRun { data, group, training, position, bank, .. } = run;
    let Some(settings) = &stage.memory_bank else { return Ok(()) };
    let is_warm_up = stage.warm_up.is_some_and(|warm_up| position.epoch < u64::from(warm_up.epochs));
    if is_warm_up || position.epoch < settings.first_epoch {
        *bank = None;
        return Ok(());
    }
    if bank.as_ref().is_none_or(|bank| bank.epoch != position.epoch) {
        let bank_pairs = memory_bank::draw_pairs(stage, settings, data, position.epoch)?;
        if bank_pairs.is_empty() {
            cx.warn(
                format!("epoch {}", position.epoch),
                "no batch was drawn for the memory bank: this epoch has no memory bank",
            );
            *bank = None;
            return Ok(());
        }
        let new_bank = memory_bank::encode_memory_bank(position.epoch, bank_pairs, training, data, group, cx)?;
        if memory_bank::is_kept(stage, settings, data, position.epoch) {
            memory_bank::write_memory_bank(&new_bank, data, cx)?;
        }
        *bank = Some(new_bank);
    }
    Ok(())
}

/// Objective and step options of an epoch.
fn step_options(stage: &Train, epoch: u64) -> StepOptions {
    let warm = stage.warm_up.filter(|warm| epoch < u64::from(warm.epochs));
    let objective = match warm {
        Some(warm) => Objective { loss: warm.loss(), semantic_margin: None },
        None => stage.objective(),
    };
    StepOptions {
        objective,
        is_warm_up: warm.is_some(),
        mask_same_image: stage.same_image == SameImagePolicy::Mask,
        seed: stage.seed,
        gradient_clip: stage.gradient_clip,
        weight_decay: stage.weight_decay,
    }
}

/// Saves a checkpoint.
fn save_checkpoint(
    stage: &Train,
    training: &TrainingState,
    position: &TrainingPosition,
    bank: Option<&MemoryBank>,
    cx: &mut StageContext<'_>,
) -> Result<()> {
    cx.save_state(training.to_bytes(position.to_json()?, bank)?, stage.checkpoints)
}

/// Learning rate of an epoch: `learning_rate` · `learning_rate_decay` ^ ⌊epoch / `learning_rate_decay_epochs`⌋.
fn learning_rate_at(stage: &Train, epoch: u64) -> f64 {
    let times = (epoch / u64::from(stage.learning_rate_decay_epochs.max(1))).saturating_as::<i32>();
    stage.learning_rate * stage.learning_rate_decay.powi(times)
}

/// Configuration of the model.
pub(super) fn config(stage: &Train, data: &TrainingData) -> ModelConfig {
    let finetune = stage.finetune.as_ref();
    stage.model.config(InputSpec {
        image: data.shape.width,
        regions: data.shape.regions,
        words: data.vocabulary.words().len(),
        concepts: data.concepts.as_ref().map(Vec::len),
        words_frozen: stage.word_vectors.as_ref().is_some_and(|vectors| !vectors.train),
        pictures: finetune.map(|settings| input_spec::FinetunedCnn {
            network: settings.network,
            side: settings.crop(),
            resize: settings.resize(),
            batch_statistics: settings.batch_norm == BatchNormStatistics::Batch,
        }),
    })
}

/// Description of the model, as JSON.
fn description_json(stage: &Train, data: &TrainingData, position: &TrainingPosition) -> Result<Vec<u8>> {
    let best = position.best.ok_or_else(|| Error::internal("a training ended without a completed epoch"))?;
    let description = ModelDescription {
        config: config(stage, data),
        epoch: best.epoch,
        step: best.step,
        rsum: best.rsum,
        tokenizer: stage.tokenizer,
        settings: stage.settings(),
        vocabulary: data.vocabulary.words().to_vec(),
    };
    serde_json::to_vec_pretty(&description)
        .map_err(|error| Error::internal(format!("cannot describe a model: {error}")))
}

/// Rows per write to `samples`.
const WRITE_ROWS: usize = 8192;

/// Writes `data_order` and `samples`, which together determine the order of every epoch.
fn write_data_order(stage: &Train, data: &TrainingData, cx: &mut StageContext<'_>) -> Result<()> {
    let sets = data.loader_data.order_sets();
    let same = |number: i64| Int64Array::from(vec![number; sets.len()]);
    let window = match stage.shuffle {
        Shuffle::Global => None,
        Shuffle::Windows(shards) => Some(shards.saturating_as::<i64>()),
    };
    let order = tables::data_order::TableColumns {
        data_set: (0..SaturatingAs::saturating_as(sets.len() as u64)).collect::<Vec<_>>().into(),
        samples: Int64Array::from_iter_values(
            sets.iter().map(|set| set.shards.iter().sum::<usize>().saturating_as::<i64>()),
        ),
        shards: Int64Array::from_iter_values(sets.iter().map(|set| set.shards.len().saturating_as::<i64>())),
        weight: Float64Array::from_iter_values(sets.iter().map(|set| set.weight)),
        window: Nullable(vec![window; sets.len()].into()),
        batch_size: same(stage.batch_size.saturating_as::<i64>()),
        seed: same(stage.seed.cast_signed()),
    };
    cx.write("data_order", order.into_batch()?)?;
    let samples = data.samples.batch()?;
    for start in (0..samples.num_rows()).step_by(WRITE_ROWS) {
        cx.write("samples", samples.slice(start, WRITE_ROWS.min(samples.num_rows() - start)))?;
    }
    Ok(())
}

/// Error for a step with a loss or gradient that is not finite, with the captions of its batch.
fn divergence_error(
    result: &StepResult,
    position: &TrainingPosition,
    pairs: &[TrainingPair],
    data: &TrainingData,
) -> Error {
    let mut captions = TruncatedList::new(1000);
    captions.extend(pairs.iter().filter_map(|pair| data.caption_id(pair.row).ok()));
    let auxiliary = result.auxiliary.iter().map(|(name, value)| format!(", `{name}` {value}")).collect::<String>();
    Error::stage(format!(
        "step {} (epoch {}): the loss is {}{auxiliary} and the gradient's norm {}, expected finite numbers; caption_id of the batch: \
         {}",
        position.step,
        position.epoch,
        result.loss,
        result.gradient_norm,
        captions.join(", ")
    ))
    .hint("try a lower `learning_rate`")
}
