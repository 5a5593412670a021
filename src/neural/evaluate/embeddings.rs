//! Embeddings of the images and captions of a split, checked: norms, and whether most of them are equal, as those of a
//! collapsed model.

use std::collections::{BTreeSet, HashMap};

use super::pool::SplitPool;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_spec::similarity::EmbeddingSimilarity;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Tolerance of the norm of unit vectors.
const NORM_TOLERANCE: f64 = 1e-2;
/// Number of rows of each kind of mistake that a message shows.
const SHOWN: usize = 3;

/// Vectors of the images and captions of a pool, row-major, in the order of the pool.
#[derive(Debug)]
pub(super) struct SplitEmbeddings {
    pub(super) width: usize,
    pub(super) images: Vec<f32>,
    pub(super) captions: Vec<f32>,
}

/// Rows of one table of embeddings.
#[derive(Debug, Default)]
pub(super) struct EmbeddingRows {
    pub(super) ids: Vec<i64>,
    /// Image of each row.
    pub(super) image_ids: Vec<i64>,
    /// Vectors, row-major.
    pub(super) vectors: Vec<f32>,
    pub(super) width: usize,
}

impl SplitEmbeddings {
    /// Reads the rows of `split`. Warns of vectors that look like those of another `similarity`.
    ///
    /// # Errors
    /// As [`read_side`] and [`SplitPool::join`].
    pub(super) fn read(
        split: &str,
        similarity: EmbeddingSimilarity,
        cx: &mut StageContext<'_>,
    ) -> Result<(SplitPool, Self)> {
        let images = read_side(cx, "images", "image_id", split, similarity)?;
        let captions = read_side(cx, "captions", "caption_id", split, similarity)?;
        let width = images.width;
        if width != captions.width {
            return Err(Error::data(format!(
                "`images` has embeddings of width {width}, `captions` of width {}, expected one width",
                captions.width
            ))
            .hint("both tables must come from one model"));
        }
        let (pool, order) = SplitPool::join(images.ids, &captions.ids, &captions.image_ids, (split, "images"), cx)?;
        warn_of_similarity_mismatch(
            cx,
            similarity,
            images.vectors.iter().chain(&captions.vectors).any(|&value| value < 0.0),
        );
        warn_of_equal_vectors(cx, (split, "images"), &images.vectors, width);
        warn_of_equal_vectors(cx, (split, "captions"), &captions.vectors, width);
        let captions = reorder_rows(captions.vectors, &order, width);
        Ok((pool, Self { width, images: images.vectors, captions }))
    }
}

/// Selects rows by index, in the given order.
fn reorder_rows(vectors: Vec<f32>, order: &[usize], width: usize) -> Vec<f32> {
    if order.len() * width == vectors.len() && order.is_sorted() {
        return vectors;
    }
    order.iter().flat_map(|&row| &vectors[row * width..(row + 1) * width]).copied().collect()
}

/// Warns if the model may have been trained with another similarity. Order embeddings have no value below 0; nearly all
/// other embeddings have some.
fn warn_of_similarity_mismatch(cx: &mut StageContext<'_>, similarity: EmbeddingSimilarity, below_zero: bool) {
    let message = match (similarity, below_zero) {
        (EmbeddingSimilarity::Cosine, false) => {
            "no value of the embeddings is below 0, which is typical of order embeddings, but `evaluate` ranks by \
             cosine: if the model was trained with `similarity = \"order\"`, set it in `evaluate` too"
        }
        (EmbeddingSimilarity::Order { .. }, true) => {
            "some values of the embeddings are below 0, which order embeddings never have: if the model was trained with the \
             cosine similarity, leave out `similarity`"
        }
        _ => return,
    };
    cx.warn("similarity", message);
}

/// Reads the rows of a split from one table of embeddings.
///
/// # Errors
/// No rows of the split, an identifier twice, a vector that is not of unit length, or two widths.
pub(super) fn read_side(
    cx: &mut StageContext<'_>,
    input: &str,
    id: &str,
    split: &str,
    similarity: EmbeddingSimilarity,
) -> Result<EmbeddingRows> {
    let mut side = EmbeddingRows::default();
    let mut width = None;
    let (mut problems, mut repeated) = (TruncatedList::new(SHOWN), TruncatedList::new(SHOWN));
    let mut splits = BTreeSet::new();
    let mut seen = HashMap::new();
    let mut first_row = 0usize;
    let (mut wrong_norms, mut shortest, mut longest) = (0usize, f64::INFINITY, 0.0f64);
    while let Some(batch) = cx.read_next(input)? {
        let (ids, image_ids) = (tables::int_column(&batch, id)?, tables::int_column(&batch, "image_id")?);
        let rows = tables::text_column(&batch, "split")?;
        let (vectors, batch_width) = tables::vector_column(&batch, "embedding")?;
        if batch_width == 0 || *width.get_or_insert(batch_width) != batch_width {
            let expected =
                width.filter(|&width| width > 0).map_or("a width above 0".to_owned(), |width| width.to_string());
            return Err(Error::data(format!(
                "`{input}` has embeddings of width {batch_width} from row {first_row}, expected {expected}"
            )));
        }
        for row in 0..batch.num_rows() {
            if rows.value(row) != split {
                splits.insert(rows.value(row).to_owned());
                continue;
            }
            let (number, vector) = (first_row + row, &vectors[row * batch_width..(row + 1) * batch_width]);
            let this = ids.value(row);
            let norm = norm(vector);
            if let Some(wrong) = norm_problem(norm, similarity) {
                if norm.is_finite() {
                    wrong_norms += 1;
                    (shortest, longest) = (shortest.min(norm), longest.max(norm));
                }
                problems.push(format_args!("row {number} ({id} {this}): {wrong}"));
            }
            if let Some(earlier) = seen.insert(this, number) {
                repeated.push(format_args!("row {number}: {id} {this} is also in row {earlier}"));
            }
            side.ids.push(this);
            side.vectors.extend_from_slice(vector);
            side.image_ids.push(image_ids.value(row));
        }
        first_row += batch.num_rows();
    }
    if !problems.is_empty() || !repeated.is_empty() {
        let lists = [problems, repeated].into_iter().filter(|list| !list.is_empty());
        let lists: Vec<String> = lists.map(|list| list.join("; ")).collect();
        let error = Error::data(format!("`{input}` cannot be ranked: {}", lists.join("; ")));
        if wrong_norms == 0 || similarity != EmbeddingSimilarity::Cosine {
            return Err(error);
        }
        return Err(error.hint(format!(
            "{wrong_norms} of {} vectors have another norm than 1, from {shortest:.4} to {longest:.4}, which the cosine \
             needs: scale them to length 1, as `ingest` does without `normalize = false`, or, for order embeddings, set \
             `similarity = \"order\"` in `evaluate`",
            side.ids.len()
        )));
    }
    match width {
        Some(width) if !side.ids.is_empty() => Ok(EmbeddingRows { width, ..side }),
        _ => Err(no_rows(split, input, &splits)),
    }
}

