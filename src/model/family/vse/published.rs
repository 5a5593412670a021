//! Parameters out of the published checkpoints of VSE++, HAL and those that keep their form.
//!
//! Such a checkpoint holds one dictionary of parameters for images and one for captions; in a file of safetensors their
//! names begin with `img_enc.` and `txt_enc.`. What was trained on several GPUs has a `module.` somewhere in its names
//! (`torch.nn.DataParallel`), and what was trained on pictures holds the whole network, of which the layer after it is
//! needed alone: here features of pictures are tables.

use std::collections::BTreeMap;

use safetensors::tensor::{SafeTensors, TensorView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::config::{Config, WORDS};
use crate::error::{Error, Result, TruncatedList};
use crate::model::family::contract::Checkpoint;
use crate::model::family::parameters::Parameter;
use crate::model::named::Named;
use crate::model::similarity::{Form, Similarity};
use crate::model::tensor_file;

/// What the names of a network for pictures begin with.
const NETWORK: &str = "img_enc.cnn.";

/// The layer for images.
const LAYER: &str = "img_enc.fc.weight";

/// Lines of Python that turn a published checkpoint into safetensors; README.md has them too.
const PYTHON: &str = r#"import argparse, torch
from safetensors.torch import save_file
torch.serialization.add_safe_globals([argparse.Namespace])
parts = zip(["img_enc", "txt_enc"], torch.load("model_best.pth.tar", map_location="cpu", weights_only=True)["model"])
save_file({f"{part}.{name}": value.contiguous() for part, state in parts for name, value in state.items()}, "published.safetensors")"#;

/// Settings that a published checkpoint of VSE++, HAL, or one of the same layout does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PublishedVse")]
pub struct PublishedSettings {
    /// True if both embeddings end with |·|: order embeddings, trained with `--use_abs`.
    #[serde(default)]
    pub absolute: bool,
}

/// Reads the parameters of a published checkpoint, of a model that knows `words` words.
///
/// # Errors
/// Bytes that are not safetensors; parameters that are missing, unknown or there twice, hold other than finite f32 numbers,
/// or have shapes that do not fit each other or the vocabulary: all of them in one message.
pub(super) fn read(settings: &PublishedSettings, bytes: &[u8], words: usize) -> Result<Checkpoint<Config>> {
    let file = tensor_file::open(bytes).map_err(|error| {
        if !tensor_file::is_pickle(bytes) {
            return error;
        }
        Error::data("a checkpoint of `torch.save`, which is not read because reading its pickle runs it")
            .hint(format!("convert it once with Python:\n{PYTHON}"))
    })?;
    let mut mistakes = TruncatedList::default();
    let (mut views, network_tensors) = plain_views(&file, &mut mistakes);
    let config = config(&views, words, settings);
    let wanted = config.parameters().unwrap_or_else(|error| {
        mistakes.push(error.to_string());
        Vec::new()
    });
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    for Parameter { name, shape, .. } in wanted {
        let Some(view) = views.remove(&name) else {
            mistakes.push(format!("`{name}` is missing"));
            continue;
        };
        match tensor_file::tensor(&name, &view, None) {
            Err(mistake) => mistakes.push(mistake),
            Ok(tensor) if tensor.size() != shape => {
                let got = view.shape();
                mistakes.push(format!("`{name}` has shape {got:?}, wanted {shape:?}{}", because(&name, words)));
            }
            Ok(tensor) => drop(tensors.insert(name, tensor)),
        }
    }
    mistakes.extend(views.into_keys().map(|name| format!("`{name}` is not of this form of model")));
    if let Some(error) = tensor_file::mistaken(&mistakes) {
        let wanted = "wanted the model of VSE++ or HAL: a layer for images, and words and a GRU for captions";
        return Err(error.hint(wanted));
    }
    let warning = (network_tensors > 0).then(|| {
        format!(
            "{network_tensors} tensors of the network for pictures are passed over: features come from `extract`, with \
             `normalize = true` as in VSE++; if the network was fine-tuned, `extract` needs its weights"
        )
    });
    Ok(Checkpoint { config, parameters: Named { tensors, text: None }.to_bytes()?, warning })
}

/// The tensors of a file under the names of one process, and how many are of a network for pictures.
fn plain_views<'f>(
    file: &'f SafeTensors<'f>,
    mistakes: &mut TruncatedList,
) -> (BTreeMap<String, TensorView<'f>>, usize) {
    let (mut views, mut network) = (BTreeMap::new(), 0);
    for (name, view) in file.tensors() {
        let plain = name.split('.').filter(|part| *part != "module").collect::<Vec<_>>().join(".");
        if plain.starts_with(NETWORK) {
            network += 1;
        } else if views.insert(plain.clone(), view).is_some() {
            mistakes.push(format!("`{plain}` is there with and without `module.`"));
        }
    }
    (views, network)
}

