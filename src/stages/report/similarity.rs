//! The distribution of φ, and pairs at its ends.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::stage::Cx;
use crate::tables;

/// Bins that φ is counted in while it is read.
const FINE: usize = 1000;
/// Bins of the plot.
const BINS: usize = 40;
/// Largest φ of CIDEr; that of SPICE is 1.
const MOST: f32 = 10.0;

/// A summary of a table `caption_similarity`.
#[derive(Debug, Clone, Default)]
pub(super) struct Similarity {
    pub(super) measure: String,
    pub(super) tokenizer: String,
    /// Captions of the image itself, and captions of other images.
    pub(super) sides: [Side; 2],
    /// Captions of other images with the largest φ: at most one an image.
    pub(super) high: Vec<Pair>,
    /// Captions of the image itself with the smallest φ: at most one an image.
    pub(super) low: Vec<Pair>,
}

/// φ of the pairs of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Side {
    pub(super) count: u64,
    sum: f64,
    largest: f32,
    width: f32,
    fine: Vec<u64>,
}

/// An image with its captions, and a caption that was compared with them.
#[derive(Debug, Clone, Default)]
pub(super) struct Pair {
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
impl Side {
    fn add(&mut self, value: f32) {
        self.count += 1;
        self.sum += f64::from(value);
        self.largest = self.largest.max(value);
        let bin = ((value / self.width * FINE as f32) as usize).min(FINE - 1);
        self.fine[bin] += 1;
    }

    /// The mean, if there is one.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The value below which this share of the pairs lies, rounded down to a thousandth of the scale.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let mut below = 0;
        let bin = self.fine.iter().position(|&count| {
            below += count;
            below as f64 >= share * self.count as f64
        })?;
        (self.count > 0).then(|| bin as f64 / FINE as f64 * f64::from(self.width))
    }

    /// (φ, percent of the pairs in a bin around it), with `bins` fine bins in each.
    fn curve(&self, bins: usize, largest: usize) -> Vec<(f64, f64)> {
        let bin = f64::from(self.width) / FINE as f64;
        let chunks = self.fine[..largest].chunks(bins).enumerate();
        let middle = |i: usize| (i as f64 + 0.5) * bins as f64 * bin;
        chunks.map(|(i, bin)| (middle(i), 100.0 * bin.iter().sum::<u64>() as f64 / self.count.max(1) as f64)).collect()
    }
}

impl Similarity {
    /// The two distributions, in bins of the same width that reach to the largest φ that there is.
    pub(super) fn curves(&self) -> [Vec<(f64, f64)>; 2] {
        let used = |side: &Side| side.fine.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        let largest = self.sides.iter().map(used).max().unwrap_or(0);
        let bins = largest.div_ceil(BINS).max(1);
        let largest = (largest.div_ceil(bins) * bins).min(FINE);
        [0, 1]
            .map(|side: usize| if self.sides[side].count > 0 { self.sides[side].curve(bins, largest) } else { vec![] })
    }
}

/// Reads the table once, and the captions twice: whose they are before, and their texts after.
///
/// # Errors
/// A column is missing, or a caption that `captions` lacks.
pub(super) fn read(cx: &mut Cx<'_>, examples: usize) -> Result<Similarity> {
    let of = owners(cx)?;
    let mut found = Similarity::default();
    while let Some(batch) = cx.next("similarity")? {
        let (measures, tokenizers) = (tables::texts(&batch, "measure")?, tables::texts(&batch, "tokenizer")?);
        if found.measure.is_empty() && batch.num_rows() > 0 {
            measures.value(0).clone_into(&mut found.measure);
            tokenizers.value(0).clone_into(&mut found.tokenizer);
            let width = if found.measure == "spice" { 1.0 } else { MOST };
            found.sides = [0, 1].map(|_| Side { width, fine: vec![0; FINE], ..Side::default() });
        }
        for row in tables::caption_similarity::rows(&batch)? {
            found.row(row.image_id, row.caption_ids, row.values, &of, examples)?;
        }
    }
    texts(cx, &mut found)?;
    Ok(found)
}

impl Similarity {
    fn row(
        &mut self,
        image_id: i64,
        captions: &[i64],
        values: &[f32],
        of: &HashMap<i64, i64>,
        most: usize,
    ) -> Result<()> {
        let mut ends: [Option<(i64, f32)>; 2] = [None, None];
        for (&caption_id, &value) in captions.iter().zip(values) {
            let owner = of.get(&caption_id);
            let Some(owner) = owner else {
                return Err(Error::data(format!("`similarity` has caption_id {caption_id}, which `captions` lacks"))
                    .hint("give the report the captions that were compared"));
            };
            let side = usize::from(*owner != image_id);
            self.sides[side].add(value);
            let better = |than: f32| if side == 0 { value < than } else { value > than };
            if ends[side].is_none_or(|(_, than)| better(than)) {
                ends[side] = Some((caption_id, value));
            }
        }
        for (side, (kept, end)) in [&mut self.low, &mut self.high].into_iter().zip(ends).enumerate() {
            let Some((caption_id, value)) = end else { continue };
            let before = |pair: &Pair| if side == 0 { pair.value <= value } else { pair.value >= value };
            let place = kept.partition_point(before);
            if place < most {
                kept.insert(place, Pair { image_id, caption_id, value, ..Pair::default() });
                kept.truncate(most);
            }
        }
        Ok(())
    }
}

/// The image of every caption.
fn owners(cx: &mut Cx<'_>) -> Result<HashMap<i64, i64>> {
    let mut of = HashMap::new();
    while let Some(batch) = cx.next("captions")? {
        let (ids, image_ids) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
        of.extend(ids.values().iter().copied().zip(image_ids.values().iter().copied()));
    }
    Ok(of)
}

/// Fills in the captions of the examples.
fn texts(cx: &mut Cx<'_>, found: &mut Similarity) -> Result<()> {
    while let Some(batch) = cx.next("captions")? {
        let (ids, image_ids) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
        let texts = tables::texts(&batch, "text")?;
        for row in 0..batch.num_rows() {
            for pair in found.high.iter_mut().chain(&mut found.low) {
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
