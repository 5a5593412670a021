//! The other ranks, as rank 0 sees them: waits for them, gives them jobs, sees them fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::RankOptions;
use super::board::{Boards, Messages, PAUSE};
use super::environment::Place;
use super::launch::{Children, LAUNCHED, LOOPBACK, in_words, token};
use super::message::{Failure, Hello, Job, Report, disagreement};
use crate::error::{Error, Kind, Result};
use crate::runtime::{Cancel, Meeting, Ranks};

/// How long ranks wait for each other at the start of a run; schedulers do not start all at once.
pub(super) const MEET: Duration = Duration::from_mins(5);
/// How long rank 0 waits for others only to tell them that there is nothing to do together.
const DECLINE: Duration = Duration::from_secs(10);
/// How long ranks may take to end once they are told.
const END: Duration = Duration::from_secs(5);
/// What to do when a rank is gone.
const AGAIN: &str = "run the same command again: it goes on from the last checkpoint";

/// The other ranks of a run, or of a stage that started its own.
pub(crate) struct Crew {
    messages: Messages,
    children: Mutex<Children>,
    of: usize,
    /// Ranks on this machine.
    locals: usize,
    host: String,
    port: u16,
    patience: Duration,
    /// Whether they were started for one stage, and end with it.
    launched: bool,
    /// Jobs given so far.
    jobs: AtomicU64,
    /// Whether one of them is under way.
    busy: AtomicBool,
}

impl Crew {
    /// Meets the ranks that the program was started as. `own` is what this one would run, or why it runs nothing.
    ///
    /// # Errors
    /// Not all came, or one would run something else: then all of them end with this error.
    pub fn meet(
        options: &RankOptions,
        place: &Place,
        own: Result<&Value, &Error>,
        cancel: &Cancel,
    ) -> Result<Arc<Self>> {
        let boards = boards(options, place.of)?;
        let (messages, port) = if place.served {
            (Messages::connect(boards, place, MEET, cancel)?, place.port)
        } else {
            let (board, port) = boards.serve(&place.host, place.port, MEET)?;
            (Messages::over(board, &place.name, place.token.as_deref()), port)
        };
        let this = Self {
            messages,
            children: Mutex::default(),
            of: place.of,
            locals: place.locals,
            host: place.host.clone(),
            port,
            patience: options.patience,
            launched: false,
            jobs: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        };
        this.agree(own, cancel)?;
        Ok(Arc::new(this))
    }

    /// Starts the other ranks of a stage on this machine.
    ///
    /// # Errors
    /// They cannot be started, or do not come.
    pub fn launch(options: &RankOptions, of: usize, own: &Value, cancel: &Cancel) -> Result<Arc<Self>> {
        let (board, port) = boards(options, of)?.serve(LOOPBACK, 0, MEET)?;
        let token = token()?;
        let children = Children::start(&options.command, of, port, &token)?;
        let this = Self {
            messages: Messages::over(board, LAUNCHED, Some(&token)),
            children: Mutex::new(children),
            of,
            locals: of,
            host: LOOPBACK.to_owned(),
            port,
            patience: options.patience,
            launched: true,
            jobs: AtomicU64::new(0),
            busy: AtomicBool::new(false),
        };
        this.agree(Ok(own), cancel)?;
        Ok(Arc::new(this))
    }

    /// All ranks.
    pub fn of(&self) -> usize {
        self.of
    }

    /// Ranks that share the processors of this machine.
    pub fn locals(&self) -> usize {
        self.locals
    }