/// Description of the model. Its widths are read from the layer for images and the embedded words, or, where these are
/// missing, from the GRU.
fn config(views: &BTreeMap<String, TensorView<'_>>, words: usize, settings: &PublishedSettings) -> Config {
    let width = |name: &str, dim: usize| views.get(name).and_then(|view| view.shape().get(dim).copied());
    let image = width(LAYER, 1).unwrap_or(1);
    let joint = width(LAYER, 0).or_else(|| width("txt_enc.rnn.weight_hh_l0", 1)).unwrap_or(1);
    let word = width(WORDS, 1).or_else(|| width("txt_enc.rnn.weight_ih_l0", 1)).unwrap_or(1);
    // What the published code computes of absolute values.
    let similarity = if settings.absolute { Similarity::Order { form: Form::Norm } } else { Similarity::Cosine };
    Config { absolute: settings.absolute, similarity, ..Config::vse(image, words, word, joint) }
}

/// Why the shape of a tensor is wanted.
fn because(name: &str, words: usize) -> String {
    match name {
        WORDS => format!(" (the vocabulary has {words} words)"),
        _ => format!(" (beside `{LAYER}` and `{WORDS}`)"),
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{Dtype, serialize};

    use super::*;

    fn names() -> Vec<String> {
        let parameters = Config::vse(5, 7, 3, 2).parameters().expect("widths");
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
        read(&PublishedSettings::default(), &bytes(tensors), words).expect_err("a mistake").to_string()
    }

    #[test]
    fn names_of_several_gpus_and_the_network_for_pictures_do_not_matter() {
        let mut tensors = checkpoint();
        for (name, ..) in &mut tensors {
            *name = name.replacen('.', ".module.", 1);
        }
        tensors.push(("img_enc.cnn.module.conv1.weight".to_owned(), Dtype::F32, vec![2, 3, 1, 1]));
        tensors.push(("img_enc.cnn.module.bn1.num_batches_tracked".to_owned(), Dtype::I64, vec![]));
        let published = read(&PublishedSettings::default(), &bytes(&tensors), 7).expect("a model");
        assert_eq!(published.config, Config::vse(5, 7, 3, 2));
        assert!(published.warning.is_some_and(|told| told.starts_with("2 tensors of the network")));
        let named = Named::from_bytes(&published.parameters).expect("a file of ours");
        assert!(named.tensors.keys().eq(names().iter().collect::<std::collections::BTreeSet<_>>()));
    }

    #[test]
    fn every_mistake_is_named_at_once() {
        let mut tensors = checkpoint();
        tensors[0].2 = vec![4, 5];
        tensors[3].1 = Dtype::F64;
        tensors.remove(6);
        tensors.push(("txt_enc.rnn.weight_ih_l0_reverse".to_owned(), Dtype::F32, vec![6, 3]));
        tensors.push(("img_enc.module.fc.bias".to_owned(), Dtype::F32, vec![2]));
        let message = refused(&tensors, 9);
        for part in [
            "`txt_enc.rnn.bias_hh_l0` is missing",
            "`txt_enc.rnn.weight_ih_l0_reverse` is not of this form",
            "`img_enc.fc.bias` is there with and without `module.`",
            "`img_enc.fc.bias` has shape [2], wanted [4] (beside `img_enc.fc.weight`",
            "`txt_enc.embed.weight` has shape [7, 3], wanted [9, 3] (the vocabulary has 9 words)",
            "`txt_enc.rnn.weight_ih_l0` holds F64, wanted F32",
            "`txt_enc.rnn.weight_hh_l0` has shape [6, 2], wanted [12, 4]",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn a_pickle_is_answered_with_the_lines_of_the_readme() {
        assert!(include_str!("../../../../README.md").contains(PYTHON));
        for bytes in [&b"PK\x03\x04"[..], b"\x80\x02\x8a\x0al\xfc\x9cF\xf9"] {
            let error = read(&PublishedSettings::default(), bytes, 7).expect_err("a pickle");
            assert!(error.hint_text().is_some_and(|hint| hint.ends_with(PYTHON)), "{error}");
        }
    }

    #[test]
    fn shapes_of_any_kind_are_no_panic() {
        for (i, shape) in [(0, vec![]), (0, vec![0, 0]), (0, vec![2, 0]), (2, vec![]), (2, vec![7, 0]), (3, vec![1])] {
            let mut tensors = checkpoint();
            tensors[i].2 = shape.clone();
            assert!(read(&PublishedSettings::default(), &bytes(&tensors), 7).is_err(), "{i} {shape:?}");
        }
        assert!(
            read(&PublishedSettings::default(), &bytes(&[]), 7)
                .expect_err("nothing")
                .to_string()
                .contains("`img_enc.fc.weight` is missing")
        );
        assert!(read(&PublishedSettings::default(), &bytes(&checkpoint()), 0).is_err());
    }
}
