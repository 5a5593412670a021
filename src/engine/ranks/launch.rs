//! Starts the other ranks of a stage on this machine, and never leaves one behind.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::board::PAUSE;
use super::environment::TOKEN;
use crate::error::{Error, Result};

/// Where ranks of one machine meet: nobody else can reach it.
pub(super) const LOOPBACK: &str = "127.0.0.1";

/// What tells the group of processes that this one started from others, of which there are none at their store.
pub(super) const LAUNCHED: &str = "pairloom/0";

/// Variables of another launcher, which would contradict ours.
const OTHERS: [&str; 2] = ["TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"];

/// Processes that this one started: rank `i + 1` at place `i`. They end with this value.
#[derive(Debug, Default)]
pub(super) struct Children(Vec<Child>);

impl Children {
    /// Starts ranks 1 to `of` - 1 with `command`, the variables of `env://` and a token.
    ///
    /// They get no terminal: a Ctrl-C reaches this process, which tells them.
    pub fn start(command: &[OsString], of: usize, port: u16, token: &str) -> Result<Self> {
        let [program, arguments @ ..] = command else {
            return Err(Error::usage(format!(
                "{of} ranks are wanted, and this program does not know how to start more"
            )));
        };
        let mut children = Self::default();
        for rank in 1..of {
            let mut process = Command::new(program);
            process.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            for name in OTHERS {
                process.env_remove(name);
            }
            process.env("RANK", rank.to_string()).env("WORLD_SIZE", of.to_string());
            process.env("LOCAL_RANK", rank.to_string()).env("LOCAL_WORLD_SIZE", of.to_string());
            process.env("MASTER_ADDR", LOOPBACK).env("MASTER_PORT", port.to_string()).env(TOKEN, token);
            let child = process.spawn().map_err(|error| {
                Error::stage(format!("cannot start rank {rank} as `{}`: {error}", program.display()))
            })?;
            children.0.push(child);
        }
        Ok(children)
    }

    /// How a rank ended, if it did.
    pub fn ended(&mut self, rank: usize) -> Option<ExitStatus> {
        let child = self.0.get_mut(rank.checked_sub(1)?)?;
        child.try_wait().ok().flatten()
    }

    /// Waits until all have ended, for as long as `patience`.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    pub fn wait(&mut self, patience: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < patience && self.0.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// What became of a process, in words.
pub(super) fn in_words(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = match signal {
                6 => " (SIGABRT)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("was killed by signal {signal}{name}")
        }
        (None, Some(code)) => format!("ended with exit code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// 128 random bits of the system, as text.
pub(super) fn token() -> Result<String> {
    use std::io::Read as _;
    let path = std::path::Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    let mut file = std::fs::File::open(path).map_err(|error| Error::io("open", path, &error))?;
    file.read_exact(&mut bytes).map_err(|error| Error::io("read", path, &error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    #[test]
    fn children_know_their_place_and_how_they_ended_is_seen() {
        let script = "test $RANK$WORLD_SIZE$LOCAL_RANK$LOCAL_WORLD_SIZE$MASTER_ADDR$MASTER_PORT$PAIRLOOM_RANK_TOKEN = \
                      1313127.0.0.177abc && exit 5; kill -9 $$";
        let mut children = Children::start(&command(script), 3, 77, "abc").unwrap();
        children.wait(Duration::from_secs(20));
        assert_eq!(children.ended(0), None);
        assert_eq!(in_words(children.ended(1).unwrap()), "ended with exit code 5");
        assert_eq!(in_words(children.ended(2).unwrap()), "was killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn no_child_stays() {
        let children = Children::start(&command("exec sleep 1000"), 3, 77, "abc").unwrap();
        let ids: Vec<u32> = children.0.iter().map(Child::id).collect();
        let there = |id: &u32| std::path::Path::new(&format!("/proc/{id}")).exists();
        assert!(ids.len() == 2 && ids.iter().all(there));
        drop(children);
        assert!(!ids.iter().any(there));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = Children::start(&["/nowhere/pairloom".into()], 2, 77, "abc").unwrap_err();
        assert!(error.to_string().starts_with("cannot start rank 1 as `/nowhere/pairloom`: "), "{error}");
        assert!(Children::start(&[], 2, 77, "abc").is_err());
    }

    #[test]
    fn tokens_differ() {
        let (one, other) = (token().unwrap(), token().unwrap());
        assert!(one.len() == 32 && one != other);
    }
}
