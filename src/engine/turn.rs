//! Turns of stages that want the machine for themselves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::runtime::Cancel;

/// How long a stage that waits for its turn sleeps before it asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// Whose turn it is among the stages of a run: one at a time, in the order in which they ask.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    /// Tickets given out.
    given: u64,
    /// Tickets whose holders are not done, the one whose turn it is first.
    waiting: Vec<u64>,
}

/// A turn, or a place in the queue for one. Dropping it lets the next one in.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    ticket: u64,
}

impl Turns {
    /// Waits for a turn.
    ///
    /// # Errors
    /// The run was cancelled.
    pub fn wait(self: &Arc<Self>, cancel: &Cancel) -> Result<Turn> {
        let turn = self.queue_up();
        while !turn.is_up() {
            cancel.proceed()?;
            std::thread::sleep(PAUSE);
        }
        Ok(turn)
    }

    fn queue_up(self: &Arc<Self>) -> Turn {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ticket = queue.given;
        queue.given += 1;
        queue.waiting.push(ticket);
        Turn { turns: Arc::clone(self), ticket }
    }
}

impl Turn {
    fn is_up(&self) -> bool {
        let queue = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.first() == Some(&self.ticket)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.waiting.retain(|ticket| *ticket != self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_one_after_the_other_in_the_order_asked_for() {
        let turns = Arc::new(Turns::default());
        let (first, second, third) = (turns.queue_up(), turns.queue_up(), turns.queue_up());
        assert!(first.is_up() && !second.is_up() && !third.is_up());
        drop(second);
        assert!(first.is_up() && !third.is_up());
        drop(first);
        assert!(third.is_up());
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(turns.wait(&cancel).is_err(), "who waits can be cancelled");
        drop(third);
        assert!(turns.wait(&Cancel::default()).is_ok());
    }
}
