//! Published checkpoints in the layout that the projects after VSE++ share.
//!
//! Such a checkpoint is a list of dictionaries of parameters: images, captions, and in some projects more. In a
//! safetensors file their names begin with `img_enc.`, `txt_enc.` and `sim_enc.`. Models trained on several GPUs have a
//! `module.` in their names (`torch.nn.DataParallel`).

use std::collections::BTreeMap;

use safetensors::tensor::{SafeTensors, TensorView};
use tch::Tensor;

use super::model::{Family, PublishedCheckpoint};
use super::parameters::ParameterSpec;
use crate::safetensors_file;
use crate::safetensors_file::NamedTensors;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_spec::family::WORD_VECTORS;

/// Prefixes of the names of a CNN's parameters.
const CNN_PREFIXES: [&str; 2] = ["img_enc.cnn.", "img_enc.backbone."];

/// Weight of the linear layer for images or regions.
const IMAGE_LAYER: &str = "img_enc.fc.weight";

/// Number of regions of an image in published data.
pub const PUBLISHED_REGIONS: usize = 36;

/// Layout of the published checkpoints of a family.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointLayout<'l> {
    /// Description of the expected model, for messages.
    pub wanted: &'l str,
    /// Prefixes of names, each with the prefix that this project has in its place.
    pub renamed: &'l [(&'l str, &'l str)],
    /// Prefixes of names of tensors that the published code does not use.
    pub unused: &'l [&'l str],
}

/// Prefixes of names of tensors that one family has, with the name of that family in pipeline files.
const FAMILY_MARKS: [(&str, &str); 5] = [
    ("sim_enc.", "sgraf"),
    ("img_enc.Rs_GCN_", "vsrn"),
    ("C_GCN.", "cvse"),
    ("img_enc.gpool.", "vse_infinity"),
    ("img_enc.image_encoder.gpool.", "vse_infinity"),
];

/// End of the names of the parameters of a GRU's second direction.
const REVERSE: &str = "_reverse";

/// Name of the number of batches in a batch normalisation of PyTorch. It is of no use to this project.
const BATCH_COUNT: &str = ".num_batches_tracked";

/// Python code that converts a published checkpoint to safetensors. `docs/tutorials/published-models.md` contains it too.
pub(super) const CONVERSION_SCRIPT: &str = r#"import argparse, torch
from safetensors.torch import save_file
torch.serialization.add_safe_globals([argparse.Namespace])
states = torch.load("model_best.pth.tar", map_location="cpu", weights_only=True)["model"]
parts = ["img_enc", "txt_enc", "sim_enc"]
if len(states) == 8:  # CVSE
    parts = ["img_enc", "txt_enc", "V_att", "T_att", "V_consensus_att", "T_consensus_att", "C_GCN", "fusing"]
save_file({f"{part}.{name}": value.contiguous().clone() for part, state in zip(parts, states) for name, value in state.items()}, "published.safetensors")"#;

/// Shapes of the tensors of a checkpoint.
pub struct CheckpointShapes<'f>(BTreeMap<String, TensorView<'f>>);

impl CheckpointShapes<'_> {
    /// True if the name of a tensor begins with `prefix`. The form of a model follows from any tensor of a layer, so that
    /// the others are reported if they are missing.
    #[must_use]
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.0.keys().any(|name| name.starts_with(prefix))
    }

    /// Largest number that follows `prefix` in the names of tensors, at most the number of tensors.
    #[must_use]
    pub fn largest_number(&self, prefix: &str) -> Option<usize> {
        let numbers = self.0.keys().filter_map(|name| name.strip_prefix(prefix)?.split('.').next()?.parse().ok());
        numbers.filter(|number| *number <= self.0.len()).max()
    }

    /// Size of a dimension of a tensor.
    #[must_use]
    pub fn size(&self, name: &str, dimension: usize) -> Option<usize> {
        self.0.get(name)?.shape().get(dimension).copied()
    }

    /// Number of features of a batch normalisation, from the first of its tensors that is there.
    #[must_use]
    pub fn batch_norm_width(&self, name: &str) -> Option<usize> {
        ["weight", "bias", "running_mean", "running_var"]
            .iter()
            .find_map(|part| self.size(&format!("{name}.{part}"), 0))
    }

    /// Width of the image features or regions; 1 without the layer for images.
    #[must_use]
    pub fn image_width(&self) -> usize {
        self.size(IMAGE_LAYER, 1).unwrap_or(1)
    }

    /// Width of the joint space: that of the layer for images, or of the GRU without it.
    #[must_use]
    pub fn joint_width(&self) -> usize {
        self.size(IMAGE_LAYER, 0).or_else(|| self.size("txt_enc.rnn.weight_hh_l0", 1)).unwrap_or(1)
    }

    /// True if the GRU of captions has a second direction.
    #[must_use]
    pub fn is_bidirectional(&self) -> bool {
        self.0.keys().any(|name| name.starts_with("txt_enc.rnn.") && name.ends_with(REVERSE))
    }

    /// Width of the word vectors, or of the input of the GRU without them.
    #[must_use]
    pub fn word_width(&self) -> usize {
        self.size(WORD_VECTORS, 1).or_else(|| self.size("txt_enc.rnn.weight_ih_l0", 1)).unwrap_or(1)
    }
}

