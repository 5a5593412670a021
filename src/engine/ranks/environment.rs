//! What the environment says of the ranks that a program was started as: the variables of `torchrun` (`env://`), or those
//! of SLURM.

use crate::error::{Error, Result};

/// Beginning of the names under which `torchrun` says more than `env://` asks for.
const ELASTIC: &str = "TORCHELASTIC_";
/// What the processes that Pairloom starts by itself are told besides; see [`Place::token`].
pub const TOKEN: &str = "PAIRLOOM_RANK_TOKEN";
/// The port that follows from a SLURM job lies in a range of this many ...
const PORTS: u64 = 10_000;
/// ... which begins here, below those that the system hands out by itself.
const FIRST_PORT: u64 = 15_000;

/// A process among the ranks that a program was started as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// This process.
    pub rank: usize,
    /// All processes, at least two.
    pub of: usize,
    /// Its number on its machine.
    pub local: usize,
    /// Processes that share the processors of this machine.
    pub locals: usize,
    /// Where rank 0 can be reached.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether somebody else, namely `torchrun`, already runs a store of keys there.
    pub served: bool,
    /// What tells this attempt from those before it at the same store of keys.
    pub name: String,
    /// What only the processes of one launcher know; whoever does not is not listened to. `env://` has no such thing.
    pub token: Option<String>,
}

impl Place {
    /// The place that the variables name; `None` where the program was started as one process.
    ///
    /// `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` count where one of the first two is set; `LOCAL_RANK` and
    /// `LOCAL_WORLD_SIZE` are 0 and 1 if they are not. Otherwise SLURM's `SLURM_PROCID`, `SLURM_STEP_NUM_TASKS` (or
    /// `SLURM_NTASKS`), `SLURM_LOCALID` and the first machine of `SLURM_STEP_NODELIST` (or `SLURM_JOB_NODELIST`) count, in
    /// tasks that `srun` started: in a batch script there is one process, though SLURM sets most variables there too.
    ///
    /// # Errors
    /// Variables that are missing, malformed or contradict each other: all of them in one message.
    pub fn of(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let mut vars = Variables { variable, problems: vec![], used: vec![] };
        let place = if is_set("RANK") || is_set("WORLD_SIZE") {
            vars.of_torchrun()
        } else if is_set("SLURM_PROCID") && (is_set("SLURM_STEP_ID") || is_set("SLURM_STEP_NUM_TASKS")) {
            vars.of_slurm()
        } else {
            return Ok(None);
        };
        vars.end()?;
        Ok(place.filter(|place| place.of > 1))
    }
}

/// Variables as they are read, and what is wrong with them.
struct Variables<'v> {
    variable: &'v dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
    used: Vec<String>,
}

impl Variables<'_> {
    fn of_torchrun(&mut self) -> Option<Place> {
        let of = self.number("WORLD_SIZE");
        let rank = self.number("RANK");
        let local = self.number_or("LOCAL_RANK", 0);
        let locals = self.number_or("LOCAL_WORLD_SIZE", 1);
        self.below("RANK", rank, "WORLD_SIZE", of);
        if self.get("LOCAL_WORLD_SIZE").is_some() {
            self.below("LOCAL_RANK", local, "LOCAL_WORLD_SIZE", locals);
        }
        // One process needs no other, and so no place to meet.
        let (host, port) = if of == Some(1) {
            (Some(String::new()), Some(0))
        } else {
            (self.wanted("MASTER_ADDR"), self.port("MASTER_PORT"))
        };
        let attempt = self.get(&format!("{ELASTIC}RESTART_COUNT")).unwrap_or_else(|| "0".to_owned());
        Some(Place {
            rank: rank?,
            of: of?,
            local: local?,
            locals: locals?.max(1),
            host: host?,
            port: port?,
            served: self.get(&format!("{ELASTIC}USE_AGENT_STORE")).is_some_and(|value| value == "True"),
            name: format!("pairloom/{attempt}"),
            token: (self.variable)(TOKEN),
        })
    }

    fn of_slurm(&mut self) -> Option<Place> {
        let tasks = self.first(&["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]);
        let of = self.number(tasks);
        let rank = self.number("SLURM_PROCID");
        let local = self.number_or("SLURM_LOCALID", 0);
        self.below("SLURM_PROCID", rank, tasks, of);
        let (host, port) = if of == Some(1) { (Some(String::new()), Some(0)) } else { self.slurm_meeting() };
        let (of, rank, local) = (of?, rank?, local?);
        // SLURM gives every task processors of its own.
        let (host, port, name) = (host?, port?, "pairloom/0".to_owned());
        Some(Place { rank, of, local, locals: 1, host, port, served: false, name, token: None })
    }

    /// The first machine of the job, and a port that follows from the job and the step, unless they are given.
    fn slurm_meeting(&mut self) -> (Option<String>, Option<u16>) {
        let host = self.get("MASTER_ADDR").or_else(|| {
            let nodes = self.first(&["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"]);
            let list = self.wanted(nodes)?;
            let first = first_machine(&list);
            if first.is_none() {
                self.problems.push(format!("{nodes} is `{list}`, wanted names of machines"));
            }
            first
        });
        let port = if self.get("MASTER_PORT").is_some() {
            self.port("MASTER_PORT")
        } else {
            let job = self.number("SLURM_JOB_ID");
            let step = self.number_or("SLURM_STEP_ID", 0);
            let spread = |job: usize, step: usize| FIRST_PORT + (job as u64).wrapping_add(step as u64) % PORTS;
            job.zip(step).and_then(|(job, step)| u16::try_from(spread(job, step)).ok())
        };
        (host, port)
    }

    /// The first of these that is set; the last one if none is.
    fn first<'n>(&self, names: &[&'n str]) -> &'n str {
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

    fn wanted(&mut self, name: &str) -> Option<String> {
        let value = self.get(name);
        if value.is_none() {
            self.problems.push(format!("{name} is not set"));
        }
        value
    }

    fn number(&mut self, name: &str) -> Option<usize> {
        let text = self.wanted(name)?;
        let number = text.trim().parse().ok();
        if number.is_none() {
            self.problems.push(format!("{name} is `{text}`, wanted a number"));
        }
        number
    }

    fn number_or(&mut self, name: &str, otherwise: usize) -> Option<usize> {
        if (self.variable)(name).is_none_or(|value| value.is_empty()) { Some(otherwise) } else { self.number(name) }
    }

    fn port(&mut self, name: &str) -> Option<u16> {
        let text = self.wanted(name)?;
        let port = text.trim().parse().ok().filter(|port| *port > 0);
        if port.is_none() {
            self.problems.push(format!("{name} is `{text}`, wanted a port: 1 to 65535"));
        }
        port
    }

    fn below(&mut self, name: &str, got: Option<usize>, of: &str, wanted: Option<usize>) {
        if let (Some(got), Some(wanted)) = (got, wanted)
            && got >= wanted
        {
            self.problems.push(format!("{name} is {got}, wanted a number below {of}, which is {wanted}"));
        }
    }

    fn end(mut self) -> Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        self.used.sort_unstable();
        self.used.dedup();
        let (problems, used) = (self.problems.join("; "), self.used.join(" "));
        Err(Error::usage(format!("the environment does not say which rank this is: {problems} (got {used})"))
            .hint("start ranks with `torchrun`, `srun` or the setting `ranks`; for one process, unset these variables"))
    }
}

