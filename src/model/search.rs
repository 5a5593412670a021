//! Searches of images and captions by their similarity, on the device of the run.

use super::device::to_tch;
use super::products::Libtorch;
use super::similarity::Similarity;
use crate::error::Result;
use crate::kernels::hubness::distance::Distance;
use crate::runtime::Device;
use crate::search::{Processor, Search, SearchFactory, Side, VectorScores, Vectors};

/// Makes searches that compute their scores on one device.
///
/// On the processor they are [`VectorScores`], without libtorch. On a GPU libtorch computes the scores
/// ([`Libtorch`]) and the processor looks at them: ranks and lists are the same, bit for bit, and sums over scores are rounded in
/// other places.
#[derive(Debug, Clone, Copy)]
pub struct Searcher {
    similarity: Similarity,
    threads: usize,
    /// What libtorch computes on; `None` for tiles.
    libtorch: Option<tch::Device>,
}

impl Searcher {
    /// On `device`, looking at scores on `threads` threads.
    ///
    /// # Errors
    /// As [`to_tch`]: there is no such GPU.
    pub fn new(device: Device, similarity: Similarity, threads: usize) -> Result<Self> {
        let device = to_tch(device)?;
        Ok(Self { similarity, threads, libtorch: device.is_cuda().then_some(device) })
    }

    /// By libtorch on the processor, which no run does: what a GPU does can be tested without one.
    #[cfg(test)]
    pub(crate) fn by_libtorch(similarity: Similarity, threads: usize) -> Self {
        Self { similarity, threads, libtorch: Some(tch::Device::Cpu) }
    }

    fn processor(&self) -> Processor {
        let order = match self.similarity {
            Similarity::Cosine => None,
            Similarity::Order { form } => Some(form),
        };
        Processor { order, threads: self.threads }
    }
}

impl SearchFactory for Searcher {
    fn search<'v>(&self, rows: &'v Vectors<'v>, columns: &'v Vectors<'v>, captions: Side) -> Result<Search<'v>> {
        let processor = self.processor();
        let Some(device) = self.libtorch else { return processor.search(rows, columns, captions) };
        let vectors = VectorScores::new(rows, columns, processor.scoring(captions), self.threads)?;
        Ok(Search::owning(Box::new(Libtorch::new(device, vectors)), self.threads))
    }

    fn distance(&self) -> Distance {
        self.processor().distance()
    }
}
