//! Embeddings of the images and captions of a split, checked.

use std::collections::{BTreeSet, HashMap};

use super::pool::Pool;
use crate::error::{Error, Result, TruncatedList};
use crate::model::similarity::Similarity;
use crate::stage::Cx;
use crate::tables;

/// How far the norm of a unit vector may be from 1.
const NORM_TOLERANCE: f64 = 1e-2;

/// Vectors of the images and captions of a pool, row-major, in its order.
#[derive(Debug)]
pub(super) struct Embeddings {
    pub(super) width: usize,
    pub(super) images: Vec<f32>,
    pub(super) captions: Vec<f32>,
}

/// Rows of one side.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) ids: Vec<i64>,
    /// The image of each row.
    pub(super) image_ids: Vec<i64>,
    /// Row-major.
    pub(super) vectors: Vec<f32>,
    pub(super) width: usize,
}

impl Embeddings {
    /// Reads the rows of `split`. Vectors that look like those of another `similarity` are told of.
    ///
    /// # Errors
    /// As [`read_side`] and [`Pool::join`].
    pub(super) fn read(split: &str, similarity: Similarity, cx: &mut Cx<'_>) -> Result<(Pool, Self)> {
        let images = read_side(cx, "images", "image_id", split, similarity)?;
        let captions = read_side(cx, "captions", "caption_id", split, similarity)?;
        let width = images.width;
        if width != captions.width {
            return Err(Error::data(format!(
                "`images` has embeddings of width {width}, `captions` of width {}, wanted one width",
                captions.width
            ))
            .hint("both tables must come from one model"));
        }
        let (pool, order) = Pool::join(images.ids, &captions.ids, &captions.image_ids, (split, "images"), cx)?;
        doubt(cx, similarity, images.vectors.iter().chain(&captions.vectors).any(|&value| value < 0.0));
        let captions = arranged(captions.vectors, &order, width);
        Ok((pool, Self { width, images: images.vectors, captions }))
    }
}

/// The rows of these numbers, in the order given.
fn arranged(vectors: Vec<f32>, order: &[usize], width: usize) -> Vec<f32> {
    if order.len() * width == vectors.len() && order.is_sorted() {
        return vectors;
    }
    order.iter().flat_map(|&row| &vectors[row * width..(row + 1) * width]).copied().collect()
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

/// Reads the rows of a split of one side.
///
/// # Errors
/// No rows of the split, an identifier twice, a vector that is not of unit length, or two widths.
pub(super) fn read_side(cx: &mut Cx<'_>, input: &str, id: &str, split: &str, similarity: Similarity) -> Result<Side> {
    let mut side = Side::default();
    let mut width = None;
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
            side.image_ids.push(image_ids.value(row));
        }
        first_row += batch.num_rows();
    }
    if !problems.is_empty() {
        return Err(Error::data(format!("`{input}` cannot be ranked: {}", problems.join("; "))));
    }
    match width {
        Some(width) if !side.ids.is_empty() => Ok(Side { width, ..side }),
        _ => Err(no_rows(split, input, &splits)),
    }
}

/// The error of a table that has no rows of the split that is ranked.
pub(super) fn no_rows(split: &str, input: &str, splits: &BTreeSet<String>) -> Error {
    let splits: Vec<String> = splits.iter().map(|name| format!("`{name}`")).collect();
    let there = if splits.is_empty() { "no rows at all".to_owned() } else { splits.join(", ") };
    Error::data(format!("no rows of split `{split}` in `{input}`; there are {there}"))
}

/// Finds fault with a vector: cosines want unit vectors, and nobody can rank what is no number or has no direction.
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
