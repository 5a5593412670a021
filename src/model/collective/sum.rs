//! Adds up tensors over all ranks, in buckets: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
//! Training", VLDB 2020.

use tch::{Device, Kind, Tensor};

use super::ffi::Work;
use super::group::{Group, in_words};
use crate::error::{Error, Result};

/// Bytes of a bucket, as many as PyTorch's: large enough that messages cost little, small enough that copying one runs
/// beside sending another.
const BUCKET: usize = 25 << 20;

impl Group {
    /// Replaces every tensor, in place, by its sum over all ranks, which has the same bits on all of them. Tensors have the
    /// same sizes, in the same order, on all ranks; each is contiguous.
    ///
    /// Small tensors are sent together, in buckets of 25 MiB.
    ///
    /// # Errors
    /// A rank is gone, or a tensor is not contiguous.
    pub fn sum(&self, tensors: &[Tensor]) -> Result<()> {
        let Some(gloo) = &self.gloo else { return Ok(()) };
        if let Some(tensor) = tensors.iter().find(|tensor| !tensor.is_contiguous()) {
            return Err(Error::internal(format!("a tensor of size {:?} is not contiguous", tensor.size())));
        }
        tch::no_grad(|| {
            let mut under_way: Vec<(Bucket<'_>, Work)> = Vec::new();
            let mut begun = Ok(());
            for tensors in buckets(tensors) {
                let bucket = Bucket::of(tensors);
                match gloo.sum(&bucket.flat) {
                    Ok(work) => under_way.push((bucket, work)),
                    Err(error) => {
                        begun = Err(error);
                        break;
                    }
                }
            }
            // Also after an error, so that nothing is under way when the tensors are freed.
            for (bucket, work) in under_way {
                let done = gloo.wait(work);
                if begun.is_ok() && done.is_ok() {
                    bucket.put_back();
                }
                begun = begun.and(done);
            }
            begun.map_err(|error| in_words("add up over the ranks", error))
        })
    }
}

/// Runs of tensors of one type and device that fill a bucket each, or are one larger tensor.
fn buckets(tensors: &[Tensor]) -> Vec<&[Tensor]> {
    let bytes = |tensor: &Tensor| tensor.numel() * tensor.kind().elt_size_in_bytes();
    let mut buckets = Vec::new();
    let (mut start, mut filled) = (0, 0);
    for (i, tensor) in tensors.iter().enumerate() {
        let same: (Kind, Device) = (tensors[start].kind(), tensors[start].device());
        if i > start && (filled + bytes(tensor) > BUCKET || same != (tensor.kind(), tensor.device())) {
            buckets.push(&tensors[start..i]);
            (start, filled) = (i, 0);
        }
        filled += bytes(tensor);
    }
    if start < tensors.len() {
        buckets.push(&tensors[start..]);
    }
    buckets
}

/// Tensors, and all their values in a row in the memory of the processor.
struct Bucket<'t> {
    tensors: &'t [Tensor],
    flat: Tensor,
}

impl<'t> Bucket<'t> {
    fn of(tensors: &'t [Tensor]) -> Self {
        let flat = match tensors {
            // In place, if it is in the memory of the processor already.
            [one] => one.view(-1).to_device(Device::Cpu),
            _ => {
                Tensor::cat(&tensors.iter().map(|tensor| tensor.view(-1)).collect::<Vec<_>>(), 0).to_device(Device::Cpu)
            }
        };
        Self { tensors, flat }
    }

    fn put_back(self) {
        let mut start = 0;
        for tensor in self.tensors {
            let count = i64::try_from(tensor.numel()).unwrap_or(i64::MAX);
            let values = self.flat.narrow(0, start, count);
            if values.data_ptr() != tensor.data_ptr() {
                tensor.view(-1).copy_(&values);
            }
            start += count;
        }
    }
}
