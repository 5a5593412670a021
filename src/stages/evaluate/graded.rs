//! Measures of rankings against a graded relevance, fold by fold.

use std::ops::Range;

use super::means::Means;
use super::pool::Pool;
use super::similarity::Similarity;
use crate::error::Result;
use crate::kernels::measure::graded::{Query, measure};
use crate::kernels::measure::semantic_recall::{OFFICIAL_LIST, official_neighbours};
use crate::kernels::top_k::top_k;
use crate::stage::Cx;

/// Images whose captions' columns are looked at together: for COCO-5k a copy of 1.6 MB.
const BLOCK: usize = 16;

/// The first items of the ranking of every query of a direction of a fold.
#[derive(Debug, Default)]
pub(super) struct Lists {
    items: Vec<u32>,
    ends: Vec<usize>,
}

impl Lists {
    /// Adds the ranking of the next query.
    pub(super) fn push(&mut self, items: impl Iterator<Item = usize>) {
        self.items.extend(items.map(|item| u32::try_from(item).unwrap_or(u32::MAX)));
        self.ends.push(self.items.len());
    }

    fn of(&self, query: usize) -> Vec<usize> {
        let start = query.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.items[start..self.ends[query]].iter().map(|&item| item as usize).collect()
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct What<'w> {
    pub(super) cutoffs: &'w [usize],
    pub(super) neighbours: &'w [usize],
    /// Whether the fold, the first, is also measured by what all captions of the split have; see [`Query::whole`].
    pub(super) whole: bool,
}

/// Measures the rankings of one fold, image to text and text to image.
///
/// One pass over the captions in blocks gives text to image and, on the way, the neighbours of every image that the
/// published code takes for relevant, since it makes them of its captions' lists; then one pass over the images.
///
/// Gives the means, and the queries of which fewer items than neighbours have a φ above 0, so that items that have nothing
/// to do with them fill up what is relevant, the lower index first.
///
/// # Cost
/// `O(n_images · n_captions)` time; beside φ itself a block of columns.
pub(super) fn measure_fold(
    cx: &Cx<'_>,
    similarity: &Similarity,
    pool: &Pool,
    images: &Range<usize>,
    [i2t, t2i]: &[Lists; 2],
    what: &What<'_>,
) -> Result<([Means; 2], usize)> {
    let captions = pool.captions_of(images);
    // Of an image of the fold: its captions, numbered as in the fold.
    let captions_of = |image: usize| {
        let of = pool.captions_of(&(images.start + image..images.start + image + 1));
        of.start - captions.start..of.end - captions.start
    };
    let What { cutoffs, neighbours, .. } = *what;
    let most = neighbours.iter().copied().max().unwrap_or(0);
    let mut official: Vec<[Vec<usize>; 2]> = Vec::with_capacity(images.len());
    let (mut of_images, mut of_captions) = (Means::default(), Means::default());
    let mut columns = Vec::new();
    let few = |phi: &[f32]| usize::from(phi.iter().filter(|&&phi| phi > 0.0).count() < most.min(phi.len()));
    let mut unclear = 0;
    for start in (0..images.len()).step_by(BLOCK) {
        cx.proceed()?;
        let block = start..images.len().min(start + BLOCK);
        let first = captions_of(block.start).start;
        let block_captions = captions.start + first..captions.start + captions_of(block.end - 1).end;
        similarity.columns(images, &block_captions, &mut columns);
        let column = |caption: usize| &columns[(caption - first) * images.len()..][..images.len()];
        for image in block {
            let lists: Vec<_> = captions_of(image).map(|caption| top_k(column(caption), OFFICIAL_LIST)).collect();
            let near = [None, Some(image)]
                .map(|left_out| official_neighbours(lists.iter().map(Vec::as_slice), left_out, most));
            let alone = near.each_ref().map(|near| near.iter().map(|&image| image..image + 1).collect::<Vec<_>>());
            for caption in captions_of(image) {
                let query = Query {
                    phi: column(caption),
                    ranking: &t2i.of(caption),
                    own: &(image..image + 1),
                    official: alone.each_ref().map(Vec::as_slice),
                    whole: None,
                };
                unclear += few(query.phi);
                measure(&query, cutoffs, neighbours, |name, value| of_captions.add(name.into(), value));
            }
            official.push(near);
        }
    }
    for (image, near) in official.iter().enumerate() {
        cx.proceed()?;
        let own = captions_of(image);
        // An image without captions asks for nothing.
        if own.is_empty() {
            continue;
        }
        let near = near.each_ref().map(|near| near.iter().map(|&image| captions_of(image)).collect::<Vec<_>>());
        let query = Query {
            phi: similarity.row(images.start + image, &captions),
            ranking: &i2t.of(image),
            own: &own,
            official: near.each_ref().map(Vec::as_slice),
            whole: what.whole.then(|| similarity.row(images.start + image, &(0..pool.captions.ids.len()))),
        };
        unclear += few(query.phi);
        measure(&query, cutoffs, neighbours, |name, value| of_images.add(name.into(), value));
    }
    Ok(([of_images, of_captions], unclear))
}
