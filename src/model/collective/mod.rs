//! Collective operations of processes that train together: gathering rows and summing gradients.
//!
//! They use c10d, the collectives of libtorch: `TCPStore`, a key-value store through which ranks find each other, and
//! gloo, which connects every rank with every other. tch does not expose them, so `shim.cpp` wraps them in C functions.
//! `gloo/` declares the parts of gloo's headers that c10d's headers need and libtorch does not ship.
//!
//! If each rank computes on a GPU of its own, NCCL connects the GPUs directly (`nccl/`), and gloo only exchanges sizes
//! and detects lost ranks. Otherwise tensors of GPUs are copied through CPU memory.
//!
//! Ranks with a token (`RankSecret`) refuse processes without it; connections are not encrypted. Without a token, as with
//! `torchrun`, every process that reaches a port can disturb a training.
//! Ports are opened only at the address of this machine through which the store is reached, so at `127.0.0.1` if all
//! ranks are on one machine.

use std::ffi::c_int;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use az::SaturatingAs;
use tch::{Device, Kind, Tensor};

use self::ffi::{GlooBackend, PendingSum};
use self::nccl::{Communicator, Gpu, RankExchange, negotiate};
use self::store::{RankSecret, milliseconds};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{CancelToken, ProcessGroup, Rendezvous};

pub use store::TcpStore;

mod ffi;
mod store;
mod nccl;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;

/// Timeout for connecting, once all ranks have arrived.
const CONNECT_TIMEOUT: Duration = Duration::from_mins(1);
/// Time between two checks whether all ranks have arrived.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A rank in a group of connected ranks. All ranks must call the same operations in the same order; each operation
/// waits for all of them. In a group of one rank, operations do nothing.
///
/// After an error, such as a lost rank, all later operations fail too.
#[derive(Debug)]
pub struct CollectiveGroup {
    rank: usize,
    world_size: usize,
    /// Connections to the other ranks; `None` in a group of one.
    gloo: Option<GlooBackend>,
    /// Connection between the GPUs, or the reason why there is none.
    nccl: std::result::Result<Communicator, String>,
}

impl CollectiveGroup {
    /// A group of one.
    #[must_use]
    pub fn single() -> Self {
        Self { rank: 0, world_size: 1, gloo: None, nccl: Err("there is only one rank".to_owned()) }
    }

    /// Connects to all other ranks: over gloo, and by NCCL if each rank computes on a GPU of its own. `cancel` is
    /// checked while this waits for ranks, and later in operations of NCCL.
    ///
    /// # Errors
    /// A rank did not arrive within [`Rendezvous::timeout`], or `cancel` is cancelled.
    pub fn join(process_group: &ProcessGroup, device: Device, cancel: &CancelToken) -> Result<Self> {
        Self::join_with(process_group, || Gpu::of(device), cancel)
    }

    /// Same as [`CollectiveGroup::join`], with the GPU of this rank, or the reason why it has none.
    pub(super) fn join_with(
        process_group: &ProcessGroup,
        gpu: impl FnOnce() -> std::result::Result<Gpu, String>,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let &ProcessGroup { rank, world_size, ref rendezvous, .. } = process_group;
        if world_size == 1 {
            return Ok(Self::single());
        }
        let missing = || Error::internal(format!("rank {rank} of {world_size} has no rendezvous"));
        let Rendezvous { host, port, prefix, timeout, token, nccl_host_id } =
            rendezvous.as_ref().ok_or_else(missing)?;
        let (c_rank, c_world_size) = (c_int::try_from(rank), c_int::try_from(world_size));
        let (Ok(c_rank), Ok(c_world_size)) = (c_rank, c_world_size) else {
            return Err(Error::usage(format!("rank {rank} of {world_size}, expected fewer")));
        };
        let secret = token.as_deref().map(RankSecret::of);
        let connect = || -> Result<(GlooBackend, String)> {
            let store = TcpStore::connect(host, *port, CONNECT_TIMEOUT)?;
            wait_for_arrivals(&store, prefix, rank, world_size, *timeout, cancel)?;
            let address = local_address(host, *port)?;
            let timeout_ms = milliseconds(CONNECT_TIMEOUT);
            let secret = secret.as_ref();
            let mut gloo = GlooBackend::join(&store.store, prefix, &address, c_rank, c_world_size, timeout_ms, secret)?;
            gloo.set_timeout(milliseconds(*timeout))?;
            Ok((gloo, address))
        };
        let operation = "connect to the other ranks";
        let (gloo, address) = connect().map_err(|error| with_peer_context(operation, error))?;
        let mut group = Self { rank, world_size, gloo: Some(gloo), nccl: Err("it was not tried yet".to_owned()) };
        if let Some(secret) = &secret {
            let checked = secret.check(rank, |own| group.all_gather_bytes(own));
            checked.map_err(|error| with_peer_context(operation, error))?;
        }
        let messages = RankExchange { rank, world_size, exchange: &|own| group.all_gather_bytes(own) };
        let machine = nccl_host_id.as_ref().unwrap_or(&address);
        let agreed = negotiate(&messages, gpu(), machine, *timeout, cancel);
        group.nccl = agreed.map_err(|error| with_peer_context(operation, error))?;
        Ok(group)
    }

