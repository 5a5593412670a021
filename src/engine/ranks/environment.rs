//! Rank of this process from environment variables, those of `torchrun` (`env://`) or of SLURM; and the launcher of the
//! other ranks of a stage on this machine, all of which are killed at the end.

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::message::POLL_INTERVAL;
use pairloom_base::error::{Error, Result};

/// Prefix of the variables that `torchrun` sets in addition to those of `env://`.
const ELASTIC_PREFIX: &str = "TORCHELASTIC_";
/// Variable with the token; see [`RankEnvironment::token`]. Pairloom sets it for the processes that it launches, and people
/// set it for those of `torchrun` and SLURM.
pub const TOKEN_VARIABLE: &str = "PAIRLOOM_RANK_TOKEN";
/// Variable of the processes that Pairloom launches.
pub(super) const LAUNCHED_VARIABLE: &str = "PAIRLOOM_RANK_LAUNCHED";
/// Number of ports from which the one of a SLURM job is chosen ...
const SLURM_PORT_COUNT: u64 = 10_000;
/// ... and the first of them. They lie below the ephemeral ports of the system.
const SLURM_FIRST_PORT: u64 = 15_000;

/// Rank of this process among those that the program was launched as, and how to reach rank 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankEnvironment {
    /// Rank of this process.
    pub rank: usize,
    /// Number of processes, at least 2.
    pub world_size: usize,
    /// Rank among the processes on this machine.
    pub local_rank: usize,
    /// Number of processes that share the CPUs of this machine.
    pub local_world_size: usize,
    /// Name or address of the machine of rank 0.
    pub host: String,
    /// Port of the key-value store.
    pub port: u16,
    /// True if the launcher (`torchrun`) runs a key-value store there already.
    pub has_launcher_store: bool,
    /// Prefix of the keys of this attempt. Earlier attempts may have left keys in the same store.
    pub prefix: String,
    /// Secret that only the processes of this launch know, for signing messages; `None` if the launcher sets none.
    pub token: Option<String>,
    /// Name by which NCCL tells this machine from others: `NCCL_HOSTID`.
    pub nccl_host_id: Option<String>,
    /// True if another process of this machine launched this one for a stage.
    pub is_launched_here: bool,
}

impl RankEnvironment {
    /// Reads the environment; `None` if the program was started as one process.
    ///
    /// If `RANK` or `WORLD_SIZE` is set, reads `RANK`, `WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`, `LOCAL_RANK`
    /// (default 0) and `LOCAL_WORLD_SIZE` (default 1). Otherwise, in a task started by `srun`, reads `SLURM_PROCID`,
    /// `SLURM_STEP_NUM_TASKS` (or `SLURM_NTASKS`), `SLURM_LOCALID` and the first machine of `SLURM_STEP_NODELIST` (or
    /// `SLURM_JOB_NODELIST`). A batch script is one process, although SLURM sets most of these variables there too.
    ///
    /// # Errors
    /// Variables are missing, malformed or contradictory. One message lists all of them.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let mut vars = EnvironmentReader { variable, problems: vec![], used: vec![] };
        let environment = if is_set("RANK") || is_set("WORLD_SIZE") {
            vars.read_torchrun()
        } else if is_set("SLURM_PROCID") && (is_set("SLURM_STEP_ID") || is_set("SLURM_STEP_NUM_TASKS")) {
            vars.read_slurm()
        } else {
            return Ok(None);
        };
        vars.into_result()?;
        Ok(environment.filter(|environment| environment.world_size > 1))
    }
}

/// Reads variables, and collects problems with them.
struct EnvironmentReader<'v> {
    variable: &'v dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
    used: Vec<String>,
}

