//! Pace of requests: some at a time, and so many a second.

use std::time::Duration;

use futures::future::{Either, select};
use futures::{StreamExt, stream};
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use pairloom_base::error::Result;
use pairloom_storage::objects::runtime;

/// Time between two looks whether the run was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(100);

/// Pace of requests.
#[derive(Debug)]
pub(super) struct RequestPace {
    parallel: usize,
    ticks: Mutex<Interval>,
}

impl RequestPace {
    /// Pace of at most `parallel` requests at a time and `per_second` a second.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn new(parallel: usize, per_second: f64) -> Result<Self> {
        let _entered = runtime()?.enter();
        let mut ticks = interval(Duration::from_secs_f64(1.0 / per_second.max(1e-3)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { parallel: parallel.max(1), ticks: Mutex::new(ticks) })
    }

    /// Waits until a request may be sent.
    pub async fn turn(&self) {
        self.ticks.lock().await.tick().await;
    }

    /// Sends requests and returns the answers in their order. Calls `check` some times a second.
    ///
    /// # Errors
    /// An error of `check`, which ends the requests; or threads cannot be started.
    pub fn run<T>(
        &self,
        requests: impl Iterator<Item = impl Future<Output = T>>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Vec<T>> {
        let answers = stream::iter(requests).buffered(self.parallel).collect();
        let stopped = async {
            loop {
                match check() {
                    Ok(()) => sleep(CANCEL_CHECK).await,
                    Err(error) => return error,
                }
            }
        };
        match runtime()?.block_on(select(Box::pin(answers), Box::pin(stopped))) {
            Either::Left((answers, _)) => Ok(answers),
            Either::Right((error, _)) => Err(error),
        }
    }
}
