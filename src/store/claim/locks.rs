//! Claim of a run on an artefact that it builds, and locks of a run on the store, to use it or to remove artefacts.

use std::fs::File;
use std::time::Duration;

use bytes::Bytes;

use crate::claim::lease::{HolderObservation, Lease, LeaseAttempt, is_held};
use crate::lock;
use crate::process_identity::random_token;
use crate::{Artefact, LOCKS_FOLDER, Store};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;

/// Time between two attempts to take a file lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time between two messages about a process that this one waits for.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(10);
/// Time between two checks of a lease of another process.
const LEASE_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Name of the lease of a process that removes artefacts.
const REMOVAL_LEASE: &str = "removal";
/// Object of an artefact with a token of the process that claimed it last, where locks may not be seen.
const BUILDER: &str = "builder";

/// Exclusive claim to build an artefact, released on drop.
#[derive(Debug)]
pub struct ArtefactClaim(HeldLock);

/// Lock on a store: shared by runs that use it, or exclusive for removal. Released on drop.
#[derive(Debug)]
pub struct StoreLock {
    _lock: HeldLock,
}

#[derive(Debug)]
enum HeldLock {
    Lock(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File),
    /// Lock that other machines may not see, and the token in the object [`BUILDER`].
    Fenced(#[expect(dead_code, reason = "as above")] File, String),
    Lease(Box<Lease>),
}

impl ArtefactClaim {
    /// Publishes an object of the artefact. Replaces one that an earlier run left.
    ///
    /// At a URL the object is created. If it exists already, its version is read, then the claim is renewed, then the
    /// object is replaced if it still has that version. So objects of a successor are never overwritten.
    ///
    /// In a folder whose locks other machines may not see, a process that claimed the artefact later ends this one here.
    ///
    /// # Errors
    /// The store cannot be written, or another process builds the artefact.
    pub fn publish(&self, artefact: &Artefact, name: &str, content: Bytes) -> Result<()> {
        self.publish_linked(artefact, name, content, None)
    }

    /// As [`ArtefactClaim::publish`]. If the object `same` of the store has this content, both become names of one file where
    /// the store and the file system allow it.
    pub fn publish_linked(&self, artefact: &Artefact, name: &str, content: Bytes, same: Option<&str>) -> Result<()> {
        let put = |content: Bytes| match same {
            Some(object) => artefact.put_linked(name, content, object),
            None => artefact.put(name, content),
        };
        let lease = match &self.0 {
            HeldLock::Lease(lease) => lease,
            HeldLock::Lock(_) => return put(content),
            HeldLock::Fenced(_, token) => {
                let is_ours = artefact.get(BUILDER)?.is_some_and(|builder| builder == token.as_bytes());
                return if is_ours { put(content) } else { Err(concurrent_builder_error(artefact)) };
            }
        };
        lease.check()?;
        if artefact.create(name, content.clone())? {
            return Ok(());
        }
        let seen = artefact.version(name)?;
        // The claim still holds after the version was read, so a successor cannot have written that version.
        lease.renew()?;
        let is_written = match seen {
            Some(seen) => artefact.replace(name, content, &seen)?,
            None => artefact.create(name, content)?,
        };
        if is_written { Ok(()) } else { Err(concurrent_builder_error(artefact)) }
    }

    /// Publishes the object that completes the artefact.
    pub fn publish_last(&self, artefact: &Artefact, name: &str, content: Bytes) -> Result<()> {
        if let HeldLock::Lease(lease) = &self.0 {
            lease.renew()?;
        }
        self.publish(artefact, name, content)
    }
}

#[cfg(test)]
impl ArtefactClaim {
    /// Claim by this lease.
    pub(super) fn of_lease(lease: Lease) -> Self {
        Self(HeldLock::Lease(Box::new(lease)))
    }

    /// Lease of a claim at a URL.
    pub(super) fn lease(&self) -> &Lease {
        let HeldLock::Lease(lease) = &self.0 else { panic!("a claim in a folder") };
        lease
    }

