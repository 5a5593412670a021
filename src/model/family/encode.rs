//! Encoding of any number of images or captions with a model, in blocks.

use az::SaturatingAs;

use super::encoded_items::EncodedItems;
use super::image_rows::ImageRows;
use super::model::Model;
use crate::tensor_slices::to_vec;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::text::vocabulary::{END_ID, START_ID};

/// Number of captions that are encoded together.
pub const CAPTIONS_PER_BLOCK: usize = 256;

/// Number of raw images that go through a CNN together.
const RAW_IMAGES_PER_BLOCK: usize = 32;

/// Encodes any number of images, row-major with `width` values each: those of
/// [`InputSpec::values_per_image`](super::input_spec::InputSpec::values_per_image), or another number of regions.
///
/// # Errors
/// No image, or a number of values that is not a multiple of `width`. The run was cancelled.
pub fn images(model: &dyn Model, images: &[f32], width: usize, cancel: &CancelToken) -> Result<EncodedItems> {
    let values_per_block =
        if model.input_spec().pictures.is_some() { RAW_IMAGES_PER_BLOCK * width } else { images.len() };
    let like = &model.parameters().tensors()[0];
    let blocks = images.chunks(values_per_block.max(1)).map(|block| {
        cancel.check()?;
        model.encode_images(&ImageRows::new(block, width, like)?)
    });
    EncodedItems::concat(&blocks.collect::<Result<Vec<_>>>()?)
}

/// Encodes any number of captions, given as token ids with `<start>` and `<end>`. The result has their order; captions
/// of similar length are encoded together.
///
/// # Errors
/// No caption, a caption without tokens, or a token id outside of the vocabulary. The run was cancelled.
pub fn captions(model: &dyn Model, captions: &[&[i32]], cancel: &CancelToken) -> Result<EncodedItems> {
    if captions.is_empty() {
        return Err(Error::internal("no caption to encode"));
    }
    check_token_ids(captions, model.input_spec().words)?;
    let mut order: Vec<usize> = (0..captions.len()).collect();
    order.sort_by_key(|&i| captions[i].len());
    let blocks = order.chunks(CAPTIONS_PER_BLOCK).map(|block| {
        cancel.check()?;
        let token_ids: Vec<&[i32]> = block.iter().map(|&i| captions[i]).collect();
        model.encode_captions(&token_ids)
    });
    let sorted = EncodedItems::concat(&blocks.collect::<Result<Vec<_>>>()?)?;
    let mut positions = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(position, i)| positions[i] = position);
    Ok(sorted.select(&positions))
}

/// Checks that a model with a vocabulary of `words` words can encode all captions.
///
/// # Errors
/// A caption is empty, or has a token id outside of the vocabulary.
pub fn check_token_ids(captions: &[&[i32]], words: usize) -> Result<()> {
    let words = words.saturating_as::<i32>();
    match captions.iter().position(|c| c.is_empty() || c.iter().any(|w| !(0..words).contains(w))) {
        Some(i) => {
            Err(Error::internal(format!("caption {i} of a batch is empty or has a token id outside of 0..{words}")))
        }
        None => Ok(()),
    }
}

/// Encodes no images and no captions: empty sides of the width of [`images`] and [`captions`].
///
/// # Errors
/// A failure of libtorch.
pub fn encode_nothing(model: &dyn Model) -> Result<(EncodedItems, EncodedItems)> {
    let width = model.input_spec().values_per_image();
    let one = vec![1.0; width];
    let image = model.encode_images(&ImageRows::new(&one, width, &model.parameters().tensors()[0])?)?;
    let caption = model.encode_captions(&[&[START_ID, END_ID]])?;
    Ok((image.slice(0..0), caption.slice(0..0)))
}

/// Vectors of items that have exactly one each, row-major.
///
/// # Errors
/// The items are sets of vectors.
pub fn single_vectors(encoded: &EncodedItems) -> Result<Vec<f32>> {
    match encoded.lengths {
        None => to_vec(&encoded.vectors),
        Some(_) => Err(Error::data("the model encodes an item as a set of vectors, wanted one vector")),
    }
}