    /// Rank of this process.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks.
    #[must_use]
    pub fn world_size(&self) -> usize {
        self.world_size
    }

    /// Reason why NCCL is not used, the same on all ranks; `None` if it is. Without NCCL, tensors of GPUs are copied
    /// through CPU memory.
    #[must_use]
    pub fn nccl_unavailable_reason(&self) -> Option<&str> {
        self.nccl.as_ref().err().map(String::as_str)
    }

    /// Concatenates the rows of all ranks in the order of ranks: `[n_r, d]` on rank r gives `[n_0 + n_1 + …, d]`. Ranks
    /// may have different numbers of rows, also 0. The result is on the device of `rows` and has no gradient.
    ///
    /// Cost: every rank receives as many rows from each other rank as the largest share has, after a message of a few
    /// bytes.
    ///
    /// # Errors
    /// A rank is lost, or has rows of another width or type.
    pub fn all_gather(&self, rows: &Tensor) -> Result<Tensor> {
        let Some(gloo) = &self.gloo else { return Ok(rows.shallow_clone()) };
        let &[n, d] = rows.size().as_slice() else {
            return Err(Error::internal(format!("a tensor of size {:?}, expected [n, d]", rows.size())));
        };
        let nccl = self.nccl_for(rows);
        let shapes = self.all_gather_numbers(&[n, d, rows.kind() as i64, i64::from(nccl.is_some())])?;
        if let Some(other) = shapes.iter().position(|shape| shape[1..] != shapes[0][1..]) {
            let describe = |shape: &[i64]| {
                let device = if shape[3] == 1 { ", on a GPU" } else { "" };
                format!("width {} and type {}{device}", shape[1], shape[2])
            };
            let (first, shape) = (describe(&shapes[0]), describe(&shapes[other]));
            return Err(Error::stage(format!("rank {other} has rows of {shape}, rank 0 of {first}")));
        }
        let max_rows = shapes.iter().map(|shape| shape[0]).max().unwrap_or(0);
        tch::no_grad(|| {
            if max_rows == 0 || d == 0 {
                let all = shapes.iter().map(|shape| shape[0]).sum();
                return Ok(Tensor::zeros([all, d], (rows.kind(), rows.device())));
            }
            let via = nccl.map_or(Device::Cpu, Communicator::device);
            let own = rows.to_device(via);
            let own = if n == max_rows { own } else { own.constant_pad_nd([0, 0, 0, max_rows - n]) };
            let ranks = self.world_size.saturating_as::<i64>();
            let own = own.contiguous();
            let all = Tensor::empty([ranks * max_rows, d], (rows.kind(), via));
            let gathered = match nccl {
                Some(nccl) => nccl.all_gather(&own, &all),
                None => gloo.all_gather(&own, &all),
            };
            gathered.map_err(|error| with_peer_context("gather rows", error))?;
            if shapes.iter().all(|shape| shape[0] == max_rows) {
                return Ok(all.to_device(rows.device()));
            }
            let shares: Vec<Tensor> =
                (0..ranks).zip(&shapes).map(|(rank, shape)| all.narrow(0, rank * max_rows, shape[0])).collect();
            Ok(Tensor::cat(&shares, 0).to_device(rows.device()))
        })
    }

