//! `import_model`: parameters and vocabulary of a published model → `model`.

use pairloom_base::error::{Error, Result};
use pairloom_formats::vocabulary;
use pairloom_kernels::text::Vocabulary;
use pairloom_model::family::model::PublishedCheckpoint;
use pairloom_model::family::registry::ReadPublished;
use pairloom_model::trained_model::{DESCRIPTION_FILE, ModelDescription, PARAMETERS_FILE};
use pairloom_spec::stages::import_model::ImportModel;
use pairloom_stage::{Stage, StageContext};
use pairloom_storage::bounded;

/// Runs the stage.
pub fn run(stage: &ImportModel, cx: &mut StageContext<'_>) -> Result<()> {
    let (weights, words) = (cx.source("weights")?, cx.source("vocabulary")?);
    let vocabulary = Vocabulary::from_words(vocabulary::read(&words)?)
        .map_err(|error| Error::data(format!("`{}`: {error}", words.display())))?;
    let bytes = bounded::read(&weights, bounded::MAX_MODEL_BYTES)?;
    let published = stage.model.read(&bytes, vocabulary.words().len());
    let PublishedCheckpoint { config, parameters, warning } =
        published.map_err(|error| error.context(format!("`{}`", weights.display())))?;
    if let Some(message) = warning {
        cx.warn("weights", message);
    }
    let description = ModelDescription {
        config,
        epoch: 0,
        step: 0,
        rsum: None,
        tokenizer: stage.tokenizer,
        settings: stage.settings(),
        vocabulary: vocabulary.words().to_vec(),
    };
    let description = serde_json::to_vec_pretty(&description)
        .map_err(|error| Error::internal(format!("cannot describe a model: {error}")))?;
    cx.put_file("model", PARAMETERS_FILE, parameters)?;
    cx.put_file("model", DESCRIPTION_FILE, description.into())
}

#[cfg(test)]
mod tests {
    use pairloom_kernels::text::Tokenizer;
    use serde::Deserialize;
    use std::path::Path;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::testing::RunOnHost as _;
    use pairloom_base::error::ErrorCategory;
    use pairloom_model::family::registry;
    use pairloom_model::family::vse::VseConfig;
    use pairloom_spec::similarity::{EmbeddingSimilarity, OrderPenalty};
    use pairloom_spec::stages::embed::Embed;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables as tables;

    /// Files that `tests/golden/published.py` wrote: a checkpoint in the published layout, converted with the lines of
    /// `docs/tutorials/published-models.md`, and the embeddings that PyTorch computes with it in double precision.
    const CHECKPOINT: &[u8] = include_bytes!("../../tests/golden/published.safetensors");
    const GOLDEN: &str = include_str!("../../tests/golden/published.json");

    #[derive(Deserialize)]
    struct ImportGoldenCase {
        vocabulary: serde_json::Value,
        features: Vec<Vec<f32>>,
        captions: Vec<String>,
        images: Vec<Vec<f64>>,
        texts: Vec<Vec<f64>>,
    }

    fn golden() -> ImportGoldenCase {
        serde_json::from_str(GOLDEN).expect("the golden file is JSON")
    }

    fn stage(settings: &str) -> ImportModel {
        toml::from_str(&format!("weights = \"w\"\nvocabulary = \"v\"\n{settings}")).expect("settings")
    }

    /// Runs an import of these files.
    fn run_import(folder: &Path, weights: &[u8], vocabulary: &str, settings: &str) -> Result<InMemoryHost> {
        let mut host = InMemoryHost::default();
        for (name, content) in [("weights", weights), ("vocabulary", vocabulary.as_bytes())] {
            let path = folder.join(name);
            std::fs::write(&path, content).expect("a file");
            host.source_paths.insert(name.to_owned(), path);
        }
        host.run_stage(&stage(settings))?;
        Ok(host)
    }

    fn assert_near(got: &arrow::array::RecordBatch, expected: &[Vec<f64>]) {
        let (values, width) = tables::vector_column(got, "embedding").expect("embeddings");
        assert_eq!((got.num_rows(), width), (expected.len(), expected[0].len()));
        for (got, expected) in values.iter().zip(expected.iter().flatten()) {
            assert!((f64::from(*got) - expected).abs() < 1e-6, "{got} {expected}");
        }
    }

