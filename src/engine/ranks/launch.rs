//! Launcher of the other ranks of a stage on this machine. All of them are killed at the end.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::environment::{LAUNCHED_VARIABLE, TOKEN_VARIABLE};
use super::message_store::POLL_INTERVAL;
use pairloom_base::error::{Error, Result};

/// Address of the rendezvous of ranks on one machine. Other machines cannot reach it.
pub(super) const LOOPBACK: &str = "127.0.0.1";

/// Prefix of the keys of launched ranks. They have a store of their own.
pub(super) const LAUNCHED_PREFIX: &str = "pairloom/0";

/// Variables of another launcher, which the launched ranks must not see.
const OTHER_LAUNCHER_VARIABLES: [&str; 2] = ["TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"];

/// Launched processes: rank `i + 1` has index `i`. Dropping this value kills them.
#[derive(Debug, Default)]
pub(super) struct ChildProcesses(Vec<Child>);

impl ChildProcesses {
    /// Starts ranks 1 to `world_size` − 1 with `command`, the variables of `env://` and a token.
    ///
    /// They are in process groups of their own, so a Ctrl-C reaches this process only, which then stops them.
    pub fn start(command: &[OsString], world_size: usize, port: u16, token: &str) -> Result<Self> {
        let [program, arguments @ ..] = command else {
            return Err(Error::usage(format!(
                "{world_size} ranks requested, but this program has no command to launch them"
            )));
        };
        let mut children = Self::default();
        for rank in 1..world_size {
            let mut process = Command::new(program);
            process.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            for name in OTHER_LAUNCHER_VARIABLES {
                process.env_remove(name);
            }
            process.env("RANK", rank.to_string()).env("WORLD_SIZE", world_size.to_string());
            process.env("LOCAL_RANK", rank.to_string()).env("LOCAL_WORLD_SIZE", world_size.to_string());
            process.env("MASTER_ADDR", LOOPBACK).env("MASTER_PORT", port.to_string()).env(TOKEN_VARIABLE, token);
            process.env(LAUNCHED_VARIABLE, "1");
            let child = process.spawn().map_err(|error| {
                Error::stage(format!("cannot start rank {rank} as `{}`: {error}", program.display()))
            })?;
            children.0.push(child);
        }
        Ok(children)
    }

    /// Exit status of a rank, if it has ended.
    pub fn exit_status(&mut self, rank: usize) -> Option<ExitStatus> {
        let child = self.0.get_mut(rank.checked_sub(1)?)?;
        child.try_wait().ok().flatten()
    }

    /// Waits until all have ended, or until the timeout.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    pub fn wait(&mut self, timeout: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < timeout && self.0.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for ChildProcesses {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Fails if the process has ended already.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// Describes how a process ended.
pub(super) fn describe_exit(status: ExitStatus) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn command(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    #[test]
    fn children_get_their_environment_and_their_exit_status_is_returned() {
        let script = "test $RANK$WORLD_SIZE$LOCAL_RANK$LOCAL_WORLD_SIZE$MASTER_ADDR$MASTER_PORT$PAIRLOOM_RANK_TOKEN = \
                      1313127.0.0.177abc && exit 5; kill -9 $$";
        let mut children = ChildProcesses::start(&command(script), 3, 77, "abc").unwrap();
        children.wait(Duration::from_secs(20));
        assert_eq!(children.exit_status(0), None);
        assert_eq!(describe_exit(children.exit_status(1).unwrap()), "ended with exit code 5");
        assert_eq!(describe_exit(children.exit_status(2).unwrap()), "was killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn children_are_killed_on_drop() {
        let children = ChildProcesses::start(&command("exec sleep 1000"), 3, 77, "abc").unwrap();
        let ids: Vec<u32> = children.0.iter().map(Child::id).collect();
        let there = |id: &u32| std::path::Path::new(&format!("/proc/{id}")).exists();
        assert!(ids.len() == 2 && ids.iter().all(there));
        drop(children);
        assert!(!ids.iter().any(there));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = ChildProcesses::start(&["/nowhere/pairloom".into()], 2, 77, "abc").unwrap_err();
        assert!(error.to_string().starts_with("cannot start rank 1 as `/nowhere/pairloom`: "), "{error}");
        assert!(ChildProcesses::start(&[], 2, 77, "abc").is_err());
    }

    #[test]
    fn tokens_differ() {
        let (one, other) =
            (pairloom_base::runtime::random_hex::<16>().unwrap(), pairloom_base::runtime::random_hex::<16>().unwrap());
        assert!(one.len() == 32 && one != other);
    }
}
