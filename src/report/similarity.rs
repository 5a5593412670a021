//! Section of caption similarity: distribution of φ, and its most extreme pairs.

use std::collections::HashMap;

use plotters::coord::combinators::IntoLogRange;

use super::document::Series::{A, B};
use super::document::Span::{Plain, Strong};
use super::document::{Card, CardItem, CardList, CardQuality, Figure, PageBlock, PageTable, Section, legend_entry};
use super::plots::{Curve, draw, value_range};
use pairloom_base::error::{Error, Result};
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Bins of the histogram of φ.
const HISTOGRAM_BINS: usize = 1000;
/// Bins of the plot.
const PLOT_BINS: usize = 40;
/// Largest possible φ of CIDEr. That of SPICE is 1.
const MAX_CIDER: f32 = 10.0;

/// Summary of a table `caption_similarity`.
#[derive(Debug, Clone, Default)]
pub(super) struct SimilaritySummary {
    pub(super) measure: String,
    pub(super) tokenizer: String,
    /// Histograms of φ of captions of the image itself, and of other images.
    pub(super) histograms: [PhiHistogram; 2],
    /// Pairs with captions of other images and the largest φ, at most one per image.
    pub(super) high: Vec<ExtremePair>,
    /// Pairs with captions of the image itself and the smallest φ, at most one per image.
    pub(super) low: Vec<ExtremePair>,
}

/// Histogram of φ.
#[derive(Debug, Clone, Default)]
pub(super) struct PhiHistogram {
    pub(super) count: u64,
    sum: f64,
    largest: f32,
    scale: f32,
    counts: Vec<u64>,
}

/// Pair of an image, with its captions as references, and a caption.
#[derive(Debug, Clone, Default)]
pub(super) struct ExtremePair {
    pub(super) image_id: i64,
    pub(super) caption_id: i64,
    pub(super) value: f32,
    pub(super) caption: String,
    pub(super) references: Vec<String>,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts of pairs are far below 2⁵³, and φ is between 0 and its largest value"
)]
impl PhiHistogram {
    fn add(&mut self, value: f32) {
        self.count += 1;
        self.sum += f64::from(value);
        self.largest = self.largest.max(value);
        let bin = ((value / self.scale * HISTOGRAM_BINS as f32) as usize).min(HISTOGRAM_BINS - 1);
        self.counts[bin] += 1;
    }

    /// Mean, if there are pairs.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Quantile of φ at `share`, rounded down to a thousandth of the scale.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut below = 0;
        let bin = self.counts.iter().position(|&count| {
            below += count;
            below as f64 >= share * self.count as f64
        })?;
        (self.count > 0).then(|| bin as f64 / HISTOGRAM_BINS as f64 * f64::from(self.scale))
    }

    /// Curve of (φ, percentage of the pairs in a bin around it), with bins of `bins` histogram bins.
    fn curve(&self, bins: usize, largest: usize) -> Vec<(f64, f64)> {
        let bin = f64::from(self.scale) / HISTOGRAM_BINS as f64;
        let chunks = self.counts[..largest].chunks(bins).enumerate();
        let middle = |i: usize| (i as f64 + 0.5) * bins as f64 * bin;
        chunks.map(|(i, bin)| (middle(i), 100.0 * bin.iter().sum::<u64>() as f64 / self.count.max(1) as f64)).collect()
    }
}

impl SimilaritySummary {
    /// Curves of both distributions, in bins of equal width up to the largest φ.
    pub(super) fn curves(&self) -> [Vec<(f64, f64)>; 2] {
        let used = |group: &PhiHistogram| group.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let largest = self.histograms.iter().map(used).max().unwrap_or(0);
        let bins = largest.div_ceil(PLOT_BINS).max(1);
        let largest = (largest.div_ceil(bins) * bins).min(HISTOGRAM_BINS);
        [0, 1].map(
            |group: usize| {
                if self.histograms[group].count > 0 { self.histograms[group].curve(bins, largest) } else { vec![] }
            },
        )
    }
}

/// Reads `similarity`. Reads `captions` twice: for their images before, and for the texts of extreme pairs after.
///
/// # Errors
/// A column is missing, or a caption of `similarity` is missing in `captions`.
pub(super) fn read(cx: &mut StageContext<'_>, examples: usize) -> Result<SimilaritySummary> {
    let image_of = caption_images(cx)?;
    let mut summary = SimilaritySummary::default();
    while let Some(batch) = cx.read_next("similarity")? {
        let (measures, tokenizers) =
            (tables::text_column(&batch, "measure")?, tables::text_column(&batch, "tokenizer")?);
        if summary.measure.is_empty() && batch.num_rows() > 0 {
            measures.value(0).clone_into(&mut summary.measure);
            tokenizers.value(0).clone_into(&mut summary.tokenizer);
            let scale = if summary.measure == "spice" { 1.0 } else { MAX_CIDER };
            summary.histograms =
                [0, 1].map(|_| PhiHistogram { scale, counts: vec![0; HISTOGRAM_BINS], ..PhiHistogram::default() });
        }
        for row in tables::caption_similarity::rows(&batch)? {
            summary.add_row(row.image_id, row.caption_ids, row.similarities, &image_of, examples)?;
        }
    }
    texts(cx, &mut summary)?;
    Ok(summary)
}

