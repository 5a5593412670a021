//! Batch of samples for the trainer, in pooled memory.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam::channel::{Receiver, Sender, TrySendError};

use pairloom_base::error::Result;
use pairloom_kernels::epoch::TrainingPair;

/// Buffer for the image values of a batch.
pub trait ValueBuffer: Send {
    /// Returns the values.
    fn values(&self) -> &[f32];
    /// Returns the values for writing.
    fn values_mut(&mut self) -> &mut [f32];
}

/// Allocator of buffers for a number of values: on the heap, or pinned, so that a GPU can read them directly.
pub type AllocateBuffer = Arc<dyn Fn(usize) -> Result<Box<dyn ValueBuffer>> + Send + Sync>;

impl ValueBuffer for Box<[f32]> {
    fn values(&self) -> &[f32] {
        self
    }
    fn values_mut(&mut self) -> &mut [f32] {
        self
    }
}

/// Allocator of heap buffers, pooled over all loaders that share it.
#[must_use]
pub fn pooled_heap() -> AllocateBuffer {
    pooled(Arc::new(|values| Ok(Box::new(vec![0.0; values].into_boxed_slice()))))
}

/// Pool of the buffers of `allocate`. A dropped buffer is used again, also by the next epoch: fresh pages, which the
/// operating system has to zero, cost more than the rows that are copied into them.
#[must_use]
pub fn pooled(allocate: AllocateBuffer) -> AllocateBuffer {
    let spare: BufferPool = Arc::default();
    Arc::new(move |values| {
        let mut pool = spare.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = pool.iter().position(|memory| memory.values().len() >= values);
        let memory = fits.map(|place| pool.swap_remove(place));
        drop(pool);
        let memory = memory.map_or_else(|| allocate(values), Ok)?;
        Ok(Box::new(PooledBuffer { memory: Some(memory), spare: Arc::clone(&spare) }))
    })
}

/// Pool of unused buffers.
type BufferPool = Arc<Mutex<Vec<Box<dyn ValueBuffer>>>>;

/// Buffer that returns to its pool when it is dropped.
struct PooledBuffer {
    memory: Option<Box<dyn ValueBuffer>>,
    spare: BufferPool,
}

impl ValueBuffer for PooledBuffer {
    fn values(&self) -> &[f32] {
        self.memory.as_ref().map_or(&[], |memory| memory.values())
    }
    fn values_mut(&mut self) -> &mut [f32] {
        self.memory.as_mut().map_or(&mut [], |memory| memory.values_mut())
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(self.memory.take());
    }
}

/// Reusable memory of a batch.
#[derive(Default)]
pub(super) struct BatchStorage {
    pub images: Option<Box<dyn ValueBuffer>>,
    pub token_ids: Vec<i32>,
    pub token_ends: Vec<usize>,
    pub pairs: Vec<TrainingPair>,
}

/// Share of one rank in a batch.
pub struct Batch {
    /// Number of the batch in its epoch, from 0.
    pub number: usize,
    /// Samples of this rank among those of the batch.
    pub(super) share: Range<usize>,
    pub(super) width: usize,
    pub(super) buffers: BatchStorage,
    pub(super) recycle: Sender<BatchStorage>,
}

impl Batch {
    /// Number of samples in this share. It may be 0 in the last batch of an epoch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.share.len()
    }

    /// Returns true if this share has no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.share.is_empty()
    }

    /// Values of the images, row-major, one row for each sample: features `[n, D]`, regions `[n, R, D]` or images
    /// `[n, 3, S, S]`.
    #[must_use]
    pub fn images(&self) -> &[f32] {
        self.buffers.images.as_ref().map_or(&[], |images| &images.values()[..self.len() * self.width])
    }

    /// Training pairs of the whole batch: those of rank 0, those of rank 1, and so on.
    #[must_use]
    pub fn pairs(&self) -> &[TrainingPair] {
        &self.buffers.pairs
    }

    /// Training pairs of this share.
    #[must_use]
    pub fn own_pairs(&self) -> &[TrainingPair] {
        &self.buffers.pairs[self.share.clone()]
    }

    /// Token ids of the caption of every sample.
    #[must_use]
    pub fn token_ids(&self) -> Vec<&[i32]> {
        let ends = &self.buffers.token_ends;
        let starts = std::iter::once(&0).chain(ends);
        starts.zip(ends).map(|(&start, &end)| &self.buffers.token_ids[start..end]).collect()
    }
}

/// Returns the memory to the thread that filled it.
impl Drop for Batch {
    fn drop(&mut self) {
        match self.recycle.try_send(std::mem::take(&mut self.buffers)) {
            Ok(()) | Err(TrySendError::Disconnected(_) | TrySendError::Full(_)) => {}
        }
    }
}

impl BatchStorage {
    /// Takes returned memory and clears it; creates new memory if none has returned.
    pub(super) fn recycled(home: &Receiver<Self>) -> Self {
        let mut buffers = home.try_recv().unwrap_or_default();
        buffers.token_ids.clear();
        buffers.token_ends.clear();
        buffers.pairs.clear();
        buffers
    }

    /// Reserves space for `values` image values.
    pub(super) fn reserve(&mut self, allocate: &AllocateBuffer, values: usize) -> Result<()> {
        if self.images.as_ref().is_none_or(|images| images.values().len() < values) {
            self.images = Some(allocate(values)?);
        }
        Ok(())
    }

    /// Returns the image values for writing.
    pub(super) fn images_mut(&mut self) -> &mut [f32] {
        self.images.as_mut().map_or(&mut [], |images| images.values_mut())
    }
}
