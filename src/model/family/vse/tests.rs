//! Tests of VSE++: gradients, precisions, fine-tuning of a CNN, local batches.

use tch::{Device, Kind, Tensor};

use super::VseConfig;
use super::testing::{
    create, embed_captions, embed_images, forward_and_backward, max_difference, model_with, new_training,
    random_tensor, training_step,
};
use crate::encoder::gru;
use crate::encoder::packed_captions::PackedCaptions;
use crate::family::model::{Family, Model};
use crate::family::registry;
use pairloom_kernels::product::{ElementType, has_avx512};
use pairloom_spec::family::WORD_VECTORS;
use pairloom_spec::family::vse::{CaptionPooling, VseSettings};
use pairloom_spec::input_spec::{FinetunedCnn, InputSpec};
use pairloom_spec::loss::{Loss, SumLoss};
use pairloom_spec::networks::Network;
use pairloom_spec::precision::MatmulPrecision;

/// Comparison with libtorch's GRU and its autograd on the same packed words, in f64, with a gradient in every state.
#[test]
fn the_gru_and_its_gradient_agree_with_libtorch() {
    let (h, w) = (24, 10);
    let captions: Vec<Vec<i32>> =
        (0..33).map(|i: i32| (0..=(i * 7) % 13).map(|t| (i + t * t) % 17).collect()).collect();
    let captions: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let packed = PackedCaptions::new(&captions);
    let leaf = |shape: &[i64], seed| random_tensor(shape, seed).set_requires_grad(true);
    let (vectors, w_ih, w_hh) = (leaf(&[17, w], 1), leaf(&[3 * h, w], 2), leaf(&[3 * h, h], 3));
    let (b_ih, b_hh) = (leaf(&[3 * h], 4), leaf(&[3 * h], 5));

    let words: Vec<i64> = packed.token_rows.iter().map(|&row| packed.distinct_token_ids[row]).collect();
    let data = vectors.index_select(0, &Tensor::from_slice(&words));
    let sizes: Vec<i64> = packed.batch_sizes.iter().map(|&size| i64::try_from(size).expect("a small number")).collect();
    let hx = Tensor::zeros([1, sizes[0], h], (Kind::Double, Device::Cpu));
    let parameters = [&w_ih, &w_hh, &b_ih, &b_hh];
    let (theirs, _) = Tensor::gru_data(&data, &Tensor::from_slice(&sizes), &hx, &parameters, true, 1, 0.0, true, false);
    let upstream = random_tensor(&theirs.size(), 6);
    let expected =
        Tensor::run_backward(&[&(&theirs * &upstream).sum(Kind::Double)], &[&data, &w_hh, &b_hh], false, false);

    tch::no_grad(|| {
        let inputs = data.linear(&w_ih, Some(&b_ih));
        let tape = gru::forward(inputs, &w_hh, &b_hh, &packed.batch_sizes, MatmulPrecision::F32);
        assert!(max_difference(tape.states(), &theirs) < 1e-12);
        let got = tape.backward(&upstream, &w_hh, &packed.batch_sizes, MatmulPrecision::F32);
        assert!(max_difference(&got.inputs.mm(&w_ih), &expected[0]) < 1e-12);
        assert!(max_difference(&got.weight, &expected[1]) < 1e-11);
        assert!(max_difference(&got.bias, &expected[2]) < 1e-11);
    });
}

fn gradients(model: &dyn Model, images: &[f32], captions: &[&[i32]]) -> Vec<Tensor> {
    let upstream = |like: &Tensor| [7, 8].map(|seed| random_tensor(&like.size(), seed).to_kind(like.kind()));
    let (images, captions, gradients) = forward_and_backward(model, images, captions, upstream);
    let mut all = vec![images, captions];
    all.extend(gradients);
    all.into_iter().map(|tensor| tensor.to_kind(Kind::Double)).collect()
}

