//! The group of ranks: connects them, gathers rows, hands bytes around.

use std::ffi::c_int;
use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use tch::{Device, Kind, Tensor};

use super::ffi::Gloo;
use super::store::{KeyStore, milliseconds};
use crate::error::{Error, Result};
use crate::stage::{Meeting, Ranks};

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
    local: usize,
    /// Nothing for one alone.
    pub(super) gloo: Option<Gloo>,
}

impl Group {
    /// A group of one.
    #[must_use]
    pub fn alone() -> Self {
        Self { rank: 0, ranks: 1, local: 0, gloo: None }
    }

    /// Connects to all other ranks. `proceed` is asked while they are waited for.
    ///
    /// # Errors
    /// Not all came while [`Meeting::patience`] lasted, or `proceed` fails.
    pub fn join(place: &Ranks, proceed: impl Fn() -> Result<()>) -> Result<Self> {
        let Ranks { rank, of: ranks, local, meeting } = place;
        let (rank, ranks, local) = (*rank, *ranks, *local);
        if ranks == 1 {
            return Ok(Self::alone());
        }
        let missing = || Error::internal(format!("rank {rank} of {ranks} knows no place to meet"));
        let Meeting { host, port, name, patience } = meeting.as_ref().ok_or_else(missing)?;
        let (number, of) = (c_int::try_from(rank), c_int::try_from(ranks));
        let (Ok(number), Ok(of)) = (number, of) else {
            return Err(Error::usage(format!("rank {rank} of {ranks}, wanted fewer")));
        };
        let met = || -> Result<Gloo> {
            let store = KeyStore::connect(host, *port, CONNECT)?;
            wait_for_all(&store, name, rank, ranks, *patience, &proceed)?;
            let address = own_address(host, *port)?;
            let mut gloo = Gloo::join(&store.store, name, &address, number, of, milliseconds(CONNECT))?;
            gloo.patience(milliseconds(*patience))?;
            Ok(gloo)
        };
        let gloo = met().map_err(|error| in_words("connect to the other ranks", error))?;
        Ok(Self { rank, ranks, local, gloo: Some(gloo) })
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

    /// The number of this rank on its machine.
    #[must_use]
    pub fn local(&self) -> usize {
        self.local
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
        let forms = self.shares(&[n, d, rows.kind() as i64])?;
        if let Some(other) = forms.iter().position(|form| form[1..] != forms[0][1..]) {
            let (first, form) = (&forms[0], &forms[other]);
            return Err(Error::stage(format!(
                "rank {other} has rows of width {} and type {}, rank 0 of width {} and type {}",
                form[1], form[2], first[1], first[2]
            )));
        }
        let most = forms.iter().map(|form| form[0]).max().unwrap_or(0);
        tch::no_grad(|| {
            if most == 0 || d == 0 {
                let all = forms.iter().map(|form| form[0]).sum();
                return Ok(Tensor::zeros([all, d], (rows.kind(), rows.device())));
            }
            let own = rows.to_device(Device::Cpu);
            let own = if n == most { own } else { own.constant_pad_nd([0, 0, 0, most - n]) };
            let ranks = i64::try_from(self.ranks).unwrap_or(i64::MAX);
            let all = Tensor::empty([ranks * most, d], (rows.kind(), Device::Cpu));
            gloo.all_gather(&own.contiguous(), &all).map_err(|error| in_words("gather rows", error))?;
            if forms.iter().all(|form| form[0] == most) {
                return Ok(all.to_device(rows.device()));
            }
            let shares: Vec<Tensor> =
                (0..ranks).zip(&forms).map(|(rank, form)| all.narrow(0, rank * most, form[0])).collect();
            Ok(Tensor::cat(&shares, 0).to_device(rows.device()))
        })
    }

    /// The bytes of rank 0, on all ranks; what others give is not looked at.
    ///
    /// # Errors
    /// A rank is gone, or rank 0 gives nothing.
    pub fn broadcast_bytes(&self, bytes: Option<&[u8]>) -> Result<Vec<u8>> {
        let nothing = || Error::internal("rank 0 has nothing to hand around");
        let Some(gloo) = &self.gloo else { return bytes.map(<[u8]>::to_vec).ok_or_else(nothing) };
        let own = if self.rank == 0 { bytes } else { None };
        let length = own.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        let header = Tensor::from_slice(&[length]);
        gloo.broadcast(&header, 0).map_err(|error| in_words("hand bytes around", error))?;
        let length = usize::try_from(header.int64_value(&[0])).map_err(|_| nothing())?;
        if length == 0 {
            return Ok(vec![]);
        }
        let content = match own {
            Some(bytes) => Tensor::from_slice(bytes),
            None => Tensor::zeros([header.int64_value(&[0])], (Kind::Uint8, Device::Cpu)),
        };
        gloo.broadcast(&content, 0).map_err(|error| in_words("hand bytes around", error))?;
        to_bytes(&content, length)
    }

    /// The bytes of every rank, in the order of ranks, on rank 0; nothing on others.
    ///
    /// Cost: as [`Group::all_gather`] of as many bytes; so for small messages.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn gather_bytes(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.gloo.is_none() {
            return Ok(vec![bytes.to_vec()]);
        }
        let lengths = self.shares(&[i64::try_from(bytes.len()).unwrap_or(i64::MAX)])?;
        let all = self.all_gather(&Tensor::from_slice(bytes).reshape([-1, 1]))?;
        if self.rank != 0 {
            return Ok(vec![]);
        }
        let mut start = 0;
        let mut shares = Vec::with_capacity(self.ranks);
        for length in lengths {
            let share = all.narrow(0, start, length[0]).contiguous();
            shares.push(to_bytes(&share, usize::try_from(length[0]).unwrap_or(0))?);
            start += length[0];
        }
        Ok(shares)
    }

    /// Comes back when all ranks have called it.
    ///
    /// # Errors
    /// A rank is gone.
    pub fn barrier(&self) -> Result<()> {
        if self.gloo.is_some() {
            self.shares(&[0])?;
        }
        Ok(())
    }

    /// A few numbers of every rank.
    fn shares(&self, own: &[i64]) -> Result<Vec<Vec<i64>>> {
        let Some(gloo) = &self.gloo else { return Ok(vec![own.to_vec()]) };
        let own = Tensor::from_slice(own);
        let ranks = i64::try_from(self.ranks).unwrap_or(i64::MAX);
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

fn to_bytes(content: &Tensor, length: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    if length > 0 {
        content.f_copy_data_u8(&mut bytes, length).map_err(|error| Error::internal(error.to_string()))?;
    }
    Ok(bytes)
}

/// Waits until every rank has said that it is here. gloo would wait as well, and could not be interrupted.
fn wait_for_all(
    store: &KeyStore,
    name: &str,
    rank: usize,
    ranks: usize,
    patience: Duration,
    proceed: &dyn Fn() -> Result<()>,
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
        proceed()?;
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
