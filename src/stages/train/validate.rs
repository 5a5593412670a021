//! How a model does on the validation split: recall by nearest neighbour.

use super::corpus::Validation;
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
pub(super) fn validate(vse: &Vse, validation: &Validation, cx: &Cx<'_>) -> Result<[Retrieval; 2]> {
    let Validation { features, image_of, captions_of, .. } = validation;
    let words = validation.words()?;
    let words: Vec<&[i64]> = words.iter().map(Vec::as_slice).collect();
    let (images, captions) = (vse.images(features)?, vse.captions(&words)?);
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