    #[test]
    fn embed_agrees_with_pytorch_on_a_converted_checkpoint() {
        let golden = golden();
        let folder = tempfile::tempdir().expect("a folder");
        let mut host = run_import(folder.path(), CHECKPOINT, &golden.vocabulary.to_string(), "").expect("an import");
        assert!(host.warnings.len() == 1 && host.warnings[0].message.starts_with("7 tensors"), "{:?}", host.warnings);
        host.input_files = std::mem::take(&mut host.output_files).into_iter().collect();

        let ids = |count: usize| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..).take(count))) };
        let split = |count: usize| -> ArrayRef { Arc::new(StringArray::from(vec!["test"; count])) };
        let (images, captions) = (golden.features.len(), golden.captions.len());
        let width = golden.features[0].len();
        let features =
            vec![ids(images), split(images), tables::vector_array(golden.features.concat(), width).expect("vectors")];
        let features = tables::batch(&tables::features::table().schema_with_width(width), features).expect("features");
        let texts: Vec<ArrayRef> =
            vec![ids(captions), ids(captions), split(captions), Arc::new(StringArray::from(golden.captions))];
        let texts = tables::batch(&tables::captions::table().schema(), texts).expect("captions");
        host.input_tables = [("features".to_owned(), vec![features]), ("captions".to_owned(), vec![texts])].into();
        let embed: Embed = toml::from_str("model = \"a.model\"\nfeatures = \"b.features\"\ncaptions = \"b.captions\"")
            .expect("settings");
        host.run_stage(&embed).expect("embeddings");
        assert_near(&host.output("image_embeddings"), &golden.images);
        assert_near(&host.output("caption_embeddings"), &golden.texts);
    }

    /// The file is sparse and takes no space.
    #[test]
    fn weights_of_more_than_a_gibibyte_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut host = InMemoryHost::default();
        for name in ["weights", "vocabulary"] {
            host.source_paths.insert(name.to_owned(), folder.path().join(name));
        }
        std::fs::write(folder.path().join("vocabulary"), golden().vocabulary.to_string()).expect("a file");
        let weights = std::fs::File::create(folder.path().join("weights")).expect("a file");
        weights.set_len((1 << 30) + 1).expect("a sparse file");
        let error = host.run_stage(&stage("")).expect_err("a large file");
        assert!(error.to_string().ends_with("has 1073741825 bytes, expected at most 1073741824"), "{error}");
    }

    #[test]
    fn settings_that_the_file_lacks_become_part_of_the_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let words = golden().vocabulary.to_string();
        let host = run_import(
            folder.path(),
            CHECKPOINT,
            &words,
            "tokenizer = \"python3_bytes\"\nmodel = { vse = { absolute = true } }",
        )
        .expect("an import");
        let description = &host.output_files[&("model".to_owned(), DESCRIPTION_FILE.to_owned())];
        let description: ModelDescription = serde_json::from_slice(description).expect("a description");
        assert_eq!(description.tokenizer, Tokenizer::Python3Bytes);
        let similarity = EmbeddingSimilarity::Order { form: OrderPenalty::Norm };
        let expected = VseConfig { absolute: true, similarity, ..VseConfig::new(6, 13, 5, 8) };
        assert_eq!(description.config, registry::ModelConfig::Vse(expected));
    }

    #[test]
    fn mismatched_or_damaged_files_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let fails = |weights: &[u8], vocabulary: &str, part: &str| {
            let error = run_import(folder.path(), weights, vocabulary, "").expect_err(part);
            assert_eq!(error.category(), ErrorCategory::Data, "{error}");
            assert!(error.to_string().contains(part), "{part}: {error}");
        };
        let words = golden().vocabulary.to_string();
        let small = r#"["<pad>", "<start>", "<end>", "<unk>", "a"]"#;
        fails(CHECKPOINT, small, "has shape [13, 5], expected [5, 5] (the vocabulary has 5 words)");
        fails(CHECKPOINT, r#"["a", "dog"]"#, "a vocabulary starts with `a` `dog`");
        fails(CHECKPOINT, "not JSON", "vocabulary");
        fails(b"PK\x03\x04", &words, "weights`: got a pickle of `torch.save`");
        fails(
            &CHECKPOINT[..1000],
            &words,
            "weights`: the safetensors file is cut short or damaged: its header is longer than it",
        );
    }
}
