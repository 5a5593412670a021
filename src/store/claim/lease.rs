//! Lease on an object of a store at a URL. Its holder renews it with heartbeats; without them it expires.
//!
//! The object names the holder and counts heartbeats. It is created if it does not exist, and otherwise replaced only
//! if its version is the one that was read (`If-Match`), both by the holder and by a process that takes the lease over.
//! So there is one holder at a time, and a holder that lost its lease notices at its next heartbeat.
//! Before, it is checked that the server honours conditional writes.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::lock::TemporaryLock;
use crate::process_identity::{LeaseClock, ProcessIdentity, random_token};
use crate::{LOCKS_FOLDER, Store};
use pairloom_base::error::{Error, Result};
use pairloom_storage::objects::{ObjectStorage, ObjectVersion};

/// A held lease, released on drop.
#[derive(Debug)]
pub(super) struct Lease {
    shared: Arc<LeaseShared>,
    thread: Option<JoinHandle<()>>,
    _lock: TemporaryLock,
}

/// State of a lease that its holder shares with the heartbeat thread.
#[derive(Debug)]
struct LeaseShared {
    objects: ObjectStorage,
    name: String,
    machine: String,
    token: String,
    heartbeat_interval: Duration,
    timeout: Duration,
    clock: LeaseClock,
    state: Mutex<LeaseState>,
    changed: Condvar,
}

#[derive(Debug)]
struct LeaseState {
    /// Version of the object after the last heartbeat; `None` once another process has replaced it.
    version: Option<ObjectVersion>,
    beats: u64,
    /// Start of the last heartbeat, since the start of the machine.
    last_heartbeat: Duration,
    is_released: bool,
}

/// Content of the object.
#[derive(Debug, Serialize, Deserialize)]
struct LeaseRecord {
    machine: String,
    process: u32,
    token: String,
    beats: u64,
}

/// Observations of a process that waits for a lease of another one.
#[derive(Debug, Default)]
pub(super) struct HolderObservation {
    /// Token of the holder, if it is a process of this machine.
    local_token: Option<String>,
    /// Version of the object, and the time at which this version was first seen.
    seen: Option<(ObjectVersion, Duration)>,
    /// True if a change of the object was seen.
    pub(super) has_changed: bool,
}

/// Result of an attempt to acquire a lease.
pub(super) enum LeaseAttempt {
    /// This process holds the lease.
    Acquired(Lease),
    /// A process of this machine holds it.
    HeldOnThisMachine,
    /// Another process holds it, probably on another machine.
    HeldElsewhere,
}

/// Status of the holder of a lease.
enum HolderStatus {
    /// The holder is a live process of this machine.
    AliveOnThisMachine,
    /// The holder is dead or the lease has expired. The lock, if there is one, keeps other processes of this machine
    /// from taking the lease over at the same time.
    Dead(Option<TemporaryLock>),
    /// The holder may be a live process of another machine.
    MaybeAliveElsewhere,
}

impl HolderObservation {
    /// Returns true if the object has not changed for at least the timeout.
    fn is_expired(&mut self, version: &ObjectVersion, process: &ProcessIdentity) -> bool {
        match &self.seen {
            Some((seen, since)) if seen == version => process.clock.elapsed_since(*since) >= process.lease_timeout,
            before => {
                self.has_changed |= before.is_some();
                self.seen = Some((version.clone(), process.clock.now()));
                false
            }
        }
    }

    /// Status of the holder whose object has this content and version.
    fn holder_status(
        &mut self,
        content: &[u8],
        version: &ObjectVersion,
        process: &ProcessIdentity,
    ) -> Result<HolderStatus> {
        let record: Option<LeaseRecord> = serde_json::from_slice(content).ok();
        match record.filter(|record| process.shares_locks_with(&record.machine)) {
            Some(record) => match process.lock(&record.token)? {
                Some(lock) => Ok(HolderStatus::Dead(Some(lock))),
                None => {
                    self.local_token = Some(record.token);
                    Ok(HolderStatus::AliveOnThisMachine)
                }
            },
            None if self.is_expired(version, process) => Ok(HolderStatus::Dead(None)),
            None => Ok(HolderStatus::MaybeAliveElsewhere),
        }
    }

