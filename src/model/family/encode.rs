//! Encoded images or captions, one vector or a set of vectors each, and encoding of any number of them in blocks.

use std::ops::Range;

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::image_rows::ImageRows;
use super::model::Model;
use crate::collective::CollectiveGroup;
use crate::tensor_slices::to_vec;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::text::vocabulary::{END_ID, START_ID};

/// Number of captions that are encoded together.
pub const CAPTIONS_PER_BLOCK: usize = 256;

/// Number of raw images that go through a CNN together.
const RAW_IMAGES_PER_BLOCK: usize = 32;

/// Encodes any number of images, row-major with `width` values each: those of
/// [`InputSpec::values_per_image`](pairloom_spec::input_spec::InputSpec::values_per_image), or another number of regions.
///
/// # Errors
/// No image, or a number of values that is not a multiple of `width`. The run was cancelled.
pub fn images(model: &dyn Model, images: &[f32], width: usize, cancel: &CancelToken) -> Result<EncodedItems> {
    let values_per_block =
        if model.input_spec().pictures.is_some() { RAW_IMAGES_PER_BLOCK * width } else { images.len() };
    let like = &model.parameters().tensors()[0];
    let blocks = images.chunks(values_per_block.max(1)).map(|block| {
        cancel.check()?;
        model.encode_images(&ImageRows::new(block, width, like)?)
    });
    EncodedItems::concat(&blocks.collect::<Result<Vec<_>>>()?)
}

/// Encodes any number of captions, given as token ids of the model's vocabulary with `<start>` and `<end>`. The result has
/// their order; captions of similar length are encoded together.
///
/// # Errors
/// No caption. The run was cancelled.
pub fn captions(model: &dyn Model, captions: &[&[i32]], cancel: &CancelToken) -> Result<EncodedItems> {
    if captions.is_empty() {
        return Err(Error::internal("no caption to encode"));
    }
    let mut order: Vec<usize> = (0..captions.len()).collect();
    order.sort_by_key(|&i| captions[i].len());
    let blocks = order.chunks(CAPTIONS_PER_BLOCK).map(|block| {
        cancel.check()?;
        let token_ids: Vec<&[i32]> = block.iter().map(|&i| captions[i]).collect();
        model.encode_captions(&token_ids)
    });
    let sorted = EncodedItems::concat(&blocks.collect::<Result<Vec<_>>>()?)?;
    let mut positions = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(position, i)| positions[i] = position);
    Ok(sorted.select(&positions))
}

/// Encodes no images and no captions: empty sides of the width of [`images`] and [`captions`].
pub fn encode_nothing(model: &dyn Model) -> Result<(EncodedItems, EncodedItems)> {
    let width = model.input_spec().values_per_image();
    let one = vec![1.0; width];
    let image = model.encode_images(&ImageRows::new(&one, width, &model.parameters().tensors()[0])?)?;
    let caption = model.encode_captions(&[&[START_ID, END_ID]])?;
    Ok((image.slice(0..0), caption.slice(0..0)))
}

/// Vectors of items that have exactly one each, row-major.
///
/// # Errors
/// The items are sets of vectors.
pub fn single_vectors(encoded: &EncodedItems) -> Result<Vec<f32>> {
    match encoded.lengths {
        None => to_vec(&encoded.vectors),
        Some(_) => Err(Error::data("the model encodes an item as a set of vectors, expected one vector")),
    }
}

/// Encoded images, or encoded captions.
#[derive(Debug)]
pub struct EncodedItems {
    /// The vectors of all items, `[rows, d]`, item by item.
    pub vectors: Tensor,
    /// Number of vectors of each item; `None` if each item has exactly one.
    pub lengths: Option<Vec<i64>>,
}

impl EncodedItems {
    /// Creates items of one vector each from `[n, d]`.
    #[must_use]
    pub fn from_vectors(vectors: Tensor) -> Self {
        Self { vectors, lengths: None }
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.lengths {
            Some(lengths) => lengths.len(),
            None => self.vectors.size()[0].saturating_as::<usize>(),
        }
    }

