//! Tests that published checkpoints of models over regions are read: names, unused tensors, shapes.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::concept_graph::CONCEPT_ADJACENCY;
use super::published::PUBLISHED_REGIONS;
use super::registry::{DescribeModel, ModelConfig, ReadPublished};
use crate::safetensors_file::NamedTensors;
use pairloom_spec::family::{ModelSettings, PublishedModel};
use pairloom_spec::input_spec::InputSpec;

/// Settings of a model, tensors that a published checkpoint has beside its parameters, and other names of parameters.
type PublishedCase = (&'static str, &'static [&'static str], (&'static str, &'static str));

const CASES: [PublishedCase; 6] = [
    (
        r#"{"vse_infinity": {"embed_size": 4, "word_dim": 3, "pooling_dim": 2}}"#,
        &["img_enc.mlp.bns.0.num_batches_tracked", "img_enc.mlp.bns.1.weight", "img_enc.mlp.bns.1.running_mean"],
        ("", ""),
    ),
    (
        r#"{"vse_infinity": {"embed_size": 4, "word_dim": 3, "pooling_dim": 2, "region_mlp": false}}"#,
        &["img_enc.backbone.top.0.weight"],
        ("img_enc.", "img_enc.image_encoder."),
    ),
    (
        r#"{"sgraf": {"embed_size": 4, "word_dim": 3, "similarity_dim": 2, "reasoning_steps": 2}}"#,
        &["sim_enc.v_global_w.embedding_local.1.num_batches_tracked"],
        ("txt_enc.rnn.", "txt_enc.cap_rnn."),
    ),
    (
        r#"{"sgraf": {"module": "saf", "embed_size": 4, "word_dim": 3, "similarity_dim": 2}}"#,
        &["sim_enc.SAF_module.bn.num_batches_tracked"],
        ("txt_enc.rnn.", "txt_enc.cap_rnn."),
    ),
    (
        r#"{"vsrn": {"embed_size": 4, "word_dim": 3, "normalization": "regions", "normalize_input": false,
            "output_batch_norm": true, "caption_weight": 0.0}}"#,
        &["img_enc.Rs_GCN_1.W.1.num_batches_tracked"],
        ("", ""),
    ),
    (
        r#"{"cvse": {"embed_size": 4, "word_dim": 3, "fusion_weight": 0.9, "consensus_score_weight": 0.05}}"#,
        &[
            "V_att.embedding_1.1.num_batches_tracked",
            "V_att.fc1.weight",
            "V_att.embedding_2_2.0.weight",
            "T_consensus_att.fc3.bias",
            "C_GCN.adj_O_P",
            "C_GCN.joint_att_emb.weight",
            "fusing.fc.weight",
        ],
        ("", ""),
    ),
];

/// Description of the model with these settings, for 7 words and, if it reads concepts, 3 concepts.
fn config_of(model: &ModelSettings) -> ModelConfig {
    let concepts = model.capabilities().concepts.then_some(3);
    model.config(InputSpec { concepts, ..InputSpec::for_regions(PUBLISHED_REGIONS, 5, 7) })
}

/// Model of these settings, and its random parameters.
fn drawn(settings: &str) -> (ModelSettings, BTreeMap<String, Tensor>) {
    let model: ModelSettings = serde_json::from_str(settings).expect("settings");
    let drawn = config_of(&model).create(1, Device::Cpu).expect("a model");
    if model.capabilities().concepts {
        // A random model has no graph of concepts.
        let adjacency = drawn.parameters().get(CONCEPT_ADJACENCY).expect("a graph").shallow_clone();
        tch::no_grad(|| adjacency.shallow_clone().copy_(&Tensor::eye(3, (Kind::Float, Device::Cpu))));
    }
    let parameters = drawn.parameters().to_named_tensors("").tensors;
    (model, parameters)
}

/// The parameters have the published names, which `golden_tests` compares with PyTorch.
#[test]
fn published_checkpoints_of_models_over_regions_are_read() {
    for (settings, more, (own, published)) in CASES {
        let (model, parameters) = drawn(settings);
        let config = config_of(&model);
        let renamed = |name: &String| match name.strip_prefix(own).filter(|_| !own.is_empty()) {
            Some(rest) => format!("{published}{rest}"),
            None => name.clone(),
        };
        let mut tensors: BTreeMap<String, Tensor> =
            parameters.iter().map(|(name, value)| (renamed(name), value.shallow_clone())).collect();
        tensors.extend(more.iter().map(|name| ((*name).to_owned(), Tensor::zeros([1], (Kind::Float, Device::Cpu)))));
        let bytes = NamedTensors { tensors, text: None }.to_bytes().expect("a file");
        let reader: PublishedModel = serde_json::from_value(serde_json::json!({ model.name(): {} })).expect("settings");
        let found = reader.read(&bytes, 7).expect("a model");
        assert_eq!(serde_json::json!(found.config), serde_json::json!(config), "{settings}");
        let read = NamedTensors::from_bytes(&found.parameters).expect("tensors").tensors;
        assert_eq!(read.keys().collect::<Vec<_>>(), parameters.keys().collect::<Vec<_>>());
        assert!(read.iter().all(|(name, value)| *value == parameters[name]), "{settings}");
        assert_eq!(found.warning.is_some(), more[0].contains("backbone"), "{:?}", found.warning);
        let error = reader.read(&bytes, 8).expect_err("other words").to_string();
        assert!(error.contains("`txt_enc.embed.weight` has shape [7, 3], expected [8, 3]"), "{error}");
    }
}

