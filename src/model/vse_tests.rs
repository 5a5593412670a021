//! The model, its gradient and its optimiser against PyTorch.

use std::collections::HashMap;

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::adam::norm;
use super::bank::Member;
use super::cnn::Network;
use super::collective::Group;
use super::encoder::packed::Packed;
use super::encoder::{Precision, gru};
use super::form::{Form, Pictures, Pooling};
use super::loss::Loss;
use super::step::{Gradients, Pairs, Recipe, Stepped};
use super::training::Training;
use super::vse::Vse;
use crate::error::Result;
use crate::kernels::sample::Sample;

/// The gradient of a loss on the cosines of a batch.
fn of_loss(vse: &Vse, images: &[f32], captions: &[&[i64]], loss: Loss) -> Result<Gradients> {
    let members = Member::strangers(captions.len());
    let pairs = Pairs { images, captions, members: &members, relevance: None };
    vse.gradients(&pairs, &loss.into(), None, 0, &Group::alone())
}

/// One step by it.
fn step(training: &mut Training, images: &[f32], captions: &[&[i64]], loss: Loss, rate: f64) -> Result<Stepped> {
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
    captions: Vec<Vec<i64>>,
    margin: f64,
    clip: f64,
    rate: f64,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    form: Form,
    before: HashMap<String, Values>,
    images: Vec<f64>,
    texts: Vec<f64>,
    gradients: HashMap<String, Values>,
    losses: Vec<f64>,
    norms: Vec<f64>,
    after: HashMap<String, Values>,
}

impl Case {
    fn model(&self) -> Vse {
        let names = Vse::names_of(&self.form).expect("widths");
        let parameters = names.iter().map(|name| self.before[name].tensor()).collect();
        Vse::from_parameters(self.form.clone(), parameters).expect("shapes fit")
    }
}

impl Values {
    fn tensor(&self) -> Tensor {
        Tensor::from_slice(&self.values).view(self.shape.as_slice())
    }
}

