//! The images and captions of a split, joined and checked.

use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Result, TruncatedList};
use crate::model::similarity::Similarity;
use crate::retrieval::{Collection, Matches, VectorPair, VectorSource};
use crate::search::SearchFactory;
use crate::stage::Cx;
use crate::tables;

/// How far the norm of a unit vector may be from 1.
const NORM_TOLERANCE: f64 = 1e-2;

/// Images and captions of one split. Captions of an image stand together, in the order of the images.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) width: usize,
    pub(super) images: Side,
    pub(super) captions: Side,
    /// Index of the first caption of each image, and at the end the number of captions.
    pub(super) first_caption: Vec<usize>,
}

/// Identifiers and vectors (row-major) of images or of captions.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) ids: Vec<i64>,
    pub(super) vectors: Vec<f32>,
}

impl Pool {
    /// Reads the rows of `split`.
    ///
    /// A caption whose image is not there is left out, an image without captions stays as an item that no caption looks
    /// for: both with a warning, since both change what results mean. So are vectors that look like those of another
    /// `similarity`.
    ///
    /// # Errors
    /// No rows of the split, an identifier twice, a vector that is not of unit length, or two widths.
    pub(super) fn read(cx: &mut Cx<'_>, split: &str, similarity: Similarity) -> Result<Self> {
        let (images, image_width, _) = read_side(cx, "images", "image_id", split, similarity)?;
        let (captions, caption_width, of) = read_side(cx, "captions", "caption_id", split, similarity)?;
        if image_width != caption_width {
            return Err(Error::data(format!(
                "`images` has embeddings of width {image_width}, `captions` of width {caption_width}, wanted one width"
            ))
            .hint("both tables must come from one model"));
        }
        let index = images.places();

        let mut order: Vec<(usize, usize)> = Vec::with_capacity(of.len());
        let mut orphans = Vec::new();
        for (caption, image_id) in of.iter().enumerate() {
            match index.get(image_id) {
                Some(&image) => order.push((image, caption)),
                None => orphans.push(captions.ids[caption]),
            }
        }
        if !orphans.is_empty() {
            cx.warn(
                format!("captions of split `{split}`"),
                format!(
                    "{} left out, since `images` lacks their image: caption_id {}",
                    orphans.len(),
                    TruncatedList::from_iter(&orphans).join(", ")
                ),
            );
        }
        if order.is_empty() {
            return Err(Error::data(format!("no caption of split `{split}` belongs to an image of `images`")));
        }
        order.sort_by_key(|&(image, _)| image);

        let mut first_caption = Vec::with_capacity(images.ids.len() + 1);
        for image in 0..=images.ids.len() {
            first_caption.push(order.partition_point(|&(of, _)| of < image));
        }
        let alone: Vec<i64> = (0..images.ids.len())
            .filter(|&image| first_caption[image] == first_caption[image + 1])
            .map(|image| images.ids[image])
            .collect();
        if !alone.is_empty() {
            cx.warn(
                format!("images of split `{split}`"),
                format!(
                    "{} without captions, ranked but not asked for: image_id {}",
                    alone.len(),
                    TruncatedList::from_iter(&alone).join(", ")
                ),
            );
        }
        doubt(cx, similarity, images.vectors.iter().chain(&captions.vectors).any(|&value| value < 0.0));
        let captions = captions.arranged(&order, caption_width);
        Ok(Self { width: image_width, images, captions, first_caption })
    }

    /// The scores of its vectors, and with a bank.
    pub(super) fn scores<'p>(
        &'p self,
        bank: Option<&'p VectorPair<'p>>,
        factory: &'p dyn SearchFactory,
    ) -> VectorSource<'p> {
        VectorSource {
            images: &self.images.vectors,
            captions: &self.captions.vectors,
            width: self.width,
            bank,
            factory,
        }
    }

    /// As retrieval knows it.
    pub(super) fn collection<'p>(&'p self, scores: &'p VectorSource<'p>) -> Collection<'p> {
        Collection {
            image_ids: &self.images.ids,
            caption_ids: &self.captions.ids,
            matches: Matches::Grouped(&self.first_caption),
            scores,
        }
    }
}

