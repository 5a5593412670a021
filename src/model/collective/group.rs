//! The group of ranks: connects them, and gathers rows.

use std::ffi::c_int;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use az::SaturatingAs;
use tch::{Device, Kind, Tensor};

use super::ffi::Gloo;
use super::nccl::{Communicator, Gpu, Messages, agree};
use super::store::{KeyStore, milliseconds};
use crate::error::{Error, Result};
use crate::runtime::{Cancel, Meeting, Ranks};

/// How long ranks that are all here may take to connect.
const CONNECT: Duration = Duration::from_mins(1);
/// Time between two looks at who is here.
const PAUSE: Duration = Duration::from_millis(20);

/// One rank of a group. All ranks make the same calls in the same order; each call waits for all of them. A group of one
/// does nothing.
///
/// An error of a call, such as that of a rank that is gone, ends the group: later calls fail as well.
#[derive(Debug)]
pub struct Group {
    rank: usize,
    ranks: usize,
    /// Nothing for one alone.
    pub(super) gloo: Option<Gloo>,
    /// Connects the GPUs; or why it does not.
    nccl: std::result::Result<Communicator, String>,
}

impl Group {
    /// A group of one.
    #[must_use]
    pub fn alone() -> Self {
        Self { rank: 0, ranks: 1, gloo: None, nccl: Err("there is one rank".to_owned()) }
    }

    /// Connects to all other ranks: over gloo, and by NCCL if each of them computes on a GPU of its own. `cancel` is
    /// asked while they are waited for, and later while NCCL works.
    ///
    /// # Errors
    /// Not all came while [`Meeting::patience`] lasted, or `cancel` is raised.
    pub fn join(place: &Ranks, device: Device, cancel: &Cancel) -> Result<Self> {
        Self::join_with(place, || Gpu::of(device), cancel)
    }

    /// [`Group::join`] with any GPU, or the reason why this rank has none.
    pub(super) fn join_with(
        place: &Ranks,
        gpu: impl FnOnce() -> std::result::Result<Gpu, String>,
        cancel: &Cancel,
    ) -> Result<Self> {
        let &Ranks { rank, of: ranks, ref meeting, .. } = place;
        if ranks == 1 {
            return Ok(Self::alone());
        }
        let missing = || Error::internal(format!("rank {rank} of {ranks} knows no place to meet"));
        let Meeting { host, port, name, patience } = meeting.as_ref().ok_or_else(missing)?;
        let (number, of) = (c_int::try_from(rank), c_int::try_from(ranks));
        let (Ok(number), Ok(of)) = (number, of) else {
            return Err(Error::usage(format!("rank {rank} of {ranks}, wanted fewer")));
        };
        let met = || -> Result<(Gloo, String)> {
            let store = KeyStore::connect(host, *port, CONNECT)?;
            wait_for_all(&store, name, rank, ranks, *patience, cancel)?;
            let address = own_address(host, *port)?;
            let mut gloo = Gloo::join(&store.store, name, &address, number, of, milliseconds(CONNECT))?;
            gloo.patience(milliseconds(*patience))?;
            Ok((gloo, address))
        };
        let doing = "connect to the other ranks";
        let (gloo, address) = met().map_err(|error| in_words(doing, error))?;
        let mut group = Self { rank, ranks, gloo: Some(gloo), nccl: Err("it is not tried yet".to_owned()) };
        let messages = Messages { rank, ranks, exchange: &|own| group.exchange(own) };
        let agreed = agree(&messages, gpu(), &address, *patience, cancel);
        group.nccl = agreed.map_err(|error| in_words(doing, error))?;
        Ok(group)
    }

    /// This rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// All ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Why tensors of GPUs pass through the memory of the processor, the same on all ranks; nothing if they do not, since
    /// NCCL connects the GPUs.
    #[must_use]
    pub fn why_not_nccl(&self) -> Option<&str> {
        self.nccl.as_ref().err().map(String::as_str)
    }

