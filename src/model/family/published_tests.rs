//! Tests that published checkpoints of models over regions are read: names, unused tensors, shapes.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};

use super::concept_graph::CONCEPT_ADJACENCY;
use super::input_spec::InputSpec;
use super::published::PUBLISHED_REGIONS;
use super::registry::{ModelSettings, PublishedModel};
use crate::model::named_tensors::NamedTensors;

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

/// The parameters have the published names, which `golden_tests` compares with PyTorch.
#[test]
fn published_checkpoints_of_models_over_regions_are_read() {
    for (settings, more, (own, published)) in CASES {
        let model: ModelSettings = serde_json::from_str(settings).expect("settings");
        let concepts = model.capabilities().concepts.then_some(3);
        let config = model.config(InputSpec { concepts, ..InputSpec::for_regions(PUBLISHED_REGIONS, 5, 7) });
        let drawn = config.create(1, Device::Cpu).expect("a model");
        if concepts.is_some() {
            // A random model has no graph of concepts.
            let adjacency = drawn.parameters().get(CONCEPT_ADJACENCY).expect("a graph").shallow_clone();
            tch::no_grad(|| adjacency.shallow_clone().copy_(&Tensor::eye(3, (Kind::Float, Device::Cpu))));
        }
        let parameters = drawn.parameters().to_named_tensors("").tensors;
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
        assert!(error.contains("`txt_enc.embed.weight` has shape [7, 3], wanted [8, 3]"), "{error}");
    }
}

/// A checkpoint of another family is refused with the names of what is missing and what is too much.
#[test]
fn a_checkpoint_of_another_family_is_refused() {
    let model: ModelSettings = serde_json::from_str(CASES[3].0).expect("settings");
    let data = InputSpec::for_regions(PUBLISHED_REGIONS, 5, 7);
    let bytes = model.config(data).create(1, Device::Cpu).expect("a model").parameters().to_bytes().expect("a file");
    let reader: PublishedModel = serde_json::from_str(r#"{"vsrn": {}}"#).expect("settings");
    let error = reader.read(&bytes, 7).expect_err("a model of SAF").to_string();
    for part in ["`img_enc.img_rnn.weight_ih_l0` is missing", "`sim_enc.", "is not a parameter of this model"] {
        assert!(error.contains(part), "{error}");
    }
}