/// The form of a model follows from any tensor of a layer, so the only mistake is the tensor that is missing.
#[test]
fn a_tensor_that_is_missing_is_the_only_mistake() {
    let mut named = Vec::new();
    let scan = (r#"{"scan": {"embed_size": 4, "word_dim": 3}}"#, &[][..], ("", ""));
    for (settings, ..) in CASES.into_iter().chain([scan]) {
        let (model, tensors) = drawn(settings);
        let reader: PublishedModel = serde_json::from_value(serde_json::json!({ model.name(): {} })).expect("settings");
        for missing in tensors.keys() {
            let mut tensors: BTreeMap<String, Tensor> =
                tensors.iter().map(|(name, value)| (name.clone(), value.shallow_clone())).collect();
            tensors.remove(missing);
            let bytes = NamedTensors { tensors, text: None }.to_bytes().expect("a file");
            let error = reader.read(&bytes, 7).expect_err("a tensor is missing");
            assert_eq!(error.to_string(), format!("`{missing}` is missing"), "{settings}");
            assert!(!error.hint_text().expect("a hint").contains("looks like"), "{settings}: {error}");
            named.push(missing.clone());
        }
    }
    for name in [
        "img_enc.Rs_GCN_3.g.weight",
        "img_enc.mlp.layers.0.weight",
        "sim_enc.SGR_module.1.sim_graph_w.weight",
        "txt_enc.rnn.weight_ih_l0_reverse",
        "img_enc.bn.weight",
        "sim_enc.SAF_module.attn_sim_w.weight",
        CONCEPT_ADJACENCY,
    ] {
        assert!(named.iter().any(|missing| missing == name), "`{name}`");
    }
}

/// A number of a layer that no file can have makes no layers.
#[test]
fn a_layer_of_a_huge_number_is_not_a_parameter() {
    let (model, mut tensors) = drawn(CASES[4].0);
    let layer = |number: u64| format!("img_enc.Rs_GCN_{number}.g.weight");
    let numbers = [u64::MAX, 1 << 40];
    tensors.extend(numbers.map(|number| (layer(number), Tensor::zeros([4, 4, 1], (Kind::Float, Device::Cpu)))));
    let reader: PublishedModel = serde_json::from_value(serde_json::json!({ model.name(): {} })).expect("settings");
    let bytes = NamedTensors { tensors, text: None }.to_bytes().expect("a file");
    let error = reader.read(&bytes, 7).expect_err("two tensors too many").to_string();
    let expected = numbers.map(|number| format!("`{}` is not a parameter of this model", layer(number)));
    assert!(expected.iter().all(|part| error.contains(part)) && !error.contains("missing"), "{error}");
}

/// A checkpoint of another family is refused with the names of what is missing and what is too much, and the family that
/// it looks like.
#[test]
fn a_checkpoint_of_another_family_is_refused() {
    let bytes = |(_, tensors)| NamedTensors { tensors, text: None }.to_bytes().expect("a file");
    let read = |family: &str, bytes: &[u8]| {
        let reader: PublishedModel = serde_json::from_value(serde_json::json!({ family: {} })).expect("settings");
        reader.read(bytes, 7).expect_err("another family")
    };
    let error = read("vsrn", &bytes(drawn(CASES[3].0))).to_string();
    for part in ["`img_enc.img_rnn.weight_ih_l0` is missing", "`sim_enc.", "is not a parameter of this model"] {
        assert!(error.contains(part), "{error}");
    }
    let scan = r#"{"scan": {"embed_size": 4, "word_dim": 3}}"#;
    for settings in CASES.iter().map(|(settings, _, _)| *settings).chain([scan]) {
        let (model, tensors) = drawn(settings);
        let (own, bytes) = (model.name(), bytes((drawn(settings).0, tensors)));
        for other in ["vse", "scan", "vsrn", "sgraf", "cvse", "vse_infinity"].into_iter().filter(|other| *other != own)
        {
            let error = read(other, &bytes);
            let hint = format!("; this looks like a checkpoint of `{own}`: `model = {{ {own} = {{}} }}`");
            assert!(error.hint_text().is_some_and(|text| text.ends_with(&hint)), "{own} as {other}: {error:?}");
        }
    }
}

/// Checkpoints of VSE++ and SCAN differ in the second direction of the GRU alone.
#[test]
fn checkpoints_of_vse_and_scan_are_told_apart() {
    let scan =
        |both: bool| drawn(&format!(r#"{{"scan": {{"embed_size": 4, "word_dim": 3, "bidirectional": {both}}}}}"#));
    let bytes = |both| NamedTensors { tensors: scan(both).1, text: None }.to_bytes().expect("a file");
    let reader =
        |settings: serde_json::Value| -> PublishedModel { serde_json::from_value(settings).expect("settings") };
    let (vse, scan_reader) = (reader(serde_json::json!({"vse": {}})), reader(serde_json::json!({"scan": {}})));
    vse.read(&bytes(false), 7).expect("the tensors of VSE++");
    scan_reader.read(&bytes(true), 7).expect("the tensors of SCAN");
    reader(serde_json::json!({"scan": {"bidirectional": false}}))
        .read(&bytes(false), 7)
        .expect("SCAN with one direction");
    for (wrong, both, own) in [(&scan_reader, false, "vse"), (&vse, true, "scan")] {
        let error = wrong.read(&bytes(both), 7).expect_err("the other family");
        let hint = format!("; this looks like a checkpoint of `{own}`: `model = {{ {own} = {{}} }}`");
        assert!(error.hint_text().is_some_and(|text| text.ends_with(&hint)), "{own}: {error:?}");
        assert!(error.to_string().contains("txt_enc.rnn.weight_ih_l0_reverse"), "{error}");
    }
}
