//! Tests that published checkpoints of VSE++ are read.

use safetensors::tensor::{Dtype, TensorView, serialize};

use super::*;
use crate::family::published::CONVERSION_SCRIPT;
use crate::safetensors_file::NamedTensors;
use pairloom_spec::family::WORD_VECTORS;

#[test]
fn names_are_those_of_the_published_checkpoints() {
    let mut config = VseConfig { bidirectional: true, ..VseConfig::new(8, 30, 5, 4) };
    config.data.words_frozen = true;
    let parameters = config.parameter_specs().expect("widths");
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names[..4], ["img_enc.fc.weight", "img_enc.fc.bias", WORD_VECTORS, "txt_enc.rnn.weight_ih_l0"]);
    assert_eq!((names.len(), names[10]), (11, "txt_enc.rnn.bias_hh_l0_reverse"));
    assert!(parameters.iter().all(|parameter| parameter.trainable == (parameter.name != WORD_VECTORS)));
}

#[test]
fn fields_missing_in_an_older_description_default_to_vse() {
    let config: VseConfig = serde_json::from_str(r#"{"image": 8, "word": 5, "embedding": 4}"#).expect("a model");
    assert_eq!(config, VseConfig::new(8, 0, 5, 4));
    let config = VseConfig { pooling: CaptionPooling::Max, absolute: true, ..config };
    assert_eq!(serde_json::from_str::<VseConfig>(&serde_json::json!(config).to_string()).expect("a model"), config);
}

fn names() -> Vec<String> {
    let parameters = VseConfig::new(5, 7, 3, 2).parameter_specs().expect("widths");
    parameters.into_iter().map(|parameter| parameter.name).collect()
}

/// A checkpoint of widths 5, 3, 2 and 7 words.
fn checkpoint() -> Vec<(String, Dtype, Vec<usize>)> {
    let shapes = [vec![2, 5], vec![2], vec![7, 3], vec![6, 3], vec![6, 2], vec![6], vec![6]];
    names().into_iter().zip(shapes).map(|(name, shape)| (name, Dtype::F32, shape)).collect()
}

fn bytes(tensors: &[(String, Dtype, Vec<usize>)]) -> Vec<u8> {
    let content: Vec<Vec<u8>> = (tensors.iter())
        .map(|(_, dtype, shape)| [0, 0, 0x80, 0x3f].repeat(shape.iter().product::<usize>() * dtype.size() / 4))
        .collect();
    let views = tensors.iter().zip(&content).map(|((name, dtype, shape), content)| {
        (name.clone(), TensorView::new(*dtype, shape.clone(), content).expect("a tensor"))
    });
    serialize(views, &None).expect("a file")
}

fn refused(tensors: &[(String, Dtype, Vec<usize>)], words: usize) -> String {
    read_vse_checkpoint(&PublishedVseSettings::default(), &bytes(tensors), words).expect_err("a mistake").to_string()
}

#[test]
fn data_parallel_names_are_read_and_a_cnn_is_ignored() {
    let mut tensors = checkpoint();
    for (name, ..) in &mut tensors {
        *name = name.replacen('.', ".module.", 1);
    }
    tensors.push(("img_enc.cnn.module.conv1.weight".to_owned(), Dtype::F32, vec![2, 3, 1, 1]));
    tensors.push(("img_enc.cnn.module.bn1.num_batches_tracked".to_owned(), Dtype::I64, vec![]));
    let published = read_vse_checkpoint(&PublishedVseSettings::default(), &bytes(&tensors), 7).expect("a model");
    assert_eq!(published.config, VseConfig::new(5, 7, 3, 2));
    assert!(published.warning.is_some_and(|warning| warning.starts_with("2 tensors of the CNN")));
    let named = NamedTensors::from_bytes(&published.parameters).expect("a valid file");
    assert!(named.tensors.keys().eq(names().iter().collect::<std::collections::BTreeSet<_>>()));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let mut tensors = checkpoint();
    tensors[0].2 = vec![4, 5];
    tensors[3].1 = Dtype::F64;
    tensors.remove(6);
    tensors.push(("txt_enc.rnn.weight_ih_l0_reverse".to_owned(), Dtype::F32, vec![6, 3]));
    tensors.push(("img_enc.module.fc.bias".to_owned(), Dtype::F32, vec![2]));
    let message = refused(&tensors, 9);
    for part in [
        "`txt_enc.rnn.bias_hh_l0` is missing",
        "`txt_enc.rnn.weight_ih_l0_reverse` is not a parameter of this model",
        "`img_enc.fc.bias` appears with and without `module.`",
        "`img_enc.fc.bias` has shape [2], expected [4] (to match `img_enc.fc.weight`",
        "`txt_enc.embed.weight` has shape [7, 3], expected [9, 3] (the vocabulary has 9 words)",
        "`txt_enc.rnn.weight_ih_l0` holds F64, expected F32",
        "`txt_enc.rnn.weight_hh_l0` has shape [6, 2], expected [12, 4]",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_pickle_is_refused_with_the_script_of_the_book() {
    assert!(include_str!("../../../../docs/tutorials/published-models.md").contains(CONVERSION_SCRIPT));
    for bytes in [&b"PK\x03\x04"[..], b"\x80\x02\x8a\x0al\xfc\x9cF\xf9"] {
        let error = read_vse_checkpoint(&PublishedVseSettings::default(), bytes, 7).expect_err("a pickle");
        assert!(error.hint_text().is_some_and(|hint| hint.ends_with(CONVERSION_SCRIPT)), "{error}");
    }
}

#[test]
fn malformed_shapes_are_errors_and_not_panics() {
    for (i, shape) in [(0, vec![]), (0, vec![0, 0]), (0, vec![2, 0]), (2, vec![]), (2, vec![7, 0]), (3, vec![1])] {
        let mut tensors = checkpoint();
        tensors[i].2 = shape.clone();
        assert!(read_vse_checkpoint(&PublishedVseSettings::default(), &bytes(&tensors), 7).is_err(), "{i} {shape:?}");
    }
    assert!(
        read_vse_checkpoint(&PublishedVseSettings::default(), &bytes(&[]), 7)
            .expect_err("nothing")
            .to_string()
            .contains("`img_enc.fc.weight` is missing")
    );
    assert!(read_vse_checkpoint(&PublishedVseSettings::default(), &bytes(&checkpoint()), 0).is_err());
}
