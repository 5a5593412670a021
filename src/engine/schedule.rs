//! Schedule of the stages of a run, and the queue of those that want exclusive use of their threads.
//!
//! Stages that the matrix does not repeat start at once and stream: each waits for its inputs when it reads them.
//! Instances start in turn, so that a run of many instances holds the memory of a few. An instance starts when the
//! instances that it reads are finished and one of the `jobs` places is free. Of those that can start, the ones that
//! follow from most instances go first: a model is evaluated before the next one is trained. A stage that reads
//! instances, such as a report over all of them, starts when they are finished.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_stage::plan::Plan;
use pairloom_stage::{InputOrigin, Stage, TableRef};

/// State of a stage in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StageState {
    /// Not started.
    Waiting,
    Running,
    Finished,
    /// Failed, or follows from one that failed.
    Failed,
}

#[derive(Debug)]
struct ScheduledStage {
    producers: Vec<usize>,
    is_instance: bool,
    /// Number of instances on the longest way to the stage, itself included. 0 if it follows from none.
    depth: usize,
    state: StageState,
}

/// Schedule of the stages of a plan, by their index in it.
#[derive(Debug)]
pub(super) struct Schedule {
    stages: Vec<ScheduledStage>,
    /// Number of instances that run at the same time.
    jobs: usize,
}

impl Schedule {
    /// Schedule in which nothing has started. Stages of which `is_reused` is true are finished.
    pub(super) fn new<S: Stage>(plan: &Plan<S>, jobs: usize, is_reused: impl Fn(usize) -> bool) -> Self {
        let mut stages: Vec<ScheduledStage> = Vec::new();
        let places: HashMap<&str, usize> =
            plan.stages().iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
        for (i, node) in plan.stages().iter().enumerate() {
            let from = node.stage.inputs().into_iter().filter_map(|input| match input.origin {
                InputOrigin::Table { from, .. } | InputOrigin::Files { from, .. } => Some(from),
                InputOrigin::Source(_) => None,
            });
            // Producers come before consumers in a plan.
            let place = |from: TableRef| places.get(from.stage()).copied();
            let producers: Vec<usize> = from.filter_map(place).filter(|&producer| producer < i).collect();
            let is_instance = !node.coordinates.is_empty();
            let above = producers.iter().map(|&producer| stages[producer].depth).max().unwrap_or(0);
            let state = if is_reused(i) { StageState::Finished } else { StageState::Waiting };
            let depth = above + usize::from(is_instance || above > 0);
            stages.push(ScheduledStage { producers, is_instance, depth, state });
        }
        Self { stages, jobs: jobs.max(1) }
    }

    /// Stages that start now. They count as running from here on.
    pub(super) fn start_ready(&mut self) -> Vec<usize> {
        for i in 0..self.stages.len() {
            let follows =
                self.stages[i].producers.iter().any(|&producer| self.stages[producer].state == StageState::Failed);
            if follows && self.stages[i].state == StageState::Waiting {
                self.stages[i].state = StageState::Failed;
            }
        }
        let mut ready: Vec<usize> = (0..self.stages.len()).filter(|&i| self.is_ready(i)).collect();
        ready.sort_by_key(|&i| std::cmp::Reverse(self.stages[i].depth));
        let running = self.stages.iter().filter(|stage| stage.is_instance && stage.state == StageState::Running);
        let mut free = self.jobs.saturating_sub(running.count());
        ready.retain(|&i| {
            let has_place = !self.stages[i].is_instance || free > 0;
            free -= usize::from(self.stages[i].is_instance && has_place);
            has_place
        });
        for &i in &ready {
            self.stages[i].state = StageState::Running;
        }
        ready
    }

    /// True if the stage waits, and everything that must be finished before it is.
    fn is_ready(&self, i: usize) -> bool {
        let stage = &self.stages[i];
        let is_there =
            |&producer: &usize| self.stages[producer].depth == 0 || self.stages[producer].state == StageState::Finished;
        stage.state == StageState::Waiting && stage.producers.iter().all(is_there)
    }