    /// Number of values of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.vectors.size()[1].saturating_as::<usize>()
    }

    /// True if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if all values are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        self.vectors.isfinite().all().int64_value(&[]) != 0
    }

    /// Range of rows of `vectors` that belong to a range of items.
    #[must_use]
    pub fn row_range(&self, items: Range<usize>) -> Range<i64> {
        match &self.lengths {
            Some(lengths) => {
                let start = lengths[..items.start].iter().sum();
                start..start + lengths[items].iter().sum::<i64>()
            }
            None => [items.start, items.end].map(size).into_iter().fold(0..0, |range, at| range.end..at),
        }
    }

    /// Returns a range of items as a view of the same memory.
    #[must_use]
    pub fn slice(&self, items: Range<usize>) -> Self {
        let rows = self.row_range(items.clone());
        let vectors = self.vectors.narrow(0, rows.start, rows.end - rows.start);
        Self { vectors, lengths: self.lengths.as_ref().map(|lengths| lengths[items].to_vec()) }
    }

    /// Returns the items with other vectors in place of theirs.
    #[must_use]
    pub fn with_vectors(&self, vectors: Tensor) -> Self {
        Self { vectors, lengths: self.lengths.clone() }
    }

    /// Returns the sets with one more vector each, before the others; `first` has a row for each set.
    #[must_use]
    pub fn with_first_vectors(&self, first: &Tensor) -> Self {
        let counts = self.counts();
        // Rows of the sets, then those of the first vectors.
        let (mut start, all) = (0, self.vectors.size()[0]);
        let mut order = Vec::new();
        for (item, count) in (0..).zip(&counts) {
            order.push(all + item);
            order.extend(start..start + count);
            start += count;
        }
        let order = Tensor::from_slice(&order).to_device(self.vectors.device());
        let vectors = Tensor::cat(&[&self.vectors, first], 0).index_select(0, &order);
        Self { vectors, lengths: Some(counts.into_iter().map(|count| count + 1).collect()) }
    }

    /// Concatenates items into a copy.
    ///
    /// # Errors
    /// `parts` is empty, or only some of the parts are sets of vectors.
    pub fn concat(parts: &[Self]) -> Result<Self> {
        let sets = parts.iter().filter_map(|part| part.lengths.as_ref()).collect::<Vec<_>>();
        if parts.is_empty() || (!sets.is_empty() && sets.len() != parts.len()) {
            return Err(Error::internal(format!(
                "cannot concatenate {} encoded blocks, {} of them sets",
                parts.len(),
                sets.len()
            )));
        }
        let lengths = (!sets.is_empty()).then(|| sets.into_iter().flatten().copied().collect());
        Ok(Self { vectors: Tensor::cat(&parts.iter().map(|part| &part.vectors).collect::<Vec<_>>(), 0), lengths })
    }

    /// Copies the items of these indices, in the order given.
    #[must_use]
    pub fn select(&self, items: &[usize]) -> Self {
        let Some(lengths) = &self.lengths else {
            let rows: Vec<i64> = items.iter().copied().map(size).collect();
            let rows = Tensor::from_slice(&rows).to_device(self.vectors.device());
            return Self::from_vectors(self.vectors.index_select(0, &rows));
        };
        let starts: Vec<i64> = std::iter::once(0)
            .chain(lengths.iter().scan(0, |end, length| {
                *end += length;
                Some(*end)
            }))
            .collect();
        let rows: Vec<i64> = items.iter().flat_map(|&item| starts[item]..starts[item + 1]).collect();
        let rows = Tensor::from_slice(&rows).to_device(self.vectors.device());
        let lengths = items.iter().map(|&item| lengths[item]).collect();
        Self { vectors: self.vectors.index_select(0, &rows), lengths: Some(lengths) }
    }

    /// Gathers the items of all ranks in the order of ranks, without gradient.
    pub fn all_gather(&self, group: &CollectiveGroup) -> Result<Self> {
        let vectors = group.all_gather(&self.vectors)?;
        let Some(lengths) = &self.lengths else { return Ok(Self::from_vectors(vectors)) };
        let lengths = group.all_gather(&Tensor::from_slice(lengths).view([-1, 1]))?.view(-1);
        let lengths = Vec::<i64>::try_from(lengths).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Self { vectors, lengths: Some(lengths) })
    }

    /// Number of vectors of each item.
    #[must_use]
    pub fn counts(&self) -> Vec<i64> {
        self.lengths.clone().unwrap_or_else(|| vec![1; self.len()])
    }

    /// Last vector of each set, `[n, d]`. Each set has one.
    pub fn last_vectors(&self) -> Tensor {
        let ends = self.counts().into_iter().scan(-1, |end, count| {
            *end += count;
            Some(*end)
        });
        let ends = Tensor::from_slice(&ends.collect::<Vec<i64>>()).to_device(self.vectors.device());
        self.vectors.index_select(0, &ends)
    }

    /// Number of rows of all sets when they are padded to the longest.
    #[must_use]
    pub fn padded_rows(&self) -> i64 {
        let longest = self.counts().into_iter().max().unwrap_or(0);
        longest * size(self.len())
    }

    /// Pads the sets with zeros to the longest. Copies nothing if all have the same number of vectors.
    #[must_use]
    pub fn padded(&self) -> PaddedSets {
        let counts = self.counts();
        let (n, d, longest) = (size(counts.len()), self.vectors.size()[1], counts.iter().copied().max().unwrap_or(0));
        if counts.iter().all(|&count| count == longest) {
            return PaddedSets { vectors: self.vectors.view([n, longest, d]), counts, is_padding: None };
        }
        let device = self.vectors.device();
        let places = Tensor::from_slice(&row_places(&counts, longest)).to_device(device);
        let sets = Tensor::zeros([n * longest, d], (self.vectors.kind(), device));
        let vectors = sets.index_copy(0, &places, &self.vectors).view([n, longest, d]);
        let index = Tensor::arange(longest, (Kind::Int64, device)).unsqueeze(0);
        let is_padding = index.ge_tensor(&Tensor::from_slice(&counts).to_device(device).unsqueeze(1));
        PaddedSets { vectors, counts, is_padding: Some(is_padding) }
    }
}

