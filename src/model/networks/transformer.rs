//! Layers of transformers, and the text tower of CLIP, which consists of them: token identifiers to vectors of the joint
//! space.

use tch::{Kind, TchError, Tensor};

use super::network::ImageNetwork;
use crate::safetensors_file::{libtorch_error, to_tensor_shape};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_spec::networks::{Architecture, FilePart, Layer, Network, TextTower};

impl ImageNetwork {
    /// Computes a layer of a transformer.
    pub(super) fn transformer_layer(&self, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let result = match layer {
            Layer::Tokens { name, .. } => {
                image_tokens(x, self.get(name, "class_embedding")?, self.get(name, "positional_embedding")?)
            }
            Layer::TextTokens { .. } => {
                text_tokens(x, self.get("token_embedding", "weight")?, self.get("", "positional_embedding")?)
            }
            Layer::Attention { name, heads, causal, .. } => {
                let heads = i64::try_from(*heads).map_err(|_| Error::internal("an attention of 2⁶³ heads"))?;
                let projected = self.linear(x, (name, "in_proj_weight"), (name, "in_proj_bias"))?;
                let mixed = attention(&projected, heads, *causal).map_err(|error| libtorch_error(&error))?;
                let output = format!("{name}.out_proj");
                return self.linear(&mixed, (&output, "weight"), (&output, "bias"));
            }
            _ => return Err(Error::internal("not a layer of a transformer")),
        };
        result.map_err(|error| libtorch_error(&error))
    }
}

fn image_tokens(maps: &Tensor, class: &Tensor, places: &Tensor) -> std::result::Result<Tensor, TchError> {
    let cells = maps.f_flatten(2, -1)?.f_transpose(1, 2)?;
    let size = cells.size();
    let class = class.f_view([1, 1, size[2]])?.f_expand([size[0], 1, size[2]], false)?;
    Tensor::f_cat(&[class, cells], 1)?.f_add(places)
}

fn text_tokens(ids: &Tensor, words: &Tensor, places: &Tensor) -> std::result::Result<Tensor, TchError> {
    let tokens = Tensor::f_embedding(words, ids, -1, false, false)?;
    tokens.f_add(&places.f_narrow(0, 0, ids.size()[1])?)
}

/// Multi-head attention of tokens, from queries, keys and values `[n, t, 3 · width]`.
fn attention(projected: &Tensor, heads: i64, causal: bool) -> std::result::Result<Tensor, TchError> {
    let size = projected.size();
    let (count, tokens, width) = (size[0], size[1], size[2] / 3);
    // [query, key and value; n; heads; t; width of a head]
    let split = projected.f_view([count, tokens, 3, heads, width / heads])?.f_permute([2, 0, 3, 1, 4])?;
    let [query, key, value] = [split.f_select(0, 0)?, split.f_select(0, 1)?, split.f_select(0, 2)?];
    // On a GPU the gradient of libtorch's kernels is added in the order in which threads come.
    let mixed = if projected.requires_grad() && projected.device().is_cuda() {
        attention_by_products(&query, &key, &value, causal)?
    } else {
        Tensor::f_scaled_dot_product_attention(&query, &key, &value, None::<&Tensor>, 0.0, causal, None, false)?
    };
    mixed.f_transpose(1, 2)?.f_reshape([count, tokens, width])
}

/// `softmax(Q · Kᵀ / √d) · V`, where with `causal` a token sees none after it: `[n, heads, t, d]`.
#[expect(clippy::cast_precision_loss, reason = "widths are small")]
fn attention_by_products(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    causal: bool,
) -> std::result::Result<Tensor, TchError> {
    let size = query.size();
    let mut scores = query.f_matmul(&key.f_transpose(2, 3)?)?.f_div_scalar((size[3] as f64).sqrt())?;
    if causal {
        let hidden = Tensor::f_ones([size[2], size[2]], (Kind::Bool, query.device()))?.f_triu(1)?;
        scores = scores.f_masked_fill(&hidden, f64::NEG_INFINITY)?;
    }
    scores.f_softmax(-1, None::<Kind>)?.f_matmul(value)
}

/// Text tower with its weights.
#[derive(Debug)]
pub struct TextEncoder {
    network: ImageNetwork,
    length: usize,
}

impl TextEncoder {
    /// Reads the text tower of a network from the file of its weights.
    ///
    /// # Errors
    /// As [`ImageNetwork::from_file`], or the network has no text tower.
    pub fn from_file(network: Network, bytes: &[u8], device: tch::Device) -> Result<Self> {
        Self::from_tower(&tower(network)?, bytes, device)
    }

    /// Reads a text tower from the file of the weights of both towers.
    pub(super) fn from_tower(tower: &TextTower, bytes: &[u8], device: tch::Device) -> Result<Self> {
        Ok(Self {
            network: ImageNetwork::from_file(text_tower_architecture(tower), bytes, device)?,
            length: tower.length,
        })
    }

