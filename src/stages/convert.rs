//! `convert`: parameters and words of a published model → `model`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::io::{bounded, vocabulary};
use crate::kernels::text::{Tokenizer, Vocabulary};
use crate::model::family::contract::Checkpoint;
use crate::model::family::list::Published;
use crate::model::trained::{DESCRIPTION, Description, PARAMETERS};
use crate::stage::{Cx, Input, Output, Run, Source, Stage};

/// Takes over a published model, so that `embed` can use it as one of `train`.
///
/// README.md has the lines of Python that turn a published checkpoint (`.pth.tar`) and its vocabulary (`.pkl`) into these
/// files.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Convert {
    /// Parameters in a safetensors file, under their published names.
    pub weights: Source,
    /// Words in a JSON file: a list in the order of their numbers, or an object from word to number, also as `word2idx`.
    pub vocabulary: Source,
    /// How the published code made words of captions. What was trained with HAL's code under Python 3 wants
    /// `python3_bytes`.
    #[serde(default)]
    pub tokenizer: Tokenizer,
    /// The family of the model, and what the file does not say of it.
    #[serde(default)]
    pub model: Published,
}

impl Stage for Convert {
    fn kind(&self) -> &'static str {
        "convert"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        vec![Input::source("weights", &self.weights), Input::source("vocabulary", &self.vocabulary)]
    }

    fn outputs(&self) -> Vec<Output> {
        vec![Output::files("model")]
    }
}

impl Run for Convert {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let (weights, words) = (cx.source("weights")?, cx.source("vocabulary")?);
        let vocabulary = Vocabulary::from_words(vocabulary::read(&words)?)
            .map_err(|error| Error::data(format!("`{}`: {error}", words.display())))?;
        let bytes = bounded::read(&weights, bounded::MAX_LIST)?;
        let published = self.model.read(&bytes, vocabulary.words().len());
        let Checkpoint { config, parameters, warning } =
            published.map_err(|error| error.context(format!("`{}`", weights.display())))?;
        if let Some(message) = warning {
            cx.warn("weights", message);
        }
        let description = Description {
            config,
            epoch: 0,
            step: 0,
            rsum: None,
            tokenizer: self.tokenizer,
            settings: self.settings(),
            vocabulary: vocabulary.words().to_vec(),
        };
        let description = serde_json::to_vec_pretty(&description)
            .map_err(|error| Error::internal(format!("cannot describe a model: {error}")))?;
        cx.put_file("model", PARAMETERS, parameters)?;
        cx.put_file("model", DESCRIPTION, description.into())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;
    use crate::error::Kind;
    use crate::model::family::list;
    use crate::model::family::vse::config::Config;
    use crate::model::similarity::{Form, Similarity};
    use crate::stages::embed::Embed;
    use crate::stages::testing::MemoryWorld;
    use crate::tables;

    /// `tests/golden/published.py` wrote both: a checkpoint in the published layout, converted with the lines of README.md,
    /// and what PyTorch makes of it in double precision.
    const CHECKPOINT: &[u8] = include_bytes!("../../tests/golden/published.safetensors");
    const GOLDEN: &str = include_str!("../../tests/golden/published.json");

    #[derive(Deserialize)]
    struct Golden {
        vocabulary: serde_json::Value,
        features: Vec<Vec<f32>>,
        captions: Vec<String>,
        images: Vec<Vec<f64>>,
        texts: Vec<Vec<f64>>,
    }

    fn golden() -> Golden {
        serde_json::from_str(GOLDEN).expect("the golden file is JSON")
    }

    fn convert(settings: &str) -> Convert {
        toml::from_str(&format!("weights = \"w\"\nvocabulary = \"v\"\n{settings}")).expect("settings")
    }

    /// What a conversion of these files gives.
    fn converted(folder: &Path, weights: &[u8], vocabulary: &str, settings: &str) -> Result<MemoryWorld> {
        let mut world = MemoryWorld::default();
        for (name, content) in [("weights", weights), ("vocabulary", vocabulary.as_bytes())] {
            let path = folder.join(name);
            std::fs::write(&path, content).expect("a file");
            world.paths.insert(name.to_owned(), path);
        }
        world.run(&convert(settings))?;
        Ok(world)
    }

