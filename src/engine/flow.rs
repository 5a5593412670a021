//! Work that flows through threads in bounded memory: an ordered parallel map and the budget that bounds it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam::channel::{Receiver, bounded, unbounded};
use std::thread as scoped;

use crate::error::{Error, Result};
use crate::runtime::Cancel;

/// A limit on the bytes that are in flight between threads, shared by all flows of a run.
///
/// Every flow may always have one item in flight, so that no flow starves because of another; so the true bound is the
/// limit plus one item a flow. A flow's items never wait for another flow's, so there is no deadlock.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    in_flight: Mutex<u64>,
    freed: Condvar,
    peak: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        let shared = Shared { limit, in_flight: Mutex::new(0), freed: Condvar::new(), peak: AtomicU64::new(0) };
        Self(Arc::new(shared))
    }

    /// The most bytes that were in flight at a time.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.0.peak.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `bytes` fit, or until this flow has nothing else in flight.
    fn acquire(&self, flow: &Arc<AtomicU64>, bytes: u64, cancel: &Cancel) -> Result<Permit> {
        let mut in_flight = self.lock();
        while *in_flight + bytes > self.0.limit && flow.load(Ordering::SeqCst) > 0 {
            cancel.proceed()?;
            let pause = std::time::Duration::from_millis(50);
            in_flight = self.0.freed.wait_timeout(in_flight, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
        *in_flight += bytes;
        self.0.peak.fetch_max(*in_flight, Ordering::Relaxed);
        flow.fetch_add(1, Ordering::SeqCst);
        Ok(Permit { budget: self.clone(), flow: Arc::clone(flow), bytes })
    }
}

/// Bytes of one item in flight, given back on drop.
#[derive(Debug)]
struct Permit {
    budget: Budget,
    flow: Arc<AtomicU64>,
    bytes: u64,
}

impl Permit {
    /// Accounts `bytes` in place of what it was: the result of an item in place of the item. Does not wait.
    fn reweigh(&mut self, bytes: u64) {
        let mut in_flight = self.budget.lock();
        *in_flight = *in_flight - self.bytes + bytes;
        self.bytes = bytes;
        self.budget.0.peak.fetch_max(*in_flight, Ordering::Relaxed);
        self.budget.0.freed.notify_all();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut in_flight = self.budget.lock();
        *in_flight -= self.bytes;
        self.flow.fetch_sub(1, Ordering::SeqCst);
        self.budget.0.freed.notify_all();
    }
}

/// Pulls items from `source`, maps them on `threads` threads, and pushes the results to `sink` in the order of the items.
///
/// `source` gives an item with its weight in bytes, and `function` a result with its weight, which takes the place of the
/// item's; it stays accounted until `sink` has taken the result. An item is expected to weigh what the heaviest result
/// weighed so far, so the first one goes alone. At most 2 · `threads` items are in flight, and as few as `budget` asks
/// for. What `function` needs while it works is not accounted.
///
/// `stop` is raised at the first error, so that a `source` that looks at it need not wait for nothing.
///
/// # Errors
/// The first error in the order of the items, be it of `source`, `function` or `sink`; or an interruption. Everything in
/// flight is dropped then.
pub fn ordered_map<T: Send, U: Send>(
    budget: &Budget,
    stop: &Cancel,
    threads: usize,
    mut source: impl FnMut() -> Result<Option<(T, u64)>> + Send,
    function: impl Fn(T) -> Result<(U, u64)> + Sync,
    mut sink: impl FnMut(U) -> Result<()>,
) -> Result<()> {
    let threads = threads.max(1);
    let flow = Arc::new(AtomicU64::new(0));
    let heaviest = AtomicU64::new(0);
    let (work_sender, work) = bounded::<(usize, T, Permit)>(threads);
    #[expect(clippy::disallowed_methods, reason = "the budget and the work channel bound what can be in here")]
    let (done_sender, done) = unbounded::<(usize, Result<(U, Permit)>)>();
    scoped::scope(|scope| {
        let feed_done = done_sender.clone();
        let (flow, heaviest, function) = (&flow, &heaviest, &function);
        scope.spawn(move || {
            let mut next = || -> Result<Option<(T, Permit)>> {
                let Some((item, bytes)) = caught(&mut source)? else { return Ok(None) };
                wait_for(budget, flow, heaviest, bytes, threads, stop).map(|permit| Some((item, permit)))
            };
            for index in 0.. {
                match next() {
                    Ok(None) => return,
                    Ok(Some((item, permit))) => {
                        if work_sender.send((index, item, permit)).is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        let _ = feed_done.send((index, Err(error)));
                        return;
                    }
                }
            }
        });
        for _ in 0..threads {
            let (work, done_sender) = (work.clone(), done_sender.clone());
            scope.spawn(move || {
                while let Ok((index, item, mut permit)) = work.recv() {
                    let result = caught(|| stop.proceed().and_then(|()| function(item)));
                    let result = result.map(|(value, bytes)| {
                        heaviest.fetch_max(bytes.max(1), Ordering::SeqCst);
                        permit.reweigh(bytes);
                        (value, permit)
                    });
                    if done_sender.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop((work, done_sender));
        in_order(&done, stop, |(value, permit)| {
            let pushed = caught(|| sink(value));
            drop(permit);
            pushed
        })
    })
}

/// Gives `sink` the results in the order of their numbers, up to the first error, at which `stop` is raised. Drains `done`.
fn in_order<V>(
    done: &Receiver<(usize, Result<V>)>,
    stop: &Cancel,
    mut sink: impl FnMut(V) -> Result<()>,
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut next = 0;
    let mut outcome = Ok(());
    for (index, result) in done {
        early.insert(index, result);
        while outcome.is_ok() {
            let Some(result) = early.remove(&next) else { break };
            next += 1;
            outcome = result.and_then(&mut sink);
        }
        if outcome.is_err() {
            stop.cancel();
            early.clear();
        }
    }
    outcome
}

/// A permit, once few enough items are in flight and the bytes fit.
fn wait_for(
    budget: &Budget,
    flow: &Arc<AtomicU64>,
    heaviest: &AtomicU64,
    bytes: u64,
    threads: usize,
    stop: &Cancel,
) -> Result<Permit> {
    let mut in_flight = budget.lock();
    let most = || if heaviest.load(Ordering::SeqCst) == 0 { 1 } else { 2 * threads as u64 };
    while flow.load(Ordering::SeqCst) >= most() {
        stop.proceed()?;
        let pause = std::time::Duration::from_millis(50);
        in_flight = budget.0.freed.wait_timeout(in_flight, pause).unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(in_flight);
    budget.acquire(flow, bytes.max(heaviest.load(Ordering::SeqCst)), stop)
}

/// Turns a panic into a defect that names it, so that one bad item cannot take the process down.
pub(crate) fn caught<U>(function: impl FnOnce() -> Result<U>) -> Result<U> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(function)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::internal(format!("panicked: {}", text.unwrap_or("no message"))))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn numbers(n: u64, bytes: u64) -> impl FnMut() -> Result<Option<(u64, u64)>> + Send {
        let mut at = 0;
        move || {
            at += 1;
            Ok((at <= n).then_some((at, bytes)))
        }
    }

    #[test]
    fn results_come_in_order_whatever_the_threads_do() {
        let mut got = Vec::new();
        let slow_when_odd = |n: u64| {
            if n % 2 == 1 {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok((n * 10, 1))
        };
        let sink = |n| {
            got.push(n);
            Ok(())
        };
        ordered_map(&Budget::new(1 << 20), &Cancel::new(), 4, numbers(50, 1), slow_when_odd, sink).unwrap();
        assert_eq!(got, (1..=50).map(|n| n * 10).collect::<Vec<_>>());
    }

    #[test]
    fn a_slow_consumer_keeps_a_fast_producer_within_the_limit() {
        let budget = Budget::new(1000);
        let slow = |_| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        };
        // Without the budget, 2 · 8 items of 300 bytes would be in flight.
        ordered_map(&budget, &Cancel::new(), 8, numbers(60, 300), |n| Ok((n, 300)), slow).unwrap();
        assert!(budget.peak() <= 1000, "{}", budget.peak());
        assert!(budget.peak() >= 900, "the limit is used: {}", budget.peak());
        assert_eq!(*budget.lock(), 0, "everything is given back");
    }

    #[test]
    fn an_item_larger_than_the_limit_passes_alone() {
        let budget = Budget::new(10);
        let mut count = 0;
        let sink = |_| {
            count += 1;
            Ok(())
        };
        ordered_map(&budget, &Cancel::new(), 4, numbers(5, 100), |n| Ok((n, 100)), sink).unwrap();
        assert_eq!((count, budget.peak()), (5, 100));
    }

    #[test]
    fn the_first_error_in_order_wins_and_the_rest_is_dropped() {
        let fail = |n: u64| if n >= 7 { Err(Error::data(format!("item {n}"))) } else { Ok((n, 1)) };
        let mut got = Vec::new();
        let sink = |n| {
            got.push(n);
            Ok(())
        };
        let error = ordered_map(&Budget::new(1 << 20), &Cancel::new(), 3, numbers(1000, 1), fail, sink).unwrap_err();
        assert_eq!((error.to_string().as_str(), got), ("item 7", vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn an_error_ends_a_source_that_waits() {
        let stop = Cancel::new().child();
        let mut at = 0;
        let source = || {
            at += 1;
            if at == 1 {
                return Ok(Some((at, 1)));
            }
            // After the first item, nothing comes until somebody says stop.
            loop {
                stop.proceed()?;
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let fail = |_: u64| -> Result<(u64, u64)> { Err(Error::data("broken")) };
        let error = ordered_map(&Budget::new(9), &stop, 2, source, fail, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }

    #[test]
    fn a_panic_is_an_error_and_a_full_disk_stops_the_flow() {
        let panics = |n: u64| if n == 3 { panic!("three") } else { Ok((n, 1)) };
        let error = ordered_map(&Budget::new(9), &Cancel::new(), 2, numbers(9, 1), panics, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "panicked: three");
        let full = |n: u64| if n == 2 { Err(Error::stage("disk is full")) } else { Ok(()) };
        let error = ordered_map(&Budget::new(9), &Cancel::new(), 2, numbers(9, 1), |n| Ok((n, 1)), full).unwrap_err();
        assert_eq!(error.to_string(), "disk is full");
    }
}