/// Sets of vectors, padded with zeros to the same number of vectors.
#[derive(Debug)]
pub struct PaddedSets {
    /// The vectors, `[n, longest, d]`.
    pub vectors: Tensor,
    /// Number of vectors of each set, without padding.
    pub counts: Vec<i64>,
    /// True for padding, `[n, longest]`; `None` if there is none.
    pub is_padding: Option<Tensor>,
}

impl PaddedSets {
    /// Sizes of the vectors, `[n, longest, d]`.
    #[must_use]
    pub fn size(&self) -> [i64; 3] {
        let size = self.vectors.size();
        [size[0], size[1], size[2]]
    }

    /// Removes the padding of `[n, longest, w]`: the rows of all sets, `[rows, w]`.
    pub fn unpadded(&self, padded: &Tensor) -> Tensor {
        let [n, longest, _] = self.size();
        let rows = padded.reshape([n * longest, -1]);
        if self.is_padding.is_none() {
            return rows;
        }
        rows.index_select(0, &Tensor::from_slice(&row_places(&self.counts, longest)).to_device(rows.device()))
    }

    /// Number of vectors of each set, `[n]`, in the type of the vectors.
    pub fn lengths(&self) -> Tensor {
        Tensor::from_slice(&self.counts).to_device(self.vectors.device()).to_kind(self.vectors.kind())
    }
}