    /// Ends the claim as if its process had been killed.
    pub(super) fn abandon(self) {
        let HeldLock::Lease(lease) = self.0 else { panic!("a claim in a folder") };
        lease.abandon();
    }
}

/// Error for an artefact that another process builds too.
pub(crate) fn concurrent_builder_error(artefact: &Artefact) -> Error {
    Error::stage(format!("another process builds `{}` too", artefact.display_path("")))
        .hint("wait for it to end, then run the same command again")
}

/// Process that another one waits for, with the time between two messages about it.
struct WaitMessages<'w> {
    waiting: &'w dyn Fn(String),
    /// Pauses since the last message.
    silent: Duration,
}

impl<'w> WaitMessages<'w> {
    fn new(waiting: &'w dyn Fn(String)) -> Self {
        // The first message is due at once.
        Self { waiting, silent: MESSAGE_INTERVAL }
    }

    /// Tells whom this process waits for if a message is due, then pauses.
    fn pause(&mut self, pause: Duration, cancel: &CancelToken, holder: impl FnOnce() -> String) -> Result<()> {
        if self.silent >= MESSAGE_INTERVAL {
            (self.waiting)(holder());
            self.silent = Duration::ZERO;
        }
        self.silent += pause;
        sleep_cancellable(pause, cancel)
    }
}

/// Claims an artefact. Waits while another process builds it, and calls `waiting` with a description of that process at
/// once and every ten seconds.
pub fn claim_artefact(
    store: &Store,
    artefact: &Artefact,
    cancel: &CancelToken,
    waiting: &dyn Fn(String),
) -> Result<ArtefactClaim> {
    let mut messages = WaitMessages::new(waiting);
    let mut observation = HolderObservation::default();
    loop {
        cancel.check()?;
        let pause = match artefact.folder() {
            Some(folder) => match lock::lock_folder(&folder, File::try_lock)? {
                Some(lock) if store.unshared_locks().is_some() => {
                    let token = random_token();
                    artefact.put(BUILDER, token.clone().into())?;
                    return Ok(ArtefactClaim(HeldLock::Fenced(lock, token)));
                }
                Some(lock) => return Ok(ArtefactClaim(HeldLock::Lock(lock))),
                None => LOCK_POLL_INTERVAL,
            },
            None => match Lease::acquire(
                store.objects(),
                &artefact.name("claim"),
                store.process_identity(),
                &mut observation,
            )? {
                LeaseAttempt::Acquired(lease) => return Ok(ArtefactClaim(HeldLock::Lease(Box::new(lease)))),
                LeaseAttempt::HeldOnThisMachine => LOCK_POLL_INTERVAL,
                LeaseAttempt::HeldElsewhere => LEASE_POLL_INTERVAL.min(store.process_identity().heartbeat_interval),
            },
        };
        messages.pause(pause, cancel, || match artefact.folder() {
            Some(folder) => lock::describe_holder(&folder.join(lock::LOCK_FILE)),
            None => "another process".to_owned(),
        })?;
    }
}