/// Error of a table that has no rows of the split.
pub(super) fn no_rows(split: &str, input: &str, splits: &BTreeSet<String>) -> Error {
    let splits: Vec<String> = splits.iter().map(|name| format!("`{name}`")).collect();
    let there = if splits.is_empty() { "no rows at all".to_owned() } else { splits.join(", ") };
    Error::data(format!("no rows of split `{split}` in `{input}`; there are {there}"))
}

/// Norm of a vector.
fn norm(vector: &[f32]) -> f64 {
    vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// Checks the norm of a vector: cosines need unit vectors, and any similarity needs finite values and a norm above 0.
fn norm_problem(norm: f64, similarity: EmbeddingSimilarity) -> Option<String> {
    if !norm.is_finite() {
        return Some("the embedding has values that are not finite numbers".to_owned());
    }
    let (wrong, expected) = match similarity {
        EmbeddingSimilarity::Cosine => ((norm - 1.0).abs() > NORM_TOLERANCE, "1"),
        EmbeddingSimilarity::Order { .. } => (norm == 0.0, "a norm above 0"),
    };
    wrong.then(|| format!("the embedding has norm {norm:.4}, expected {expected}"))
}

/// Largest difference of two values that count as equal: ten roundings of an f32 of size 1.
const TOLERANCE: f32 = 1e-6;
/// Number of vectors from which on a majority of equal ones causes a warning. Below, all must be equal.
const MANY: usize = 20;

/// Warns if all vectors are equal, or more than half of many. `items` is a plural such as `images`.
fn warn_of_equal_vectors(cx: &mut StageContext<'_>, (split, items): (&str, &str), vectors: &[f32], width: usize) {
    let total = vectors.len() / width.max(1);
    let equal = most_equal(vectors, width);
    if equal < 2 || (equal < total && (total < MANY || equal * 2 <= total)) {
        return;
    }
    let count = if equal == total { format!("all {total}") } else { format!("{equal} of {total}") };
    let message = format!(
        "{count} vectors are equal, up to {TOLERANCE:e}: their scores tie, and the order of the rows or rounding decides \
         their ranks; the model has collapsed to a constant, or the vectors were repeated by mistake"
    );
    cx.warn(format!("{items} of split `{split}`"), message);
}

/// Number of vectors that equal the most frequent one, if that is more than half of them; otherwise some smaller number.
///
/// The majority vote of Boyer and Moore, "MJRTY: a fast majority vote algorithm", 1991.
fn most_equal(vectors: &[f32], width: usize) -> usize {
    let rows = || vectors.chunks_exact(width.max(1));
    let is_equal = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= TOLERANCE);
    let (mut candidate, mut votes): (&[f32], usize) = (&[], 0);
    for row in rows() {
        if votes == 0 {
            (candidate, votes) = (row, 1);
        } else if is_equal(row, candidate) {
            votes += 1;
        } else {
            votes -= 1;
        }
    }
    rows().filter(|row| is_equal(row, candidate)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_stage_testing::InMemoryHost;

    /// Returns the warnings for vectors of two values, by the number of their first value.
    fn warnings(firsts: &[f32]) -> Vec<String> {
        let vectors: Vec<f32> = firsts.iter().flat_map(|&first| [first, 0.5]).collect();
        let mut host = InMemoryHost::default();
        warn_of_equal_vectors(&mut host, ("test", "images"), &vectors, 2);
        host.warnings.iter().map(|warning| format!("{}: {}", warning.subject, warning.message)).collect()
    }

    #[test]
    fn equal_vectors_are_counted() {
        let message = &warnings(&[0.25; 1000])[0];
        assert!(message.starts_with("images of split `test`: all 1000 vectors are equal, up to 1e-6"), "{message}");
        // A vector that differs by rounding is equal.
        assert!(warnings(&[0.25, 0.25 + f32::EPSILON])[0].contains("all 2 vectors"));
        let mut mixed: Vec<f32> = (0..9u8).map(f32::from).collect();
        mixed.extend([-1.0; 11]);
        assert!(warnings(&mixed)[0].contains("11 of 20 vectors are equal"));
        mixed[10] = -2.0;
        assert_eq!(warnings(&mixed), [""; 0]);
        assert_eq!(warnings(&[0.1, 0.1, 0.2]), [""; 0]);
        assert_eq!((warnings(&[0.1]), warnings(&[])), (vec![], vec![]));
    }
}
