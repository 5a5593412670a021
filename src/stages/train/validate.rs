//! How a model does on the validation split, by nearest neighbour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::corpus::Validation;
use crate::error::{Error, Result};
use crate::kernels::measure::ncs::{official_ncs, ordered_ncs};
use crate::kernels::measure::recall::{CUTOFFS, Retrieval, rsum};
use crate::model::search::{Scoring, Side, search};
use crate::model::similarity::Similarity;
use crate::model::vse::Vse;
use crate::stage::Cx;

/// What the best epoch is chosen by, on the validation split. Of equal epochs the first one is it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// The sum of the six recalls at 1, 5 and 10, as VSE++ and most others.
    #[default]
    Rsum,
    /// The sum of the three recalls of captions that look for images, as Order embeddings.
    T2i,
    /// NCS at 1, 5 and 10 in both directions by φ of `caption_ngrams`, as the published code of SAM on COCO.
    Ncs,
    /// The same with earlier places counting for more, as that code on Flickr30k.
    OrderedNcs,
}

impl Select {
    /// Whether it wants φ of the validation split.
    pub(super) fn wants_relevance(self) -> bool {
        matches!(self, Self::Ncs | Self::OrderedNcs)
    }
}

/// φ of every image of the validation split with every caption of it, row-major.
#[derive(Debug)]
pub(super) struct Phi(pub Vec<f32>);

/// How a model did.
#[derive(Debug)]
pub(super) struct Validated {
    /// Images that look for captions, captions that look for images.
    pub recalls: [Retrieval; 2],
    /// What the best epoch is chosen by.
    pub score: f64,
}

impl Validated {
    /// The sum of the six recalls, percent.
    pub fn rsum(&self) -> f64 {
        let [i2t, t2i] = &self.recalls;
        rsum(i2t, t2i)
    }
}

/// Embeds the validation split and ranks it: images look for captions, then captions for images. Of the captions of an
/// image the best placed one counts; images stand in the order of their first caption.
///
/// # Errors
/// Embeddings that are not finite, or the run was cancelled.
pub(super) fn validate(
    vse: &Vse,
    similarity: Similarity,
    select: Select,
    validation: &Validation,
    phi: Option<&Phi>,
    cx: &Cx<'_>,
) -> Result<Validated> {
    let Validation { features, image_of, captions_of, .. } = validation;
    let words = validation.words()?;
    let words: Vec<&[i64]> = words.iter().map(Vec::as_slice).collect();
    let (images, captions) = (vse.images(features)?, vse.captions(&words)?);
    if !images.iter().chain(&captions).all(|value| value.is_finite()) {
        return Err(
            Error::stage("the embeddings of the validation split are not finite").hint("try a lower `learning_rate`")
        );
    }
    let ranking = Ranking { width: vse.form().joint, similarity, ordered: select == Select::OrderedNcs, cx };
    let columns = captions_of.len();
    let of_image = phi.map(|phi| move |image: usize, caption: usize| phi.0[image * image_of.len() + caption]);
    let of_caption = of_image.map(|of| move |caption: usize, image: usize| of(image, caption));
    let of_image = of_image.as_ref().map(|of| of as &dyn Fn(usize, usize) -> f32);
    let of_caption = of_caption.as_ref().map(|of| of as &dyn Fn(usize, usize) -> f32);
    let i2t =
        ranking.rank(Side::Images, (&images, &captions), |image| &captions_of[image], of_image, image_of.len())?;
    let t2i = ranking.rank(
        Side::Captions,
        (&captions, &images),
        |caption| &image_of[caption..=caption],
        of_caption,
        columns,
    )?;
    let score = match select {
        Select::Rsum => rsum(&i2t.0, &t2i.0),
        Select::T2i => t2i.0.recalls().iter().sum(),
        Select::Ncs | Select::OrderedNcs => i2t.1 + t2i.1,
    };
    Ok(Validated { recalls: [i2t.0, t2i.0], score })
}

/// How queries look for items.
struct Ranking<'r, 'c> {
    width: usize,
    similarity: Similarity,
    ordered: bool,
    cx: &'r Cx<'c>,
}

impl Ranking<'_, '_> {
    /// Recalls, and the sum of NCS at the cut-offs in percent where φ of query and item is given; 0 where not.
    fn rank<'m>(
        &self,
        side: Side,
        (queries, items): (&[f32], &[f32]),
        matches: impl Fn(usize) -> &'m [usize],
        phi: Option<&dyn Fn(usize, usize) -> f32>,
        n_items: usize,
    ) -> Result<(Retrieval, f64)> {
        let (mut ranks, mut sum) = (Vec::with_capacity(queries.len() / self.width), 0.0);
        let deepest = CUTOFFS.into_iter().max().unwrap_or(0);
        let k = if phi.is_some() { deepest } else { 0 };
        let scoring = Scoring { similarity: self.similarity, queries: side };
        search(scoring, queries, items, self.width, k, matches, |query, found| {
            self.cx.proceed()?;
            ranks.extend(found.rank.map(|rank| rank.rank));
            if let Some(phi) = phi {
                let mut ideal: Vec<f32> = (0..n_items).map(|item| phi(query, item)).collect();
                ideal.sort_unstable_by(|a, b| b.total_cmp(a));
                let found: Vec<f32> = found.top.iter().map(|top| phi(query, top.item)).collect();
                let ncs = if self.ordered { ordered_ncs } else { official_ncs };
                sum += CUTOFFS.into_iter().map(|k| 100.0 * ncs(&found, &ideal, k)).sum::<f64>();
            }
            Ok(())
        })?;
        let retrieval = Retrieval::of(&ranks).ok_or_else(|| Error::internal("a validation split without queries"))?;
        #[expect(clippy::cast_precision_loss, reason = "a validation split has far fewer than 2^53 queries")]
        Ok((retrieval, sum / (queries.len() / self.width) as f64))
    }
}
