//! Rows of scans in memory, up to a number of bytes.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use datafusion::datasource::listing::FileRange;
use datafusion::execution::cache::lru_queue::LruQueue;

/// Bytes of the vector cache of a session that people use.
pub const VECTOR_CACHE_BYTES: usize = 512 << 20;

/// Files and columns of a scan, which its rows follow from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ScanKey {
    /// Files of each partition.
    pub partitions: Vec<Vec<ScannedFile>>,
    pub columns: Vec<String>,
}

/// File of a scan, or a range of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ScannedFile {
    pub path: String,
    pub range: Option<FileRange>,
}

/// Rows of a scan, by partition.
pub(super) type ScanRows = Arc<Vec<Vec<RecordBatch>>>;

/// Cache of the rows of scans. When it is full, the least recently used go first.
pub(crate) struct VectorCache {
    /// Largest number of bytes of all rows, and of those that are being read.
    limit: usize,
    being_read: AtomicUsize,
    scans: Mutex<Scans>,
}

struct Scans {
    /// Rows and bytes.
    rows: LruQueue<ScanKey, (ScanRows, usize)>,
    bytes: usize,
}

impl fmt::Debug for VectorCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorCache").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl VectorCache {
    pub(crate) fn new(limit: usize) -> Self {
        let scans = Mutex::new(Scans { rows: LruQueue::new(), bytes: 0 });
        Self { limit, being_read: AtomicUsize::new(0), scans }
    }

    fn lock(&self) -> MutexGuard<'_, Scans> {
        self.scans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, scan: &ScanKey) -> Option<ScanRows> {
        self.lock().rows.get(scan).map(|(rows, _)| Arc::clone(rows))
    }

    pub(super) fn insert(&self, scan: ScanKey, rows: Vec<Vec<RecordBatch>>, bytes: usize) {
        let mut scans = self.lock();
        if bytes > self.limit || scans.rows.contains_key(&scan) {
            return;
        }
        while scans.bytes + bytes > self.limit {
            let Some((_, (_, freed))) = scans.rows.pop() else { break };
            scans.bytes -= freed;
        }
        scans.bytes += bytes;
        scans.rows.put(scan, (Arc::new(rows), bytes));
    }

    /// Counts bytes of a scan that is being read. Returns false if they are too many to be kept.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        self.being_read.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limit
    }

    /// Ends the count of bytes of a scan.
    pub(super) fn release(&self, bytes: usize) {
        self.being_read.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_scan_goes_first() {
        let cache = VectorCache::new(100);
        let scan = |name: &str| ScanKey { partitions: vec![], columns: vec![name.to_owned()] };
        for (name, bytes) in [("a", 40), ("b", 40), ("too large", 101)] {
            cache.insert(scan(name), vec![], bytes);
        }
        assert!(cache.get(&scan("a")).is_some() && cache.get(&scan("too large")).is_none());
        cache.insert(scan("c"), vec![], 50);
        assert_eq!(["a", "b", "c"].map(|name| cache.get(&scan(name)).is_some()), [true, false, true]);
        assert_eq!(cache.lock().bytes, 90);
    }
}