impl EnvironmentReader<'_> {
    fn token(&self) -> Option<String> {
        (self.variable)(TOKEN_VARIABLE).filter(|token| !token.is_empty())
    }

    fn read_torchrun(&mut self) -> Option<RankEnvironment> {
        let world_size = self.number("WORLD_SIZE");
        let rank = self.number("RANK");
        let local_rank = self.number_or("LOCAL_RANK", 0);
        let local_world_size = self.number_or("LOCAL_WORLD_SIZE", 1);
        self.check_below("RANK", rank, "WORLD_SIZE", world_size);
        if self.get("LOCAL_WORLD_SIZE").is_some() {
            self.check_below("LOCAL_RANK", local_rank, "LOCAL_WORLD_SIZE", local_world_size);
        }
        // A single process needs no rendezvous.
        let (host, port) = if world_size == Some(1) {
            (Some(String::new()), Some(0))
        } else {
            (self.required("MASTER_ADDR"), self.port("MASTER_PORT"))
        };
        let attempt = self.get(&format!("{ELASTIC_PREFIX}RESTART_COUNT")).unwrap_or_else(|| "0".to_owned());
        Some(RankEnvironment {
            rank: rank?,
            world_size: world_size?,
            local_rank: local_rank?,
            local_world_size: local_world_size?.max(1),
            host: host?,
            port: port?,
            has_launcher_store: self
                .get(&format!("{ELASTIC_PREFIX}USE_AGENT_STORE"))
                .is_some_and(|value| value == "True"),
            prefix: format!("pairloom/{attempt}"),
            token: self.token(),
            nccl_host_id: self.get("NCCL_HOSTID"),
            is_launched_here: (self.variable)(LAUNCHED_VARIABLE).is_some(),
        })
    }

    fn read_slurm(&mut self) -> Option<RankEnvironment> {
        let tasks = self.first_set(&["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]);
        let world_size = self.number(tasks);
        let rank = self.number("SLURM_PROCID");
        let local_rank = self.number_or("SLURM_LOCALID", 0);
        self.check_below("SLURM_PROCID", rank, tasks, world_size);
        let (host, port) = if world_size == Some(1) { (Some(String::new()), Some(0)) } else { self.slurm_rendezvous() };
        let (world_size, rank, local_rank) = (world_size?, rank?, local_rank?);
        // SLURM assigns separate CPUs to every task.
        let (host, port, prefix) = (host?, port?, "pairloom/0".to_owned());
        Some(RankEnvironment {
            rank,
            world_size,
            local_rank,
            local_world_size: 1,
            host,
            port,
            has_launcher_store: false,
            prefix,
            token: self.token(),
            nccl_host_id: self.get("NCCL_HOSTID"),
            is_launched_here: false,
        })
    }

    /// Host and port of the rendezvous: `MASTER_ADDR` and `MASTER_PORT` if set, else the first machine of the job and a
    /// port computed from the numbers of job and step.
    fn slurm_rendezvous(&mut self) -> (Option<String>, Option<u16>) {
        let host = self.get("MASTER_ADDR").or_else(|| {
            let nodes = self.first_set(&["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"]);
            let list = self.required(nodes)?;
            let first = first_host(&list);
            if first.is_none() {
                self.problems.push(format!("{nodes} is `{list}`, expected names of machines"));
            }
            first
        });
        let port = if self.get("MASTER_PORT").is_some() {
            self.port("MASTER_PORT")
        } else {
            let job = self.number("SLURM_JOB_ID");
            let step = self.number_or("SLURM_STEP_ID", 0);
            let spread =
                |job: usize, step: usize| SLURM_FIRST_PORT + (job as u64).wrapping_add(step as u64) % SLURM_PORT_COUNT;
            job.zip(step).and_then(|(job, step)| u16::try_from(spread(job, step)).ok())
        };
        (host, port)
    }

    /// First of these variables that is set; the last one if none is.
    fn first_set<'n>(&self, names: &[&'n str]) -> &'n str {
        let set = names.iter().find(|name| (self.variable)(name).is_some());
        set.or(names.last()).copied().unwrap_or_default()
    }

    fn get(&mut self, name: &str) -> Option<String> {
        let value = (self.variable)(name).filter(|value| !value.is_empty());
        if let Some(value) = &value {
            self.used.push(format!("{name}={value}"));
        }
        value
    }

    fn required(&mut self, name: &str) -> Option<String> {
        let value = self.get(name);
        if value.is_none() {
            self.problems.push(format!("{name} is not set"));
        }
        value
    }

    fn number(&mut self, name: &str) -> Option<usize> {
        let text = self.required(name)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            self.problems.push(format!("{name} is `{text}`, expected a number"));
        }
        number
    }

    fn number_or(&mut self, name: &str, otherwise: usize) -> Option<usize> {
        if (self.variable)(name).is_none_or(|value| value.is_empty()) { Some(otherwise) } else { self.number(name) }
    }

    fn port(&mut self, name: &str) -> Option<u16> {
        let text = self.required(name)?;
        let port = text.trim().parse().ok().filter(|port| *port > 0);
        if port.is_none() {
            self.problems.push(format!("{name} is `{text}`, expected a port: 1 to 65535"));
        }
        port
    }

    fn check_below(&mut self, name: &str, got: Option<usize>, limit_name: &str, expected: Option<usize>) {
        if let (Some(got), Some(expected)) = (got, expected)
            && got >= expected
        {
            self.problems.push(format!("{name} is {got}, expected a number below {limit_name}, which is {expected}"));
        }
    }

    fn into_result(mut self) -> Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        self.used.sort_unstable();
        self.used.dedup();
        let (problems, used) = (self.problems.join("; "), self.used.join(" "));
        Err(Error::usage(format!("cannot read the rank from the environment: {problems} (got {used})")).hint(
            "launch ranks with `torchrun`, `srun` or the setting `ranks`; for a single process, unset these variables",
        ))
    }
}

