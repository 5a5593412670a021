//! How a model does on the validation split: recall by nearest neighbour.

use std::collections::HashMap;

use super::pairs::Pairs;
use crate::error::{Error, Result};
use crate::kernels::measure::recall::Retrieval;
use crate::model::search::search;
use crate::model::vse::Vse;
use crate::stage::Cx;

/// Embeds the validation split and ranks it: images look for captions, then captions for images. Of the captions of an
/// image the best placed one counts; images stand in the order of their first caption.
///
/// # Errors
/// Embeddings that are not finite, or the run was cancelled.
pub(super) fn validate(vse: &Vse, pairs: &Pairs, cx: &Cx<'_>) -> Result<[Retrieval; 2]> {
    let mut images: Vec<usize> = Vec::new();
    let mut captions_of: Vec<Vec<usize>> = Vec::new();
    let mut image_of = Vec::with_capacity(pairs.val.len());
    let mut places = HashMap::new();
    for (caption, pair) in pairs.val.iter().enumerate() {
        let place = *places.entry(pair.image).or_insert(images.len());
        if place == images.len() {
            images.push(pair.image);
            captions_of.push(vec![]);
        }
        captions_of[place].push(caption);
        image_of.push(place);
    }
    let features: Vec<f32> = images.iter().flat_map(|&image| pairs.feature(image)).copied().collect();
    let words: Vec<&[i64]> = pairs.val.iter().map(|pair| pair.words.as_slice()).collect();
    let (images, captions) = (vse.images(&features)?, vse.captions(&words)?);
    if !images.iter().chain(&captions).all(|value| value.is_finite()) {
        return Err(
            Error::stage("the embeddings of the validation split are not finite").hint("try a lower `learning_rate`")
        );
    }
    let width = vse.widths().joint;
    let i2t = retrieval(&images, &captions, width, |image| &captions_of[image], cx)?;
    let t2i = retrieval(&captions, &images, width, |caption| &image_of[caption..=caption], cx)?;
    Ok([i2t, t2i])
}

fn retrieval<'m>(
    queries: &[f32],
    items: &[f32],
    width: usize,
    matches: impl Fn(usize) -> &'m [usize],
    cx: &Cx<'_>,
) -> Result<Retrieval> {
    let mut ranks = Vec::with_capacity(queries.len() / width);
    search(queries, items, width, 0, matches, |_, found| {
        cx.proceed()?;
        ranks.extend(found.rank.map(|rank| rank.rank));
        Ok(())
    })?;
    Retrieval::of(&ranks).ok_or_else(|| Error::internal("a validation split without queries"))
}
