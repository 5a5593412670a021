//! The model, its gradient and its optimiser against PyTorch.

use std::collections::HashMap;

use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::adam::{Adam, clip};
use super::captions::Packed;
use super::gru;
use super::loss::Loss;
use super::vse::{NAMES, Vse, Widths};
use crate::kernels::sample::Sample;

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
    before: HashMap<String, Values>,
    images: Vec<f64>,
    texts: Vec<f64>,
    gradients: HashMap<String, Values>,
    losses: Vec<f64>,
    norms: Vec<f64>,
    after: HashMap<String, Values>,
}

fn tensors(named: &HashMap<String, Values>) -> [Tensor; 7] {
    NAMES.map(|name| Tensor::from_slice(&named[name].values).view(named[name].shape.as_slice()))
}

fn apart(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    (a - b).abs().max().double_value(&[])
}

/// `tests/golden/vse.py` wrote this with `torch.nn.GRU`, `torch.optim.Adam` and `clip_grad_norm_` in f64.
#[test]
fn model_gradient_clipping_and_adam_agree_with_pytorch() {
    let golden: Golden = serde_json::from_str(include_str!("../../tests/golden/vse.json")).expect("golden model");
    let vse = Vse::from_parameters(tensors(&golden.before)).expect("shapes fit");
    let captions: Vec<&[i64]> = golden.captions.iter().map(Vec::as_slice).collect();
    let images = vse.embed_images(&golden.features).expect("images");
    assert!(apart(&images.view(-1), &Tensor::from_slice(&golden.images)) < 1e-12);
    let texts = vse.embed_captions(&captions).expect("captions");
    assert!(apart(&texts.view(-1), &Tensor::from_slice(&golden.texts)) < 1e-12);

    let mut adam = Adam::new(vse.parameters());
    for (i, (wanted, norm)) in golden.losses.iter().zip(&golden.norms).enumerate() {
        let step = vse.step(&golden.features, &captions, &Loss::Max { margin: golden.margin }).expect("step");
        assert!((step.loss - wanted).abs() < 1e-10, "step {i}: {} and {wanted}", step.loss);
        if i == 0 {
            for ((got, wanted), name) in step.gradients.iter().zip(tensors(&golden.gradients)).zip(NAMES) {
                assert!(apart(got, &wanted) < 1e-12, "gradient of `{name}`:\n{got}\n{wanted}");
            }
        }
        let got = clip(&step.gradients, golden.clip);
        assert!((got - norm).abs() < 1e-10, "norm {i}: {got} and {norm}");
        adam.step(vse.parameters(), &step.gradients, golden.rate);
    }
    for ((got, wanted), name) in vse.parameters().iter().zip(tensors(&golden.after)).zip(NAMES) {
        assert!(apart(got, &wanted) < 1e-9, "`{name}` after five steps: {}", apart(got, &wanted));
    }
}

fn random(shape: &[i64], seed: u64) -> Tensor {
    let mut sample = Sample::new(seed, &[]);
    let values: Vec<f64> = (0..shape.iter().product()).map(|_: i64| sample.unit() - 0.5).collect();
    Tensor::from_slice(&values).view(shape)
}