impl SimilaritySummary {
    fn add_row(
        &mut self,
        image_id: i64,
        captions: &[i64],
        values: &[f32],
        image_of: &HashMap<i64, i64>,
        most: usize,
    ) -> Result<()> {
        let mut ends: [Option<(i64, f32)>; 2] = [None, None];
        for (&caption_id, &value) in captions.iter().zip(values) {
            let owner = image_of.get(&caption_id);
            let Some(owner) = owner else {
                return Err(Error::data(format!("`similarity` has caption_id {caption_id}, which `captions` lacks"))
                    .hint("`captions` must be the table that `similarity` was computed from"));
            };
            let group = usize::from(*owner != image_id);
            self.histograms[group].add(value);
            let better = |than: f32| if group == 0 { value < than } else { value > than };
            if ends[group].is_none_or(|(_, than)| better(than)) {
                ends[group] = Some((caption_id, value));
            }
        }
        for (group, (kept, end)) in [&mut self.low, &mut self.high].into_iter().zip(ends).enumerate() {
            let Some((caption_id, value)) = end else { continue };
            let before = |pair: &ExtremePair| if group == 0 { pair.value <= value } else { pair.value >= value };
            let place = kept.partition_point(before);
            if place < most {
                kept.insert(place, ExtremePair { image_id, caption_id, value, ..ExtremePair::default() });
                kept.truncate(most);
            }
        }
        Ok(())
    }
}

/// Reads the image of every caption.
fn caption_images(cx: &mut StageContext<'_>) -> Result<HashMap<i64, i64>> {
    let mut image_of = HashMap::new();
    while let Some(batch) = cx.read_next("captions")? {
        let (ids, image_ids) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        image_of.extend(ids.values().iter().copied().zip(image_ids.values().iter().copied()));
    }
    Ok(image_of)
}

/// Fills in the texts of the extreme pairs.
fn texts(cx: &mut StageContext<'_>, summary: &mut SimilaritySummary) -> Result<()> {
    while let Some(batch) = cx.read_next("captions")? {
        let (ids, image_ids) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        let texts = tables::text_column(&batch, "text")?;
        for row in 0..batch.num_rows() {
            for pair in summary.high.iter_mut().chain(&mut summary.low) {
                if ids.value(row) == pair.caption_id {
                    texts.value(row).clone_into(&mut pair.caption);
                } else if image_ids.value(row) == pair.image_id {
                    pair.references.push(texts.value(row).to_owned());
                }
            }
        }
    }
    Ok(())
}

/// Names of the two groups of pairs.
const GROUPS: [&str; 2] = ["captions of the image itself", "captions of other images"];

/// Section of caption similarity.
pub(super) fn section(similarity: &SimilaritySummary) -> Result<Section> {
    let mut table = PageTable::new(&["pairs of an image with"], &["pairs", "mean", "5 %", "median", "95 %"]);
    for (name, histogram) in GROUPS.iter().zip(&similarity.histograms) {
        let values = [histogram.mean(), histogram.quantile(0.05), histogram.quantile(0.5), histogram.quantile(0.95)];
        let values = values.map(|value| value.map_or_else(String::new, |value| format!("{value:.3}")));
        table.push([(*name).to_owned(), histogram.count.to_string()].into_iter().chain(values));
    }
    let note = format!(
        "φ(image, caption) is {} with the captions of the image as references, tokenizer {}; quantiles are \
         rounded down to a thousandth of the scale.",
        similarity.measure, similarity.tokenizer
    );
    let mut blocks = vec![PageBlock::Table(table), PageBlock::Note(note)];
    blocks.extend(distribution(similarity)?.map(|figure| PageBlock::Figures(vec![figure])));
    for (title, grade, pairs) in [
        ("Captions of other images with the largest φ", CardQuality::Middling, &similarity.high),
        ("Captions of the image itself with the smallest φ", CardQuality::Bad, &similarity.low),
    ] {
        if !pairs.is_empty() {
            let cards = pairs.iter().map(|pair| card(grade, pair)).collect();
            blocks.extend([PageBlock::Heading(title.to_owned()), PageBlock::Cards(cards)]);
        }
    }
    Ok(Section::new(format!("Caption similarity: {}", similarity.measure), blocks))
}

/// Plots the percentage of pairs by φ, on a logarithmic axis.
fn distribution(similarity: &SimilaritySummary) -> Result<Option<Figure>> {
    let [own, others] = similarity.curves();
    let points = || own.iter().chain(&others);
    if points().count() < 2 {
        return Ok(None);
    }
    // Empty bins are drawn on the axis.
    let least = points().map(|p| p.1).filter(|&share| share > 0.0).fold(100.0, f64::min) / 2.0;
    let above = |points: &[(f64, f64)]| points.iter().map(|p| (p.0, p.1.max(least))).collect::<Vec<_>>();
    let lines = [Curve::new(above(&others), B, 2), Curve::new(above(&own), A, 2)];
    let x = value_range(points().map(|p| p.0).chain([0.0]));
    let lines: Vec<Curve> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    let svg = draw(x.0..x.1, (least..100.0).log_scale().base(10.0), "φ", &lines, &[])?;
    let legend = vec![legend_entry(A, GROUPS[0]), legend_entry(B, GROUPS[1])];
    Ok(Some(Figure { title: "Distribution of φ, percent of pairs".to_owned(), legend, svg }))
}

fn card(grade: CardQuality, pair: &ExtremePair) -> Card {
    let value = Strong(format!("{:.3}", pair.value));
    let item = |text: &String| CardItem { label: text.into(), score: None, is_match: false };
    Card {
        quality: grade,
        heading: pair.caption.clone().into(),
        result: vec![Plain("φ = ".to_owned()), value, Plain(" with the captions".to_owned())],
        lists: vec![CardList { title: None, ordered: false, items: pair.references.iter().map(item).collect() }],
    }
}
