//! Overhead of data loading in a training: the same steps with batches in memory, and with batches from the loader.

use std::time::Instant;

use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::TrainingPair;
use pairloom_loader::{Batch, Loader};
use pairloom_model::collective::CollectiveGroup;
use pairloom_model::family::registry::{DescribeModel, ModelConfig};
use pairloom_model::step::{PairBatch, StepOptions};
use pairloom_model::training_state::TrainingState;
use pairloom_spec::family::ModelSettings;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::Loss;

/// Rounds of both kinds, in alternation; the median is printed.
const ROUNDS: usize = 5;

/// Measures steps of VSE++ on vectors of `width` values.
pub(super) fn measure_vectors(width: usize, start: impl Fn() -> Result<Loader>) -> Result<()> {
    let config = ModelSettings::default().config(InputSpec::for_features(width, 40_000));
    measure("GRU, 1,024 wide, MAX", config, 20, start)
}

/// Measures steps of SCAN on regions of `width` values.
pub(super) fn measure_regions(regions: usize, width: usize, start: impl Fn() -> Result<Loader>) -> Result<()> {
    let settings = serde_json::json!({ "scan": { "embed_size": 1024 } });
    let settings: ModelSettings =
        serde_json::from_value(settings).map_err(|error| Error::internal(error.to_string()))?;
    measure("SCAN, 1,024 wide, MAX", settings.config(InputSpec::for_regions(regions, width, 10_000)), 6, start)
}

/// Measures rounds of some steps on the first batches of the loader that `start` opens.
fn measure(name: &str, config: ModelConfig, steps: usize, start: impl Fn() -> Result<Loader>) -> Result<()> {
    let model = config.create(7, tch::Device::Cpu)?;
    let mut training = TrainingState::new(config, model);
    let recipe = StepOptions::from(Loss::default());
    let mut step = |images: &[f32], captions: &[&[i32]]| {
        let members = TrainingPair::unrelated(captions.len());
        let pairs = PairBatch { images, captions, pairs: &members, relevance: None };
        training.step(&pairs, &recipe, None, 2e-4, 0, &CollectiveGroup::single()).map(drop)
    };
    let mut loader = start()?;
    let mut resident: Vec<(Vec<f32>, Vec<Vec<i32>>)> = Vec::new();
    while let Some(batch) = loader.next(|| Ok(()))?.filter(|_| resident.len() < steps) {
        resident.push((batch.images().to_vec(), batch.token_ids().into_iter().map(<[i32]>::to_vec).collect()));
    }
    drop(loader);
    let (mut without, mut with, mut waits) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..=ROUNDS {
        let clock = Instant::now();
        for (images, words) in &resident {
            step(images, &words.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        }
        let resident = clock.elapsed().as_secs_f64();
        let mut loader = start()?;
        let clock = Instant::now();
        for _ in 0..steps {
            let batch: Option<Batch> = loader.next(|| Ok(()))?;
            let Some(batch) = batch else { break };
            step(batch.images(), &batch.token_ids())?;
        }
        // The first round is a warm-up.
        if round > 0 {
            without.push(resident);
            with.push(clock.elapsed().as_secs_f64());
            waits += loader.stalls().storage + loader.stalls().decode;
        }
    }
    without.sort_by(f64::total_cmp);
    with.sort_by(f64::total_cmp);
    let (without, with) = (without[ROUNDS / 2] / steps as f64, with[ROUNDS / 2] / steps as f64);
    println!(
        "training step ({name}): {:.1} ms on batches in memory, {:.1} ms from the loader: {:+.2} %; {:.3} ms of \
         it waited for a batch: {:.2} %",
        without * 1e3,
        with * 1e3,
        100.0 * (with / without - 1.0),
        waits / (ROUNDS * steps) as f64 * 1e3,
        100.0 * waits / (ROUNDS * steps) as f64 / with
    );
    Ok(())
}
