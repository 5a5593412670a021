//! Tests of the code for all families with the family for tests: gradients, ranks, sets of vectors.

use tch::{Device, Kind, Tensor};

use super::autograd::AutogradConfig;
use super::model::Model;
use super::{encode, registry};
use crate::collective::CollectiveGroup;
use crate::collective::testing::on_ranks;
use crate::pair_scores::{CaptionBlocks, ImageValues, PairScoring, StreamedItems, StreamedScores};
use crate::step::{LossAndGradients, PairBatch, StepOptions, loss_and_gradients};
use pairloom_base::error;
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::epoch::{TrainingPair, rank_share};
use pairloom_kernels::product::TILE_COLUMNS;
use pairloom_kernels::random::Rng;
use pairloom_search::{MatrixSide, PanelRow, ScorePrecision, Scores};
use pairloom_spec::family::late::LateInteractionSettings;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::{InfoNceLoss, Loss};

const CAPTIONS: [&[i32]; 5] = [&[1, 2], &[1, 5, 6, 2], &[3], &[1, 7, 2], &[8, 8]];

fn config() -> AutogradConfig<LateInteractionSettings> {
    let settings = LateInteractionSettings { width: 4, ..LateInteractionSettings::default() };
    AutogradConfig { data: InputSpec::for_features(3, 9), settings }
}

