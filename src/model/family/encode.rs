//! Encodes any number of images and captions with a model, in blocks.

use az::SaturatingAs;

use super::encoded::Encoded;
use super::model::{Forward, Model, Share};
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::model::slices::to_vec;

/// Captions that are encoded together.
const BLOCK: usize = 256;

/// Pictures that go through a network together.
const PICTURES: usize = 32;

/// Any number of images, row-major as [`Data::image_values`](super::data::Data::image_values) says.
///
/// # Errors
/// No image, or `images` are no whole number of them.
pub fn images(model: &dyn Model, images: &[f32]) -> Result<Encoded> {
    let width = model.data().image_values();
    let together = if model.data().pictures.is_some() { PICTURES * width } else { images.len() };
    let like = &model.parameters().tensors()[0];
    let blocks = images.chunks(together.max(1)).map(|block| model.encode_images(&Rows::new(block, width, like)?));
    Encoded::join(&blocks.collect::<Result<Vec<_>>>()?)
}

/// Any number of captions in the order given: numbers of their words, `<start>` and `<end>` among them. Captions of similar
/// length are encoded together.
///
/// # Errors
/// No caption, one without a word, or a word that the vocabulary does not have.
pub fn captions(model: &dyn Model, captions: &[&[i32]]) -> Result<Encoded> {
    if captions.is_empty() {
        return Err(Error::internal("no caption to encode"));
    }
    check_words(captions, model.data().words)?;
    let mut order: Vec<usize> = (0..captions.len()).collect();
    order.sort_by_key(|&i| captions[i].len());
    let blocks = order.chunks(BLOCK).map(|block| {
        let words: Vec<&[i32]> = block.iter().map(|&i| captions[i]).collect();
        model.encode_captions(&words)
    });
    let sorted = Encoded::join(&blocks.collect::<Result<Vec<_>>>()?)?;
    let mut places = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(place, i)| places[i] = place);
    Ok(sorted.select(&places))
}

/// Checks that a model that knows `words` words can read all captions.
///
/// # Errors
/// One is empty, or has another word.
pub fn check_words(captions: &[&[i32]], words: usize) -> Result<()> {
    let words = words.saturating_as::<i32>();
    match captions.iter().position(|c| c.is_empty() || c.iter().any(|w| !(0..words).contains(w))) {
        Some(i) => Err(Error::internal(format!("caption {i} of a batch is empty or has a word past {words}"))),
        None => Ok(()),
    }
}

/// No images and no captions, as the model encodes them.
///
/// # Errors
/// A failure of libtorch.
pub fn nothing(model: &dyn Model) -> Result<(Encoded, Encoded)> {
    let images = Rows::new(&[], model.data().image_values(), &model.parameters().tensors()[0])?;
    let Forward { images, captions, .. } =
        model.forward(&Share { images, captions: &[], pairs: 0..0, of: 0, draw: [0, 0] })?;
    Ok((images, captions))
}

/// The vectors of items that have one each, row-major.
///
/// # Errors
/// The items are sets of vectors.
pub fn vectors(encoded: &Encoded) -> Result<Vec<f32>> {
    match encoded.lengths {
        None => to_vec(&encoded.vectors),
        Some(_) => Err(Error::data("the model makes a set of vectors of an item, wanted one vector")),
    }
}
