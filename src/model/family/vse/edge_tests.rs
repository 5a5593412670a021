//! Edge cases of VSE++: short and long captions, images of zeros, checkpoints, invalid inputs.

use tch::{Device, Kind, Tensor};

use super::VseConfig;
use super::testing::{
    compute_loss_and_gradients, create, embed_captions, embed_images, max_difference, model_with, new_training,
    training_step,
};
use crate::adam::global_norm;
use crate::family::registry;
use crate::training_state::TrainingState;
use pairloom_spec::family::vse::CaptionPooling;
use pairloom_spec::loss::{Loss, MaxLoss, SumLoss};

#[test]
fn captions_of_1_and_200_words_are_embedded_and_have_gradients() {
    for pooling in [CaptionPooling::Last, CaptionPooling::Mean, CaptionPooling::Max] {
        let config = VseConfig { bidirectional: true, pooling, ..VseConfig::new(4, 20, 6, 16) };
        let vse = create(&config, 1);
        let long: Vec<i32> = (0..200).map(|t| t % 20).collect();
        let step = compute_loss_and_gradients(
            &*vse,
            &[1.0, 0.0, 0.5, 0.2, 0.3, 1.0, 0.0, 0.1],
            &[&long, &[7]],
            Loss::Sum(SumLoss { margin: 0.2 }),
        );
        let step = step.expect("a step");
        assert!(step.loss.is_finite() && global_norm(&step.parameters).is_finite());
        let alone = embed_captions(&*vse, &[&[7]]).expect("an embedding");
        let together = embed_captions(&*vse, &[&long, &[7]]).expect("embeddings");
        assert!(max_difference(&alone, &together.narrow(0, 1, 1)) < 1e-6);
    }
}

#[test]
fn a_training_is_restored_from_its_bytes_and_another_model_is_refused() {
    let mut config = VseConfig { bidirectional: true, ..VseConfig::new(2, 9, 4, 8) };
    config.data.words_frozen = true;
    let mut training = new_training(&config, create(&config, 1));
    let config = registry::ModelConfig::Vse(config);
    let step = |training: &mut TrainingState| {
        let batch: ([f32; 4], [&[i32]; 2]) = ([1.0, 0.5, 0.0, 2.0], [&[1, 2], &[3, 4, 2]]);
        training_step(training, &batch.0, &batch.1, Loss::Sum(SumLoss { margin: 0.2 }), 0.1).expect("a step")
    };
    step(&mut training);
    training.save_best().expect("bytes");
    step(&mut training);
    let bytes = training.to_bytes("text".to_owned(), None).expect("bytes");
    let (mut again, text, _) = TrainingState::from_bytes(&bytes, &config, Device::Cpu).expect("a training");
    assert_eq!(
        (text.as_str(), again.best_parameters().expect("bytes")),
        ("text", training.best_parameters().expect("bytes"))
    );
    assert_eq!(step(&mut again), step(&mut training));
    assert!(
        again.model().parameters().tensors().iter().zip(training.model().parameters().tensors()).all(|(a, b)| a == b)
    );
    let registry::ModelConfig::Vse(config) = config else { panic!("VSE++") };
    let other = registry::ModelConfig::Vse(VseConfig { absolute: true, ..config });
    let error = TrainingState::from_bytes(&bytes, &other, Device::Cpu).expect_err("another model").to_string();
    assert!(error.starts_with("the checkpoint is of another model") && error.contains("absolute"), "{error}");
}

#[test]
fn the_embedding_of_a_caption_does_not_depend_on_its_batch() {
    let vse = create(&VseConfig::new(4, 20, 6, 32), 1);
    let captions: Vec<Vec<i32>> = (0..40).map(|i: i32| (0..2 + i % 9).map(|t| (3 * i + t) % 20).collect()).collect();
    let all: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let together = embed_captions(&*vse, &all).expect("embeddings");
    for (i, caption) in (0..).zip(&all) {
        let alone = embed_captions(&*vse, &[caption]).expect("an embedding");
        assert!(max_difference(&alone, &together.narrow(0, i, 1)) < 1e-6);
        assert!((alone.norm().double_value(&[]) - 1.0).abs() < 1e-6);
    }
}

#[test]
fn invalid_inputs_are_errors_and_not_panics() {
    let config = VseConfig::new(4, 20, 6, 8);
    let vse = create(&config, 1);
    assert!(embed_images(&*vse, &[0.0; 6]).is_err());
    assert!(embed_captions(&*vse, &[]).is_err());
    assert!(compute_loss_and_gradients(&*vse, &[0.0; 8], &[&[1, 2]], Loss::Sum(SumLoss { margin: 0.2 })).is_err());
    assert!(compute_loss_and_gradients(&*vse, &[], &[], Loss::Sum(SumLoss { margin: 0.2 })).is_err());
    assert!(registry::ModelConfig::Vse(VseConfig::new(0, 20, 6, 8)).create(1, Device::Cpu).is_err());
    let copy = || vse.parameters().tensors().iter().map(Tensor::copy).collect::<Vec<_>>();
    let mut parameters = copy();
    parameters[4] = Tensor::zeros([24, 9], (Kind::Float, Device::Cpu));
    let error = model_with(&config, parameters).expect_err("shapes differ");
    assert!(error.to_string().contains("weight_hh"), "{error}");
    let error = model_with(&VseConfig { bidirectional: true, ..config }, copy()).expect_err("four are missing");
    assert_eq!(error.to_string(), "got 7 parameters of a model, expected 11");
}

#[test]
fn an_image_of_zeros_has_a_finite_gradient() {
    let vse = create(&VseConfig::new(4, 20, 6, 8), 1);
    let images = [0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 2.0];
    let step = compute_loss_and_gradients(&*vse, &images, &[&[1, 2], &[1, 5, 2]], Loss::Max(MaxLoss { margin: 0.2 }))
        .expect("gradients");
    assert!(step.loss.is_finite() && global_norm(&step.parameters).is_finite());
}
