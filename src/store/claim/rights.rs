//! The rights of a run: to build an artefact, to use the store, to remove from it.

use std::fs::File;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::runtime::Cancel;
use crate::store::claim::lease::{Lease, Taken, Watch, is_held};
use crate::store::claimant::token;
use crate::store::lock;
use crate::store::{Artefact, HOLDS, Store};

/// Pause between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(50);
/// Pause between two looks at an object of somebody else.
const LOOK: Duration = Duration::from_secs(2);
/// The object of who removes artefacts.
const REMOVAL: &str = "removal";

/// The right to build an artefact, given back on drop.
#[derive(Debug)]
pub struct Claim(Right);

/// The right to use a store, or to remove from it, given back on drop.
#[derive(Debug)]
pub struct Hold {
    _right: Right,
}

#[derive(Debug)]
enum Right {
    Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File),
    Lease(Box<Lease>),
}

impl Claim {
    /// Publishes an object of the artefact, in place of one that an earlier run left.
    ///
    /// At a URL it is created; where there is one already, and only as long as the claim holds, it is replaced if it is
    /// still the one that was seen. What a successor has written since stays as it is.
    ///
    /// # Errors
    /// The store cannot be written; somebody else builds the artefact.
    pub fn publish(&self, artefact: &Artefact, name: &str, content: Bytes) -> Result<()> {
        let Right::Lease(lease) = &self.0 else { return artefact.put(name, content) };
        lease.check()?;
        if artefact.create(name, content.clone())? {
            return Ok(());
        }
        let seen = artefact.version(name)?;
        // After the look and before the write: what was seen is older than any successor.
        lease.renew()?;
        let wrote = match seen {
            Some(seen) => artefact.replace(name, content, &seen)?,
            None => artefact.create(name, content)?,
        };
        if wrote { Ok(()) } else { Err(rival(artefact)) }
    }

    /// Publishes what completes the artefact.
    ///
    /// # Errors
    /// As [`Claim::publish`].
    pub fn complete(&self, artefact: &Artefact, name: &str, content: Bytes) -> Result<()> {
        if let Right::Lease(lease) = &self.0 {
            lease.renew()?;
        }
        self.publish(artefact, name, content)
    }
}

/// The error of two processes that build one artefact.
pub(crate) fn rival(artefact: &Artefact) -> Error {
    Error::stage(format!("another process builds `{}` too", artefact.place("")))
        .hint("wait for it to end, then run the same command again")
}

/// Waits until no other process builds the artefact; calls `waiting` once if it has to wait.
///
/// # Errors
/// The store cannot be written, or the run was cancelled.
pub fn claim(store: &Store, artefact: &Artefact, cancel: &Cancel, waiting: impl FnOnce()) -> Result<Claim> {
    let mut waiting = Some(waiting);
    let mut watch = Watch::default();
    loop {
        cancel.proceed()?;
        let pause = match artefact.folder() {
            Some(folder) => match lock::of_folder(&folder, File::try_lock)? {
                Some(lock) => return Ok(Claim(Right::Lock(lock))),
                None => PAUSE,
            },
            None => match Lease::take(store.objects(), &artefact.name("claim"), store.claimant(), &mut watch)? {
                Taken::Ours(lease) => return Ok(Claim(Right::Lease(Box::new(lease)))),
                Taken::Here => PAUSE,
                Taken::Elsewhere => LOOK.min(store.claimant().beat),
            },
        };
        if let Some(waiting) = waiting.take() {
            waiting();
        }
        sleep(pause, cancel)?;
    }
}

/// The right to use any artefact of the store, shared with other runs. Waits while somebody removes artefacts.
///
/// # Errors
/// The store cannot be written, or the run was cancelled.
pub fn hold(store: &Store, cancel: &Cancel) -> Result<Hold> {
    if let Some(folder) = store.objects().folder() {
        loop {
            cancel.proceed()?;
            if let Some(lock) = lock::of_folder(folder, File::try_lock_shared)? {
                return Ok(Hold { _right: Right::Lock(lock) });
            }
            std::thread::sleep(PAUSE);
        }
    }
    let (objects, claimant) = (store.objects(), store.claimant());
    let name = format!("{HOLDS}/{}-{}", claimant.machine, token());
    let Taken::Ours(lease) = Lease::take(objects, &name, claimant, &mut Watch::default())? else {
        return Err(Error::internal(format!("somebody else has the name `{name}`")));
    };
    // First the hold, then the look: whoever removes does it the other way round, so one of the two sees the other.
    for other in objects.list(HOLDS)? {
        // What killed runs of this machine left. Those of others are for `gc`, which has the time to watch.
        if other != name && other.starts_with(&format!("{HOLDS}/{}-", claimant.machine)) {
            is_held(objects, &other, claimant, &mut Watch::default())?;
        }
    }
    let mut watch = Watch::default();
    let removal = format!("{HOLDS}/{REMOVAL}");
    while is_held(objects, &removal, claimant, &mut watch)? {
        sleep(LOOK.min(claimant.beat), cancel)?;
    }
    Ok(Hold { _right: Right::Lease(Box::new(lease)) })
}

/// The right to remove artefacts, unless a run uses the store. At a URL it takes a minute to find out whether a run of
/// another machine lives.
///
/// # Errors
/// The store cannot be written.
pub fn alone(store: &Store) -> Result<Option<Hold>> {
    if let Some(folder) = store.objects().folder() {
        let lock = lock::of_folder(folder, File::try_lock)?;
        return Ok(lock.map(|lock| Hold { _right: Right::Lock(lock) }));
    }
    let (objects, claimant) = (store.objects(), store.claimant());
    let removal = format!("{HOLDS}/{REMOVAL}");
    let mut watch = Watch::default();
    let lease = loop {
        match Lease::take(objects, &removal, claimant, &mut watch)? {
            Taken::Ours(lease) => break lease,
            Taken::Elsewhere if !watch.moved => std::thread::sleep(LOOK.min(claimant.beat)),
            _ => return Ok(None),
        }
    };
    for other in objects.list(HOLDS)?.into_iter().filter(|name| *name != removal) {
        let mut watch = Watch::default();
        while is_held(objects, &other, claimant, &mut watch)? {
            if watch.moved || watch.is_here() {
                return Ok(None);
            }
            std::thread::sleep(LOOK.min(claimant.beat));
        }
    }
    Ok(Some(Hold { _right: Right::Lease(Box::new(lease)) }))
}

/// Sleeps, in short pieces so that a cancellation is seen soon.
fn sleep(time: Duration, cancel: &Cancel) -> Result<()> {
    let mut left = time;
    while !left.is_zero() {
        cancel.proceed()?;
        let piece = left.min(PAUSE);
        std::thread::sleep(piece);
        left -= piece;
    }
    cancel.proceed()
}