    /// Returns true if the holder that was seen last is a process of this machine.
    pub(super) fn is_on_this_machine(&self) -> bool {
        self.local_token.is_some()
    }

    /// Returns true if the holder that was seen last is a live process of this machine. Does not contact the server.
    fn is_alive_on_this_machine(&self, process: &ProcessIdentity) -> Result<bool> {
        match &self.local_token {
            Some(token) => Ok(process.lock(token)?.is_none()),
            None => Ok(false),
        }
    }
}

impl Lease {
    /// Acquires the lease `name` if it is free or its holder is dead.
    pub(super) fn acquire(
        objects: &ObjectStorage,
        name: &str,
        process: &ProcessIdentity,
        observation: &mut HolderObservation,
    ) -> Result<LeaseAttempt> {
        if observation.is_alive_on_this_machine(process)? {
            return Ok(LeaseAttempt::HeldOnThisMachine);
        }
        let token = random_token();
        let lock = process.lock(&token)?.ok_or_else(|| Error::internal("a lock with a new name is held"))?;
        let content = serialize_record(&process.machine, &token, 0)?;
        let begun = process.clock.now();
        let version = match objects.create_version(name, content.clone())? {
            Some(version) => version,
            None => {
                let Some((theirs, seen)) = objects.get_version(name)? else { return Ok(LeaseAttempt::HeldElsewhere) };
                let _holder_lock = match observation.holder_status(&theirs, &seen, process)? {
                    HolderStatus::AliveOnThisMachine => return Ok(LeaseAttempt::HeldOnThisMachine),
                    HolderStatus::MaybeAliveElsewhere => return Ok(LeaseAttempt::HeldElsewhere),
                    HolderStatus::Dead(lock) => lock,
                };
                let Some(version) = objects.replace(name, content, &seen)? else {
                    return Ok(LeaseAttempt::HeldElsewhere);
                };
                version
            }
        };
        let shared = Arc::new(LeaseShared {
            objects: objects.with_short_timeout(),
            name: name.to_owned(),
            machine: process.machine.clone(),
            token,
            heartbeat_interval: process.heartbeat_interval,
            timeout: process.lease_timeout,
            clock: process.clock.clone(),
            state: Mutex::new(LeaseState {
                version: Some(version),
                beats: 0,
                last_heartbeat: begun,
                is_released: false,
            }),
            changed: Condvar::new(),
        });
        let heartbeat = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("lease heartbeat".to_owned());
        let thread = thread.spawn(move || heartbeat.run_heartbeats());
        let thread = thread.map_err(|error| Error::internal(format!("no thread: {error}")))?;
        Ok(LeaseAttempt::Acquired(Self { shared, thread: Some(thread), _lock: lock }))
    }

    /// Checks that the lease is still held. Contacts the server only if the last heartbeat is not recent.
    pub(super) fn check(&self) -> Result<()> {
        let state = self.shared.lock();
        if state.version.is_some() && self.shared.clock.elapsed_since(state.last_heartbeat) < self.shared.timeout / 3 {
            return Ok(());
        }
        self.shared.renew(state)
    }

    /// Renews the lease with a heartbeat, and so checks that it is still held.
    pub(super) fn renew(&self) -> Result<()> {
        self.shared.renew(self.shared.lock())
    }

    /// Ends the lease as if its process had been killed: the object stays.
    #[cfg(test)]
    pub(super) fn abandon(self) {
        self.shared.lock().version = None;
    }
}

