//! Parallel work on equal ranges.

use std::ops::Range;

/// Cuts `0..count` into as many ranges as there are threads, calls `work` on each in parallel, and returns the results
/// in order.
pub fn parallel_ranges<T: Send>(threads: usize, count: usize, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
    let threads = threads.clamp(1, count.max(1));
    let part = |i: usize| count * i / threads..count * (i + 1) / threads;
    let work = &work;
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|i| scope.spawn(move || work(part(i)))).collect();
        let mut results = vec![work(part(0))];
        results.extend(others.into_iter().map(|other| other.join().expect("no thread of a search panics")));
        results
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_in_order() {
        for (threads, count) in [(1, 0), (3, 0), (3, 2), (3, 10), (1, 5)] {
            let parts: Vec<usize> = parallel_ranges(threads, count, Range::collect::<Vec<usize>>).concat();
            assert_eq!(parts, (0..count).collect::<Vec<_>>());
        }
    }
}
