//! The model, its gradient and its optimiser against PyTorch.

use std::collections::HashMap;

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::config::{Config, WORDS};
use crate::error::Result;
use crate::kernels::sample::Sample;
use crate::model::bank::Member;
use crate::model::cnn::Network;
use crate::model::collective::Group;
use crate::model::encoder::packed::Packed;
use crate::model::encoder::{Pooling, Precision, gru};
use crate::model::family::data::Pictures;
use crate::model::family::encode;
use crate::model::family::list;
use crate::model::family::model::{Model, Share};
use crate::model::family::rows::Rows;
use crate::model::loss::Loss;
use crate::model::loss::max::Max;
use crate::model::loss::sum::Sum;
use crate::model::step::{Gradients, Pairs, Recipe, Stepped, gradients as gradients_of};
use crate::model::training::Training;

/// A model that has learned nothing.
pub(super) fn create(config: &Config, seed: u64) -> Box<dyn Model> {
    list::Config::Vse(config.clone()).create(seed, Device::Cpu).expect("a model")
}

pub(super) fn with(config: &Config, parameters: Vec<Tensor>) -> Result<Box<dyn Model>> {
    list::Config::Vse(config.clone()).with(parameters)
}

pub(super) fn training(config: &Config, model: Box<dyn Model>) -> Training {
    Training::start(list::Config::Vse(config.clone()), model)
}

pub(super) fn embed_images(model: &dyn Model, images: &[f32]) -> Result<Tensor> {
    Ok(model.encode_images(&rows(model, images)?)?.vectors)
}

fn rows<'b>(model: &dyn Model, images: &'b [f32]) -> Result<Rows<'b>> {
    Rows::new(images, model.data().image_values(), &model.parameters().tensors()[0])
}

pub(super) fn embed_captions(model: &dyn Model, captions: &[&[i32]]) -> Result<Tensor> {
    Ok(encode::captions(model, captions)?.vectors)
}

/// Vectors of images and captions of a batch as a step sees them, and the gradients of the parameters from those that
/// `pull` gives.
fn passes(
    model: &dyn Model,
    images: &[f32],
    captions: &[&[i32]],
    pull: impl FnOnce(&Tensor) -> [Tensor; 2],
) -> (Tensor, Tensor, Vec<Tensor>) {
    let images = rows(model, images).expect("rows");
    let share = Share { images, captions, pairs: 0..captions.len(), of: captions.len(), draw: [0, 0] };
    let forward = model.forward(&share).expect("embeddings");
    let (images, captions) = (forward.images.vectors.copy(), forward.captions.vectors.copy());
    let [d_images, d_captions] = pull(&images);
    (images, captions, (forward.backward)(&d_images, &d_captions).expect("gradients"))
}

/// The gradient of a loss on the cosines of a batch.
pub(super) fn of_loss(model: &dyn Model, images: &[f32], captions: &[&[i32]], loss: Loss) -> Result<Gradients> {
    let members = Member::strangers(captions.len());
    let pairs = Pairs { images, captions, members: &members, relevance: None };
    gradients_of(model, &pairs, &loss.into(), None, 0, &Group::alone())
}

/// One step by it.
pub(super) fn step(
    training: &mut Training,
    images: &[f32],
    captions: &[&[i32]],
    loss: Loss,
    rate: f64,
) -> Result<Stepped> {
    let members = Member::strangers(captions.len());
    let pairs = Pairs { images, captions, members: &members, relevance: None };
    training.step(&pairs, &Recipe::from(loss), None, rate, 0, &Group::alone())
}

#[derive(Deserialize)]
struct Values {
    shape: Vec<i64>,
    values: Vec<f64>,
}

#[derive(Deserialize)]
struct Golden {
    features: Vec<f32>,
    captions: Vec<Vec<i32>>,
    margin: f64,
    clip: f64,
    rate: f64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    #[serde(rename = "form")]
    config: Config,
    before: HashMap<String, Values>,
    images: Vec<f64>,
    texts: Vec<f64>,
    gradients: HashMap<String, Values>,
    losses: Vec<f64>,
    norms: Vec<f64>,
    after: HashMap<String, Values>,
}

