//! Captions and images at the ends of what there can be, checkpoints, and data that is wrong.

use tch::{Device, Kind, Tensor};

use super::config::Config;
use super::tests::{apart, create, embed_captions, embed_images, of_loss, step, training, with};
use crate::model::adam::norm;
use crate::model::encoder::Pooling;
use crate::model::family::list;
use crate::model::loss::Loss;
use crate::model::loss::max::Max;
use crate::model::loss::sum::Sum;
use crate::model::training::Training;

#[test]
fn captions_of_one_and_of_two_hundred_words_are_embedded_and_learned_from() {
    for pooling in [Pooling::Last, Pooling::Mean, Pooling::Max] {
        let form = Config { bidirectional: true, pooling, ..Config::vse(4, 20, 6, 16) };
        let vse = create(&form, 1);
        let long: Vec<i32> = (0..200).map(|t| t % 20).collect();
        let step =
            of_loss(&*vse, &[1.0, 0.0, 0.5, 0.2, 0.3, 1.0, 0.0, 0.1], &[&long, &[7]], Loss::Sum(Sum { margin: 0.2 }));
        let step = step.expect("a step");
        assert!(step.loss.is_finite() && norm(&step.parameters).is_finite());
        let alone = embed_captions(&*vse, &[&[7]]).expect("an embedding");
        let together = embed_captions(&*vse, &[&long, &[7]]).expect("embeddings");
        assert!(apart(&alone, &together.narrow(0, 1, 1)) < 1e-6);
    }
}

#[test]
fn a_training_comes_back_from_its_bytes_and_another_model_is_refused() {
    let mut form = Config { bidirectional: true, ..Config::vse(2, 9, 4, 8) };
    form.data.words_frozen = true;
    let mut training = training(&form, create(&form, 1));
    let form = list::Config::Vse(form);
    let step = |training: &mut Training| {
        let batch: ([f32; 4], [&[i32]; 2]) = ([1.0, 0.5, 0.0, 2.0], [&[1, 2], &[3, 4, 2]]);
        step(training, &batch.0, &batch.1, Loss::Sum(Sum { margin: 0.2 }), 0.1).expect("a step")
    };
    step(&mut training);
    training.keep_best().expect("bytes");
    step(&mut training);
    let bytes = training.to_bytes("text".to_owned(), None).expect("bytes");
    let (mut again, text, _) = Training::from_bytes(&bytes, &form, Device::Cpu).expect("a training");
    assert_eq!((text.as_str(), again.best().expect("bytes")), ("text", training.best().expect("bytes")));
    assert_eq!(step(&mut again), step(&mut training));
    assert!(
        again.model().parameters().tensors().iter().zip(training.model().parameters().tensors()).all(|(a, b)| a == b)
    );
    let list::Config::Vse(form) = form else { panic!("VSE++") };
    let other = list::Config::Vse(Config { absolute: true, ..form });
    let error = Training::from_bytes(&bytes, &other, Device::Cpu).expect_err("another form").to_string();
    assert!(error.starts_with("a checkpoint of another model") && error.contains("absolute"), "{error}");
}

#[test]
fn a_caption_is_embedded_alike_in_any_company() {
    let vse = create(&Config::vse(4, 20, 6, 32), 1);
    let captions: Vec<Vec<i32>> = (0..40).map(|i: i32| (0..2 + i % 9).map(|t| (3 * i + t) % 20).collect()).collect();
    let all: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let together = embed_captions(&*vse, &all).expect("embeddings");
    for (i, caption) in (0..).zip(&all) {
        let alone = embed_captions(&*vse, &[caption]).expect("an embedding");
        assert!(apart(&alone, &together.narrow(0, i, 1)) < 1e-6);
        assert!((alone.norm().double_value(&[]) - 1.0).abs() < 1e-6);
    }
}

#[test]
fn wrong_data_is_an_error_and_never_a_panic() {
    let form = Config::vse(4, 20, 6, 8);
    let vse = create(&form, 1);
    assert!(embed_images(&*vse, &[0.0; 6]).is_err());
    assert!(embed_captions(&*vse, &[&[1, 20]]).is_err());
    assert!(embed_captions(&*vse, &[&[]]).is_err());
    assert!(embed_captions(&*vse, &[]).is_err());
    assert!(of_loss(&*vse, &[0.0; 8], &[&[1, 2]], Loss::Sum(Sum { margin: 0.2 })).is_err());
    assert!(of_loss(&*vse, &[], &[], Loss::Sum(Sum { margin: 0.2 })).is_err());
    assert!(list::Config::Vse(Config::vse(0, 20, 6, 8)).create(1, Device::Cpu).is_err());
    let copy = || vse.parameters().tensors().iter().map(Tensor::copy).collect::<Vec<_>>();
    let mut parameters = copy();
    parameters[4] = Tensor::zeros([24, 9], (Kind::Float, Device::Cpu));
    let error = with(&form, parameters).expect_err("shapes differ");
    assert!(error.to_string().contains("weight_hh"), "{error}");
    let error = with(&Config { bidirectional: true, ..form }, copy()).expect_err("four are missing");
    assert_eq!(error.to_string(), "a model of 7 parameters, wanted 11");
}

#[test]
fn an_image_of_zeros_has_a_finite_gradient() {
    let vse = create(&Config::vse(4, 20, 6, 8), 1);
    let images = [0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 2.0];
    let step = of_loss(&*vse, &images, &[&[1, 2], &[1, 5, 2]], Loss::Max(Max { margin: 0.2 })).expect("gradients");
    assert!(step.loss.is_finite() && norm(&step.parameters).is_finite());
}
