//! Images of a batch as a tensor that borrows the batch's memory.

use std::marker::PhantomData;

use az::SaturatingAs;
use tch::{Device, Kind, Tensor};

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