/// The first machine of a list as SLURM writes it: `node01` of `node[01-04,07],other`.
fn first_machine(list: &str) -> Option<String> {
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
    let sound = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    sound.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<Place>, String> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Place::of(&value).map_err(|error| error.to_string())
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
    fn torchrun_names_the_place() {
        let place = of(&TORCHRUN).unwrap().unwrap();
        assert_eq!((place.rank, place.of, place.local, place.locals), (3, 4, 1, 2));
        assert_eq!((place.host.as_str(), place.port, place.served), ("node7", 29500, false));
        assert_eq!(place.name, "pairloom/0");
        let agent = [("TORCHELASTIC_USE_AGENT_STORE", "True"), ("TORCHELASTIC_RESTART_COUNT", "2")];
        let place = of(&[&TORCHRUN[..], &agent].concat()).unwrap().unwrap();
        assert!(place.served);
        assert_eq!(place.name, "pairloom/2", "keys of an attempt that failed are still in the store");
    }

    #[test]
    fn one_process_is_no_rank() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1")]), Ok(None));
        assert_eq!(of(&[("RANK", ""), ("WORLD_SIZE", "")]), Ok(None));
        // A batch script, not a task of it.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "9")]), Ok(None));
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_STEP_ID", "0")]), Ok(None));
    }

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let wrong = of(&[("RANK", "2"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "x"), ("MASTER_PORT", "70000")]);
        assert_eq!(
            wrong.unwrap_err(),
            "the environment does not say which rank this is: LOCAL_RANK is `x`, wanted a number; RANK is 2, wanted a \
             number below WORLD_SIZE, which is 2; MASTER_ADDR is not set; MASTER_PORT is `70000`, wanted a port: 1 to 65535 \
             (got LOCAL_RANK=x MASTER_PORT=70000 RANK=2 WORLD_SIZE=2)"
        );
        let wrong = of(&[("RANK", "1")]).unwrap_err();
        assert!(wrong.contains("WORLD_SIZE is not set; MASTER_ADDR is not set; MASTER_PORT is not set"), "{wrong}");
        let wrong = of(&[("WORLD_SIZE", "-2"), ("RANK", "0")]).unwrap_err();
        assert!(wrong.contains("WORLD_SIZE is `-2`, wanted a number"), "{wrong}");
    }

    #[test]
    fn slurm_names_the_place() {
        let task = [
            ("SLURM_PROCID", "5"),
            ("SLURM_NTASKS", "16"),
            ("SLURM_STEP_NUM_TASKS", "8"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_ID", "2"),
            ("SLURM_JOB_ID", "1234567"),
            ("SLURM_JOB_NODELIST", "gpu[07-09,12],big1"),
        ];
        let place = of(&task).unwrap().unwrap();
        assert_eq!((place.rank, place.of, place.local, place.locals), (5, 8, 1, 1));
        assert_eq!((place.host.as_str(), place.port, place.served), ("gpu07", 15_000 + 4569, false));
        let named = [("MASTER_ADDR", "10.0.0.1"), ("MASTER_PORT", "4000")];
        let place = of(&[&task[..], &named].concat()).unwrap().unwrap();
        assert_eq!((place.host.as_str(), place.port), ("10.0.0.1", 4000));
        let wrong = of(&task[..6]).unwrap_err();
        assert!(wrong.contains("SLURM_JOB_NODELIST is not set"), "{wrong}");
    }

    #[test]
    fn the_first_machine_of_a_list() {
        let first = |list| first_machine(list);
        assert_eq!(first("node01").as_deref(), Some("node01"));
        assert_eq!(first("a-1,b[2-3]").as_deref(), Some("a-1"));
        assert_eq!(first("b[002-003],a").as_deref(), Some("b002"));
        assert_eq!(first("r[1-2]n[3,5].cluster").as_deref(), Some("r1n3.cluster"));
        for wrong in ["", "[", "a[1", "a b", "$(x)"] {
            assert_eq!(first(wrong), None, "{wrong}");
        }
    }
}