/// libtorch's own GRU on the same packed words, in f64, with its gradient by autograd.
#[test]
fn the_recurrence_and_its_gradient_agree_with_libtorch() {
    let (h, w) = (24, 10);
    let captions: Vec<Vec<i64>> =
        (0..33).map(|i: i64| (0..=(i * 7) % 13).map(|t| (i + t * t) % 17).collect()).collect();
    let captions: Vec<&[i64]> = captions.iter().map(Vec::as_slice).collect();
    let packed = Packed::new(&captions, Device::Cpu);
    let leaf = |shape: &[i64], seed| random(shape, seed).set_requires_grad(true);
    let (vectors, w_ih, w_hh) = (leaf(&[17, w], 1), leaf(&[3 * h, w], 2), leaf(&[3 * h, h], 3));
    let (b_ih, b_hh) = (leaf(&[3 * h], 4), leaf(&[3 * h], 5));

    let data = vectors.index_select(0, &packed.distinct.index_select(0, &packed.words));
    let sizes = Tensor::from_slice(&packed.sizes);
    let hx = Tensor::zeros([1, packed.sizes[0], h], (Kind::Double, Device::Cpu));
    let (_, theirs) = Tensor::gru_data(&data, &sizes, &hx, &[&w_ih, &w_hh, &b_ih, &b_hh], true, 1, 0.0, true, false);
    let theirs = theirs.squeeze_dim(0);
    let pull = random(&theirs.size(), 6);
    let wanted = Tensor::run_backward(&[&(&theirs * &pull).sum(Kind::Double)], &[&data, &w_hh, &b_hh], false, false);

    let inputs = tch::no_grad(|| data.linear(&w_ih, Some(&b_ih)));
    let tape = gru::forward(inputs, &w_hh, &b_hh, &packed.sizes);
    assert!(apart(&tape.last(), &theirs) < 1e-12);
    let got = tape.backward(&pull, &w_hh);
    assert!(apart(&got.inputs.mm(&w_ih), &wanted[0]) < 1e-12);
    assert!(apart(&got.weight, &wanted[1]) < 1e-11);
    assert!(apart(&got.bias, &wanted[2]) < 1e-11);
}

#[test]
fn a_new_model_is_drawn_as_the_paper_says_and_from_the_seed_alone() {
    let widths = Widths { image: 40, word: 12, joint: 16, words: 30 };
    let vse = Vse::new(widths, 3, Device::Cpu).expect("a model");
    assert_eq!(vse.widths(), widths);
    let bounds = [(6.0f64 / 56.0).sqrt(), 0.0, 0.1, 0.25, 0.25, 0.25, 0.25];
    for ((parameter, bound), name) in vse.parameters().iter().zip(bounds).zip(NAMES) {
        let largest = parameter.abs().max().double_value(&[]);
        assert!(largest <= bound + 1e-7 && largest >= 0.9 * bound, "`{name}`: {largest}, {bound}");
        assert!(parameter.mean(Kind::Double).double_value(&[]).abs() <= 0.1 * bound + 1e-12, "`{name}`");
    }
    let again = Vse::new(widths, 3, Device::Cpu).expect("a model");
    assert!(vse.parameters().iter().zip(again.parameters()).all(|(a, b)| a == b));
    let other = Vse::new(widths, 4, Device::Cpu).expect("a model");
    assert_ne!(vse.parameters()[0], other.parameters()[0]);
}

#[test]
fn a_caption_is_embedded_alike_in_any_company() {
    let vse = Vse::new(Widths { image: 4, word: 6, joint: 32, words: 20 }, 1, Device::Cpu).expect("a model");
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
    let widths = Widths { image: 4, word: 6, joint: 8, words: 20 };
    let vse = Vse::new(widths, 1, Device::Cpu).expect("a model");
    assert!(vse.embed_images(&[0.0; 6]).is_err());
    assert!(vse.embed_captions(&[&[1, 20]]).is_err());
    assert!(vse.embed_captions(&[&[]]).is_err());
    assert!(vse.embed_captions(&[]).is_err());
    assert!(vse.step(&[0.0; 8], &[&[1, 2]], &Loss::Sum { margin: 0.2 }).is_err());
    assert!(Vse::new(Widths { image: 0, ..widths }, 1, Device::Cpu).is_err());
    let mut parameters = vse.parameters().each_ref().map(Tensor::copy);
    parameters[4] = Tensor::zeros([24, 9], (Kind::Float, Device::Cpu));
    let error = Vse::from_parameters(parameters).expect_err("shapes differ");
    assert!(error.to_string().contains("weight_hh"), "{error}");
}

#[test]
fn an_image_of_zeros_has_a_finite_gradient() {
    let vse = Vse::new(Widths { image: 4, word: 6, joint: 8, words: 20 }, 1, Device::Cpu).expect("a model");
    let step = vse
        .step(&[0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 2.0], &[&[1, 2], &[1, 5, 2]], &Loss::Max { margin: 0.2 })
        .expect("a step");
    assert!(step.loss.is_finite() && clip(&step.gradients, 2.0).is_finite());
}