fn apart(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

/// `tests/golden/vse.py` wrote this with `torch.nn.GRU`, `torch.optim.Adam` and `clip_grad_norm_` in f64.
#[test]
fn every_form_its_gradient_clipping_and_adam_agree_with_pytorch() {
    let golden: Golden = serde_json::from_str(include_str!("../../tests/golden/vse.json")).expect("golden models");
    let captions: Vec<&[i64]> = golden.captions.iter().map(Vec::as_slice).collect();
    assert_eq!(golden.cases.len(), 9);
    for case in &golden.cases {
        let form = &case.form;
        let vse = case.model();
        let forward = vse.forward(&golden.features, &captions).expect("embeddings");
        assert!(apart(&forward.images.view(-1), &Tensor::from_slice(&case.images)) < 1e-12, "{form:?}");
        assert!(apart(&forward.captions.view(-1), &Tensor::from_slice(&case.texts)) < 1e-12, "{form:?}");
        assert_eq!(vse.embed_captions(&captions).expect("captions"), forward.captions);
        // Where images are not normalised for the loss, they are for a search.
        let found = vse.embed_images(&golden.features).expect("images");
        assert!(
            apart(&found, &(&forward.images / forward.images.norm_scalaropt_dim(2, [1i64].as_slice(), true))) < 1e-12
        );

        let mut training = Training::start(vse);
        let trained = training.vse().trained();
        assert_eq!(trained.len(), case.gradients.len());
        for (i, (wanted, norm)) in case.losses.iter().zip(&case.norms).enumerate() {
            let loss = Loss::Max { margin: golden.margin };
            let step = of_loss(training.vse(), &golden.features, &captions, loss).expect("gradients");
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
        for (got, name) in training.vse().parameters().iter().zip(training.vse().names()) {
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
    let captions: Vec<Vec<i64>> =
        (0..33).map(|i: i64| (0..=(i * 7) % 13).map(|t| (i + t * t) % 17).collect()).collect();
    let captions: Vec<&[i64]> = captions.iter().map(Vec::as_slice).collect();
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

fn gradients(vse: &Vse, images: &[f32], captions: &[&[i64]]) -> Vec<Tensor> {
    let forward = vse.forward(images, captions).expect("embeddings");
    let (kind, size) = (forward.images.kind(), forward.images.size());
    let pull = [random(&size, 7), random(&size, 8)].map(|pull| pull.to_kind(kind));
    let mut all = vec![forward.images.copy(), forward.captions.copy()];
    all.extend(vse.backward(forward, &pull[0], &pull[1]).expect("gradients"));
    all.into_iter().map(|tensor| tensor.to_kind(Kind::Double)).collect()
}

/// In f32 our own kernels compute where the processor has the vectors for them, in f64 libtorch does. Widths that are and are
/// not whole vectors, every pooling, one direction and two; the same bits with any number of threads.
#[test]
fn f32_and_bf16_are_near_to_f64_in_every_form() {
    let captions: Vec<Vec<i64>> =
        (0..29).map(|i: i64| (0..=(i * 7) % 13).map(|t| (i + t * t) % 17).collect()).collect();
    let captions: Vec<&[i64]> = captions.iter().map(Vec::as_slice).collect();
    for (joint, word) in [(100, 9), (64, 32), (7, 5)] {
        for pooling in [Pooling::Last, Pooling::Mean, Pooling::Max] {
            for bidirectional in [false, true] {
                let form = Form { bidirectional, pooling, ..Form::vse(11, 17, word, joint) };
                let images: Vec<f32> = random(&[29, 11], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
                let mut vse = Vse::new(form.clone(), 5, Device::Cpu).expect("a model");
                let exact = vse.parameters().iter().map(|parameter| parameter.to_kind(Kind::Double)).collect();
                let exact = Vse::from_parameters(form.clone(), exact).expect("a model");
                let wanted = gradients(&exact, &images, &captions);
                for (precision, error) in [(Precision::F32, 2e-6), (Precision::Mixed, 0.02)] {
                    vse.set_precision(precision);
                    let before = tch::get_num_threads();
                    let [one, two, three] = [1, 2, 3].map(|threads| {
                        tch::set_num_threads(threads);
                        gradients(&vse, &images, &captions)
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
    let form = Form { pictures, ..Form::vse(512, 5, 3, 8) };
    let drawn = Vse::new(form.clone(), 3, Device::Cpu).expect("a model");
    assert_eq!(drawn.names()[7], "img_enc.cnn.features.0.weight");
    let double = |by: f64| {
        let move_by = |(i, parameter): (u64, &Tensor)| {
            parameter.to_kind(Kind::Double)
                + random(&parameter.size(), 100 + i) * parameter.abs().max().to_kind(Kind::Double) * by
        };
        Vse::from_parameters(form.clone(), (0..).zip(drawn.parameters()).map(move_by).collect()).expect("a model")
    };
    let images: Vec<f32> = random(&[2, 3 * 32 * 32], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
    let captions: [&[i64]; 2] = [&[1, 2], &[3]];
    let pull = [random(&[2, 8], 2), random(&[2, 8], 3)];
    let value = |vse: &Vse| {
        let found = [vse.embed_images(&images).expect("images"), vse.embed_captions(&captions).expect("captions")];
        found.iter().zip(&pull).map(|(found, pull)| (found * pull).sum(Kind::Double).double_value(&[])).sum::<f64>()
    };
    let vse = double(0.0);
    let forward = vse.forward(&images, &captions).expect("embeddings");
    let gradients = vse.backward(forward, &pull[0], &pull[1]).expect("gradients");
    assert_eq!(gradients.len(), vse.parameters().len());
    let slope: f64 = (0..)
        .zip(drawn.parameters())
        .zip(&gradients)
        .map(|((i, parameter), gradient)| {
            let largest = parameter.abs().max().to_kind(Kind::Double);
            (gradient * random(&parameter.size(), 100 + i) * largest).sum(Kind::Double).double_value(&[])
        })
        .sum();
    let wanted = (value(&double(1e-6)) - value(&double(-1e-6))) / 2e-6;
    assert!((slope - wanted).abs() < 1e-5 * wanted.abs().max(0.1), "{slope}, by differences {wanted}");
    let of_cnn: f64 = gradients[7..].iter().map(|gradient| gradient.norm().double_value(&[])).sum();
    assert!(of_cnn > 1e-3, "the network's gradient is {of_cnn}");
}

/// Pictures, a stored network, batch normalisation: the statistics stay, the rest learns, and all comes back from a file.
#[test]
fn a_training_with_a_network_keeps_its_statistics() {
    let pictures = Some(Pictures { network: Network::ResNet18, side: 32, resize: 32 });
    let form = Form { pictures, ..Form::vse(512, 5, 3, 8) };
    let vse = Vse::new(form.clone(), 3, Device::Cpu).expect("a model");
    let before: Vec<Tensor> = vse.parameters().iter().map(Tensor::copy).collect();
    let mut training = Training::start(vse);
    let images: Vec<f32> = random(&[2, 3 * 32 * 32], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
    step(&mut training, &images, &[&[1, 2], &[3]], Loss::Sum { margin: 0.2 }, 0.01).expect("a step");
    for ((now, before), name) in training.vse().parameters().iter().zip(&before).zip(training.vse().names()) {
        let moved = apart(now, before) > 0.0;
        assert_eq!(moved, !name.contains("running_"), "{name}");
    }
    assert!(Vse::new(Form { image: 511, ..form }, 1, Device::Cpu).is_err());
}

#[test]
fn a_new_model_is_drawn_as_the_paper_says_and_from_the_seed_alone() {
    let form = Form { bidirectional: true, ..Form::vse(40, 30, 12, 16) };
    let vse = Vse::new(form.clone(), 3, Device::Cpu).expect("a model");
    let bounds = [(6.0f64 / 56.0).sqrt(), 0.0, 0.1, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25];
    assert_eq!(vse.parameters().len(), bounds.len());
    for ((parameter, bound), name) in vse.parameters().iter().zip(bounds).zip(vse.names()) {
        let largest = parameter.abs().max().double_value(&[]);
        assert!(largest <= bound + 1e-7 && largest >= 0.9 * bound, "`{name}`: {largest}, {bound}");
        assert!(parameter.mean(Kind::Double).double_value(&[]).abs() <= 0.15 * bound + 1e-12, "`{name}`");
    }
    let again = Vse::new(form.clone(), 3, Device::Cpu).expect("a model");
    assert!(vse.parameters().iter().zip(again.parameters()).all(|(a, b)| a == b));
    let other = Vse::new(form, 4, Device::Cpu).expect("a model");
    assert_ne!(vse.parameters()[0], other.parameters()[0]);
}

#[test]
fn given_word_vectors_are_used_and_stay_when_frozen() {
    let form = Form { words_frozen: true, ..Form::vse(4, 5, 3, 8) };
    let mut vse = Vse::new(form, 1, Device::Cpu).expect("a model");
    let before = vse.embed_captions(&[&[1, 2]]).expect("an embedding");
    let given: Vec<f32> = (0..15u8).map(f32::from).collect();
    vse.set_words(|word| given.get(3 * word..3 * word + 3)).expect("they fit");
    assert!(vse.set_words(|_| given.get(..2)).is_err());
    assert_ne!(vse.embed_captions(&[&[1, 2]]).expect("an embedding"), before);
    let mut training = Training::start(vse);
    let images = [1.0, 0.5, 0.0, 2.0, 0.0, 1.0, 0.5, 1.0];
    step(&mut training, &images, &[&[1, 2], &[3, 4, 2]], Loss::Sum { margin: 0.2 }, 0.1).expect("a step");
    let words: Vec<f32> = Vec::try_from(training.vse().parameters()[2].view(-1)).expect("values");
    assert_eq!(words, given);
}

/// A rank may have no pair of a batch; the sum over ranks of what each gives is the gradient of the whole.
#[test]
fn shares_of_a_batch_add_up_and_may_be_empty() {
    let form = Form { bidirectional: true, pooling: Pooling::Mean, ..Form::vse(3, 9, 4, 8) };
    let vse = Vse::new(form, 1, Device::Cpu).expect("a model");
    let images: Vec<f32> = random(&[5, 3], 2).to_kind(Kind::Float).view(-1).try_into().expect("values");
    let captions: [&[i64]; 5] = [&[1, 2], &[1, 5, 6, 2], &[3], &[1, 7, 2], &[8, 8]];
    let pull = [random(&[5, 8], 3), random(&[5, 8], 4)].map(|pull| pull.to_kind(Kind::Float));
    let part = |from: usize, to: usize| {
        let forward = vse.forward(&images[3 * from..3 * to], &captions[from..to]).expect("embeddings");
        let (start, count) = (i64::try_from(from).expect("small"), i64::try_from(to - from).expect("small"));
        assert_eq!(forward.captions.size(), [count, 8]);
        let [d_images, d_captions] = pull.each_ref().map(|pull| pull.narrow(0, start, count));
        vse.backward(forward, &d_images, &d_captions).expect("gradients")
    };
    let whole = part(0, 5);
    let shares = [part(0, 2), part(2, 2), part(2, 5)];
    assert!(shares[1].iter().all(|gradient| gradient.abs().sum(Kind::Float).double_value(&[]) == 0.0));
    assert_eq!(whole.len(), vse.parameters().len());
    for (i, whole) in whole.iter().enumerate() {
        assert!(apart(whole, &(&shares[0][i] + &shares[1][i] + &shares[2][i])) < 1e-5, "gradient {i}");
    }
}

#[test]
fn captions_of_one_and_of_two_hundred_words_are_embedded_and_learned_from() {
    for pooling in [Pooling::Last, Pooling::Mean, Pooling::Max] {
        let form = Form { bidirectional: true, pooling, ..Form::vse(4, 20, 6, 16) };
        let vse = Vse::new(form, 1, Device::Cpu).expect("a model");
        let long: Vec<i64> = (0..200).map(|t| t % 20).collect();
        let step = of_loss(&vse, &[1.0, 0.0, 0.5, 0.2, 0.3, 1.0, 0.0, 0.1], &[&long, &[7]], Loss::Sum { margin: 0.2 });
        let step = step.expect("a step");
        assert!(step.loss.is_finite() && norm(&step.parameters).is_finite());
        let alone = vse.embed_captions(&[&[7]]).expect("an embedding");
        let together = vse.embed_captions(&[&long, &[7]]).expect("embeddings");
        assert!(apart(&alone, &together.narrow(0, 1, 1)) < 1e-6);
    }
}

#[test]
fn a_training_comes_back_from_its_bytes_and_another_model_is_refused() {
    let form = Form { bidirectional: true, words_frozen: true, ..Form::vse(2, 9, 4, 8) };
    let mut training = Training::start(Vse::new(form.clone(), 1, Device::Cpu).expect("a model"));
    let step = |training: &mut Training| {
        let batch: ([f32; 4], [&[i64]; 2]) = ([1.0, 0.5, 0.0, 2.0], [&[1, 2], &[3, 4, 2]]);
        step(training, &batch.0, &batch.1, Loss::Sum { margin: 0.2 }, 0.1).expect("a step")
    };
    step(&mut training);
    training.keep_best().expect("bytes");
    step(&mut training);
    let bytes = training.to_bytes("text".to_owned(), None).expect("bytes");
    let (mut again, text, _) = Training::from_bytes(&bytes, &form, Device::Cpu).expect("a training");
    assert_eq!((text.as_str(), again.best().expect("bytes")), ("text", training.best().expect("bytes")));
    assert_eq!(step(&mut again), step(&mut training));
    assert!(again.vse().parameters().iter().zip(training.vse().parameters()).all(|(a, b)| a == b));
    let other = Form { absolute: true, ..form };
    let error = Training::from_bytes(&bytes, &other, Device::Cpu).expect_err("another form").to_string();
    assert!(error.starts_with("a checkpoint of another model") && error.contains("absolute"), "{error}");
}

#[test]
fn a_caption_is_embedded_alike_in_any_company() {
    let vse = Vse::new(Form::vse(4, 20, 6, 32), 1, Device::Cpu).expect("a model");
    let captions: Vec<Vec<i64>> = (0..40).map(|i: i64| (0..2 + i % 9).map(|t| (3 * i + t) % 20).collect()).collect();
    let all: Vec<&[i64]> = captions.iter().map(Vec::as_slice).collect();
    let together = vse.embed_captions(&all).expect("embeddings");
    for (i, caption) in (0..).zip(&all) {
        let alone = vse.embed_captions(&[caption]).expect("an embedding");
        assert!(apart(&alone, &together.narrow(0, i, 1)) < 1e-6);
        assert!((alone.norm().double_value(&[]) - 1.0).abs() < 1e-6);
    }
}

#[test]
fn wrong_data_is_an_error_and_never_a_panic() {
    let form = Form::vse(4, 20, 6, 8);
    let vse = Vse::new(form.clone(), 1, Device::Cpu).expect("a model");
    assert!(vse.embed_images(&[0.0; 6]).is_err());
    assert!(vse.embed_captions(&[&[1, 20]]).is_err());
    assert!(vse.embed_captions(&[&[]]).is_err());
    assert!(vse.embed_captions(&[]).is_err());
    assert!(of_loss(&vse, &[0.0; 8], &[&[1, 2]], Loss::Sum { margin: 0.2 }).is_err());
    assert!(of_loss(&vse, &[], &[], Loss::Sum { margin: 0.2 }).is_err());
    assert!(Vse::new(Form { image: 0, ..form.clone() }, 1, Device::Cpu).is_err());
    let copy = || vse.parameters().iter().map(Tensor::copy).collect::<Vec<_>>();
    let mut parameters = copy();
    parameters[4] = Tensor::zeros([24, 9], (Kind::Float, Device::Cpu));
    let error = Vse::from_parameters(form.clone(), parameters).expect_err("shapes differ");
    assert!(error.to_string().contains("weight_hh"), "{error}");
    let error = Vse::from_parameters(Form { bidirectional: true, ..form }, copy()).expect_err("four are missing");
    assert_eq!(error.to_string(), "a model of 7 parameters, wanted 11");
}

#[test]
fn an_image_of_zeros_has_a_finite_gradient() {
    let vse = Vse::new(Form::vse(4, 20, 6, 8), 1, Device::Cpu).expect("a model");
    let images = [0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 2.0];
    let step = of_loss(&vse, &images, &[&[1, 2], &[1, 5, 2]], Loss::Max { margin: 0.2 }).expect("gradients");
    assert!(step.loss.is_finite() && norm(&step.parameters).is_finite());
}
