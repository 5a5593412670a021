//! Queue of stages that want exclusive use of their threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;

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
    ///
    /// # Errors
    /// The run was cancelled.
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