/// f32 and bf16 use this project's kernels on CPUs with AVX-512; f64 uses libtorch. Widths that are and are not
/// multiples of the vector width, every pooling, one and two directions. With this project's kernels the bits are the same
/// with any number of threads; libtorch divides a sum by them.
#[test]
fn f32_and_bf16_are_near_to_f64_in_every_variant() {
    let captions: Vec<Vec<i32>> =
        (0..29).map(|i: i32| (0..=(i * 7) % 13).map(|t| (i + t * t) % 17).collect()).collect();
    let captions: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    for (joint, word) in [(100, 9), (64, 32), (7, 5)] {
        for pooling in [CaptionPooling::Last, CaptionPooling::Mean, CaptionPooling::Max] {
            for bidirectional in [false, true] {
                let config = VseConfig { bidirectional, pooling, ..VseConfig::new(11, 17, word, joint) };
                let images: Vec<f32> =
                    random_tensor(&[29, 11], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
                let mut vse = create(&config, 5);
                let exact =
                    vse.parameters().tensors().iter().map(|parameter| parameter.to_kind(Kind::Double)).collect();
                let exact = model_with(&config, exact).expect("a model");
                let expected = gradients(&*exact, &images, &captions);
                for (precision, error) in [
                    (MatmulPrecision::F32, 2e-6),
                    (MatmulPrecision::Mixed, 0.02),
                    (MatmulPrecision::MixedByLibtorch, 0.02),
                ] {
                    vse.set_precision(precision).expect("a supported precision");
                    let before = tch::get_num_threads();
                    let [one, two, three] = [1, 2, 3].map(|threads| {
                        tch::set_num_threads(threads);
                        gradients(&*vse, &images, &captions)
                    });
                    tch::set_num_threads(before);
                    for (i, (got, expected)) in one.iter().zip(&expected).enumerate() {
                        // If two words have nearly equal values, bf16 may choose the other one as the maximum.
                        let ties = precision != MatmulPrecision::F32 && pooling == CaptionPooling::Max;
                        let error = if ties { 0.2 } else { error };
                        let far = (got - expected).norm().double_value(&[]) / expected.norm().double_value(&[]);
                        assert!(far < error, "{config:?} {precision:?}, {i}: {far}");
                        for other in [&two[i], &three[i]] {
                            let far = (got - other).norm().double_value(&[]) / expected.norm().double_value(&[]);
                            let is_ours = has_avx512(ElementType::F32) && precision != MatmulPrecision::MixedByLibtorch;
                            let allowed = if is_ours { 0.0 } else { error };
                            assert!(far <= allowed, "{config:?} {precision:?}, {i}: {far} between threads");
                        }
                    }
                }
            }
        }
    }
}

/// Directional derivative along a random direction by central differences, in f64.
#[test]
fn gradients_of_a_fine_tuned_cnn_are_central_differences() {
    let pictures =
        Some(FinetunedCnn { network: Network::SqueezeNet1_0, side: 32, resize: 32, batch_statistics: false });
    let mut config = VseConfig::new(512, 5, 3, 8);
    config.data.pictures = pictures;
    let drawn = create(&config, 3);
    assert_eq!(drawn.parameters().names()[7], "img_enc.cnn.features.0.weight");
    let double = |by: f64| {
        let move_by = |(i, parameter): (u64, &Tensor)| {
            parameter.to_kind(Kind::Double)
                + random_tensor(&parameter.size(), 100 + i) * parameter.abs().max().to_kind(Kind::Double) * by
        };
        model_with(&config, (0..).zip(drawn.parameters().tensors()).map(move_by).collect()).expect("a model")
    };
    let images: Vec<f32> =
        random_tensor(&[2, 3 * 32 * 32], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
    let captions: [&[i32]; 2] = [&[1, 2], &[3]];
    let upstream = [random_tensor(&[2, 8], 2), random_tensor(&[2, 8], 3)];
    let value = |vse: &dyn Model| {
        let images = embed_images(vse, &images).expect("images");
        let found = [images, embed_captions(vse, &captions).expect("captions")];
        found
            .iter()
            .zip(&upstream)
            .map(|(found, upstream)| (found * upstream).sum(Kind::Double).double_value(&[]))
            .sum::<f64>()
    };
    let vse = double(0.0);
    let (.., gradients) = forward_and_backward(&*vse, &images, &captions, |_| [upstream[0].copy(), upstream[1].copy()]);
    assert_eq!(gradients.len(), vse.parameters().tensors().len());
    let slope: f64 = (0..)
        .zip(drawn.parameters().tensors())
        .zip(&gradients)
        .map(|((i, parameter), gradient)| {
            let largest = parameter.abs().max().to_kind(Kind::Double);
            (gradient * random_tensor(&parameter.size(), 100 + i) * largest).sum(Kind::Double).double_value(&[])
        })
        .sum();
    let expected = (value(&*double(1e-6)) - value(&*double(-1e-6))) / 2e-6;
    assert!((slope - expected).abs() < 1e-5 * expected.abs().max(0.1), "{slope}, by differences {expected}");
    let cnn_norm: f64 = gradients[7..].iter().map(|gradient| gradient.norm().double_value(&[])).sum();
    assert!(cnn_norm > 1e-3, "the network's gradient is {cnn_norm}");
}

/// Training with a ResNet updates all parameters except the statistics of batch normalisation, and these as well if they
/// are those of the batch.
#[test]
fn fine_tuning_keeps_or_updates_the_statistics_of_batch_normalisation() {
    for batch_statistics in [false, true] {
        fine_tuned_parameters_move(batch_statistics);
    }
}

fn fine_tuned_parameters_move(batch_statistics: bool) {
    let pictures = Some(FinetunedCnn { network: Network::ResNet18, side: 32, resize: 32, batch_statistics });
    let mut config = VseConfig::new(512, 5, 3, 8);
    config.data.pictures = pictures;
    let vse = create(&config, 3);
    let before: Vec<Tensor> = vse.parameters().tensors().iter().map(Tensor::copy).collect();
    let mut training = new_training(&config, vse);
    let images: Vec<f32> =
        random_tensor(&[2, 3 * 32 * 32], 1).to_kind(Kind::Float).view(-1).try_into().expect("values");
    training_step(&mut training, &images, &[&[1, 2], &[3]], Loss::Sum(SumLoss { margin: 0.2 }), 0.01).expect("a step");
    for ((now, before), name) in
        training.model().parameters().tensors().iter().zip(&before).zip(training.model().parameters().names())
    {
        let moved = max_difference(now, before) > 0.0;
        assert_eq!(moved, batch_statistics || !name.contains("running_"), "{name}");
    }
    config.data.image = 511;
    assert!(registry::ModelConfig::Vse(config).create(1, Device::Cpu).is_err());
}

#[test]
fn initial_parameters_follow_the_paper_and_the_seed() {
    let config = VseConfig { bidirectional: true, ..VseConfig::new(40, 30, 12, 16) };
    let vse = create(&config, 3);
    let bounds = [(6.0f64 / 56.0).sqrt(), 0.0, 0.1, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25];
    assert_eq!(vse.parameters().tensors().len(), bounds.len());
    for ((parameter, bound), name) in vse.parameters().tensors().iter().zip(bounds).zip(vse.parameters().names()) {
        let largest = parameter.abs().max().double_value(&[]);
        assert!(largest <= bound + 1e-7 && largest >= 0.9 * bound, "`{name}`: {largest}, {bound}");
        assert!(parameter.mean(Kind::Double).double_value(&[]).abs() <= 0.15 * bound + 1e-12, "`{name}`");
    }
    let again = create(&config, 3);
    assert!(vse.parameters().tensors().iter().zip(again.parameters().tensors()).all(|(a, b)| a == b));
    let other = create(&config, 4);
    assert_ne!(vse.parameters().tensors()[0], other.parameters().tensors()[0]);
}

#[test]
fn frozen_word_vectors_are_used_and_not_trained() {
    let mut config = VseConfig::new(4, 5, 3, 8);
    config.data.words_frozen = true;
    let vse = create(&config, 1);
    let before = embed_captions(&*vse, &[&[1, 2]]).expect("an embedding");
    let given: Vec<f32> = (0..15u8).map(f32::from).collect();
    vse.parameters().set_rows(WORD_VECTORS, |word| given.get(3 * word..3 * word + 3)).expect("they fit");
    assert!(vse.parameters().set_rows(WORD_VECTORS, |_| given.get(..2)).is_err());
    assert_ne!(embed_captions(&*vse, &[&[1, 2]]).expect("an embedding"), before);
    let mut training = new_training(&config, vse);
    let images = [1.0, 0.5, 0.0, 2.0, 0.0, 1.0, 0.5, 1.0];
    training_step(&mut training, &images, &[&[1, 2], &[3, 4, 2]], Loss::Sum(SumLoss { margin: 0.2 }), 0.1)
        .expect("a step");
    let words: Vec<f32> = Vec::try_from(training.model().parameters().tensors()[2].view(-1)).expect("values");
    assert_eq!(words, given);
}

/// The gradients of local batches, one of them empty, add up to the gradient of the whole batch.
#[test]
fn gradients_of_local_batches_add_up() {
    let config = VseConfig { bidirectional: true, pooling: CaptionPooling::Mean, ..VseConfig::new(3, 9, 4, 8) };
    let vse = create(&config, 1);
    let images: Vec<f32> = random_tensor(&[5, 3], 2).to_kind(Kind::Float).view(-1).try_into().expect("values");
    let captions: [&[i32]; 5] = [&[1, 2], &[1, 5, 6, 2], &[3], &[1, 7, 2], &[8, 8]];
    let upstream = [random_tensor(&[5, 8], 3), random_tensor(&[5, 8], 4)].map(|upstream| upstream.to_kind(Kind::Float));
    let part = |from: usize, to: usize| {
        let (start, count) = (i64::try_from(from).expect("small"), i64::try_from(to - from).expect("small"));
        let own = |_: &Tensor| upstream.each_ref().map(|upstream| upstream.narrow(0, start, count));
        let (_, texts, gradients) = forward_and_backward(&*vse, &images[3 * from..3 * to], &captions[from..to], own);
        assert_eq!(texts.size(), [count, 8]);
        gradients
    };
    let whole = part(0, 5);
    let shares = [part(0, 2), part(2, 2), part(2, 5)];
    assert!(shares[1].iter().all(|gradient| gradient.abs().sum(Kind::Float).double_value(&[]) == 0.0));
    assert_eq!(whole.len(), vse.parameters().tensors().len());
    for (i, whole) in whole.iter().enumerate() {
        assert!(max_difference(whole, &(&shares[0][i] + &shares[1][i] + &shares[2][i])) < 1e-5, "gradient {i}");
    }
}

/// UVS: images have unit length for search, but not in training.
#[test]
fn images_may_be_left_unnormalised_in_training() {
    let data = InputSpec::for_features(6, 5);
    let images: Vec<f32> = random_tensor(&[3, 6], 4).to_kind(Kind::Float).view(-1).try_into().expect("values");
    let captions: [&[i32]; 3] = [&[1], &[2, 3], &[4]];
    for (normalize_images, is_unit) in [(true, true), (false, false)] {
        let settings = VseSettings { embed_size: 8, word_dim: 3, normalize_images, ..VseSettings::default() };
        let model = create(&VseConfig::from_settings(&settings, data), 3);
        let upstream = |like: &Tensor| [like.ones_like(), like.ones_like()];
        let (in_training, _, _) = forward_and_backward(&*model, &images, &captions, upstream);
        let for_search = embed_images(&*model, &images).expect("embeddings");
        let far = |rows: &Tensor| {
            max_difference(
                &rows.norm_scalaropt_dim(2, [1i64].as_slice(), false),
                &Tensor::ones([3], (rows.kind(), Device::Cpu)),
            )
        };
        assert!(far(&for_search) < 1e-6);
        assert_eq!(far(&in_training) < 1e-6, is_unit);
        // The directions are the same.
        let norms = in_training.norm_scalaropt_dim(2, [1i64].as_slice(), true);
        assert!(max_difference(&(in_training / norms), &for_search) < 1e-6);
    }
}