/// First machine of a SLURM node list: `node01` for `node[01-04,07],other`.
fn first_host(list: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = list.trim();
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        name.push_str(&rest[..end]);
        let Some(inside) = rest[end..].strip_prefix('[') else { break };
        let (numbers, after) = inside.split_once(']')?;
        name.push_str(numbers.split(['-', ',']).next().unwrap_or_default());
        rest = after;
    }
    let is_valid = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    is_valid.then_some(name)
}

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

    fn of(variables: &[(&str, &str)]) -> Result<Option<RankEnvironment>, String> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        RankEnvironment::from_variables(&value).map_err(|error| error.to_string())
    }

    const TORCHRUN: [(&str, &str); 6] = [
        ("RANK", "3"),
        ("WORLD_SIZE", "4"),
        ("LOCAL_RANK", "1"),
        ("LOCAL_WORLD_SIZE", "2"),
        ("MASTER_ADDR", "node7"),
        ("MASTER_PORT", "29500"),
    ];

    #[test]
    fn torchrun_variables_are_read() {
        let environment = of(&TORCHRUN).unwrap().unwrap();
        assert_eq!(
            (environment.rank, environment.world_size, environment.local_rank, environment.local_world_size),
            (3, 4, 1, 2)
        );
        assert_eq!(
            (environment.host.as_str(), environment.port, environment.has_launcher_store),
            ("node7", 29500, false)
        );
        assert_eq!(environment.prefix, "pairloom/0");
        let agent = [("TORCHELASTIC_USE_AGENT_STORE", "True"), ("TORCHELASTIC_RESTART_COUNT", "2")];
        let environment = of(&[&TORCHRUN[..], &agent].concat()).unwrap().unwrap();
        assert!(environment.has_launcher_store);
        assert_eq!(environment.prefix, "pairloom/2", "keys of an attempt that failed are still in the store");
    }

    #[test]
    fn one_process_has_no_rank_environment() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1")]), Ok(None));
        assert_eq!(of(&[("RANK", ""), ("WORLD_SIZE", "")]), Ok(None));
        // A batch script.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "9")]), Ok(None));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_STEP_ID", "0")]), Ok(None));
    }

    #[test]
    fn all_problems_are_reported_together() {
        let wrong = of(&[("RANK", "2"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "x"), ("MASTER_PORT", "70000")]);
        assert_eq!(
            wrong.unwrap_err(),
            "cannot read the rank from the environment: LOCAL_RANK is `x`, expected a number; RANK is 2, expected a \
             number below WORLD_SIZE, which is 2; MASTER_ADDR is not set; MASTER_PORT is `70000`, expected a port: 1 to 65535 \
             (got LOCAL_RANK=x MASTER_PORT=70000 RANK=2 WORLD_SIZE=2)"
        );
        let wrong = of(&[("RANK", "1")]).unwrap_err();
        assert!(wrong.contains("WORLD_SIZE is not set; MASTER_ADDR is not set; MASTER_PORT is not set"), "{wrong}");
        let wrong = of(&[("WORLD_SIZE", "-2"), ("RANK", "0")]).unwrap_err();
        assert!(wrong.contains("WORLD_SIZE is `-2`, expected a number"), "{wrong}");
    }

    #[test]
    fn slurm_variables_are_read() {
        let task = [
            ("SLURM_PROCID", "5"),
            ("SLURM_NTASKS", "16"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_ID", "2"),
            ("SLURM_JOB_ID", "1234567"),
            ("SLURM_JOB_NODELIST", "gpu[07-09,12],big1"),
        ];
        let environment = of(&task).unwrap().unwrap();
        assert_eq!(
            (environment.rank, environment.world_size, environment.local_rank, environment.local_world_size),
            (5, 8, 1, 1)
        );
        assert_eq!(
            (environment.host.as_str(), environment.port, environment.has_launcher_store),
            ("gpu07", 15_000 + 4569, false)
        );
        let named = [("MASTER_ADDR", "10.0.0.1"), ("MASTER_PORT", "4000")];
        let environment = of(&[&task[..], &named].concat()).unwrap().unwrap();
        assert_eq!((environment.host.as_str(), environment.port), ("10.0.0.1", 4000));
        let wrong = of(&task[..6]).unwrap_err();
        assert!(wrong.contains("SLURM_JOB_NODELIST is not set"), "{wrong}");
    }

    #[test]
    fn the_first_machine_of_a_node_list_is_found() {
        let first = |list| first_host(list);
        assert_eq!(first("node01").as_deref(), Some("node01"));
        assert_eq!(first("a-1,b[2-3]").as_deref(), Some("a-1"));
        assert_eq!(first("b[002-003],a").as_deref(), Some("b002"));
        assert_eq!(first("r[1-2]n[3,5].cluster").as_deref(), Some("r1n3.cluster"));
        for wrong in ["", "[", "a[1", "a b", "$(x)"] {
            assert_eq!(first(wrong), None, "{wrong}");
        }
    }

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
