//! Tests of the whole way of a published model over regions: a checkpoint in the published layout, `import_model`,
//! `score_pairs`. The scores are those of PyTorch in `tests/golden/`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tch::{Kind, Tensor};

use crate::testing::RunOnHost as _;
use pairloom_base::error::{ErrorCategory, Result};
use pairloom_kernels::text::vocabulary::{END_ID, START_ID};
use pairloom_model::safetensors_file::NamedTensors;
use pairloom_spec::stages::import_model::ImportModel;
use pairloom_spec::stages::score_pairs::ScorePairs;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables::regions::{self, RegionColumn};
use pairloom_tables::{captions, int_column, repeated, vector_column};

#[derive(Deserialize)]
struct ChainGolden {
    width: usize,
    places: usize,
    words: usize,
    captions: Vec<Vec<i32>>,
    images: Vec<f32>,
    #[serde(default)]
    parameters: BTreeMap<String, ChainTensor>,
    cases: Vec<ChainGoldenCase>,
}

#[derive(Deserialize)]
struct ChainGoldenCase {
    settings: BTreeMap<String, Value>,
    #[serde(default)]
    parameters: BTreeMap<String, ChainTensor>,
    scores: Vec<f64>,
}

#[derive(Deserialize)]
struct ChainTensor {
    shape: Vec<i64>,
    values: Vec<f64>,
}

/// Family, golden file, settings that the checkpoint does not contain, names that the published code has in place of
/// ours, and tensors that it stores and does not use.
type ChainFamily =
    (&'static str, &'static str, &'static [&'static str], (&'static str, &'static str), &'static [&'static str]);

const FAMILIES: [ChainFamily; 5] = [
    (
        "scan",
        include_str!("../../tests/golden/scan.json"),
        &["cross_attention", "activation", "aggregation", "lambda_softmax", "lambda_lse"],
        ("txt_enc.rnn.", "txt_enc.module.rnn."),
        &[],
    ),
    (
        "sgraf",
        include_str!("../../tests/golden/sgraf.json"),
        &[],
        ("txt_enc.rnn.", "txt_enc.cap_rnn."),
        &["sim_enc.v_global_w.embedding_local.1.num_batches_tracked"],
    ),
    ("vsrn", include_str!("../../tests/golden/vsrn.json"), &["normalization"], ("img_enc.", "img_enc.module."), &[]),
    (
        "vse_infinity",
        include_str!("../../tests/golden/vse_infinity.json"),
        &[],
        ("img_enc.", "img_enc.image_encoder."),
        &["img_enc.mlp.bns.1.weight"],
    ),
    (
        "cvse",
        include_str!("../../tests/golden/cvse.json"),
        &["fusion_weight", "label_weight", "concept_labels"],
        ("", ""),
        &["V_att.fc1.weight", "fusing.fc.weight"],
    ),
];

/// Words of the vocabulary of a golden file: the third is unknown.
fn vocabulary(words: usize) -> Vec<String> {
    let special = ["<pad>", "<start>", "<end>", "<unk>"].map(str::to_owned).into_iter();
    special.chain((4..words).map(|number| format!("w{number}"))).collect()
}

fn to_bytes(tensors: BTreeMap<String, Tensor>) -> Vec<u8> {
    NamedTensors { tensors, text: None }.to_bytes().expect("a file").to_vec()
}

/// Host with a model that was imported from a safetensors file.
fn import(family: &str, settings: &Value, weights: Vec<u8>, words: usize) -> Result<InMemoryHost> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut host = InMemoryHost::default();
    for (name, content) in [("weights", weights), ("vocabulary", json!(vocabulary(words)).to_string().into())] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("a file");
        host.source_paths.insert(name.to_owned(), path);
    }
    let stage = json!({ "weights": "w", "vocabulary": "v", "model": { family: settings } });
    host.run_stage(&serde_json::from_value::<ImportModel>(stage).expect("settings"))?;
    host.input_files = std::mem::take(&mut host.output_files).into_iter().collect();
    Ok(host)
}

impl ChainGolden {
    /// Parameters of a case as a published checkpoint. It has no caption generator.
    fn checkpoint(&self, case: &ChainGoldenCase, (own, published): (&str, &str)) -> BTreeMap<String, Tensor> {
        let parameters = if case.parameters.is_empty() { &self.parameters } else { &case.parameters };
        let parameters = parameters.iter().filter(|(name, _)| !name.starts_with("caption."));
        let named = parameters.map(|(name, values)| {
            let name = match name.strip_prefix(own).filter(|_| !own.is_empty()) {
                Some(rest) => format!("{published}{rest}"),
                None => name.clone(),
            };
            (name, Tensor::from_slice(&values.values).view(values.shape.as_slice()).to_kind(Kind::Float))
        });
        named.collect()
    }

    /// Captions that a text can have: with `<start>` and `<end>`.
    fn texts(&self) -> Vec<(usize, String)> {
        let with_text = self.captions.iter().enumerate();
        let with_text = with_text.filter(|(_, ids)| ids.first() == Some(&START_ID) && ids.last() == Some(&END_ID));
        let text = |ids: &[i32]| ids.iter().map(|id| format!("w{id}")).collect::<Vec<_>>().join(" ");
        with_text.map(|(number, ids)| (number, text(&ids[1..ids.len() - 1]))).collect()
    }

