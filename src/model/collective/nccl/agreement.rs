//! Whether all ranks use NCCL: each says what it brings, and all come to the same answer.

use std::collections::HashMap;
use std::ffi::c_int;
use std::time::Duration;

use az::SaturatingAs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::communicator::{Communicator, told};
use super::gpu::Gpu;
use super::library::UniqueId;
use crate::error::{Error, Result};
use crate::runtime::Cancel;

/// Gives the bytes of every rank, in the order of ranks, for the bytes of this one.
pub type Exchange<'m> = &'m dyn Fn(&[u8]) -> Result<Vec<Vec<u8>>>;

/// Messages between the ranks that are to agree.
pub struct Messages<'m> {
    /// This rank, and how many there are.
    pub rank: usize,
    pub ranks: usize,
    pub exchange: Exchange<'m>,
}

/// What a rank brings.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Offer {
    version: c_int,
    /// The address of the machine.
    machine: String,
    /// Where the GPU is on the bus of the machine.
    bus: String,
}

/// Connects the GPUs of all ranks, or says why not: the same on all ranks. `own` is that of this one, and `machine` the
/// address of its machine.
///
/// # Errors
/// A rank is gone or silent, or `cancel` is raised.
pub fn agree(
    messages: &Messages<'_>,
    own: Result<Gpu, String>,
    machine: &str,
    patience: Duration,
    cancel: &Cancel,
) -> Result<Result<Communicator, String>> {
    let own = own.and_then(|gpu| Ok((gpu, offer(gpu, machine)?)));
    let (gpu, own) = match own {
        Ok((gpu, own)) => (Ok(gpu), Ok(own)),
        Err(why) => (Err(why.clone()), Err(why)),
    };
    let offers = exchange(messages, &own)?.and_then(|offers| obstacle(&offers).map_or(Ok(()), Err));
    let gpu = match offers.and(gpu) {
        Ok(gpu) => gpu,
        Err(why) => return Ok(Err(why)),
    };
    // Only that of rank 0 is used.
    let id = if messages.rank == 0 { gpu.library.unique_id().map(|id| id.to_vec()) } else { Ok(vec![]) };
    let ids = match exchange(messages, &id)? {
        Ok(ids) => ids,
        Err(why) => return Ok(Err(why)),
    };
    let Ok(id) = UniqueId::try_from(ids[0].as_slice()) else {
        return Err(Error::internal(format!("an id of {} bytes, wanted 128", ids[0].len())));
    };
    // Shorter than what gloo waits for a rank that waits here.
    let short = patience / 2;
    let connected = Communicator::connect(gpu, id, (messages.rank, messages.ranks), short, cancel)?;
    let mut agreed = exchange(messages, &connected.as_ref().map(|_| ()).map_err(Clone::clone))?;
    if let (Ok(_), Ok(connected)) = (&agreed, &connected) {
        agreed = exchange(messages, &trial(connected, messages)?)?;
    }
    if agreed.is_err() {
        connected.iter().for_each(Communicator::abandon);
    }
    Ok(agreed.and(connected).map(|connected| connected.with_patience(patience)))
}

fn offer(gpu: Gpu, machine: &str) -> Result<Offer, String> {
    let (version, bus) = (gpu.library.version()?, gpu.library.bus_id(gpu.number)?);
    Ok(Offer { version, machine: machine.to_owned(), bus })
}

/// Why these ranks cannot be connected by NCCL.
fn obstacle(offers: &[Offer]) -> Option<String> {
    let mut taken = HashMap::new();
    for (rank, Offer { version, machine, bus }) in offers.iter().enumerate() {
        if *version != offers[0].version {
            return Some(format!("rank 0 has NCCL {}, and rank {rank} has {version}", offers[0].version));
        }
        if let Some(other) = taken.insert((machine, bus), rank) {
            return Some(format!("ranks {other} and {rank} share the GPU at {bus}, and NCCL wants one for each"));
        }
    }
    None
}

/// Uses a communicator for the first time: its ways between GPUs are opened, and the results must be right.
fn trial(nccl: &Communicator, messages: &Messages<'_>) -> Result<Result<(), String>> {
    let ranks = messages.ranks.saturating_as::<i64>();
    let rank = messages.rank.saturating_as::<i64>();
    let options = (Kind::Int64, nccl.device());
    let (own, all) = (Tensor::full([3], rank + 1, options), Tensor::zeros([ranks * 3], options));
    if let Err(why) = told(nccl.all_gather(&own, &all).and_then(|()| nccl.sum(std::slice::from_ref(&own))))? {
        return Ok(Err(why));
    }
    let wanted: Vec<i64> = (1..=ranks).flat_map(|number| [number; 3]).chain([ranks * (ranks + 1) / 2; 3]).collect();
    let got = Vec::<i64>::try_from(Tensor::cat(&[all, own], 0)).unwrap_or_default();
    Ok(if got == wanted { Ok(()) } else { Err(format!("a trial gave {got:?}, wanted {wanted:?}")) })
}

/// What all ranks say, in their order; or the reason of the first that refuses.
fn exchange<T: Serialize + DeserializeOwned>(
    messages: &Messages<'_>,
    own: &Result<T, String>,
) -> Result<Result<Vec<T>, String>> {
    let own = serde_json::to_vec(own).map_err(|error| Error::internal(error.to_string()))?;
    let mut all = Vec::with_capacity(messages.ranks);
    for (rank, said) in (messages.exchange)(&own)?.into_iter().enumerate() {
        let said: Result<T, String> = serde_json::from_slice(&said).map_err(|error| {
            Error::stage(format!("rank {rank} says what rank {} does not know: {error}", messages.rank))
        })?;
        match said {
            Ok(said) => all.push(said),
            Err(why) => return Ok(Err(format!("rank {rank}: {why}"))),
        }
    }
    Ok(Ok(all))
}