/// Takes the shared lock of a store for a run. Waits while another process removes artefacts, and calls `waiting` as
/// [`claim_artefact`].
pub fn lock_for_run(store: &Store, cancel: &CancelToken, waiting: &dyn Fn(String)) -> Result<StoreLock> {
    let mut messages = WaitMessages::new(waiting);
    let removing = |process: &str| format!("{process}, which removes results (`pairloom gc --delete`)");
    if let Some(folder) = store.objects().folder() {
        loop {
            cancel.check()?;
            if let Some(lock) = lock::lock_folder(folder, File::try_lock_shared)? {
                return Ok(StoreLock { _lock: HeldLock::Lock(lock) });
            }
            messages.pause(LOCK_POLL_INTERVAL, cancel, || {
                removing(&lock::describe_holder(&folder.join(lock::LOCK_FILE)))
            })?;
        }
    }
    let (objects, process) = (store.objects(), store.process_identity());
    let name = format!("{LOCKS_FOLDER}/{}-{}", process.machine, random_token());
    let LeaseAttempt::Acquired(lease) = Lease::acquire(objects, &name, process, &mut HolderObservation::default())?
    else {
        return Err(Error::internal(format!("the name `{name}` is used by another lease")));
    };
    // A run creates its own lease first and then looks for a removal; a removal first creates its
    // lease and then looks for runs. So at least one of the two sees the other.
    for other in objects.list(LOCKS_FOLDER)? {
        // Removes leases of killed runs of this machine. Leases of other machines are left to `gc`, which can wait for
        // them to expire.
        if other != name && other.starts_with(&format!("{LOCKS_FOLDER}/{}-", process.machine)) {
            is_held(objects, &other, process, &mut HolderObservation::default())?;
        }
    }
    let mut observation = HolderObservation::default();
    let removal = format!("{LOCKS_FOLDER}/{REMOVAL_LEASE}");
    while is_held(objects, &removal, process, &mut observation)? {
        let pause = LEASE_POLL_INTERVAL.min(process.heartbeat_interval);
        messages.pause(pause, cancel, || removing("another process"))?;
    }
    Ok(StoreLock { _lock: HeldLock::Lease(Box::new(lease)) })
}

/// Takes the shared lock of a store in a folder for a reader, so that nothing is removed meanwhile; `None` for stores at a
/// URL, which readers may not be able to write, and for folders where the lock cannot be opened.
///
/// # Errors
/// Another process removes artefacts.
pub fn lock_for_reading(store: &Store) -> Result<Option<StoreLock>> {
    let Some(folder) = store.objects().folder() else { return Ok(None) };
    match lock::lock_existing(folder, File::try_lock_shared) {
        Ok(Some(lock)) => Ok(Some(StoreLock { _lock: HeldLock::Lock(lock) })),
        Ok(None) => {
            let holder = lock::describe_holder(&folder.join(lock::LOCK_FILE));
            Err(Error::stage(format!("results of this store are being removed by {holder}"))
                .hint("try again when `pairloom gc` has ended"))
        }
        Err(_) => Ok(None),
    }
}

/// Takes the exclusive lock of a store, for removing artefacts; `None` if a run uses the store. At a URL it may take a
/// minute to find out that the lease of a run on another machine has expired.
pub fn try_lock_for_removal(store: &Store) -> Result<Option<StoreLock>> {
    if let Some(folder) = store.objects().folder() {
        let lock = lock::lock_folder(folder, File::try_lock)?;
        return Ok(lock.map(|lock| StoreLock { _lock: HeldLock::Lock(lock) }));
    }
    let (objects, process) = (store.objects(), store.process_identity());
    let removal = format!("{LOCKS_FOLDER}/{REMOVAL_LEASE}");
    let mut observation = HolderObservation::default();
    let lease = loop {
        match Lease::acquire(objects, &removal, process, &mut observation)? {
            LeaseAttempt::Acquired(lease) => break lease,
            LeaseAttempt::HeldElsewhere if !observation.has_changed => {
                std::thread::sleep(LEASE_POLL_INTERVAL.min(process.heartbeat_interval));
            }
            _ => return Ok(None),
        }
    };
    for other in objects.list(LOCKS_FOLDER)?.into_iter().filter(|name| *name != removal) {
        let mut observation = HolderObservation::default();
        while is_held(objects, &other, process, &mut observation)? {
            if observation.has_changed || observation.is_on_this_machine() {
                return Ok(None);
            }
            std::thread::sleep(LEASE_POLL_INTERVAL.min(process.heartbeat_interval));
        }
    }
    Ok(Some(StoreLock { _lock: HeldLock::Lease(Box::new(lease)) }))
}

/// Sleeps in short intervals, so that a cancellation is noticed soon.
fn sleep_cancellable(time: Duration, cancel: &CancelToken) -> Result<()> {
    let mut left = time;
    while !left.is_zero() {
        cancel.check()?;
        let piece = left.min(LOCK_POLL_INTERVAL);
        std::thread::sleep(piece);
        left -= piece;
    }
    cancel.check()
}
