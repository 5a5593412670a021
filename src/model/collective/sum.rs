//! All-reduce of tensors in buckets: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
//! Training", VLDB 2020.

use az::SaturatingAs;
use tch::{Device, Kind, Tensor};

use super::ffi::{GlooBackend, PendingSum};
use super::group::{CollectiveGroup, with_peer_context};
use pairloom_base::error::{Error, Result};

/// Size of a bucket in bytes, as in PyTorch: large enough to amortise the latency of messages, small enough to overlap
/// copying of one bucket with sending of another.
const BUCKET_BYTES: usize = 25 << 20;

impl CollectiveGroup {
    /// Replaces every tensor, in place, by its sum over all ranks, which is bitwise equal on all of them. The tensors
    /// must be contiguous and have the same sizes, in the same order, on all ranks.
    ///
    /// Small tensors are sent together, in buckets of 25 MiB. Tensors on GPUs are summed there if NCCL is used.
    ///
    /// # Errors
    /// A rank is lost or has other tensors, or a tensor is not contiguous.
    pub fn all_reduce_sum(&self, tensors: &[Tensor]) -> Result<()> {
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
        summed.map_err(|error| with_peer_context("sum over the ranks", error))
    }

    fn sum_over_nccl(&self, buckets: Vec<&[Tensor]>) -> Result<()> {
        // This exchange detects a lost rank at once; NCCL would wait for it.
        let sizes = self.all_gather_numbers(&[buckets.iter().map(|tensors| value_count(tensors)).sum()])?;
        if let Some(other) = sizes.iter().position(|size| *size != sizes[0]) {
            let (size, first) = (sizes[other][0], sizes[0][0]);
            return Err(Error::stage(format!("rank {other} sums {size} values, rank 0 {first}")));
        }
        let buckets: Vec<_> = buckets.into_iter().filter(|tensors| value_count(tensors) > 0).collect();
        let Some(nccl) = buckets.first().and_then(|tensors| self.nccl_for(&tensors[0])) else { return Ok(()) };
        let buckets: Vec<_> = buckets.into_iter().map(|tensors| GradientBucket::of(tensors, nccl.device())).collect();
        let flats: Vec<_> = buckets.iter().map(|bucket| bucket.flat.shallow_clone()).collect();
        nccl.all_reduce_sum(&flats)?;
        buckets.into_iter().for_each(GradientBucket::put_back);
        Ok(())
    }
}

fn sum_over_gloo(gloo: &GlooBackend, buckets: Vec<&[Tensor]>) -> Result<()> {
    let mut under_way: Vec<(GradientBucket<'_>, PendingSum)> = Vec::new();
    let mut begun = Ok(());
    for tensors in buckets {
        let bucket = GradientBucket::of(tensors, Device::Cpu);
        match gloo.start_sum(&bucket.flat) {
            Ok(work) => under_way.push((bucket, work)),
            Err(error) => {
                begun = Err(error);
                break;
            }
        }
    }
    // Also after an error, so that no operation is pending when the tensors are freed.
    for (bucket, work) in under_way {
        let done = gloo.wait(work);
        if begun.is_ok() && done.is_ok() {
            bucket.put_back();
        }
        begun = begun.and(done);
    }
    begun
}

/// Number of values of all tensors.
fn value_count(tensors: &[Tensor]) -> i64 {
    tensors.iter().map(|tensor| tensor.numel().saturating_as::<i64>()).sum()
}

/// Groups consecutive tensors of equal type and device into buckets. A tensor larger than a bucket is one of its own.
fn buckets(tensors: &[Tensor]) -> Vec<&[Tensor]> {
    let bytes = |tensor: &Tensor| tensor.numel() * tensor.kind().elt_size_in_bytes();
    let mut buckets = Vec::new();
    let (mut start, mut filled) = (0, 0);
    for (i, tensor) in tensors.iter().enumerate() {
        let same: (Kind, Device) = (tensors[start].kind(), tensors[start].device());
        if i > start && (filled + bytes(tensor) > BUCKET_BYTES || same != (tensor.kind(), tensor.device())) {
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

/// Tensors, and a flat copy of their values on the device that sums them.
struct GradientBucket<'t> {
    tensors: &'t [Tensor],
    flat: Tensor,
}

impl<'t> GradientBucket<'t> {
    fn of(tensors: &'t [Tensor], device: Device) -> Self {
        let flat = match tensors {
            // No copy, if the tensor is on that device already.
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