    /// Hears from all ranks, and ends the run of all if they differ.
    fn agree(&self, own: Result<&Value, &Error>, cancel: &Cancel) -> Result<()> {
        let agreed = self.hear(own, cancel);
        if agreed.is_err() {
            self.end(agreed.as_ref().copied());
        }
        agreed
    }

    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    fn hear(&self, own: Result<&Value, &Error>, cancel: &Cancel) -> Result<()> {
        let begun = Instant::now();
        let patience = if own.is_ok() { MEET } else { DECLINE };
        let mut missing: Vec<usize> = (1..self.of).collect();
        let mut problems = Vec::new();
        while !missing.is_empty() {
            let mut still = Vec::new();
            for rank in missing {
                match (self.messages.get::<Hello>(&format!("hello/{rank}"))?, own) {
                    (None, _) => still.push(rank),
                    (Some(Hello { plan: Err(failure) }), Ok(_)) => {
                        problems.push(format!("rank {rank}: {}", Error::from(failure)));
                    }
                    (Some(Hello { plan: Ok(other) }), Ok(own)) => problems.extend(disagreement(rank, own, &other)),
                    (Some(_), Err(_)) => {}
                }
                if let Some(status) = self.children().ended(rank) {
                    return Err(Error::stage(format!("rank {rank} of {} {} as it began", self.of, in_words(status))));
                }
            }
            missing = still;
            if begun.elapsed() >= patience && !missing.is_empty() {
                break;
            }
            cancel.proceed()?;
            std::thread::sleep(PAUSE);
        }
        if let Err(error) = own {
            return Err(Error::new(error.kind(), format!("rank 0: {error}")));
        }
        if !problems.is_empty() {
            let problems = problems.join("; ");
            return Err(Error::usage(format!("ranks must have the same settings: {problems}"))
                .hint("give all ranks the same pipeline file and the same `--set`"));
        }
        if !missing.is_empty() {
            let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let (of, seconds) = (self.of, patience.as_secs());
            return Err(Error::stage(format!("after {seconds} s there is no rank {missing} of {of}"))
                .hint("start all ranks, with the same MASTER_ADDR and MASTER_PORT"));
        }
        Ok(())
    }

