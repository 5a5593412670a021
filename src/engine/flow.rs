//! Work that flows through threads in bounded memory: an ordered parallel map and the budget that bounds it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crossbeam::channel::{bounded, unbounded};
use std::thread as scoped;

use crate::engine::cancel::Cancel;
use crate::error::{Error, Result};

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
/// `source` gives an item with its weight: the bytes that it and its result keep in memory, which stay accounted until
/// `sink` has taken the result. At most 2 · `threads` items are in flight, and as few as `budget` asks for.
///
/// # Errors
/// The first error in the order of the items, be it of `source`, `function` or `sink`; or an interruption. Everything in
/// flight is dropped then.
pub fn ordered_map<T: Send, U: Send>(
    budget: &Budget,
    cancel: &Cancel,
    threads: usize,
    mut source: impl FnMut() -> Result<Option<(T, u64)>> + Send,
    function: impl Fn(T) -> Result<U> + Sync,
    mut sink: impl FnMut(U) -> Result<()>,
) -> Result<()> {
    let threads = threads.max(1);
    let flow = Arc::new(AtomicU64::new(0));
    // Raised when the sink stops, so that source and workers stop too.
    let stopped = Cancel::new();
    let (work_sender, work) = bounded::<(usize, T, Permit)>(threads);
    #[expect(clippy::disallowed_methods, reason = "the budget and the work channel bound what can be in here")]
    let (done_sender, done) = unbounded::<(usize, Result<(U, Permit)>)>();
    scoped::scope(|scope| {
        let feed_done = done_sender.clone();
        let (budget, cancel, stopped, flow, function) = (budget, cancel, &stopped, &flow, &function);
        scope.spawn(move || {
            for index in 0.. {
                let next = source().and_then(|item| match item {
                    Some((item, bytes)) if !stopped.is_cancelled() => {
                        wait_for(budget, flow, bytes, threads, cancel, stopped).map(|permit| Some((item, permit)))
                    }
                    _ => Ok(None),
                });
                match next {
                    Ok(Some((item, permit))) => {
                        if work_sender.send((index, item, permit)).is_err() {
                            return;
                        }
                    }
                    Ok(None) => return,
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
                while let Ok((index, item, permit)) = work.recv() {
                    if stopped.is_cancelled() {
                        continue;
                    }
                    let result = caught(|| function(item));
                    if done_sender.send((index, result.map(|value| (value, permit)))).is_err() {
                        return;
                    }
                }
            });
        }
        drop((work, done_sender));
        let mut early = BTreeMap::new();
        let mut next = 0;
        let mut outcome = Ok(());
        for (index, result) in &done {
            early.insert(index, result);
            while outcome.is_ok() {
                let Some(result) = early.remove(&next) else { break };
                next += 1;
                outcome = result.and_then(|(value, permit)| {
                    let pushed = sink(value);
                    drop(permit);
                    pushed
                });
            }
            if outcome.is_err() {
                stopped.cancel();
                early.clear();
            }
        }
        outcome
    })
}

/// A permit, once fewer than 2 · `threads` items are in flight and the bytes fit.
fn wait_for(
    budget: &Budget,
    flow: &Arc<AtomicU64>,
    bytes: u64,
    threads: usize,
    cancel: &Cancel,
    stopped: &Cancel,
) -> Result<Permit> {
    let mut in_flight = budget.lock();
    while flow.load(Ordering::SeqCst) >= 2 * threads as u64 {
        cancel.proceed()?;
        stopped.proceed()?;
        let pause = std::time::Duration::from_millis(50);
        in_flight = budget.0.freed.wait_timeout(in_flight, pause).unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(in_flight);
    budget.acquire(flow, bytes, cancel)
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
            Ok(n * 10)
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
        ordered_map(&budget, &Cancel::new(), 8, numbers(60, 300), Ok, slow).unwrap();
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
        ordered_map(&budget, &Cancel::new(), 4, numbers(5, 100), Ok, sink).unwrap();
        assert_eq!((count, budget.peak()), (5, 100));
    }

    #[test]
    fn the_first_error_in_order_wins_and_the_rest_is_dropped() {
        let fail = |n: u64| if n >= 7 { Err(Error::data(format!("item {n}"))) } else { Ok(n) };
        let mut got = Vec::new();
        let sink = |n| {
            got.push(n);
            Ok(())
        };
        let error = ordered_map(&Budget::new(1 << 20), &Cancel::new(), 3, numbers(1000, 1), fail, sink).unwrap_err();
        assert_eq!((error.to_string().as_str(), got), ("item 7", vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn a_panic_is_an_error_and_a_full_disk_stops_the_flow() {
        let panics = |n: u64| if n == 3 { panic!("three") } else { Ok(n) };
        let error = ordered_map(&Budget::new(9), &Cancel::new(), 2, numbers(9, 1), panics, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "panicked: three");
        let full = |n: u64| if n == 2 { Err(Error::stage("disk is full")) } else { Ok(()) };
        let error = ordered_map(&Budget::new(9), &Cancel::new(), 2, numbers(9, 1), Ok, full).unwrap_err();
        assert_eq!(error.to_string(), "disk is full");
    }
}
