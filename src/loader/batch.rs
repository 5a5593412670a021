//! A batch, ready for the trainer, in memory that is used again.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam::channel::{Receiver, Sender, TrySendError};

use crate::error::Result;

/// Memory for the values of a batch.
pub trait Memory: Send {
    /// The values.
    fn values(&self) -> &[f32];
    /// The values, to be written.
    fn values_mut(&mut self) -> &mut [f32];
}

/// Gives memory for this many values: plain, or such that a GPU can read from it directly.
pub type Allocate = Arc<dyn Fn(usize) -> Result<Box<dyn Memory>> + Send + Sync>;

impl Memory for Box<[f32]> {
    fn values(&self) -> &[f32] {
        self
    }
    fn values_mut(&mut self) -> &mut [f32] {
        self
    }
}

/// Plain memory, used again by every loader that is given the same.
#[must_use]
pub fn plain() -> Allocate {
    reused(Arc::new(|values| Ok(Box::new(vec![0.0; values].into_boxed_slice()))))
}

/// Memory of `allocate` that is used again when it is dropped, by the next epoch too: pages that the operating system has to
/// clear first cost more than the rows that are copied into them.
#[must_use]
pub fn reused(allocate: Allocate) -> Allocate {
    let spare: Spare = Arc::default();
    Arc::new(move |values| {
        let mut pool = spare.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = pool.iter().position(|memory| memory.values().len() >= values);
        let memory = fits.map(|place| pool.swap_remove(place));
        drop(pool);
        let memory = memory.map_or_else(|| allocate(values), Ok)?;
        Ok(Box::new(Reused { memory: Some(memory), spare: Arc::clone(&spare) }))
    })
}

/// Memory that nobody uses at the moment.
type Spare = Arc<Mutex<Vec<Box<dyn Memory>>>>;

/// Memory that goes back to the spare one.
struct Reused {
    memory: Option<Box<dyn Memory>>,
    spare: Spare,
}

impl Memory for Reused {
    fn values(&self) -> &[f32] {
        self.memory.as_ref().map_or(&[], |memory| memory.values())
    }
    fn values_mut(&mut self) -> &mut [f32] {
        self.memory.as_mut().map_or(&mut [], |memory| memory.values_mut())
    }
}

impl Drop for Reused {
    fn drop(&mut self) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(self.memory.take());
    }
}

/// The parts of a batch that are used again.
#[derive(Default)]
pub(super) struct Buffers {
    pub images: Option<Box<dyn Memory>>,
    pub words: Vec<i32>,
    pub ends: Vec<usize>,
    pub captions: Vec<i64>,
}

/// The share of one rank in a batch.
pub struct Batch {
    /// Number of the batch in its epoch, from 0.
    pub number: usize,
    /// Samples of the batch, over all ranks.
    pub all: usize,
    pub(super) width: usize,
    pub(super) buffers: Buffers,
    pub(super) home: Sender<Buffers>,
}

impl Batch {
    /// Samples in this share; may be none for the last batch of an epoch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffers.captions.len()
    }

    /// Whether this rank has nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffers.captions.is_empty()
    }

    /// What there is of the images, row-major, one row a sample: features `[n, D]`, regions `[n, R, D]` or pictures
    /// `[n, 3, S, S]`.
    #[must_use]
    pub fn images(&self) -> &[f32] {
        self.buffers.images.as_ref().map_or(&[], |images| &images.values()[..self.len() * self.width])
    }

    /// `caption_id` of every sample.
    #[must_use]
    pub fn captions(&self) -> &[i64] {
        &self.buffers.captions
    }

    /// The numbers of the words of sample `i`.
    #[must_use]
    pub fn words(&self, i: usize) -> &[i32] {
        &self.buffers.words[self.range(i)]
    }

    /// Words of every sample.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|i| self.range(i).len())
    }

    fn range(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { 0 } else { self.buffers.ends[i - 1] };
        start..self.buffers.ends[i]
    }
}

/// Its memory goes back to the thread that filled it.
impl Drop for Batch {
    fn drop(&mut self) {
        match self.home.try_send(std::mem::take(&mut self.buffers)) {
            Ok(()) | Err(TrySendError::Disconnected(_) | TrySendError::Full(_)) => {}
        }
    }
}

impl Buffers {
    /// Memory that came back, emptied; new memory where there is none.
    pub(super) fn back(home: &Receiver<Self>) -> Self {
        let mut buffers = home.try_recv().unwrap_or_default();
        buffers.words.clear();
        buffers.ends.clear();
        buffers.captions.clear();
        buffers
    }

    /// Room for `values` of images.
    pub(super) fn reserve(&mut self, allocate: &Allocate, values: usize) -> Result<()> {
        if self.images.as_ref().is_none_or(|images| images.values().len() < values) {
            self.images = Some(allocate(values)?);
        }
        Ok(())
    }

    /// The values of images, to be written.
    pub(super) fn images_mut(&mut self) -> &mut [f32] {
        self.images.as_mut().map_or(&mut [], |images| images.values_mut())
    }
}
