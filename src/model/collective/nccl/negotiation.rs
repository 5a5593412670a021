//! Negotiation between the ranks whether they use NCCL. All of them reach the same decision.

use std::collections::HashMap;
use std::ffi::c_int;
use std::time::Duration;

use az::SaturatingAs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::communicator::{Communicator, refusal_unless_interrupted};
use super::gpu::Gpu;
use super::library::UniqueId;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;

/// Function that sends bytes of this rank and returns those of every rank, in the order of ranks.
pub type AllGatherBytes<'m> = &'m dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>>;

/// Message exchange between the negotiating ranks.
pub struct RankExchange<'m> {
    /// Rank of this process.
    pub rank: usize,
    /// Number of ranks.
    pub world_size: usize,
    pub exchange: AllGatherBytes<'m>,
}

/// NCCL version and GPU of a rank.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NcclOffer {
    version: c_int,
    /// Address of the machine, or its `NCCL_HOSTID`.
    machine: String,
    /// PCI bus id of the GPU.
    bus: String,
}

/// Connects the GPUs of all ranks, or returns the reason why that is not possible; the same on all ranks. `own` is the
/// GPU of this rank, and `machine` the address of its machine, or its `NCCL_HOSTID`.
///
/// # Errors
/// A rank is lost or silent, or `cancel` is cancelled.
pub fn negotiate(
    messages: &RankExchange<'_>,
    own: Result<Gpu, String>,
    machine: &str,
    timeout: Duration,
    cancel: &CancelToken,
) -> Result<Result<Communicator, String>> {
    let own = own.and_then(|gpu| Ok((gpu, offer(gpu, machine)?)));
    let (gpu, own) = match own {
        Ok((gpu, own)) => (Ok(gpu), Ok(own)),
        Err(reason) => (Err(reason.clone()), Err(reason)),
    };
    let offers = exchange_results(messages, &own)?.and_then(|offers| find_obstacle(&offers).map_or(Ok(()), Err));
    let gpu = match offers.and(gpu) {
        Ok(gpu) => gpu,
        Err(reason) => return Ok(Err(reason)),
    };
    // Only the id of rank 0 is used.
    let id = if messages.rank == 0 { gpu.library.unique_id().map(|id| id.to_vec()) } else { Ok(vec![]) };
    let ids = match exchange_results(messages, &id)? {
        Ok(ids) => ids,
        Err(reason) => return Ok(Err(reason)),
    };
    let Ok(id) = UniqueId::try_from(ids[0].as_slice()) else {
        return Err(Error::internal(format!("an id of {} bytes, wanted 128", ids[0].len())));
    };
    // Shorter than the timeout of gloo, with which other ranks wait for this one.
    let short_timeout = timeout / 2;
    let connected = Communicator::connect(gpu, id, messages.rank, messages.world_size, short_timeout, cancel)?;
    let mut result = exchange_results(messages, &connected.as_ref().map(|_| ()).map_err(Clone::clone))?;
    if let (Ok(_), Ok(connected)) = (&result, &connected) {
        result = exchange_results(messages, &run_trial(connected, messages)?)?;
    }
    if result.is_err() {
        connected.iter().for_each(Communicator::abort);
    }
    Ok(result.and(connected).map(|connected| connected.with_timeout(timeout)))
}

fn offer(gpu: Gpu, machine: &str) -> Result<NcclOffer, String> {
    let (version, bus) = (gpu.library.version()?, gpu.library.bus_id(gpu.number)?);
    Ok(NcclOffer { version, machine: machine.to_owned(), bus })
}

/// Reason why NCCL cannot connect these ranks, if there is one.
fn find_obstacle(offers: &[NcclOffer]) -> Option<String> {
    let mut taken = HashMap::new();
    for (rank, NcclOffer { version, machine, bus }) in offers.iter().enumerate() {
        if *version != offers[0].version {
            return Some(format!("rank 0 has NCCL {}, and rank {rank} has {version}", offers[0].version));
        }
        if let Some(other) = taken.insert((machine, bus), rank) {
            return Some(format!("ranks {other} and {rank} share the GPU at {bus}, and NCCL requires one for each"));
        }
    }
    None
}

/// Runs the first operations of a communicator, which open the connections between GPUs, and checks their results.
fn run_trial(nccl: &Communicator, messages: &RankExchange<'_>) -> Result<Result<(), String>> {
    let ranks = messages.world_size.saturating_as::<i64>();
    let rank = messages.rank.saturating_as::<i64>();
    let options = (Kind::Int64, nccl.device());
    let (own, all) = (Tensor::full([3], rank + 1, options), Tensor::zeros([ranks * 3], options));
    if let Err(reason) = refusal_unless_interrupted(
        nccl.all_gather(&own, &all).and_then(|()| nccl.all_reduce_sum(std::slice::from_ref(&own))),
    )? {
        return Ok(Err(reason));
    }
    let wanted: Vec<i64> = (1..=ranks).flat_map(|number| [number; 3]).chain([ranks * (ranks + 1) / 2; 3]).collect();
    let got = Vec::<i64>::try_from(Tensor::cat(&[all, own], 0)).unwrap_or_default();
    Ok(if got == wanted { Ok(()) } else { Err(format!("a trial gave {got:?}, wanted {wanted:?}")) })
}

/// Exchanges results between the ranks. Returns the values of all ranks in their order, or the reason of the first rank
/// that has none.
fn exchange_results<T: Serialize + DeserializeOwned>(
    messages: &RankExchange<'_>,
    own: &Result<T, String>,
) -> Result<Result<Vec<T>, String>> {
    let own = serde_json::to_vec(own).map_err(|error| Error::internal(error.to_string()))?;
    let mut all = Vec::with_capacity(messages.world_size);
    for (rank, answer) in (messages.exchange)(&own)?.into_iter().enumerate() {
        let answer: Result<T, String> = serde_json::from_slice(&answer).map_err(|error| {
            Error::stage(format!("rank {} cannot parse the message of rank {rank}: {error}", messages.rank))
        })?;
        match answer {
            Ok(answer) => all.push(answer),
            Err(reason) => return Ok(Err(format!("rank {rank}: {reason}"))),
        }
    }
    Ok(Ok(all))
}
