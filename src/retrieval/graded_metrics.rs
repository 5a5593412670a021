//! Graded measures of the rankings of a pool.

use std::ops::Range;

use az::SaturatingAs;

use super::callbacks::Callbacks;
use super::collection::{Collection, GradedRelevance, RelevanceGrades};
use super::direction_metrics::MetricMeans;
use super::ranking::Rankings;
use pairloom_base::error::Result;
use pairloom_kernels::measure::METRICS;
use pairloom_kernels::measure::graded_ranking::{
    GradedQuery, OFFICIAL_LIST_LENGTH, grade_ranking, official_neighbours,
};
use pairloom_kernels::top_k::top_k;

/// Number of images whose captions' columns of φ are processed together: 1.6 MB for COCO-5k.
const BLOCK: usize = 16;

/// First items of the rankings of a pool, in both directions.
#[derive(Debug)]
pub(super) struct PoolTopLists {
    i2t: TopLists,
    t2i: TopLists,
}

impl PoolTopLists {
    /// First items of the rankings of both directions.
    pub(super) fn of([i2t, t2i]: &[Rankings; 2]) -> Self {
        Self { i2t: TopLists::of(i2t), t2i: TopLists::of(t2i) }
    }
}

/// First items of the rankings of a direction.
#[derive(Debug, Default)]
struct TopLists {
    items: Vec<u32>,
    ends: Vec<usize>,
}

impl TopLists {
    /// First items of the rankings of all queries.
    fn of(rankings: &Rankings) -> Self {
        let mut lists = Self::default();
        rankings.top.iter().for_each(|top| lists.push(top.iter().map(|best| best.item)));
        // They are kept until all folds are ranked.
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
pub(super) struct GradedPoolMeans {
    /// Image to text, text to image.
    pub(super) means: [MetricMeans; 2],
    /// Number of queries for which fewer items have φ above 0 than there are neighbours. Unrelated items, lower index
    /// first, fill up the relevant items of such a query.
    pub(super) few_relevant: usize,
}

/// Options of graded measures.
#[derive(Debug, Clone, Copy)]
pub(super) struct GradedOptions<'w> {
    pub(super) cutoffs: &'w [usize],
    pub(super) neighbours: &'w [usize],
    /// True if the fold, the first of its split, is also measured with φ of all captions of the split; see
    /// [`GradedQuery::whole_split_phi`].
    pub(super) uses_whole_split: bool,
}

/// Computes the graded measures of one pool, image to text and text to image.
///
/// The first pass is over blocks of captions. It measures text to image and computes the neighbours of every image by
/// the published code, which derives them from the lists of the image's captions. The second pass is over the images.
///
/// # Cost
/// `O(n_images · n_captions)` time; memory for a block of columns in addition to φ.
pub(super) fn measure_graded(
    callbacks: &dyn Callbacks,
    grades: &dyn RelevanceGrades,
    collection: &Collection<'_>,
    images: &Range<usize>,
    lists: &PoolTopLists,
    options: &GradedOptions<'_>,
) -> Result<GradedPoolMeans> {
    let first = collection.caption_offsets(images)?;
    let captions = first[0]..first[images.len()];
    // Captions of an image, both numbered as in the fold.
    let captions_of = |image: usize| first[image] - captions.start..first[image + 1] - captions.start;
    let max_neighbours = options.neighbours.iter().copied().max().unwrap_or(0);
    let mut official: Vec<[Vec<usize>; 2]> = Vec::with_capacity(images.len());
    let (mut image_means, mut caption_means) = (MetricMeans::default(), MetricMeans::default());
    let mut columns = Vec::new();
    let has_few =
        |phi: &[f32]| usize::from(phi.iter().filter(|&&phi| phi > 0.0).count() < max_neighbours.min(phi.len()));
    let mut few_relevant = 0;
    for start in (0..images.len()).step_by(BLOCK) {
        callbacks.check_cancelled()?;
        let block = start..images.len().min(start + BLOCK);
        let first = captions_of(block.start).start;
        let block_captions = captions.start + first..captions.start + captions_of(block.end - 1).end;
        grades.columns(images, &block_captions, &mut columns);
        let column = |caption: usize| &columns[(caption - first) * images.len()..][..images.len()];
        for image in block {
            let best: Vec<_> = captions_of(image).map(|caption| top_k(column(caption), OFFICIAL_LIST_LENGTH)).collect();
            let neighbours = [None, Some(image)]
                .map(|left_out| official_neighbours(best.iter().map(Vec::as_slice), left_out, max_neighbours));
            let neighbour_items =
                neighbours.each_ref().map(|near| near.iter().map(|&image| image..image + 1).collect::<Vec<_>>());
            for caption in captions_of(image) {
                let query = GradedQuery {
                    phi: column(caption),
                    ranking: &lists.t2i.query(caption),
                    matches: &(image..image + 1),
                    official_neighbours: neighbour_items.each_ref().map(Vec::as_slice),
                    whole_split_phi: None,
                };
                few_relevant += has_few(query.phi);
                add(&query, options, image, &mut caption_means);
            }
            official.push(neighbours);
        }
    }
    for (image, near) in official.iter().enumerate() {
        callbacks.check_cancelled()?;
        let own = captions_of(image);
        // An image without captions is no query.
        if own.is_empty() {
            continue;
        }
        let near = near.each_ref().map(|near| near.iter().map(|&image| captions_of(image)).collect::<Vec<_>>());
        let query = GradedQuery {
            phi: grades.row(images.start + image, &captions),
            ranking: &lists.i2t.query(image),
            matches: &own,
            official_neighbours: near.each_ref().map(Vec::as_slice),
            whole_split_phi: options
                .uses_whole_split
                .then(|| grades.row(images.start + image, &(0..collection.caption_ids.len()))),
        };
        few_relevant += has_few(query.phi);
        add(&query, options, image, &mut image_means);
    }
    Ok(GradedPoolMeans { means: [image_means, caption_means], few_relevant })
}

/// Adds the graded measures of a query that belongs to an image to the means of its direction.
fn add(query: &GradedQuery<'_>, options: &GradedOptions<'_>, image: usize, means: &mut MetricMeans) {
    grade_ranking(query, options.cutoffs, options.neighbours, |graded| {
        for metric in METRICS {
            metric.measure_graded(graded, &mut |name, value| means.add(name, value, image));
        }
    });
}

/// Warns of queries with fewer items of φ above 0 than neighbours.
pub(super) fn warn_of_few_relevant(
    callbacks: &mut dyn Callbacks,
    graded: &GradedRelevance,
    protocol: &str,
    few_relevant: usize,
    queries: usize,
) {
    if few_relevant == 0 {
        return;
    }
    let max_neighbours = graded.neighbours.iter().max().copied().unwrap_or(0);
    let message = format!(
        "{few_relevant} of {queries} queries of `{protocol}` have fewer than {max_neighbours} items with φ above 0: \
         unrelated items, lower index first, fill up their relevant items"
    );
    callbacks.warn(format!("relevance `{}`", graded.name), message);
}
