//! Tests that several ranks have the loss and the gradients of one, for every family over regions, with random draws.

use tch::{Device, Kind, Tensor};

use super::concept_graph::{CONCEPT_ADJACENCY, CONCEPTS_OF_WORDS, Concept, set_concepts};
use super::image_rows::ImageRows;
use super::model::{LocalBatch, Model};
use super::registry::DescribeModel;
use crate::collective::CollectiveGroup;
use crate::collective::testing::on_ranks;
use crate::step::{PairBatch, StepOptions, loss_and_gradients};
use pairloom_kernels::epoch::{TrainingPair, rank_share};
use pairloom_kernels::random::Rng;
use pairloom_spec::family::ModelSettings;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::loss::{Loss, SigmoidLoss, SumLoss};

const CAPTIONS: [&[i32]; 5] = [&[1, 2], &[1, 5, 6, 2], &[3], &[1, 7, 2], &[8, 8]];

/// Width of a region, and number of places of an image.
const WIDTH: usize = 3;
const PLACES: usize = 4;

/// Five images of one to four regions.
fn images() -> Vec<f32> {
    let mut rng = Rng::new(6, &[]);
    let mut values = vec![0.0; CAPTIONS.len() * PLACES * WIDTH];
    for (image, count) in [4, 1, 3, 4, 2].into_iter().enumerate() {
        #[expect(clippy::cast_possible_truncation, reason = "regions are f32")]
        values[image * PLACES * WIDTH..][..count * WIDTH].fill_with(|| rng.uniform() as f32 - 0.5);
    }
    values
}

/// Two concepts that are often together.
fn concepts_of_words() -> [Concept; 2] {
    ["dog", "red"].map(|lemma| Concept {
        lemma: lemma.to_owned(),
        words: vec![lemma.to_owned()],
        n_captions: 10,
        co_occurrences: vec![5.0; 2],
    })
}

/// Model with f64 parameters, and concepts if it reads them.
fn model_of(settings: &ModelSettings) -> Box<dyn Model> {
    let concepts = settings.capabilities().concepts.then_some(2);
    let config = settings.config(InputSpec { concepts, ..InputSpec::for_regions(PLACES, WIDTH, 9) });
    let drawn = config.create(7, Device::Cpu).expect("a model");
    if concepts.is_some() {
        set_concepts(
            drawn.parameters(),
            &concepts_of_words(),
            &["", "", "", "dog", "red", "a", "b", "c", "d"].map(str::to_owned),
        )
        .expect("concepts");
    }
    let names = drawn.parameters().names();
    let tensors = names.iter().zip(drawn.parameters().tensors()).map(|(name, tensor)| {
        let factor = if [CONCEPT_ADJACENCY, CONCEPTS_OF_WORDS].contains(&name.as_str()) { 1.0 } else { 3.0 };
        tensor.to_kind(Kind::Double) * factor
    });
    config.with_parameters(tensors.collect()).expect("a model")
}

/// Cosines of the instance vectors of CVSE, of width 4, which follow the fused vectors in a training step.
fn instance_scores(settings: &ModelSettings) -> Vec<f64> {
    let (model, images) = (model_of(settings), images());
    let rows = ImageRows::new(&images, PLACES * WIDTH, &model.parameters().tensors()[0]).expect("images");
    let batch = LocalBatch {
        images: rows,
        captions: &CAPTIONS,
        pairs: 0..CAPTIONS.len(),
        global_size: 5,
        seed_and_step: [0, 4],
    };
    let encoded = model.encode_batch(&batch).expect("vectors");
    let [v, t] = [&encoded.images, &encoded.captions].map(|side| side.vectors.narrow(1, 4, 4));
    Vec::try_from(v.matmul(&t.tr()).reshape([-1])).expect("f64")
}

/// Loss, auxiliary losses and gradients in f64, of a batch whose first two pairs have one image.
fn step(settings: &ModelSettings, options: &StepOptions, group: &CollectiveGroup) -> Vec<f64> {
    let model = model_of(settings);
    let own = rank_share(CAPTIONS.len(), group.rank(), group.world_size());
    let (images, mut pairs) = (images(), TrainingPair::unrelated(CAPTIONS.len()));
    pairs[1].image = pairs[0].image;
    let rank_images = &images[own.start * PLACES * WIDTH..own.end * PLACES * WIDTH];
    let batch = PairBatch { images: rank_images, captions: &CAPTIONS[own], pairs: &pairs, relevance: None };
    let scalars = options.objective.learned_scalars();
    let scalars: Vec<Tensor> = scalars.iter().map(|scalar| Tensor::from_slice(&[scalar.initial])).collect();
    let found = loss_and_gradients(&*model, &scalars, &batch, options, None, 4, group).expect("gradients");
    assert!(found.buffers.is_empty(), "{:?}", found.buffers);
    let losses = std::iter::once(found.loss).chain(found.auxiliary.iter().map(|(_, value)| *value));
    let parameters =
        found.parameters.iter().flat_map(|gradient| Vec::<f64>::try_from(gradient.reshape([-1])).expect("f64"));
    losses.chain(parameters).collect()
}