    /// Adds the images and the captions to a host.
    fn fill(&self, host: &mut InMemoryHost, texts: &[(usize, String)]) {
        let images = self.captions.len();
        let values = RegionColumn::new(self.images.clone(), self.places, self.width).expect("whole images");
        let ids: Vec<i64> = (0..).take(images).collect();
        let rows = regions::TableColumns { image_id: ids.into(), split: repeated("test", images), regions: values };
        let ids: Vec<i64> = (0..).take(texts.len()).collect();
        let captions = captions::TableColumns {
            caption_id: ids.clone().into(),
            image_id: ids.into(),
            split: repeated("test", texts.len()),
            text: texts.iter().map(|(_, text)| Some(text)).collect(),
        };
        host.input_tables.insert("regions".to_owned(), vec![rows.into_batch().expect("regions")]);
        host.input_tables.insert("captions".to_owned(), vec![captions.into_batch().expect("captions")]);
    }

    /// Settings of `import_model` for a case.
    fn settings(family: &str, case: &ChainGoldenCase, names: &[&str]) -> Value {
        let mut settings: BTreeMap<&str, Value> =
            names.iter().filter_map(|&name| Some((name, case.settings.get(name)?.clone()))).collect();
        if family == "cvse" {
            settings.insert("consensus_score_weight", json!(0.0));
        }
        json!(settings)
    }

    /// Scores all pairs with an imported model, and compares with the golden scores of the case.
    fn check(&self, family: &str, case: &ChainGoldenCase, mut host: InMemoryHost) {
        let texts = self.texts();
        self.fill(&mut host, &texts);
        let scoring = "model = \"m.model\"\nregions = \"x.regions\"\ncaptions = \"x.captions\"";
        host.run_stage(&toml::from_str::<ScorePairs>(scoring).expect("settings")).expect("scores");
        let scores = host.output("scores");
        let (found, columns) = vector_column(&scores, "scores").expect("scores");
        let images = self.captions.len();
        assert_eq!((int_column(&scores, "image_id").expect("ids").len(), columns), (images, texts.len()));
        assert!(columns >= 4);
        for (place, got) in found.iter().enumerate() {
            let (image, caption) = (place / columns, texts[place % columns].0);
            let expected = case.scores[image * images + caption];
            let distance = (f64::from(*got) - expected).abs();
            assert!(distance < 1e-5, "{family} {:?}, {image} and {caption}: {got} and {expected}", case.settings);
        }
    }
}

#[test]
fn score_pairs_of_an_imported_checkpoint_agrees_with_pytorch() {
    for (family, golden, published_settings, names, unused) in FAMILIES {
        let golden: ChainGolden = serde_json::from_str(golden).expect("golden scores");
        for case in &golden.cases {
            let mut tensors = golden.checkpoint(case, names);
            tensors.extend(unused.iter().map(|name| ((*name).to_owned(), Tensor::from_slice(&[1.0f32]))));
            let settings = ChainGolden::settings(family, case, published_settings);
            let host = import(family, &settings, to_bytes(tensors), golden.words).expect("an import");
            golden.check(family, case, host);
        }
    }
}

/// The file that the lines of `docs/tutorials/published-models.md` make of the published files: `tests/golden/published.py`.
#[test]
fn a_checkpoint_of_cvse_that_was_converted_by_the_lines_of_the_book_has_its_scores() {
    let (family, golden, names, ..) = FAMILIES[4];
    let golden: ChainGolden = serde_json::from_str(golden).expect("golden scores");
    let (case, file) = (&golden.cases[0], include_bytes!("../../tests/golden/published_cvse.safetensors"));
    let settings = ChainGolden::settings(family, case, names);
    golden.check(family, case, import(family, &settings, file.to_vec(), golden.words).expect("an import"));
}

/// Every wrong value of the concepts is named with its row.
#[test]
fn concepts_that_do_not_exist_are_refused() {
    let golden: ChainGolden = serde_json::from_str(FAMILIES[4].1).expect("golden scores");
    let refused = |name: &str, at: i64, value: f64| {
        let tensors = golden.checkpoint(&golden.cases[0], ("", ""));
        let _ = tensors[name].get(at).fill_(value);
        let error = import("cvse", &json!({}), to_bytes(tensors), golden.words).expect_err("a wrong value");
        assert_eq!(error.category(), ErrorCategory::Data);
        error.to_string()
    };
    for (value, got) in [(9999.0, "9999"), (3.0, "3"), (0.5, "0.5"), (-50.0, "-50")] {
        let message = refused("concepts.of_words", 5, value);
        let expected = format!("row 5 of `concepts.of_words` holds {got}, expected a whole number from -1 to 2");
        assert!(message.contains(&expected), "{message}");
    }
    let message = refused("C_GCN.adj_all", 1, 0.0);
    assert!(message.contains("row 1 of `C_GCN.adj_all` has the sum 0, expected more than 0"), "{message}");
    let message = refused("V_att.embedding_2.1.running_var", 3, -1.0);
    assert!(message.contains("row 3 of `V_att.embedding_2.1.running_var` holds -1, expected 0 or more"), "{message}");
}