/// Reads a published checkpoint of a model with a vocabulary of `words` words. `describe` derives the description of the
/// model.
///
/// # Errors
/// Bytes that are not safetensors. Parameters that are missing, unknown or duplicate, that are not finite f32 numbers,
/// whose shapes do not fit each other or the vocabulary, or with values that are not allowed, all in one message.
pub fn read_checkpoint<F: Family>(
    bytes: &[u8],
    words: usize,
    layout: &CheckpointLayout<'_>,
    describe: impl FnOnce(&CheckpointShapes<'_>) -> F,
) -> Result<PublishedCheckpoint<F>> {
    let file = safetensors_file::parse(bytes).map_err(|error| {
        if !safetensors_file::is_pickle(bytes) {
            return error;
        }
        Error::data("got a pickle of `torch.save`, which is not read because reading a pickle can run code")
            .hint(format!("convert it once with Python:\n{CONVERSION_SCRIPT}"))
    })?;
    let mut mistakes = TruncatedList::default();
    let (views, network_tensors) = plain_views(&file, layout, &mut mistakes);
    let shapes = CheckpointShapes(views);
    let config = describe(&shapes);
    let specs = config.parameter_specs().unwrap_or_else(|error| {
        mistakes.push(error.to_string());
        Vec::new()
    });
    let other_family = other_family(&shapes, &specs);
    let mut views = shapes.0;
    let mut tensors: BTreeMap<String, Tensor> = BTreeMap::new();
    for ParameterSpec { name, shape, allowed, .. } in specs {
        let Some(view) = views.remove(&name) else {
            mistakes.push(format!("`{name}` is missing"));
            continue;
        };
        match safetensors_file::read_tensor(&name, &view, None) {
            Err(mistake) => mistakes.push(mistake),
            Ok(tensor) if tensor.size() != shape => {
                let got = view.shape();
                mistakes.push(format!("`{name}` has shape {got:?}, expected {shape:?}{}", shape_reason(&name, words)));
            }
            Ok(tensor) => {
                mistakes.extend(allowed.mistake(&name, &tensor));
                tensors.insert(name, tensor);
            }
        }
    }
    mistakes.extend(views.into_keys().map(|name| format!("`{name}` is not a parameter of this model")));
    if let Some(error) = safetensors_file::mistakes_error(&mistakes) {
        let expected = layout.wanted;
        return Err(error.hint(match other_family {
            Some(family) => {
                format!("{expected}; this looks like a checkpoint of `{family}`: `model = {{ {family} = {{}} }}`")
            }
            None => expected.to_owned(),
        }));
    }
    let parameters = NamedTensors { tensors, text: None }.to_bytes()?;
    let warning = (network_tensors > 0).then(|| {
        format!(
            "{network_tensors} tensors of the CNN are ignored: features come from `extract`, with \
             `normalize = true` as in VSE++; if the CNN was fine-tuned, `extract` needs its weights"
        )
    });
    Ok(PublishedCheckpoint { config, parameters, warning })
}

/// Name of another family that the file has tensors of and this model does not.
fn other_family(shapes: &CheckpointShapes<'_>, specs: &[ParameterSpec]) -> Option<&'static str> {
    let is_own = |mark: &str| specs.is_empty() || specs.iter().any(|spec| spec.name.starts_with(mark));
    let mark = FAMILY_MARKS.iter().find(|(mark, _)| shapes.has_prefix(mark) && !is_own(mark));
    // VSE++ and SCAN have the same layers, and no others. Only the second direction of the GRU tells them apart.
    let has_marks = FAMILY_MARKS.iter().any(|(mark, _)| shapes.has_prefix(mark));
    let is_plain = !specs.is_empty() && !has_marks && shapes.has_prefix(IMAGE_LAYER);
    let wants_marks = FAMILY_MARKS.iter().any(|(mark, _)| is_own(mark));
    let wants_both_directions = specs.iter().any(|spec| spec.name.ends_with(REVERSE));
    let plain = match shapes.is_bidirectional() {
        both if !is_plain || (both == wants_both_directions && !wants_marks) => None,
        true => Some("scan"),
        false => Some("vse"),
    };
    mark.map(|(_, family)| *family).or(plain)
}

/// Returns the tensors of the encoders with the names of this project, and the number of tensors of a CNN.
fn plain_views<'f>(
    file: &'f SafeTensors<'f>,
    layout: &CheckpointLayout<'_>,
    mistakes: &mut TruncatedList,
) -> (BTreeMap<String, TensorView<'f>>, usize) {
    let (mut views, mut network) = (BTreeMap::new(), 0);
    for (name, view) in file.tensors() {
        let mut plain = name.split('.').filter(|part| *part != "module").collect::<Vec<_>>().join(".");
        if let Some((from, to)) = layout.renamed.iter().find(|(from, _)| plain.starts_with(from)) {
            plain.replace_range(..from.len(), to);
        }
        if CNN_PREFIXES.iter().any(|prefix| plain.starts_with(prefix)) {
            network += 1;
        } else if plain.ends_with(BATCH_COUNT) || layout.unused.iter().any(|prefix| plain.starts_with(prefix)) {
            // Not needed.
        } else if views.insert(plain.clone(), view).is_some() {
            mistakes.push(format!("`{plain}` appears with and without `module.`"));
        }
    }
    (views, network)
}

/// Reason for the expected shape of a tensor, for error messages.
fn shape_reason(name: &str, words: usize) -> String {
    match name {
        WORD_VECTORS => format!(" (the vocabulary has {words} words)"),
        _ => format!(" (to match `{IMAGE_LAYER}` and `{WORD_VECTORS}`)"),
    }
}