    /// Creates the text tower with random weights, which differ from those of the image tower.
    ///
    /// # Errors
    /// The network has no text tower, or the device is out of memory.
    pub fn random(network: Network, seed: u64, device: tch::Device) -> Result<Self> {
        let tower = tower(network)?;
        let first = network.architecture().parameters().len() as u64;
        Ok(Self {
            network: ImageNetwork::random_from(text_tower_architecture(&tower), seed, first, device)?,
            length: tower.length,
        })
    }

    /// Returns the tower prepared for inference, see [`ImageNetwork::prepare`].
    pub fn prepare(self, mixed: bool) -> Result<Self> {
        Ok(Self { network: self.network.prepare(mixed)?, ..self })
    }

    /// Returns the tower with a token that is checked before each layer.
    #[must_use]
    pub fn with_cancel(self, cancel: CancelToken) -> Self {
        Self { network: self.network.with_cancel(cancel), ..self }
    }

    /// Returns the same tower for another thread. The weights are shared, not copied.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { network: self.network.share(), length: self.length }
    }

    /// Width of the joint space.
    #[must_use]
    pub fn width(&self) -> usize {
        self.network.feature_width()
    }

    /// Largest number of tokens of a text.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Computes the vectors of texts, given as token identifiers with start and end; one after the other.
    ///
    /// The vector of a text is that of its first token with the largest identifier, which is the end. Tokens attend to
    /// those before them only, so the batch has as many places as its longest text, and not all of them.
    ///
    /// # Errors
    /// A text that is empty or longer than [`TextEncoder::length`], or a device that is out of memory. The run was
    /// cancelled.
    pub fn encode(&self, texts: &[Vec<i32>]) -> Result<Vec<f32>> {
        let Some(longest) = texts.iter().map(Vec::len).max() else { return Ok(Vec::new()) };
        if longest > self.length || texts.iter().any(Vec::is_empty) {
            return Err(Error::internal(format!("texts of up to {longest} tokens, expected 1 to {}", self.length)));
        }
        let mut ids = vec![0i64; texts.len() * longest];
        let mut ends = Vec::with_capacity(texts.len());
        for (text, row) in texts.iter().zip(ids.chunks_exact_mut(longest)) {
            row.iter_mut().zip(text).for_each(|(place, &id)| *place = i64::from(id));
            let largest = text.iter().max();
            let end = text.iter().position(|id| Some(id) == largest).unwrap_or_default();
            ends.push(i64::try_from(end).unwrap_or_default());
        }
        let shape = to_tensor_shape(&[texts.len(), longest])?;
        tch::no_grad(|| {
            let device = self.network.device();
            let on_device = |tensor: Tensor| tensor.f_to_device(device);
            let input = Tensor::f_from_slice(&ids).and_then(|ids| on_device(ids.f_reshape(&shape)?));
            let tokens = self.network.backbone_output(input.map_err(|error| libtorch_error(&error))?)?;
            let rows = Tensor::from_slice(&ends);
            let last = on_device(rows).and_then(|ends| {
                let places = ends.f_view([-1, 1, 1])?.f_expand([-1, 1, tokens.size()[2]], false)?;
                tokens.f_gather(1, &places, false)?.f_squeeze_dim(1)
            });
            let vectors = self.network.embedding_output(last.map_err(|error| libtorch_error(&error))?)?;
            let mut values = vec![0.0; texts.len() * self.width()];
            let count = values.len();
            vectors
                .f_to_device(tch::Device::Cpu)
                .and_then(|tensor| tensor.f_contiguous()?.f_copy_data(&mut values, count))
                .map_err(|error| libtorch_error(&error))?;
            Ok(values)
        })
    }
}

fn tower(network: Network) -> Result<TextTower> {
    let none = || Error::internal(format!("{} has no text tower", network.name()));
    network.architecture().text.ok_or_else(none)
}

pub(super) fn text_tower_architecture(tower: &TextTower) -> Architecture {
    Architecture {
        embedding: vec![tower.projection.clone()],
        embedding_width: tower.embedding_width,
        file_part: FilePart::TextTower,
        ..Architecture::of_maps(tower.layers.clone(), tower.width, Vec::new(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_by_products_is_that_of_libtorch() {
        let draw = || Tensor::randn([2, 3, 7, 4], (Kind::Double, tch::Device::Cpu));
        let (query, key, value) = (draw(), draw(), draw());
        for causal in [false, true] {
            let expected =
                Tensor::scaled_dot_product_attention(&query, &key, &value, None::<&Tensor>, 0.0, causal, None, false);
            let difference = attention_by_products(&query, &key, &value, causal).expect("attention") - expected;
            assert!(difference.abs().max().double_value(&[]) < 1e-14, "{difference}");
        }
    }
}
