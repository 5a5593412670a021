//! Images of a batch as a tensor that borrows the batch's memory, and their regions as sets of vectors.

use std::marker::PhantomData;

use az::SaturatingAs;
use tch::{Device, Kind, Tensor};

use super::encode::EncodedItems;
use pairloom_base::error::{Error, Result};

/// Images of a batch as a tensor `[n, width]`. On the CPU the tensor borrows the memory of the batch, so anything kept
/// longer than the batch must be a copy.
#[derive(Debug)]
pub struct ImageRows<'b> {
    tensor: Tensor,
    batch: PhantomData<&'b [f32]>,
}

impl<'b> ImageRows<'b> {
    /// Creates rows of `width` values with the device and type of `like`. Does not copy f32 values on the CPU.
    ///
    /// # Errors
    /// The number of values is not a multiple of `width`.
    pub fn new(values: &'b [f32], width: usize, like: &Tensor) -> Result<Self> {
        if !values.len().is_multiple_of(width) {
            return Err(Error::internal(format!(
                "{} values are not a whole number of rows of width {width}",
                values.len()
            )));
        }
        let size = |size: usize| size.saturating_as::<i64>();
        let (rows, width) = (size(values.len() / width.max(1)), size(width));
        // SAFETY: `values` has this many values in this order, and nothing writes to them while they are borrowed.
        // Results that are kept longer are copies: a training step drops everything computed from its batch before it
        // returns, and encoding many batches concatenates their results. A copy to a GPU has finished when `to_device_`
        // returns.
        #[expect(unsafe_code, reason = "the tensor borrows the memory of the batch")]
        let tensor =
            unsafe { Tensor::from_blob(values.as_ptr().cast(), &[rows, width], &[width, 1], Kind::Float, Device::Cpu) };
        Ok(Self { tensor: tensor.to_device_(like.device(), like.kind(), false, false), batch: PhantomData })
    }

    /// The images, `[n, width]`.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Number of images.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensor.size()[0].saturating_as::<usize>()
    }

    /// True if there are no images.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Prefix of the parameters of the linear layer of regions, in every published model.
pub const REGION_LAYER: &str = "img_enc.fc";

/// Splits images `[n, R · D]` into their regions of `width` D. A place that holds only zeros is no region, so images may
/// have different numbers of regions.
///
/// # Errors
/// Images that are not a whole number of regions, or an image without a region.
pub fn region_sets(images: &Tensor, width: usize) -> Result<EncodedItems> {
    let (n, width) = (images.size()[0], width.saturating_as::<i64>());
    if width == 0 || images.size()[1] % width != 0 {
        let values = images.size()[1];
        return Err(Error::internal(format!("{values} values of an image are not regions of width {width}")));
    }
    let places = images.size()[1] / width;
    let rows = images.view([n * places, width]);
    let present = rows.ne(0.0).any_dim(1, false);
    if present.all().int64_value(&[]) != 0 {
        return Ok(EncodedItems { vectors: rows, lengths: Some(vec![places; n.saturating_as::<usize>()]) });
    }
    let counts = present.view([n, places]).sum_dim_intlist(1i64, false, Kind::Int64);
    let lengths = Vec::<i64>::try_from(&counts).map_err(|error| Error::internal(error.to_string()))?;
    if let Some(image) = lengths.iter().position(|&count| count == 0) {
        return Err(Error::data(format!("image {image} of a block has no region, expected at least one")));
    }
    Ok(EncodedItems { vectors: rows.index_select(0, &present.nonzero().view(-1)), lengths: Some(lengths) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_zeros_are_no_regions() {
        let images = Tensor::from_slice(&[1.0f32, 2.0, 0.0, 3.0, 4.0, 5.0, 0.0, 0.0]).view([2, 4]);
        let sets = region_sets(&images, 2).expect("regions");
        assert_eq!(sets.lengths, Some(vec![2, 1]));
        assert_eq!(Vec::<f32>::try_from(sets.vectors.view(-1)).expect("f32"), [1.0, 2.0, 0.0, 3.0, 4.0, 5.0]);
        let full = region_sets(&images.narrow(0, 0, 1), 2).expect("regions");
        assert_eq!((full.lengths, full.vectors.size()), (Some(vec![2]), vec![2, 2]));
        let error = region_sets(&Tensor::zeros([1, 4], (Kind::Float, Device::Cpu)), 2).expect_err("none");
        assert_eq!(error.to_string(), "image 0 of a block has no region, expected at least one");
        assert!(region_sets(&images, 3).is_err());
    }
}