/// Puts `value` in the place of padding. The shape of `is_padding` fits that of `x`; `None` for no padding.
pub fn fill_padding(x: Tensor, is_padding: Option<&Tensor>, value: f64) -> Tensor {
    match is_padding {
        Some(padding) => x.masked_fill(padding, value),
        None => x,
    }
}

/// Row of each vector among the rows of the padded sets.
fn row_places(counts: &[i64], longest: i64) -> Vec<i64> {
    (0..).zip(counts).flat_map(|(item, &count)| (0..count).map(move |at| item * longest + at)).collect()
}

fn size(size: usize) -> i64 {
    size.saturating_as::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.to_kind(Kind::Double).contiguous().view(-1)).expect("values")
    }

    /// Sets of 2, 0, 3 and 1 vectors of width 2: rows 0 1, none, 2 3 4, 5.
    #[test]
    fn sets_of_vectors_are_sliced_selected_and_concatenated() {
        let vectors = Tensor::arange(12, (Kind::Double, tch::Device::Cpu)).view([6, 2]);
        let sets = EncodedItems { vectors, lengths: Some(vec![2, 0, 3, 1]) };
        assert_eq!((sets.len(), sets.row_range(1..3), sets.row_range(3..3)), (4, 2..5, 5..5));
        let part = sets.slice(2..4);
        assert_eq!((numbers(&part.vectors), part.lengths), ((4..12).map(f64::from).collect(), Some(vec![3, 1])));
        let some = sets.select(&[3, 1, 0]);
        assert_eq!((numbers(&some.vectors), &some.lengths), (vec![10., 11., 0., 1., 2., 3.], &Some(vec![1, 0, 2])));
        let joined = EncodedItems::concat(&[some, sets.slice(1..2)]).expect("sets");
        assert_eq!((joined.len(), joined.lengths), (4, Some(vec![1, 0, 2, 0])));
        assert!(
            EncodedItems::concat(&[
                sets.slice(0..1),
                EncodedItems::from_vectors(Tensor::zeros([1, 2], (Kind::Double, tch::Device::Cpu)))
            ])
            .is_err()
        );
    }

    #[test]
    fn a_vector_is_put_before_each_set() {
        let vectors = Tensor::from_slice(&[1.0, 2.0, 3.0]).view([3, 1]);
        let sets = EncodedItems { vectors, lengths: Some(vec![2, 1]) };
        let with_first = sets.with_first_vectors(&Tensor::from_slice(&[8.0, 9.0]).view([2, 1]));
        assert_eq!(numbers(&with_first.vectors), [8.0, 1.0, 2.0, 9.0, 3.0]);
        assert_eq!(with_first.lengths, Some(vec![3, 2]));
    }

    #[test]
    fn sets_are_padded_with_zeros() {
        let vectors = Tensor::from_slice(&[1.0, 2.0, 3.0]).view([3, 1]);
        let sets = EncodedItems { vectors, lengths: Some(vec![2, 1]) };
        let padded = sets.padded();
        assert_eq!((padded.size(), numbers(&padded.vectors)), ([2, 2, 1], vec![1.0, 2.0, 3.0, 0.0]));
        assert_eq!(padded.is_padding.map(|padding| numbers(&padding)), Some(vec![0.0, 0.0, 0.0, 1.0]));
        assert_eq!((sets.padded_rows(), sets.slice(0..1).padded_rows()), (4, 2));
        let padded = sets.padded();
        assert_eq!(numbers(&padded.unpadded(&padded.vectors)), [1.0, 2.0, 3.0]);
        assert_eq!(numbers(&sets.last_vectors()), [2.0, 3.0]);
        let one = EncodedItems::from_vectors(Tensor::from_slice(&[1.0, 2.0, 3.0]).view([3, 1]));
        assert_eq!((one.padded().size(), one.row_range(1..3)), ([3, 1, 1], 1..3));
        assert!(one.padded().is_padding.is_none());
    }
}