    /// As [`CollectiveGroup::all_gather`], of rows of `width` values in CPU memory.
    pub fn all_gather_values(&self, rows: Vec<f32>, width: usize) -> Result<Vec<f32>> {
        if self.gloo.is_none() {
            return Ok(rows);
        }
        let shape = [rows.len() / width.max(1), width].map(SaturatingAs::saturating_as::<i64>);
        let all = self.all_gather(&Tensor::from_slice(&rows).view(shape))?;
        Vec::<f32>::try_from(all.view(-1)).map_err(|error| Error::internal(error.to_string()))
    }

    /// Gathers bytes of every rank, in the order of ranks. For small messages, since all are padded to the longest.
    ///
    /// # Errors
    /// A rank is lost.
    pub(super) fn all_gather_bytes(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.all_gather_numbers(&[own.len().saturating_as::<i64>()])?;
        let all = self.all_gather(&Tensor::from_slice(own).reshape([-1, 1]))?;
        let lengths: Vec<i64> = lengths.into_iter().flatten().collect();
        let chunks = all.view(-1).split_with_sizes(&lengths, 0);
        let bytes = |chunk: Tensor| Vec::<u8>::try_from(chunk).map_err(|error| Error::internal(error.to_string()));
        chunks.into_iter().map(bytes).collect()
    }

    /// NCCL communicator, if there is one and it supports this tensor.
    fn nccl_for(&self, tensor: &Tensor) -> Option<&Communicator> {
        self.nccl.as_ref().ok().filter(|nccl| nccl.supports(tensor))
    }

    /// Gathers a few numbers of every rank; all ranks give equally many.
    pub(super) fn all_gather_numbers(&self, own: &[i64]) -> Result<Vec<Vec<i64>>> {
        let Some(gloo) = &self.gloo else { return Ok(vec![own.to_vec()]) };
        let own = Tensor::from_slice(own);
        let ranks = self.world_size.saturating_as::<i64>();
        let all = Tensor::zeros([ranks * own.size()[0]], (Kind::Int64, Device::Cpu));
        gloo.all_gather(&own, &all).map_err(|error| with_peer_context("exchange sizes", error))?;
        let all = Vec::<i64>::try_from(&all).map_err(|error| Error::internal(error.to_string()))?;
        Ok(all.chunks(own.numel()).map(<[i64]>::to_vec).collect())
    }
}

/// Adds the failed operation to an error that another rank caused. Other errors stay as they are.
pub(super) fn with_peer_context(operation: &str, error: Error) -> Error {
    if error.is_peer() { error.context(format!("cannot {operation}")) } else { error }
}

/// Waits until every rank has arrived. gloo would wait too, but cannot be interrupted.
fn wait_for_arrivals(
    store: &TcpStore,
    name: &str,
    rank: usize,
    ranks: usize,
    timeout: Duration,
    cancel: &CancelToken,
) -> Result<()> {
    store.set(&format!("{name}/here/{rank}"), &[])?;
    let mut waited = Duration::ZERO;
    let mut missing: Vec<usize> = (0..ranks).collect();
    loop {
        let mut still = Vec::new();
        for rank in missing {
            if store.get(&format!("{name}/here/{rank}"))?.is_none() {
                still.push(rank);
            }
        }
        missing = still;
        if missing.is_empty() {
            return Ok(());
        }
        if waited >= timeout {
            let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::peer(format!("no connection from rank {missing} after {} s", timeout.as_secs())));
        }
        cancel.check()?;
        std::thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
}

/// Address of the network interface through which `host` is reached. This process listens there for other ranks.
fn local_address(host: &str, port: u16) -> Result<String> {
    let towards = |own: IpAddr| -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((own, 0))?;
        // Sends nothing: the system only chooses the route.
        socket.connect((host, port))?;
        Ok(socket.local_addr()?.ip())
    };
    let own = towards([0, 0, 0, 0].into()).or_else(|_| towards([0; 16].into()));
    let own = own.map_err(|error| Error::stage(format!("no route to `{host}`: {error}")))?;
    Ok(own.to_string())
}

// All-reduce of tensors in buckets: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
// Training", VLDB 2020.

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