    /// Records the end of a stage.
    pub(super) fn end(&mut self, i: usize, is_success: bool) {
        self.stages[i].state = if is_success { StageState::Finished } else { StageState::Failed };
    }

    /// True if a stage runs.
    pub(super) fn is_running(&self) -> bool {
        self.stages.iter().any(|stage| stage.state == StageState::Running)
    }

    /// True if a stage has not started, and follows from none that failed.
    pub(super) fn is_waiting(&self) -> bool {
        self.stages.iter().any(|stage| stage.state == StageState::Waiting)
    }

    /// True if the stage is an instance, which shares the threads with those beside it.
    pub(super) fn is_instance(&self, i: usize) -> bool {
        self.stages[i].is_instance
    }
}

/// Time between two checks of a waiting stage.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Threads that a stage uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadShare {
    /// All threads of the run.
    Whole,
    /// Share of an instance of the matrix: there is a place for each share.
    OfInstance,
}

/// Queue of stages of a run, first come, first served: as many stages as there are places have exclusive use of their
/// shares of the threads, or one stage of all threads.
#[derive(Debug)]
pub(super) struct ExclusiveQueue {
    places: usize,
    state: Mutex<ExclusiveQueueState>,
}

#[derive(Debug, Default)]
struct ExclusiveQueueState {
    /// Number of the next ticket.
    next_ticket: u64,
    /// Tickets in use, in their order. The first ones have a place; the others wait.
    waiting: Vec<(u64, ThreadShare)>,
}

/// Position in the queue. Dropping the ticket leaves the queue.
#[derive(Debug)]
pub(super) struct ExclusiveTicket {
    queue: Arc<ExclusiveQueue>,
    ticket: u64,
}

impl ExclusiveQueue {
    /// Empty queue.
    pub fn new(places: usize) -> Self {
        Self { places: places.max(1), state: Mutex::default() }
    }