/// Returns true if another process holds the lease `name`. Removes the lease of a dead holder.
pub(super) fn is_held(
    objects: &ObjectStorage,
    name: &str,
    process: &ProcessIdentity,
    observation: &mut HolderObservation,
) -> Result<bool> {
    if observation.is_alive_on_this_machine(process)? {
        return Ok(true);
    }
    let Some((content, version)) = objects.get_version(name)? else { return Ok(false) };
    let HolderStatus::Dead(_lock) = observation.holder_status(&content, &version, process)? else { return Ok(true) };
    objects.delete(name)?;
    Ok(false)
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.lock().is_released = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // If the server does not answer, the object stays and expires. After a renewal no other process takes the lease
        // over within the next minute, so the object that is removed is that of this process.
        let since = self.shared.clock.elapsed_since(self.shared.lock().last_heartbeat);
        let is_silent = since > 2 * self.shared.heartbeat_interval;
        if !is_silent && self.renew().is_ok() {
            let _ = self.shared.objects.delete(&self.shared.name);
        }
    }
}

impl LeaseShared {
    fn lock(&self) -> MutexGuard<'_, LeaseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends heartbeats until the lease is released or lost.
    fn run_heartbeats(&self) {
        let mut state = self.lock();
        loop {
            // The lease may have been released before this thread first checks it.
            let is_held = |state: &mut LeaseState| !state.is_released && state.version.is_some();
            let waited = self.changed.wait_timeout_while(state, self.heartbeat_interval, is_held);
            let (state_guard, wait) = waited.unwrap_or_else(PoisonError::into_inner);
            if !wait.timed_out() {
                return;
            }
            // An error is ignored: the next heartbeat may succeed.
            let _ = self.renew(state_guard);
            state = self.lock();
        }
    }

    /// Sends a heartbeat.
    fn renew(&self, mut state: MutexGuard<'_, LeaseState>) -> Result<()> {
        let begun = self.clock.now();
        if let Some(version) = &state.version {
            let record = serialize_record(&self.machine, &self.token, state.beats + 1)?;
            let version = self.objects.replace(&self.name, record, version)?;
            state.version = version;
            state.beats += 1;
            state.last_heartbeat = begun;
        }
        match state.version {
            Some(_) => Ok(()),
            None => Err(Error::stage(format!(
                "another process took over `{}`, which this process had not renewed for {} s",
                self.objects.display_path(&self.name),
                self.timeout.as_secs()
            ))
            .hint("run the same command again: it resumes from the committed parts")),
        }
    }
}

fn serialize_record(machine: &str, token: &str, beats: u64) -> Result<Bytes> {
    let record =
        LeaseRecord { machine: machine.to_owned(), process: std::process::id(), token: token.to_owned(), beats };
    let text = serde_json::to_vec(&record).map_err(|error| Error::internal(error.to_string()))?;
    Ok(Bytes::from(text))
}

/// Checks that the server of a store at a URL honours conditional writes: creates an object only if it does not exist,
/// and replaces an object only if its version is the expected one. Without them, two runs could damage each other's
/// results.
///
/// # Errors
/// The server ignores one of the conditions, or the store cannot be written.
pub fn check_conditional_writes(store: &Store) -> Result<()> {
    if store.objects().folder().is_some() {
        return Ok(());
    }
    let name = format!("{LOCKS_FOLDER}/probe-{}", random_token());
    let ignored = ignored_condition(store, &name);
    // Best effort.
    let _ = store.objects().delete(&name);
    let Some(ignored) = ignored? else { return Ok(()) };
    let location = store.objects().display_path("");
    Err(Error::usage(format!("the server of `{location}` does not honour conditional writes: it ignores `{ignored}`"))
        .hint("use a server that honours conditional writes, such as Amazon S3, Google Cloud Storage, Azure or MinIO"))
}

/// Tests conditional writes with the object `name`, and returns the condition that the server ignores, if any.
fn ignored_condition(store: &Store, name: &str) -> Result<Option<&'static str>> {
    let objects = store.objects();
    let Some(first) = objects.create_version(name, "1".into())? else {
        return Err(Error::internal(format!("`{}` is there already", objects.display_path(name))));
    };
    if objects.create(name, "2".into())? {
        return Ok(Some("If-None-Match"));
    }
    let second = objects.replace(name, "3".into(), &first)?;
    let again = objects.replace(name, "4".into(), &first)?;
    Ok(if second.is_none() || again.is_some() { Some("If-Match") } else { None })
}
