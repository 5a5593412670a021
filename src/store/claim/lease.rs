//! A right that is an object: whoever has it says so again and again, and loses it by silence.
//!
//! The object names its holder and counts signs of life. It is created where there is none, and only ever replaced in the
//! state in which it was seen (`If-Match`), by its holder as by whoever takes it over. So there is one holder at a time,
//! and one that was taken for dead finds out at its next sign of life.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::io::objects::{Objects, Version};
use crate::store::claimant::{Claimant, token};
use crate::store::lock::Passing;

/// A right, given back on drop.
#[derive(Debug)]
pub(super) struct Lease {
    right: Arc<Right>,
    thread: Option<JoinHandle<()>>,
    _lock: Passing,
}

/// What the holder and the thread that gives its signs of life share.
#[derive(Debug)]
struct Right {
    objects: Objects,
    name: String,
    machine: String,
    token: String,
    beat: Duration,
    dead: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What the object was when this process last wrote it; none once somebody else did.
    version: Option<Version>,
    beats: u64,
    /// When the last sign of life was begun.
    last: Instant,
    ended: bool,
}

/// The content of the object.
#[derive(Debug, Serialize, Deserialize)]
struct Sign {
    machine: String,
    process: u32,
    token: String,
    beats: u64,
}

/// What a waiting process has seen of a holder.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The holder, if it is a process of this machine.
    here: Option<String>,
    /// What the object was the last time, and since when.
    seen: Option<(Version, Instant)>,
    /// Whether it was seen to change.
    pub(super) moved: bool,
}

/// What became of a try to take a right.
pub(super) enum Taken {
    /// It is ours.
    Ours(Lease),
    /// A process of this machine has it.
    Here,
    /// A process of another machine has it, as far as can be told from here.
    Elsewhere,
}

/// What can be told of somebody else's right.
enum Life {
    /// A living process of this machine has it.
    Here,
    /// Its holder is dead. The lock, if there is one, keeps others of this machine from finding that out as well.
    Dead(Option<Passing>),
    /// Somebody elsewhere has it.
    Elsewhere,
}

#[expect(clippy::disallowed_methods, reason = "whether somebody lives is a question of time")]
fn now() -> Instant {
    Instant::now()
}

impl Watch {
    /// Whether the object has been what it is now for at least `dead`.
    fn still(&mut self, version: &Version, dead: Duration) -> bool {
        match &self.seen {
            Some((seen, since)) if seen == version => since.elapsed() >= dead,
            before => {
                self.moved |= before.is_some();
                self.seen = Some((version.clone(), now()));
                false
            }
        }
    }

    /// Whether the holder lives, whose object has this content.
    fn life(&mut self, content: &[u8], version: &Version, claimant: &Claimant) -> Result<Life> {
        let sign: Option<Sign> = serde_json::from_slice(content).ok();
        match sign.filter(|sign| claimant.shares_locks_with(&sign.machine)) {
            Some(sign) => match claimant.lock(&sign.token)? {
                Some(lock) => Ok(Life::Dead(Some(lock))),
                None => {
                    self.here = Some(sign.token);
                    Ok(Life::Here)
                }
            },
            None if self.still(version, claimant.dead) => Ok(Life::Dead(None)),
            None => Ok(Life::Elsewhere),
        }
    }

    /// Whether the holder that was seen last is a process of this machine.
    pub(super) fn is_here(&self) -> bool {
        self.here.is_some()
    }

    /// Whether the holder that was seen last is a process of this machine and lives still. Asks no server.
    fn lives_here(&self, claimant: &Claimant) -> Result<bool> {
        match &self.here {
            Some(token) => Ok(claimant.lock(token)?.is_none()),
            None => Ok(false),
        }
    }
}

