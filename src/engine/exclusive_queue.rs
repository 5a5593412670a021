//! Queue of stages that want exclusive use of their threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::runtime::CancelToken;

/// Time between two checks of a waiting stage.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Queue of stages of a run, which gives exclusive use of their threads to as many stages at a time as there are places,
/// first come, first served.
#[derive(Debug)]
pub(super) struct ExclusiveQueue {
    places: usize,
    state: Mutex<ExclusiveQueueState>,
}

#[derive(Debug, Default)]
struct ExclusiveQueueState {
    /// Number of the next ticket.
    next_ticket: u64,
    /// Tickets in use. The first ones have a place; the others wait.
    waiting: Vec<u64>,
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
    pub fn wait(self: &Arc<Self>, cancel: &CancelToken, waiting: &mut dyn FnMut()) -> Result<ExclusiveTicket> {
        let ticket = self.enqueue();
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

    fn enqueue(self: &Arc<Self>) -> ExclusiveTicket {
        let mut queue = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        queue.waiting.push(ticket);
        ExclusiveTicket { queue: Arc::clone(self), ticket }
    }
}

impl ExclusiveTicket {
    fn has_place(&self) -> bool {
        let queue = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.iter().take(self.queue.places).any(|ticket| *ticket == self.ticket)
    }
}

impl Drop for ExclusiveTicket {
    fn drop(&mut self) {
        let mut queue = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.retain(|ticket| *ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_use_is_given_to_one_ticket_at_a_time_in_order() {
        let turns = Arc::new(ExclusiveQueue::new(1));
        let (first, second, third) = (turns.enqueue(), turns.enqueue(), turns.enqueue());
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
        assert!(turns.wait(&cancel, &mut waiting).is_err(), "waiting can be cancelled");
        drop(third);
        assert!(turns.wait(&CancelToken::default(), &mut waiting).is_ok());
        assert_eq!(waits, 1, "only the first had to wait");
    }

    #[test]
    fn several_places_are_given_at_the_same_time() {
        let turns = Arc::new(ExclusiveQueue::new(2));
        let (first, second, third) = (turns.enqueue(), turns.enqueue(), turns.enqueue());
        assert!(first.has_place() && second.has_place() && !third.has_place());
        drop(first);
        assert!(third.has_place());
    }
}
