//! Measures of rankings against a graded relevance, fold by fold.

use std::ops::Range;

use az::SaturatingAs;

use super::callbacks::Callbacks;
use super::collection::Collection;
use super::means::Means;
use super::ranking::Rankings;
use super::relevance::{Graded, Grades};
use crate::error::Result;
use crate::kernels::measure::METRICS;
use crate::kernels::measure::graded::{Query, grades as rank_grades};
use crate::kernels::measure::semantic_recall::{OFFICIAL_LIST, official_neighbours};
use crate::kernels::top_k::top_k;

/// Images whose captions' columns are looked at together: for COCO-5k a copy of 1.6 MB.
const BLOCK: usize = 16;

/// The first items of the rankings of a pool.
#[derive(Debug)]
pub(super) struct PoolLists {
    i2t: Lists,
    t2i: Lists,
}

impl PoolLists {
    /// Rankings of both directions.
    pub(super) fn of([i2t, t2i]: &[Rankings; 2]) -> Self {
        Self { i2t: Lists::of(i2t), t2i: Lists::of(t2i) }
    }
}

/// The first items of the ranking of every query of a direction.
#[derive(Debug, Default)]
struct Lists {
    items: Vec<u32>,
    ends: Vec<usize>,
}

impl Lists {
    /// The rankings of all queries of a direction.
    fn of(rankings: &Rankings) -> Self {
        let mut lists = Self::default();
        rankings.top.iter().for_each(|top| lists.push(top.iter().map(|best| best.item)));
        // They are held until the end of all folds.
        lists.items.shrink_to_fit();
        lists.ends.shrink_to_fit();
        lists
    }

    /// Adds the ranking of the next query.
    fn push(&mut self, items: impl Iterator<Item = usize>) {
        self.items.extend(items.map(SaturatingAs::saturating_as::<u32>));
        self.ends.push(self.items.len());
    }

    fn query(&self, query: usize) -> Vec<usize> {
        let start = query.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.items[start..self.ends[query]].iter().map(|&item| item as usize).collect()
    }
}

/// Graded measures of a pool.
pub(super) struct PoolMeans {
    /// Image to text, text to image.
    pub(super) means: [Means; 2],
    /// Queries of which fewer items than neighbours have a φ above 0, so that items that have nothing to do with them fill up
    /// what is relevant, the lower index first.
    pub(super) few: usize,
}

/// Cut-offs and neighbours of graded measures.
#[derive(Debug, Clone, Copy)]
pub(super) struct GradedOptions<'w> {
    pub(super) cutoffs: &'w [usize],
    pub(super) neighbours: &'w [usize],
    /// True if the fold, the first, is also measured by what all captions of the split have; see [`Query::whole`].
    pub(super) whole: bool,
}

/// Measures the rankings of one pool, image to text and text to image.
///
/// One pass over the captions in blocks gives text to image and, on the way, the neighbours of every image that the
/// published code takes for relevant, since it makes them of its captions' lists; then one pass over the images.
///
/// # Cost
/// `O(n_images · n_captions)` time; beside φ itself a block of columns.
pub(super) fn measure_pool(
    callbacks: &dyn Callbacks,
    grades: &dyn Grades,
    collection: &Collection<'_>,
    images: &Range<usize>,
    lists: &PoolLists,
    options: &GradedOptions<'_>,
) -> Result<PoolMeans> {
    let first = collection.caption_offsets(images)?;
    let captions = first[0]..first[images.len()];
    // Of an image of the fold: its captions, numbered as in the fold.
    let captions_of = |image: usize| first[image] - captions.start..first[image + 1] - captions.start;
    let most = options.neighbours.iter().copied().max().unwrap_or(0);
    let mut official: Vec<[Vec<usize>; 2]> = Vec::with_capacity(images.len());
    let (mut of_images, mut of_captions) = (Means::default(), Means::default());
    let mut columns = Vec::new();
    let has_few = |phi: &[f32]| usize::from(phi.iter().filter(|&&phi| phi > 0.0).count() < most.min(phi.len()));
    let mut few = 0;
    for start in (0..images.len()).step_by(BLOCK) {
        callbacks.proceed()?;
        let block = start..images.len().min(start + BLOCK);
        let first = captions_of(block.start).start;
        let block_captions = captions.start + first..captions.start + captions_of(block.end - 1).end;
        grades.columns(images, &block_captions, &mut columns);
        let column = |caption: usize| &columns[(caption - first) * images.len()..][..images.len()];
        for image in block {
            let best: Vec<_> = captions_of(image).map(|caption| top_k(column(caption), OFFICIAL_LIST)).collect();
            let near =
                [None, Some(image)].map(|left_out| official_neighbours(best.iter().map(Vec::as_slice), left_out, most));
            let alone = near.each_ref().map(|near| near.iter().map(|&image| image..image + 1).collect::<Vec<_>>());
            for caption in captions_of(image) {
                let query = Query {
                    phi: column(caption),
                    ranking: &lists.t2i.query(caption),
                    own: &(image..image + 1),
                    official: alone.each_ref().map(Vec::as_slice),
                    whole: None,
                };
                few += has_few(query.phi);
                add(&query, options, &mut of_captions);
            }
            official.push(near);
        }
    }
    for (image, near) in official.iter().enumerate() {
        callbacks.proceed()?;
        let own = captions_of(image);
        // An image without captions asks for nothing.
        if own.is_empty() {
            continue;
        }
        let near = near.each_ref().map(|near| near.iter().map(|&image| captions_of(image)).collect::<Vec<_>>());
        let query = Query {
            phi: grades.row(images.start + image, &captions),
            ranking: &lists.i2t.query(image),
            own: &own,
            official: near.each_ref().map(Vec::as_slice),
            whole: options.whole.then(|| grades.row(images.start + image, &(0..collection.caption_ids.len()))),
        };
        few += has_few(query.phi);
        add(&query, options, &mut of_images);
    }
    Ok(PoolMeans { means: [of_images, of_captions], few })
}

/// Adds the graded measures of a query to the means of its direction.
fn add(query: &Query<'_>, options: &GradedOptions<'_>, means: &mut Means) {
    rank_grades(query, options.cutoffs, options.neighbours, |graded| {
        for metric in METRICS {
            metric.of_grades(graded, &mut |name, value| means.add(name, value));
        }
    });
}

/// Warns of queries with too few items that have anything to do with them.
pub(super) fn tell_of_few(callbacks: &mut dyn Callbacks, graded: &Graded, protocol: &str, few: usize, asked: usize) {
    if few == 0 {
        return;
    }
    let most = graded.neighbours.iter().max().copied().unwrap_or(0);
    let message = format!(
        "{few} of {asked} queries of `{protocol}` have fewer than {most} items with φ above 0: items that have nothing to do \
         with them fill up what is relevant, the lower index first"
    );
    callbacks.warn(format!("relevance `{}`", graded.name), message);
}