    fn near(got: &arrow::array::RecordBatch, wanted: &[Vec<f64>]) {
        let (values, width) = tables::floats(got, "embedding").expect("embeddings");
        assert_eq!((got.num_rows(), width), (wanted.len(), wanted[0].len()));
        for (got, wanted) in values.iter().zip(wanted.iter().flatten()) {
            assert!((f64::from(*got) - wanted).abs() < 1e-6, "{got} {wanted}");
        }
    }

    #[test]
    fn embed_agrees_with_pytorch_on_a_converted_checkpoint() {
        let golden = golden();
        let folder = tempfile::tempdir().expect("a folder");
        let mut world = converted(folder.path(), CHECKPOINT, &golden.vocabulary.to_string(), "").expect("a conversion");
        assert!(
            world.warnings.len() == 1 && world.warnings[0].message.starts_with("7 tensors"),
            "{:?}",
            world.warnings
        );
        world.files = std::mem::take(&mut world.put).into_iter().collect();

        let ids = |count: usize| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..).take(count))) };
        let split = |count: usize| -> ArrayRef { Arc::new(StringArray::from(vec!["test"; count])) };
        let (images, captions) = (golden.features.len(), golden.captions.len());
        let width = golden.features[0].len();
        let features =
            vec![ids(images), split(images), tables::vectors(golden.features.concat(), width).expect("vectors")];
        let features = tables::batch(&tables::features::table().schema_of_width(width), features).expect("features");
        let texts: Vec<ArrayRef> =
            vec![ids(captions), ids(captions), split(captions), Arc::new(StringArray::from(golden.captions))];
        let texts = tables::batch(&tables::captions::table().schema(), texts).expect("captions");
        world.tables = [("features".to_owned(), vec![features]), ("captions".to_owned(), vec![texts])].into();
        let embed: Embed = toml::from_str("model = \"a.model\"\nfeatures = \"b.features\"\ncaptions = \"b.captions\"")
            .expect("settings");
        world.run(&embed).expect("embeddings");
        near(&world.output("image_embeddings"), &golden.images);
        near(&world.output("caption_embeddings"), &golden.texts);
    }

    #[test]
    fn what_the_file_does_not_say_becomes_part_of_the_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let words = golden().vocabulary.to_string();
        let world = converted(
            folder.path(),
            CHECKPOINT,
            &words,
            "tokenizer = \"python3_bytes\"\nmodel = { vse = { absolute = true } }",
        )
        .expect("a conversion");
        let description = &world.put[&("model".to_owned(), DESCRIPTION.to_owned())];
        let description: Description = serde_json::from_slice(description).expect("a description");
        assert_eq!(description.tokenizer, Tokenizer::Python3Bytes);
        let similarity = Similarity::Order { form: Form::Norm };
        let wanted = Config { absolute: true, similarity, ..Config::vse(6, 13, 5, 8) };
        assert_eq!(description.config, list::Config::Vse(wanted));
    }

    #[test]
    fn files_that_do_not_fit_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let fails = |weights: &[u8], vocabulary: &str, part: &str| {
            let error = converted(folder.path(), weights, vocabulary, "").expect_err(part);
            assert_eq!(error.kind(), Kind::Data, "{error}");
            assert!(error.to_string().contains(part), "{part}: {error}");
        };
        let words = golden().vocabulary.to_string();
        let small = r#"["<pad>", "<start>", "<end>", "<unk>", "a"]"#;
        fails(CHECKPOINT, small, "has shape [13, 5], wanted [5, 5] (the vocabulary has 5 words)");
        fails(CHECKPOINT, r#"["a", "dog"]"#, "a vocabulary starts with `a` `dog`");
        fails(CHECKPOINT, "not JSON", "vocabulary");
        fails(b"PK\x03\x04", &words, "weights`: a checkpoint of `torch.save`");
        fails(&CHECKPOINT[..1000], &words, "weights`: not a safetensors file");
    }
}