#[test]
fn several_ranks_have_the_gradients_of_one() {
    for model in [
        "scan = { embed_size = 4, word_dim = 3 }",
        "vse_infinity = { embed_size = 4, word_dim = 3, pooling_dim = 4, size_augmentation = 0.4, batch_norm = \"frozen\" }",
        "vsrn = { embed_size = 4, word_dim = 3, reasoning_layers = 2, caption_dim = 3, caption_word_dim = 3, \
         dropout = 0.3, batch_norm = \"frozen\" }",
        "sgraf = { embed_size = 4, word_dim = 3, similarity_dim = 3, dropout = 0.3, batch_norm = \"frozen\" }",
        "sgraf = { module = \"saf\", embed_size = 4, word_dim = 3, similarity_dim = 3, dropout = 0.3, \
         batch_norm = \"frozen\" }",
        "cvse = { embed_size = 4, word_dim = 3, dropout = 0.3, batch_norm = \"frozen\", level_loss = { sum = {} } }",
    ] {
        let settings: ModelSettings = toml::from_str(model).expect("settings");
        assert_eq!(settings.capabilities().single_rank_reason, None);
        let sum = StepOptions { seed: 3, ..StepOptions::from(Loss::Sum(SumLoss { margin: 0.2 })) };
        let learned = Loss::Sigmoid(SigmoidLoss { learned: true, ..SigmoidLoss::default() });
        let learned = StepOptions { seed: 3, mask_same_image: true, ..StepOptions::from(learned) };
        let warm = StepOptions { is_warm_up: true, mask_same_image: true, ..sum.clone() };
        for (options, what) in [(sum, "sum"), (learned, "learned scalars and a mask"), (warm, "warm-up and mask")] {
            let alone = step(&settings, &options, &CollectiveGroup::single());
            assert!(alone[0] > 0.0 && alone.iter().filter(|value| value.abs() > 1e-9).count() > 50, "{model}");
            // The last of six ranks has no pair.
            for ranks in [2, 3, 6] {
                for found in on_ranks(ranks, |group| step(&settings, &options, &group)) {
                    assert_eq!(found.len(), alone.len());
                    let worst =
                        found.iter().zip(&alone).map(|(got, expected)| (got - expected).abs()).fold(0.0, f64::max);
                    assert!(worst < 1e-12, "{model}, {what}: {ranks} ranks differ by {worst}");
                }
            }
        }
    }
}

/// Level losses of CVSE on the vectors of a step, by the definition: a mask leaves out the places of one image, and a
/// warm-up has SUM in place of `level_loss`.
#[test]
fn level_losses_have_the_mask_and_the_loss_of_the_warm_up() {
    let model = "cvse = { embed_size = 4, word_dim = 3, dropout = 0.0, batch_norm = \"frozen\", instance_weight = 2.0, \
                 level_loss = { max = { margin = 0.5 } } }";
    let settings: ModelSettings = toml::from_str(model).expect("settings");
    let found = |options: &StepOptions| step(&settings, options, &CollectiveGroup::single())[1];
    let warm = StepOptions { is_warm_up: true, ..StepOptions::from(Loss::Sum(SumLoss { margin: 0.1 })) };
    let masked = StepOptions { mask_same_image: true, ..warm.clone() };
    let cold = StepOptions::from(Loss::Sum(SumLoss { margin: 0.1 }));
    let hardest = StepOptions { mask_same_image: true, ..cold.clone() };
    let scores = instance_scores(&settings);
    let n = CAPTIONS.len();
    let at = |row: usize, column: usize| scores[row * n + column];
    let sum = |margin: f64, is_max: bool, mask: bool| {
        let mut total = 0.0;
        for own in 0..n {
            let others: Vec<usize> = (0..n).filter(|&j| j != own && !(mask && own < 2 && j < 2)).collect();
            let hinge = |score: f64| (margin + score - at(own, own)).max(0.0);
            for costs in [
                others.iter().map(|&j| hinge(at(own, j))).collect::<Vec<_>>(),
                others.iter().map(|&i| hinge(at(i, own))).collect(),
            ] {
                total += if is_max { costs.iter().copied().fold(0.0, f64::max) } else { costs.iter().sum() };
            }
        }
        2.0 * total
    };
    for (options, expected) in [
        (&warm, sum(0.1, false, false)),
        (&masked, sum(0.1, false, true)),
        (&cold, sum(0.5, true, false)),
        (&hardest, sum(0.5, true, true)),
    ] {
        let got = found(options);
        assert!((got - expected).abs() < 1e-12, "{got} and {expected}");
    }
    assert_ne!(sum(0.1, false, false), sum(0.1, false, true));
}
