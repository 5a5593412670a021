//! Images of a batch where they lie.

use std::marker::PhantomData;

use az::SaturatingAs;
use tch::{Device, Kind, Tensor};

use crate::error::{Error, Result};

/// Rows of f32 of a batch as a tensor `[n, width]`. On the processor the tensor reads them where they lie, so what is kept of
/// it longer than the batch must be a copy.
#[derive(Debug)]
pub struct Rows<'b> {
    tensor: Tensor,
    batch: PhantomData<&'b [f32]>,
}

impl<'b> Rows<'b> {
    /// Rows of `width` values, on the device and of the type of `like`; no copy for f32 on the processor.
    ///
    /// # Errors
    /// `values` are no whole rows.
    pub fn new(values: &'b [f32], width: usize, like: &Tensor) -> Result<Self> {
        if !values.len().is_multiple_of(width) {
            return Err(Error::internal(format!("{} values are not rows of {width}", values.len())));
        }
        let size = |size: usize| size.saturating_as::<i64>();
        let (rows, width) = (size(values.len() / width.max(1)), size(width));
        // SAFETY: `values` has this many values in this order, nothing writes to them while they are borrowed, and what is
        // kept longer is a copy: a step uses up all that follows from a batch before it returns, and what encodes many
        // batches joins their results. A copy to a GPU is over when `to_device_` is.
        #[expect(unsafe_code, reason = "a batch is read where it lies")]
        let tensor =
            unsafe { Tensor::from_blob(values.as_ptr().cast(), &[rows, width], &[width, 1], Kind::Float, Device::Cpu) };
        Ok(Self { tensor: tensor.to_device_(like.device(), like.kind(), false, false), batch: PhantomData })
    }

    /// The rows, `[n, width]`.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tensor.size()[0].saturating_as::<usize>()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
