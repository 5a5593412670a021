//! Stack for recursive work.

use std::pin::pin;
use std::task::Poll;

use futures::future::poll_fn;

/// Size of the stack. Its pages are only used as deep as the work goes.
const STACK_BYTES: usize = 64 << 20;

/// Runs work that recurses as deep as a query: each step gets a stack that is large enough for the deepest one
/// ([`check_depth`](super::statements::check_depth)), whatever thread it is on.
pub(super) async fn with_deep_stack<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(move |context| -> Poll<T> { stacker::grow(STACK_BYTES, || work.as_mut().poll(context)) }).await
}