    /// The rows of all ranks, one below the other in the order of ranks: `[n_0 + n_1 + …, d]` of `[n_r, d]`. Ranks may have
    /// different numbers of rows, also none. The result is on the device of `rows`, and without gradient.
    ///
    /// Cost: every rank receives the largest share from each other, after a message of a few bytes.
    ///
    /// # Errors
    /// A rank is gone, or has rows of another width or type.
    pub fn all_gather(&self, rows: &Tensor) -> Result<Tensor> {
        let Some(gloo) = &self.gloo else { return Ok(rows.shallow_clone()) };
        let &[n, d] = rows.size().as_slice() else {
            return Err(Error::internal(format!("a tensor of size {:?}, wanted [n, d]", rows.size())));
        };
        let nccl = self.nccl_for(rows);
        let forms = self.shares(&[n, d, rows.kind() as i64, i64::from(nccl.is_some())])?;
        if let Some(other) = forms.iter().position(|form| form[1..] != forms[0][1..]) {
            let words = |form: &[i64]| {
                let place = if form[3] == 1 { ", on a GPU" } else { "" };
                format!("width {} and type {}{place}", form[1], form[2])
            };
            let (first, form) = (words(&forms[0]), words(&forms[other]));
            return Err(Error::stage(format!("rank {other} has rows of {form}, rank 0 of {first}")));
        }
        let most = forms.iter().map(|form| form[0]).max().unwrap_or(0);
        tch::no_grad(|| {
            if most == 0 || d == 0 {
                let all = forms.iter().map(|form| form[0]).sum();
                return Ok(Tensor::zeros([all, d], (rows.kind(), rows.device())));
            }
            let via = nccl.map_or(Device::Cpu, Communicator::device);
            let own = rows.to_device(via);
            let own = if n == most { own } else { own.constant_pad_nd([0, 0, 0, most - n]) };
            let ranks = self.ranks.saturating_as::<i64>();
            let own = own.contiguous();
            let all = Tensor::empty([ranks * most, d], (rows.kind(), via));
            let gathered = match nccl {
                Some(nccl) => nccl.all_gather(&own, &all),
                None => gloo.all_gather(&own, &all),
            };
            gathered.map_err(|error| in_words("gather rows", error))?;
            if forms.iter().all(|form| form[0] == most) {
                return Ok(all.to_device(rows.device()));
            }
            let shares: Vec<Tensor> =
                (0..ranks).zip(&forms).map(|(rank, form)| all.narrow(0, rank * most, form[0])).collect();
            Ok(Tensor::cat(&shares, 0).to_device(rows.device()))
        })
    }

    /// The bytes of every rank, in the order of ranks. For small messages: all are padded to the longest.
    ///
    /// # Errors
    /// A rank is gone.
    pub(super) fn exchange(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let lengths = self.shares(&[own.len().saturating_as::<i64>()])?;
        let all = self.all_gather(&Tensor::from_slice(own).reshape([-1, 1]))?;
        let lengths: Vec<i64> = lengths.into_iter().flatten().collect();
        let texts = all.view(-1).split_with_sizes(&lengths, 0);
        let bytes = |text: Tensor| Vec::<u8>::try_from(text).map_err(|error| Error::internal(error.to_string()));
        texts.into_iter().map(bytes).collect()
    }

    /// NCCL, if it connects the ranks and takes such a tensor.
    pub(super) fn nccl_for(&self, tensor: &Tensor) -> Option<&Communicator> {
        self.nccl.as_ref().ok().filter(|nccl| nccl.takes(tensor))
    }

    /// A few numbers of every rank.
    pub(super) fn shares(&self, own: &[i64]) -> Result<Vec<Vec<i64>>> {
        let Some(gloo) = &self.gloo else { return Ok(vec![own.to_vec()]) };
        let own = Tensor::from_slice(own);
        let ranks = self.ranks.saturating_as::<i64>();
        let all = Tensor::zeros([ranks * own.size()[0]], (Kind::Int64, Device::Cpu));
        gloo.all_gather(&own, &all).map_err(|error| in_words("exchange sizes", error))?;
        let all = Vec::<i64>::try_from(&all).map_err(|error| Error::internal(error.to_string()))?;
        Ok(all.chunks(own.numel()).map(<[i64]>::to_vec).collect())
    }
}

/// Says what could not be done; the kind of the error stays.
pub(super) fn in_words(doing: &str, error: Error) -> Error {
    if error.is_peer() { error.context(format!("cannot {doing}")) } else { error }
}

/// Waits until every rank has said that it is here. gloo would wait as well, and could not be interrupted.
fn wait_for_all(
    store: &KeyStore,
    name: &str,
    rank: usize,
    ranks: usize,
    patience: Duration,
    cancel: &Cancel,
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
        if waited >= patience {
            let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(Error::peer(format!("after {} s there is no rank {missing}", patience.as_secs())));
        }
        cancel.proceed()?;
        std::thread::sleep(PAUSE);
        waited += PAUSE;
    }
}

/// The address of this machine through which `host` is reached, at which to listen for other ranks.
fn own_address(host: &str, port: u16) -> Result<String> {
    let towards = |own: IpAddr| -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((own, 0))?;
        // Sends nothing: it asks the system for the way.
        socket.connect((host, port))?;
        Ok(socket.local_addr()?.ip())
    };
    let own = towards([0, 0, 0, 0].into()).or_else(|_| towards([0; 16].into()));
    let own = own.map_err(|error| Error::stage(format!("there is no way to `{host}`: {error}")))?;
    Ok(own.to_string())
}