impl Lease {
    /// Takes the right `name` if nobody has it, or if its holder is dead.
    pub(super) fn take(objects: &Objects, name: &str, claimant: &Claimant, watch: &mut Watch) -> Result<Taken> {
        if watch.lives_here(claimant)? {
            return Ok(Taken::Here);
        }
        let token = token();
        let lock = claimant.lock(&token)?.ok_or_else(|| Error::internal("a lock with a new name is held"))?;
        let content = sign(&claimant.machine, &token, 0)?;
        let begun = now();
        let version = match objects.create_version(name, content.clone())? {
            Some(version) => version,
            None => {
                let Some((theirs, seen)) = objects.get_version(name)? else { return Ok(Taken::Elsewhere) };
                let _theirs = match watch.life(&theirs, &seen, claimant)? {
                    Life::Here => return Ok(Taken::Here),
                    Life::Elsewhere => return Ok(Taken::Elsewhere),
                    Life::Dead(lock) => lock,
                };
                let Some(version) = objects.replace(name, content, &seen)? else { return Ok(Taken::Elsewhere) };
                version
            }
        };
        let right = Arc::new(Right {
            objects: objects.in_haste(),
            name: name.to_owned(),
            machine: claimant.machine.clone(),
            token,
            beat: claimant.beat,
            dead: claimant.dead,
            state: Mutex::new(State { version: Some(version), beats: 0, last: begun, ended: false }),
            changed: Condvar::new(),
        });
        let beating = Arc::clone(&right);
        let thread = std::thread::Builder::new().name("signs of life".to_owned());
        let thread = thread.spawn(move || beating.beat());
        let thread = thread.map_err(|error| Error::internal(format!("no thread: {error}")))?;
        Ok(Taken::Ours(Self { right, thread: Some(thread), _lock: lock }))
    }

    /// Fails unless the right is still held. Asks the server only if the last sign of life is not recent.
    pub(super) fn check(&self) -> Result<()> {
        let state = self.right.lock();
        if state.version.is_some() && state.last.elapsed() < self.right.dead / 3 {
            return Ok(());
        }
        self.right.renew(state)
    }

    /// As [`Lease::check`], and asks in any case.
    pub(super) fn renew(&self) -> Result<()> {
        self.right.renew(self.right.lock())
    }
}

/// Whether somebody has the right `name`. That of a dead holder is removed.
pub(super) fn is_held(objects: &Objects, name: &str, claimant: &Claimant, watch: &mut Watch) -> Result<bool> {
    if watch.lives_here(claimant)? {
        return Ok(true);
    }
    let Some((content, version)) = objects.get_version(name)? else { return Ok(false) };
    let Life::Dead(_lock) = watch.life(&content, &version, claimant)? else { return Ok(true) };
    objects.delete(name)?;
    Ok(false)
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.right.lock().ended = true;
        self.right.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // If the server is gone, the object stays and is taken for dead in due time. Once it is renewed nobody takes it
        // over within the next minute, so what is removed is ours.
        let silent = self.right.lock().last.elapsed() > 2 * self.right.beat;
        if !silent && self.renew().is_ok() {
            let _ = self.right.objects.delete(&self.right.name);
        }
    }
}

impl Right {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives signs of life until the right ends.
    fn beat(&self) {
        let mut state = self.lock();
        loop {
            // It may have ended before this thread came to its first look.
            let lasts = |state: &mut State| !state.ended && state.version.is_some();
            let waited = self.changed.wait_timeout_while(state, self.beat, lasts);
            let (held, over) = waited.unwrap_or_else(PoisonError::into_inner);
            if !over.timed_out() {
                return;
            }
            // A server that does not answer now may do so the next time.
            let _ = self.renew(held);
            state = self.lock();
        }
    }

    /// Gives a sign of life.
    fn renew(&self, mut state: MutexGuard<'_, State>) -> Result<()> {
        let begun = now();
        if let Some(version) = &state.version {
            let sign = sign(&self.machine, &self.token, state.beats + 1)?;
            let version = self.objects.replace(&self.name, sign, version)?;
            state.version = version;
            state.beats += 1;
            state.last = begun;
        }
        match state.version {
            Some(_) => Ok(()),
            None => Err(Error::stage(format!(
                "another process took `{}` over, because this one gave no sign of life for {} s",
                self.objects.place(&self.name),
                self.dead.as_secs()
            ))
            .hint("run the same command again: it goes on from what is committed")),
        }
    }
}

fn sign(machine: &str, token: &str, beats: u64) -> Result<Bytes> {
    let sign = Sign { machine: machine.to_owned(), process: std::process::id(), token: token.to_owned(), beats };
    let text = serde_json::to_vec(&sign).map_err(|error| Error::internal(error.to_string()))?;
    Ok(Bytes::from(text))
}
