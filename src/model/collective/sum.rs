//! Adds up tensors over all ranks, in buckets: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
//! Training", VLDB 2020.

use az::SaturatingAs;
use tch::{Device, Kind, Tensor};

use super::ffi::{Gloo, Work};
use super::group::{Group, in_words};
use crate::error::{Error, Result};

/// Bytes of a bucket, as many as PyTorch's: large enough that messages cost little, small enough that copying one runs
/// beside sending another.
const BUCKET: usize = 25 << 20;

impl Group {
    /// Replaces every tensor, in place, by its sum over all ranks, which has the same bits on all of them. Tensors have the
    /// same sizes, in the same order, on all ranks; each is contiguous.
    ///
    /// Small tensors are sent together, in buckets of 25 MiB. What is on a GPU stays there if NCCL connects the GPUs.
    ///
    /// # Errors
    /// A rank is gone, has other tensors, or a tensor is not contiguous.
    pub fn sum(&self, tensors: &[Tensor]) -> Result<()> {
        let Some(gloo) = &self.gloo else { return Ok(()) };
        if let Some(tensor) = tensors.iter().find(|tensor| !tensor.is_contiguous()) {
            return Err(Error::internal(format!("a tensor of size {:?} is not contiguous", tensor.size())));
        }
        let (on_gpus, elsewhere): (Vec<_>, Vec<_>) =
            buckets(tensors).into_iter().partition(|tensors| self.nccl_for(&tensors[0]).is_some());
        let summed = tch::no_grad(|| {
            sum_over_gloo(gloo, elsewhere)?;
            if on_gpus.is_empty() { Ok(()) } else { self.sum_over_nccl(on_gpus) }
        });
        summed.map_err(|error| in_words("add up over the ranks", error))
    }

    fn sum_over_nccl(&self, buckets: Vec<&[Tensor]>) -> Result<()> {
        // A rank that is gone is seen at once here; NCCL would wait for it.
        let sizes = self.shares(&[buckets.iter().map(|tensors| values(tensors)).sum()])?;
        if let Some(other) = sizes.iter().position(|size| *size != sizes[0]) {
            let (size, first) = (sizes[other][0], sizes[0][0]);
            return Err(Error::stage(format!("rank {other} adds up {size} values, rank 0 {first}")));
        }
        let buckets: Vec<_> = buckets.into_iter().filter(|tensors| values(tensors) > 0).collect();
        let Some(nccl) = buckets.first().and_then(|tensors| self.nccl_for(&tensors[0])) else { return Ok(()) };
        let buckets: Vec<_> = buckets.into_iter().map(|tensors| Bucket::of(tensors, nccl.device())).collect();
        let flats: Vec<_> = buckets.iter().map(|bucket| bucket.flat.shallow_clone()).collect();
        nccl.sum(&flats)?;
        buckets.into_iter().for_each(Bucket::put_back);
        Ok(())
    }
}

fn sum_over_gloo(gloo: &Gloo, buckets: Vec<&[Tensor]>) -> Result<()> {
    let mut under_way: Vec<(Bucket<'_>, Work)> = Vec::new();
    let mut begun = Ok(());
    for tensors in buckets {
        let bucket = Bucket::of(tensors, Device::Cpu);
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
    begun
}

/// Values of all of these.
fn values(tensors: &[Tensor]) -> i64 {
    tensors.iter().map(|tensor| tensor.numel().saturating_as::<i64>()).sum()
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

/// Tensors, and all their values in a row on the device that adds them up.
struct Bucket<'t> {
    tensors: &'t [Tensor],
    flat: Tensor,
}

impl<'t> Bucket<'t> {
    fn of(tensors: &'t [Tensor], device: Device) -> Self {
        let flat = match tensors {
            // In place, if it is there already.
            [one] => one.view(-1),
            _ => Tensor::cat(&tensors.iter().map(|tensor| tensor.view(-1)).collect::<Vec<_>>(), 0),
        };
        Self { tensors, flat: flat.to_device(device) }
    }

    fn put_back(self) {
        let mut start = 0;
        for tensor in self.tensors {
            let count = tensor.numel().saturating_as::<i64>();
            let values = self.flat.narrow(0, start, count);
            if values.data_ptr() != tensor.data_ptr() {
                tensor.view(-1).copy_(&values);
            }
            start += count;
        }
    }
}