    /// Waits for exclusive use. Calls `waiting` once if it has to wait.
    pub fn wait(
        self: &Arc<Self>,
        share: ThreadShare,
        cancel: &CancelToken,
        waiting: &mut dyn FnMut(),
    ) -> Result<ExclusiveTicket> {
        let ticket = self.enqueue(share);
        let mut has_waited = false;
        while !ticket.has_place() {
            cancel.check()?;
            if !std::mem::replace(&mut has_waited, true) {
                waiting();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(ticket)
    }

    fn enqueue(self: &Arc<Self>, share: ThreadShare) -> ExclusiveTicket {
        let mut queue = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push((ticket, share));
        ExclusiveTicket { queue: Arc::clone(self), ticket }
    }
}

impl ExclusiveTicket {
    fn has_place(&self) -> bool {
        let queue = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = queue.waiting.iter().position(|(ticket, _)| *ticket == self.ticket) else { return false };
        let is_shared = queue.waiting[..=place].iter().all(|(_, share)| *share == ThreadShare::OfInstance);
        place == 0 || is_shared && place < self.queue.places
    }
}

impl Drop for ExclusiveTicket {
    fn drop(&mut self) {
        let mut queue = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.retain(|(ticket, _)| *ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadShare::{OfInstance, Whole};
    use super::*;
    use crate::testing::{ToyStage, node};
    use pairloom_stage::Coordinate;
    use pairloom_stage::plan::PlanNode;

    fn instance(name: &str, stage: ToyStage, seed: u64) -> PlanNode<ToyStage> {
        let coordinates = vec![Coordinate { axis: "seed".to_owned(), value: seed.into() }];
        PlanNode { coordinates, ..node(&format!("{name}@seed={seed}"), stage) }
    }

    /// `data` is read by `fit` of two seeds, each of which is read by `test`; `page` reads both tests in turn.
    fn plan() -> Plan<ToyStage> {
        Plan::new(vec![
            node("data", ToyStage::count(3)),
            instance("fit", ToyStage::pass("data.rows"), 1),
            instance("fit", ToyStage::pass("data.rows"), 2),
            instance("test", ToyStage::pass("fit@seed=1.rows"), 1),
            instance("test", ToyStage::pass("fit@seed=2.rows"), 2),
            node("page", ToyStage::pass("test@seed=2.rows")),
        ])
        .unwrap()
    }

    /// Stages that start after the end of a stage.
    fn after(schedule: &mut Schedule, ended: usize, is_success: bool) -> Vec<usize> {
        schedule.end(ended, is_success);
        schedule.start_ready()
    }

    #[test]
    fn instances_run_in_turn_and_the_rest_of_a_chain_before_the_next_one() {
        let mut schedule = Schedule::new(&plan(), 1, |_| false);
        assert_eq!(schedule.start_ready(), [1, 0], "an instance may read what a running stage still writes");
        assert!(schedule.start_ready().is_empty());
        schedule.end(0, true);
        for (ended, started) in [(1, 3), (3, 2), (2, 4), (4, 5)] {
            assert!(schedule.is_waiting());
            assert_eq!(after(&mut schedule, ended, true), [started]);
        }
        assert!(!schedule.is_waiting());
        assert!(after(&mut schedule, 5, true).is_empty() && !schedule.is_running());
    }

    #[test]
    fn several_instances_run_beside_each_other() {
        let mut schedule = Schedule::new(&plan(), 2, |i| i == 0);
        assert_eq!(schedule.start_ready(), [1, 2]);
        assert_eq!(after(&mut schedule, 1, true), [3]);
        assert!(schedule.is_instance(3) && !schedule.is_instance(5));
    }

    #[test]
    fn what_follows_from_a_failure_does_not_start() {
        let mut schedule = Schedule::new(&plan(), 1, |i| i == 0);
        assert_eq!(schedule.start_ready(), [1]);
        assert_eq!(after(&mut schedule, 1, false), [2], "the other seed goes on");
        assert_eq!(after(&mut schedule, 2, true), [4]);
        assert_eq!(after(&mut schedule, 4, true), [5]);
        assert!(after(&mut schedule, 5, true).is_empty() && !schedule.is_running());
    }

    #[test]
    fn exclusive_use_is_given_to_one_ticket_at_a_time_in_order() {
        let turns = Arc::new(ExclusiveQueue::new(1));
        let (first, second, third) = (turns.enqueue(Whole), turns.enqueue(OfInstance), turns.enqueue(OfInstance));
        assert!(first.has_place() && !second.has_place() && !third.has_place());
        drop(second);
        assert!(first.has_place() && !third.has_place());
        drop(first);
        assert!(third.has_place());
        let cancel = CancelToken::default();
        let mut waits = 0;
        let mut waiting = || {
            waits += 1;
            cancel.cancel();
        };
        assert!(turns.wait(Whole, &cancel, &mut waiting).is_err(), "waiting can be cancelled");
        drop(third);
        assert!(turns.wait(Whole, &CancelToken::default(), &mut waiting).is_ok());
        assert_eq!(waits, 1, "only the first had to wait");
    }

    #[test]
    fn several_places_are_given_at_the_same_time() {
        let turns = Arc::new(ExclusiveQueue::new(2));
        let (first, second, third) = (turns.enqueue(OfInstance), turns.enqueue(OfInstance), turns.enqueue(OfInstance));
        assert!(first.has_place() && second.has_place() && !third.has_place());
        drop(first);
        assert!(third.has_place());
        // A stage that uses all threads waits for those before it, and the next ones wait for it.
        let (whole, last) = (turns.enqueue(Whole), turns.enqueue(OfInstance));
        drop(second);
        assert!(third.has_place() && !whole.has_place() && !last.has_place());
        drop(third);
        assert!(whole.has_place() && !last.has_place());
        drop(whole);
        assert!(last.has_place());
    }
}