fn images() -> Vec<f32> {
    let mut rng = Rng::new(2, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
    (0..15).map(|_| rng.uniform() as f32 - 0.5).collect()
}

/// Model in f64 whose initial parameters are moved by `by` along a fixed direction.
fn moved(by: f64) -> Box<dyn Model> {
    let config = registry::ModelConfig::Late(config());
    let drawn = config.create(7, Device::Cpu).expect("a model");
    let direction = |tensor: &Tensor| {
        let count = i64::try_from(tensor.numel()).expect("a few");
        (Tensor::arange(count, (Kind::Double, Device::Cpu)) * 1.7).sin().view(tensor.size().as_slice())
    };
    let tensors = drawn.parameters().tensors().iter();
    config
        .with_parameters(tensors.map(|tensor| tensor.to_kind(Kind::Double) + direction(tensor) * by).collect())
        .expect("a model")
}

fn of_batch(model: &dyn Model, group: &CollectiveGroup) -> LossAndGradients {
    let own = rank_share(5, group.rank(), group.world_size());
    let (images, members) = (images(), TrainingPair::unrelated(5));
    let (images, captions) = (&images[3 * own.start..3 * own.end], &CAPTIONS[own]);
    let pairs = PairBatch { images, captions, pairs: &members, relevance: None };
    let recipe = StepOptions::from(Loss::InfoNce(InfoNceLoss { temperature: 0.1, learned: false }));
    loss_and_gradients(model, &[], &pairs, &recipe, None, 0, group).expect("gradients")
}

/// Central differences in f64 of the sum of the objective and both auxiliary losses.
#[test]
fn gradients_are_central_differences_of_the_objective_and_losses() {
    let value = |by: f64| {
        let LossAndGradients { loss, auxiliary, .. } = of_batch(&*moved(by), &CollectiveGroup::single());
        assert_eq!(auxiliary.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["word_norm", "image_spread"]);
        loss + auxiliary.iter().map(|(_, value)| value).sum::<f64>()
    };
    let expected = (value(1e-5) - value(-1e-5)) / 2e-5;
    let (model, other) = (moved(0.0), moved(1.0));
    let slope: f64 = of_batch(&*model, &CollectiveGroup::single())
        .parameters
        .iter()
        .zip(model.parameters().tensors().iter().zip(other.parameters().tensors()))
        .map(|(gradient, (from, to))| (gradient * (to - from)).sum(Kind::Double).double_value(&[]))
        .sum();
    assert!((slope - expected).abs() < 1e-7 * expected.abs().max(1.0), "{slope}, by differences {expected}");
}

/// Sets of vectors are gathered over ranks with different numbers of pairs, and one with none.
#[test]
fn several_ranks_with_sets_of_vectors_have_the_gradients_of_one() {
    let numbers = |found: &LossAndGradients| -> Vec<f64> {
        let losses = std::iter::once(found.loss).chain(found.auxiliary.iter().map(|(_, value)| *value));
        let parameters =
            found.parameters.iter().flat_map(|gradient| Vec::<f64>::try_from(gradient.view(-1)).expect("f64"));
        losses.chain(parameters).collect()
    };
    let alone = numbers(&of_batch(&*moved(0.0), &CollectiveGroup::single()));
    for ranks in [2, 3, 6] {
        for found in on_ranks(ranks, |group| numbers(&of_batch(&*moved(0.0), &group))) {
            assert_eq!(found.len(), alone.len());
            assert!(found.iter().zip(&alone).all(|(got, expected)| (got - expected).abs() < 1e-12), "{ranks} ranks");
        }
    }
}

/// Scores of all pairs are those of all pairs scored at once in f64, on any number of threads.
#[test]
fn all_pairs_are_scored_in_order() {
    let config = registry::ModelConfig::Late(config());
    let model = config.create(7, Device::Cpu).expect("a model");
    let mut rng = Rng::new(4, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
    let features: Vec<f32> = (0..3 * 70).map(|_| rng.uniform() as f32 - 0.5).collect();
    let captions: Vec<Vec<i32>> = (0..90i32).map(|i| (0..=i % 5).map(|t| (i * 7 + t * t) % 9).collect()).collect();
    let captions: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let images = encode::images(&*model, &features, 3, &CancelToken::new()).expect("images");
    let blocks = CaptionBlocks::encode(&*model, &captions, &CancelToken::new()).expect("captions");
    let captions = encode::captions(&*model, &captions, &CancelToken::new()).expect("captions");

    let tensors = model.parameters().tensors().iter();
    let double = config.with_parameters(tensors.map(|tensor| tensor.to_kind(Kind::Double)).collect());
    let all = [&images, &captions].map(|side| side.with_vectors(side.vectors.to_kind(Kind::Double)));
    let expected = double.expect("a model").scores(&all[0], &all[1]).expect("scores");
    let expected: Vec<f64> = Vec::try_from(expected.view(-1)).expect("f64");
    let ids: Vec<i64> = (0..90).collect();
    let found = [1, 3].map(|threads| {
        let scoring = PairScoring { config: &config, ids: [&ids[..70], &ids], threads, cancel: &CancelToken::new() };
        scoring.compute(&*model, &images, &blocks).expect("scores")
    });
    assert_eq!(found[0], found[1], "on any number of threads");
    assert_eq!(found[0].len(), 70 * 90);
    for (place, (got, expected)) in found[0].iter().zip(&expected).enumerate() {
        assert!((f64::from(*got) - expected).abs() < 1e-6, "{place}: {got} and {expected}");
    }
}

/// Features, three values an image.
struct Features(Vec<f32>);

impl ImageValues for Features {
    fn append(&self, image: usize, values: &mut Vec<f32>) -> error::Result<()> {
        values.extend(&self.0[3 * image..3 * image + 3]);
        Ok(())
    }
}

/// A pair has one score, whatever asks for it: blocks of any rows, a pair alone, on any thread. The scores are those of
/// all pairs scored together.
#[test]
fn streamed_scores_of_a_pair_have_the_same_bits_wherever_they_are_asked_for() {
    let config = registry::ModelConfig::Late(config());
    let model = config.create(7, Device::Cpu).expect("a model");
    let mut rng = Rng::new(4, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
    let features = Features((0..3 * 70).map(|_| rng.uniform() as f32 - 0.5).collect());
    let captions: Vec<Vec<i32>> = (0..90i32).map(|i| (0..=i % 5).map(|t| (i * 7 + t * t) % 9).collect()).collect();
    let token_ids: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let positives: Vec<Vec<usize>> = (0..70).map(|image| vec![image, (image * 31 + 5) % 90]).collect();
    let ids: Vec<i64> = (0..90).collect();
    let digest = blake3::hash(b"all");
    let (images, cancel) = (&features, CancelToken::new());
    let items = StreamedItems { ids: [&ids[..70], &ids], images, token_ids: &token_ids, positives: &positives, digest };
    let scores = StreamedScores::new((&config, &*model), items, 2, &cancel).expect("a source");
    assert_eq!(scores.shape(), [70, 90]);
    let block = |rows: std::ops::Range<usize>| {
        let mut found = vec![vec![0.0f32; 90]; rows.len()];
        let mut consume = |panel: usize, lanes: &[PanelRow]| {
            for (row, lane) in found.iter_mut().zip(lanes) {
                let first = panel * TILE_COLUMNS;
                let end = row.len().min(first + TILE_COLUMNS);
                row[first..end].copy_from_slice(&lane[..end - first]);
            }
            Ok(())
        };
        scores.compute_block(ScorePrecision::Fine, rows, &mut Vec::new(), &mut consume).expect("scores");
        found
    };
    let all = block(0..70);
    for rows in [0..8, 5..20, 63..70, 69..70] {
        assert!(block(rows.clone()) == all[rows.clone()], "{rows:?}");
    }
    let mut found = Vec::new();
    for (row, row_scores) in all.iter().enumerate() {
        scores.exact_scores(MatrixSide::Rows, row, &(0..90).collect::<Vec<_>>(), &mut found).expect("scores");
        assert_eq!(&found, row_scores, "row {row}");
    }
    scores.exact_scores(MatrixSide::Columns, 17, &[3, 69, 17], &mut found).expect("scores");
    assert_eq!(found, [3, 69, 17].map(|row: usize| all[row][17]));

    let images = encode::images(&*model, &features.0, 3, &cancel).expect("images");
    let blocks = CaptionBlocks::encode(&*model, &token_ids, &cancel).expect("captions");
    let scoring = PairScoring { config: &config, ids: [&ids[..70], &ids], threads: 1, cancel: &cancel };
    let together = scoring.compute(&*model, &images, &blocks).expect("scores");
    let largest = all.concat().iter().zip(&together).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    assert!(largest < 1e-6, "{largest}");
}

/// The result has the order of the captions, with one vector for each word.
#[test]
fn captions_of_any_length_are_encoded_in_order() {
    let model = moved(0.0);
    let captions: Vec<Vec<i32>> = (0..600i32).map(|i| (0..=i % 7).map(|t| (i + t) % 9).collect()).collect();
    let all: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let together = encode::captions(&*model, &all, &CancelToken::new()).expect("captions");
    assert_eq!(together.len(), 600);
    for at in [0, 1, 255, 256, 599] {
        let alone = model.encode_captions(&[all[at]]).expect("a caption");
        let part = together.slice(at..at + 1);
        assert_eq!((alone.lengths, alone.vectors), (part.lengths, part.vectors), "caption {at}");
    }
    assert!(encode::single_vectors(&together).is_err());
}

/// A score that is not finite is reported with its image and caption; a cancelled run ends.
#[test]
fn scores_that_are_not_finite_and_cancellation_are_errors() {
    let config = registry::ModelConfig::Late(config());
    let model = config.create(7, Device::Cpu).expect("a model");
    let tensors = |value: f64| {
        let all = model.parameters().tensors().iter();
        all.map(|tensor| if tensor.numel() == 1 { tensor.full_like(value) } else { tensor.copy() }).collect::<Vec<_>>()
    };
    let images = encode::images(&*model, &images(), 3, &CancelToken::new()).expect("five");
    let captions = CaptionBlocks::encode(&*model, &CAPTIONS, &CancelToken::new()).expect("five");
    let ids: [&[i64]; 2] = [&[10, 11, 12, 13, 14], &[100, 101, 102, 103, 104]];
    let scores = |value: f64, cancel: &CancelToken| {
        let model = config.with_parameters(tensors(value)).expect("a model");
        PairScoring { config: &config, ids, threads: 2, cancel }.compute(&*model, &images, &captions)
    };
    scores(1.0, &CancelToken::new()).expect("scores");
    let error = scores(f64::NAN, &CancelToken::new()).expect_err("no number").to_string();
    assert_eq!(error, "the model gives image_id 10 and caption_id 101 the score NaN");
    let cancel = CancelToken::new();
    cancel.cancel();
    assert_eq!(scores(1.0, &cancel).expect_err("cancelled").category(), error::ErrorCategory::Interrupted);
}
