//! Layers of transformers.

use tch::{Kind, TchError, Tensor};

use super::network::ImageNetwork;
use crate::safetensors_file::libtorch_error;
use pairloom_base::error::{Error, Result};
use pairloom_spec::networks::Layer;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_by_products_is_that_of_libtorch() {
        let draw = || Tensor::randn([2, 3, 7, 4], (Kind::Double, tch::Device::Cpu));
        let (query, key, value) = (draw(), draw(), draw());
        for causal in [false, true] {
            let wanted =
                Tensor::scaled_dot_product_attention(&query, &key, &value, None::<&Tensor>, 0.0, causal, None, false);
            let difference = attention_by_products(&query, &key, &value, causal).expect("attention") - wanted;
            assert!(difference.abs().max().double_value(&[]) < 1e-14, "{difference}");
        }
    }
}