/// Tells of vectors that another similarity may have been trained with: order embeddings have no value below 0, and nearly all
/// others have.
fn doubt(cx: &mut Cx<'_>, similarity: Similarity, below_zero: bool) {
    let message = match (similarity, below_zero) {
        (Similarity::Cosine, false) => {
            "no value of the embeddings is below 0, as is so of order embeddings, and they are ranked by cosines: if the model \
             was trained with `similarity = \"order\"`, `evaluate` wants the same line"
        }
        (Similarity::Order { .. }, true) => {
            "some values of the embeddings are below 0, which is so of no order embedding: if the model was trained with \
             cosines, leave out `similarity`"
        }
        _ => return,
    };
    cx.warn("similarity", message);
}

impl Side {
    /// Where each identifier stands.
    pub(super) fn places(&self) -> HashMap<i64, usize> {
        self.ids.iter().enumerate().map(|(place, &id)| (id, place)).collect()
    }

    /// The rows named by the second number of each pair, in that order.
    fn arranged(self, order: &[(usize, usize)], width: usize) -> Self {
        if order.len() == self.ids.len() && order.iter().enumerate().all(|(place, &(_, row))| place == row) {
            return self;
        }
        let mut arranged = Side::default();
        for &(_, row) in order {
            arranged.ids.push(self.ids[row]);
            arranged.vectors.extend_from_slice(&self.vectors[row * width..(row + 1) * width]);
        }
        arranged
    }
}

/// Identifiers, vectors and their width, and the image of every row of a split.
pub(super) fn read_side(
    cx: &mut Cx<'_>,
    input: &str,
    id: &str,
    split: &str,
    similarity: Similarity,
) -> Result<(Side, usize, Vec<i64>)> {
    let mut side = Side::default();
    let (mut width, mut of) = (None, Vec::new());
    let (mut problems, mut splits) = (TruncatedList::default(), BTreeSet::new());
    let mut seen = HashMap::new();
    let mut first_row = 0usize;
    while let Some(batch) = cx.next(input)? {
        let (ids, image_ids) = (tables::ids(&batch, id)?, tables::ids(&batch, "image_id")?);
        let rows = tables::texts(&batch, "split")?;
        let (vectors, batch_width) = tables::floats(&batch, "embedding")?;
        if batch_width == 0 || *width.get_or_insert(batch_width) != batch_width {
            let wanted =
                width.filter(|&width| width > 0).map_or("a width above 0".to_owned(), |width| width.to_string());
            return Err(Error::data(format!(
                "`{input}` has embeddings of width {batch_width} from row {first_row}, wanted {wanted}"
            )));
        }
        for row in 0..batch.num_rows() {
            if rows.value(row) != split {
                splits.insert(rows.value(row).to_owned());
                continue;
            }
            let (number, vector) = (first_row + row, &vectors[row * batch_width..(row + 1) * batch_width]);
            let this = ids.value(row);
            if let Some(wrong) = wrong_norm(vector, similarity) {
                problems.push(format_args!("row {number} ({id} {this}): {wrong}"));
            }
            if let Some(earlier) = seen.insert(this, number) {
                problems.push(format_args!("row {number}: {id} {this} stands in row {earlier} too"));
            }
            side.ids.push(this);
            side.vectors.extend_from_slice(vector);
            of.push(image_ids.value(row));
        }
        first_row += batch.num_rows();
    }
    if !problems.is_empty() {
        return Err(Error::data(format!("`{input}` cannot be ranked: {}", problems.join("; "))));
    }
    match width {
        Some(width) if !side.ids.is_empty() => Ok((side, width, of)),
        _ => {
            let splits: Vec<String> = splits.iter().map(|name| format!("`{name}`")).collect();
            let there = if splits.is_empty() { "no rows at all".to_owned() } else { splits.join(", ") };
            Err(Error::data(format!("no rows of split `{split}` in `{input}`; there are {there}")))
        }
    }
}

/// What is wrong with a vector: cosines want unit vectors, and nobody can rank what is no number or has no direction.
fn wrong_norm(vector: &[f32], similarity: Similarity) -> Option<String> {
    let norm = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if !norm.is_finite() {
        return Some("the embedding has values that are not finite numbers".to_owned());
    }
    let (wrong, wanted) = match similarity {
        Similarity::Cosine => ((norm - 1.0).abs() > NORM_TOLERANCE, "1"),
        Similarity::Order { .. } => (norm == 0.0, "one above 0"),
    };
    wrong.then(|| format!("the embedding has norm {norm:.4}, wanted {wanted}"))
}