impl Case {
    fn model(&self) -> Box<dyn Model> {
        let wanted = self.config.parameters().expect("widths");
        let parameters = wanted.iter().map(|parameter| self.before[&parameter.name].tensor()).collect();
        with(&self.config, parameters).expect("shapes fit")
    }
}

impl Values {
    fn tensor(&self) -> Tensor {
        Tensor::from_slice(&self.values).view(self.shape.as_slice())
    }
}

pub(super) fn apart(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

/// `tests/golden/vse.py` wrote this with `torch.nn.GRU`, `torch.optim.Adam` and `clip_grad_norm_` in f64.
#[test]
fn every_form_its_gradient_clipping_and_adam_agree_with_pytorch() {
    let golden: Golden =
        serde_json::from_str(include_str!("../../../../tests/golden/vse.json")).expect("golden models");
    let captions: Vec<&[i32]> = golden.captions.iter().map(Vec::as_slice).collect();
    assert_eq!(golden.cases.len(), 9);
    for case in &golden.cases {
        let form = &case.config;
        let vse = case.model();
        let (images, texts, _) = passes(&*vse, &golden.features, &captions, |like| [like.copy(), like.copy()]);
        assert!(apart(&images.view(-1), &Tensor::from_slice(&case.images)) < 1e-12, "{form:?}");
        assert!(apart(&texts.view(-1), &Tensor::from_slice(&case.texts)) < 1e-12, "{form:?}");
        assert_eq!(embed_captions(&*vse, &captions).expect("captions"), texts);
        // Where images are not normalised for the loss, they are for a search.
        let found = embed_images(&*vse, &golden.features).expect("images");
        assert!(apart(&found, &(&images / images.norm_scalaropt_dim(2, [1i64].as_slice(), true))) < 1e-12);

        let mut training = training(form, vse);
        let trained = training.model().parameters().trained();
        assert_eq!(trained.len(), case.gradients.len());
        for (i, (wanted, norm)) in case.losses.iter().zip(&case.norms).enumerate() {
            let loss = Loss::Max(Max { margin: golden.margin });
            let step = of_loss(training.model(), &golden.features, &captions, loss).expect("gradients");
            assert!((step.loss - wanted).abs() < 1e-10, "{form:?}, step {i}: {} and {wanted}", step.loss);
            if i == 0 {
                for (got, (name, _)) in step.parameters.iter().zip(&trained) {
                    let wanted = case.gradients[name].tensor();
                    assert!(apart(got, &wanted) < 1e-12, "{form:?}, gradient of `{name}`:\n{got}\n{wanted}");
                }
            }
            let got = training.update(&step.parameters, golden.clip, golden.rate);
            assert!((got - norm).abs() < 1e-10, "{form:?}, norm {i}: {got} and {norm}");
        }
        for (got, name) in training.model().parameters().tensors().iter().zip(training.model().parameters().names()) {
            let wanted = case.after[&name].tensor();
            assert!(apart(got, &wanted) < 1e-9, "{form:?}, `{name}` after five steps: {}", apart(got, &wanted));
        }
    }
}

fn random(shape: &[i64], seed: u64) -> Tensor {
    let mut sample = Sample::new(seed, &[]);
    let values: Vec<f64> = (0..shape.iter().product()).map(|_: i64| sample.unit() - 0.5).collect();
    Tensor::from_slice(&values).view(shape)
}

/// libtorch's own GRU on the same packed words, in f64, with its gradient by autograd; every state is pulled at.
#[test]
fn the_recurrence_and_its_gradient_agree_with_libtorch() {
    let (h, w) = (24, 10);
    let captions: Vec<Vec<i32>> =
        (0..33).map(|i: i32| (0..=(i * 7) % 13).map(|t| (i + t * t) % 17).collect()).collect();
    let captions: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let packed = Packed::new(&captions);
    let leaf = |shape: &[i64], seed| random(shape, seed).set_requires_grad(true);
    let (vectors, w_ih, w_hh) = (leaf(&[17, w], 1), leaf(&[3 * h, w], 2), leaf(&[3 * h, h], 3));
    let (b_ih, b_hh) = (leaf(&[3 * h], 4), leaf(&[3 * h], 5));

    let words: Vec<i64> = packed.words.iter().map(|&row| packed.distinct[row]).collect();
    let data = vectors.index_select(0, &Tensor::from_slice(&words));
    let sizes: Vec<i64> = packed.sizes.iter().map(|&size| i64::try_from(size).expect("a small number")).collect();
    let hx = Tensor::zeros([1, sizes[0], h], (Kind::Double, Device::Cpu));
    let parameters = [&w_ih, &w_hh, &b_ih, &b_hh];
    let (theirs, _) = Tensor::gru_data(&data, &Tensor::from_slice(&sizes), &hx, &parameters, true, 1, 0.0, true, false);
    let pull = random(&theirs.size(), 6);
    let wanted = Tensor::run_backward(&[&(&theirs * &pull).sum(Kind::Double)], &[&data, &w_hh, &b_hh], false, false);

    tch::no_grad(|| {
        let inputs = data.linear(&w_ih, Some(&b_ih));
        let tape = gru::forward(inputs, &w_hh, &b_hh, &packed.sizes, Precision::F32);
        assert!(apart(tape.states(), &theirs) < 1e-12);
        let got = tape.backward(&pull, &w_hh, &packed.sizes, Precision::F32);
        assert!(apart(&got.inputs.mm(&w_ih), &wanted[0]) < 1e-12);
        assert!(apart(&got.weight, &wanted[1]) < 1e-11);
        assert!(apart(&got.bias, &wanted[2]) < 1e-11);
    });
}

fn gradients(model: &dyn Model, images: &[f32], captions: &[&[i32]]) -> Vec<Tensor> {
    let pull = |like: &Tensor| [7, 8].map(|seed| random(&like.size(), seed).to_kind(like.kind()));
    let (images, captions, gradients) = passes(model, images, captions, pull);
    let mut all = vec![images, captions];
    all.extend(gradients);
    all.into_iter().map(|tensor| tensor.to_kind(Kind::Double)).collect()
}

/// In f32 our own kernels compute where the processor has the vectors for them, in f64 libtorch does. Widths that are and are
/// not whole vectors, every pooling, one direction and two; the same bits with any number of threads.
#[test]
fn f32_and_bf16_are_near_to_f64_in_every_form() {
    let captions: Vec<Vec<i32>> =
        (0..29).map(|i: i32| (0..=(i * 7) % 13).map(|t| (i + t * t) % 17).collect()).collect();
    let captions: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    for (joint, word) in [(100, 9), (64, 32), (7, 5)] {
        for pooling in [Pooling::Last, Pooling::Mean, Pooling::Max] {
            for bidirectional in [false, true] {
                let form = Config { bidirectional, pooling, ..Config::vse(11, 17, word, joint) };
                let images: Vec<f32> = random(&[29, 11], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
                let mut vse = create(&form, 5);
                let exact =
                    vse.parameters().tensors().iter().map(|parameter| parameter.to_kind(Kind::Double)).collect();
                let exact = with(&form, exact).expect("a model");
                let wanted = gradients(&*exact, &images, &captions);
                for (precision, error) in [(Precision::F32, 2e-6), (Precision::Mixed, 0.02)] {
                    vse.set_precision(precision).expect("both");
                    let before = tch::get_num_threads();
                    let [one, two, three] = [1, 2, 3].map(|threads| {
                        tch::set_num_threads(threads);
                        gradients(&*vse, &images, &captions)
                    });
                    tch::set_num_threads(before);
                    for (i, (got, wanted)) in one.iter().zip(&wanted).enumerate() {
                        // Where two words are nearly equal, bf16 may take another for the largest one.
                        let ties = precision == Precision::Mixed && pooling == Pooling::Max;
                        let error = if ties { 0.2 } else { error };
                        let far = (got - wanted).norm().double_value(&[]) / wanted.norm().double_value(&[]);
                        assert!(far < error, "{form:?} {precision:?}, {i}: {far}");
                        assert!(two[i] == *got && three[i] == *got, "{form:?} {precision:?}, {i}: threads");
                    }
                }
            }
        }
    }
}

/// A network that reads pictures, in f64: the slope along a random direction, by central differences.
#[test]
fn a_network_learns_with_the_rest() {
    let pictures = Some(Pictures { network: Network::SqueezeNet1_0, side: 32, resize: 32 });
    let mut form = Config::vse(512, 5, 3, 8);
    form.data.pictures = pictures;
    let drawn = create(&form, 3);
    assert_eq!(drawn.parameters().names()[7], "img_enc.cnn.features.0.weight");
    let double = |by: f64| {
        let move_by = |(i, parameter): (u64, &Tensor)| {
            parameter.to_kind(Kind::Double)
                + random(&parameter.size(), 100 + i) * parameter.abs().max().to_kind(Kind::Double) * by
        };
        with(&form, (0..).zip(drawn.parameters().tensors()).map(move_by).collect()).expect("a model")
    };
    let images: Vec<f32> = random(&[2, 3 * 32 * 32], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
    let captions: [&[i32]; 2] = [&[1, 2], &[3]];
    let pull = [random(&[2, 8], 2), random(&[2, 8], 3)];
    let value = |vse: &dyn Model| {
        let images = embed_images(vse, &images).expect("images");
        let found = [images, embed_captions(vse, &captions).expect("captions")];
        found.iter().zip(&pull).map(|(found, pull)| (found * pull).sum(Kind::Double).double_value(&[])).sum::<f64>()
    };
    let vse = double(0.0);
    let (.., gradients) = passes(&*vse, &images, &captions, |_| [pull[0].copy(), pull[1].copy()]);
    assert_eq!(gradients.len(), vse.parameters().tensors().len());
    let slope: f64 = (0..)
        .zip(drawn.parameters().tensors())
        .zip(&gradients)
        .map(|((i, parameter), gradient)| {
            let largest = parameter.abs().max().to_kind(Kind::Double);
            (gradient * random(&parameter.size(), 100 + i) * largest).sum(Kind::Double).double_value(&[])
        })
        .sum();
    let wanted = (value(&*double(1e-6)) - value(&*double(-1e-6))) / 2e-6;
    assert!((slope - wanted).abs() < 1e-5 * wanted.abs().max(0.1), "{slope}, by differences {wanted}");
    let of_cnn: f64 = gradients[7..].iter().map(|gradient| gradient.norm().double_value(&[])).sum();
    assert!(of_cnn > 1e-3, "the network's gradient is {of_cnn}");
}

/// Pictures, a stored network, batch normalisation: the statistics stay, the rest learns, and all comes back from a file.
#[test]
fn a_training_with_a_network_keeps_its_statistics() {
    let pictures = Some(Pictures { network: Network::ResNet18, side: 32, resize: 32 });
    let mut form = Config::vse(512, 5, 3, 8);
    form.data.pictures = pictures;
    let vse = create(&form, 3);
    let before: Vec<Tensor> = vse.parameters().tensors().iter().map(Tensor::copy).collect();
    let mut training = training(&form, vse);
    let images: Vec<f32> = random(&[2, 3 * 32 * 32], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
    step(&mut training, &images, &[&[1, 2], &[3]], Loss::Sum(Sum { margin: 0.2 }), 0.01).expect("a step");
    for ((now, before), name) in
        training.model().parameters().tensors().iter().zip(&before).zip(training.model().parameters().names())
    {
        let moved = apart(now, before) > 0.0;
        assert_eq!(moved, !name.contains("running_"), "{name}");
    }
    form.data.image = 511;
    assert!(list::Config::Vse(form).create(1, Device::Cpu).is_err());
}

#[test]
fn a_new_model_is_drawn_as_the_paper_says_and_from_the_seed_alone() {
    let form = Config { bidirectional: true, ..Config::vse(40, 30, 12, 16) };
    let vse = create(&form, 3);
    let bounds = [(6.0f64 / 56.0).sqrt(), 0.0, 0.1, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25];
    assert_eq!(vse.parameters().tensors().len(), bounds.len());
    for ((parameter, bound), name) in vse.parameters().tensors().iter().zip(bounds).zip(vse.parameters().names()) {
        let largest = parameter.abs().max().double_value(&[]);
        assert!(largest <= bound + 1e-7 && largest >= 0.9 * bound, "`{name}`: {largest}, {bound}");
        assert!(parameter.mean(Kind::Double).double_value(&[]).abs() <= 0.15 * bound + 1e-12, "`{name}`");
    }
    let again = create(&form, 3);
    assert!(vse.parameters().tensors().iter().zip(again.parameters().tensors()).all(|(a, b)| a == b));
    let other = create(&form, 4);
    assert_ne!(vse.parameters().tensors()[0], other.parameters().tensors()[0]);
}

#[test]
fn given_word_vectors_are_used_and_stay_when_frozen() {
    let mut form = Config::vse(4, 5, 3, 8);
    form.data.words_frozen = true;
    let vse = create(&form, 1);
    let before = embed_captions(&*vse, &[&[1, 2]]).expect("an embedding");
    let given: Vec<f32> = (0..15u8).map(f32::from).collect();
    vse.parameters().set_rows(WORDS, |word| given.get(3 * word..3 * word + 3)).expect("they fit");
    assert!(vse.parameters().set_rows(WORDS, |_| given.get(..2)).is_err());
    assert_ne!(embed_captions(&*vse, &[&[1, 2]]).expect("an embedding"), before);
    let mut training = training(&form, vse);
    let images = [1.0, 0.5, 0.0, 2.0, 0.0, 1.0, 0.5, 1.0];
    step(&mut training, &images, &[&[1, 2], &[3, 4, 2]], Loss::Sum(Sum { margin: 0.2 }), 0.1).expect("a step");
    let words: Vec<f32> = Vec::try_from(training.model().parameters().tensors()[2].view(-1)).expect("values");
    assert_eq!(words, given);
}

/// A rank may have no pair of a batch; the sum over ranks of what each gives is the gradient of the whole.
#[test]
fn shares_of_a_batch_add_up_and_may_be_empty() {
    let form = Config { bidirectional: true, pooling: Pooling::Mean, ..Config::vse(3, 9, 4, 8) };
    let vse = create(&form, 1);
    let images: Vec<f32> = random(&[5, 3], 2).to_kind(Kind::Float).view(-1).try_into().expect("values");
    let captions: [&[i32]; 5] = [&[1, 2], &[1, 5, 6, 2], &[3], &[1, 7, 2], &[8, 8]];
    let pull = [random(&[5, 8], 3), random(&[5, 8], 4)].map(|pull| pull.to_kind(Kind::Float));
    let part = |from: usize, to: usize| {
        let (start, count) = (i64::try_from(from).expect("small"), i64::try_from(to - from).expect("small"));
        let own = |_: &Tensor| pull.each_ref().map(|pull| pull.narrow(0, start, count));
        let (_, texts, gradients) = passes(&*vse, &images[3 * from..3 * to], &captions[from..to], own);
        assert_eq!(texts.size(), [count, 8]);
        gradients
    };
    let whole = part(0, 5);
    let shares = [part(0, 2), part(2, 2), part(2, 5)];
    assert!(shares[1].iter().all(|gradient| gradient.abs().sum(Kind::Float).double_value(&[]) == 0.0));
    assert_eq!(whole.len(), vse.parameters().tensors().len());
    for (i, whole) in whole.iter().enumerate() {
        assert!(apart(whole, &(&shares[0][i] + &shares[1][i] + &shares[2][i])) < 1e-5, "gradient {i}");
    }
}