    /// Gives all ranks a job, once the one before has ended, and watches them from then on: when one ends, `stage` is
    /// cancelled.
    pub fn begin(self: &Arc<Self>, job: impl FnOnce(Meeting) -> Job, stage: &Cancel) -> Result<Shift> {
        while self.busy.swap(true, Ordering::SeqCst) {
            stage.proceed()?;
            std::thread::sleep(PAUSE);
        }
        let number = self.jobs.fetch_add(1, Ordering::SeqCst);
        let (host, port, patience) = (self.host.clone(), self.port, self.patience);
        let meeting = Meeting { host, port, name: format!("{}/group/{number}", self.messages.name()), patience };
        let ranks = Ranks { rank: 0, of: self.of, local: 0, meeting: Some(meeting.clone()) };
        let mut shift = Shift { crew: Arc::clone(self), number, ranks, done: Arc::default(), watch: None };
        self.messages.put(&format!("job/{number}"), &job(meeting))?;
        let (crew, done, cancel) = (Arc::clone(self), Arc::clone(&shift.done), stage.clone());
        let watch = move || {
            while !done.load(Ordering::SeqCst) {
                // An error is that of the store; whoever works with the other ranks meets it as well.
                let failed = |account| !matches!(account, Ok(None | Some(Account::Done)) | Err(_));
                if (1..crew.of).any(|rank| failed(crew.account(rank, number))) {
                    cancel.cancel();
                    return;
                }
                std::thread::sleep(4 * PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("watch of ranks".to_owned()).spawn(watch);
        shift.watch = Some(thread.map_err(|error| Error::internal(format!("no thread: {error}")))?);
        Ok(shift)
    }

    /// How a job ended on a rank, if it did.
    fn account(&self, rank: usize, job: u64) -> Result<Option<Account>> {
        let ended = self.children().ended(rank);
        if let Some(said) = self.last_words(rank, job)? {
            return Ok(Some(said));
        }
        let Some(status) = ended else { return Ok(None) };
        // They may still be on their way.
        std::thread::sleep(4 * PAUSE);
        let said = self.last_words(rank, job)?;
        Ok(Some(said.unwrap_or_else(|| Account::Died(in_words(status)))))
    }

    fn last_words(&self, rank: usize, job: u64) -> Result<Option<Account>> {
        for name in [format!("report/{job}/{rank}"), format!("left/{rank}")] {
            if let Some(report) = self.messages.get::<Report>(&name)? {
                let failed = |failure| Account::Failed(Error::from(failure));
                return Ok(Some(report.result.map_or_else(failed, |()| Account::Done)));
            }
        }
        Ok(None)
    }

    /// Tells all ranks that the run has ended, and how, and waits a moment for them to end too.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    pub fn end(&self, result: Result<(), &Error>) {
        let begun = Instant::now();
        let mut left: Vec<usize> = (1..self.of).collect();
        if self.messages.put("end", &Report { result: result.map_err(Failure::from) }).is_ok() {
            while !left.is_empty() && begun.elapsed() < END {
                left.retain(|rank| {
                    let said = ["bye", "left"].map(|word| self.messages.get::<Value>(&format!("{word}/{rank}")));
                    said.iter().all(|word| matches!(word, Ok(None))) && self.children().ended(*rank).is_none()
                });
                std::thread::sleep(PAUSE);
            }
        }
        self.children().wait(END.saturating_sub(begun.elapsed()));
    }

    fn children(&self) -> std::sync::MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn boards(options: &RankOptions, of: usize) -> Result<&'static dyn Boards> {
    options.boards.ok_or_else(|| Error::usage(format!("{of} ranks are wanted, and this program cannot connect any")))
}

/// How a job ended on a rank.
enum Account {
    Done,
    /// With an error of its own.
    Failed(Error),
    /// Without a word: what became of the process.
    Died(String),
}

/// A job under way on all ranks.
pub(crate) struct Shift {
    crew: Arc<Crew>,
    number: u64,
    /// Rank 0 among the others.
    pub ranks: Ranks,
    done: Arc<AtomicBool>,
    watch: Option<std::thread::JoinHandle<()>>,
}

impl Shift {
    /// Ends the job, which had this result on rank 0: waits for the others if it was good, stops them otherwise. The result
    /// for all is good only if it is good everywhere. `run` tells whether somebody stopped the run.
    pub fn end(mut self, result: Result<()>, run: &Cancel) -> Result<()> {
        self.unwatch();
        let result = match result {
            Ok(()) => self.wait(run),
            Err(own) => Err(self.explain(own, run)),
        };
        if self.crew.launched {
            self.crew.end(result.as_ref().copied());
        }
        result
    }

    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    fn wait(&self, run: &Cancel) -> Result<()> {
        let begun = Instant::now();
        for rank in 1..self.crew.of {
            loop {
                match self.crew.account(rank, self.number)? {
                    Some(Account::Done) => break,
                    Some(Account::Failed(error)) => return Err(self.failed(rank, &error)),
                    Some(Account::Died(how)) => return Err(self.died(rank, &how)),
                    None if begun.elapsed() > self.crew.patience => {
                        let seconds = self.crew.patience.as_secs();
                        return Err(Error::stage(format!("rank {rank} does not end: rank 0 did {seconds} s before")));
                    }
                    None => run.proceed()?,
                }
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// The error that counts of those of all ranks, when rank 0 had `own`.
    #[expect(clippy::disallowed_methods, reason = "waiting for another process is not work")]
    fn explain(&self, own: Error, run: &Cancel) -> Error {
        let begun = Instant::now();
        let _ = self.crew.messages.put(&format!("stop/{}", self.number), &true);
        if !own.is_peer() && (own.kind() != Kind::Interrupted || run.is_cancelled()) {
            return own;
        }
        let mut silent: Vec<usize> = (1..self.crew.of).collect();
        let mut interrupted = false;
        while !silent.is_empty() && begun.elapsed() < END {
            let mut still = Vec::new();
            for rank in silent {
                match self.crew.account(rank, self.number) {
                    Ok(Some(Account::Died(how))) => return self.died(rank, &how),
                    // It is only that another rank is gone.
                    Ok(Some(Account::Failed(error))) if error.is_peer() => {}
                    Ok(Some(Account::Failed(error))) if error.kind() == Kind::Interrupted => interrupted = true,
                    Ok(Some(Account::Failed(error))) => return self.failed(rank, &error),
                    Ok(Some(Account::Done)) => {}
                    Ok(None) | Err(_) => still.push(rank),
                }
            }
            silent = still;
            std::thread::sleep(PAUSE);
        }
        if interrupted {
            return Error::interrupted();
        }
        match silent.first() {
            Some(&rank) => self.died(rank, &format!("is gone without a word: {own}")),
            None => own,
        }
    }

    /// An error of another rank as one of the stage.
    fn failed(&self, rank: usize, error: &Error) -> Error {
        let named = Error::new(error.kind(), format!("rank {rank} of {}: {error}", self.crew.of));
        named.hint(error.hint_text().unwrap_or(AGAIN))
    }

    fn died(&self, rank: usize, how: &str) -> Error {
        Error::stage(format!("rank {rank} of {} {how}", self.crew.of)).hint(AGAIN)
    }

    fn unwatch(&mut self) {
        self.done.store(true, Ordering::SeqCst);
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        self.unwatch();
        // For ranks that still work, because this one panicked.
        let _ = self.crew.messages.put(&format!("stop/{}", self.number), &true);
        self.crew.busy.store(false, Ordering::SeqCst);
    }
}
