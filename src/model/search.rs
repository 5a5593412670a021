//! Searches of images and captions by their similarity, on the device of the run.

use super::device::to_tch;
use super::products::Libtorch;
use super::similarity::Similarity;
use crate::error::Result;
use crate::search::{Scoring, Search, Side, Vectors};
use crate::stage::Device;

/// Makes searches that compute their scores on one device.
///
/// On the processor they are what [`Search`] is by itself, without libtorch. On a GPU libtorch computes the scores
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

    /// The score of an image and a caption.
    #[must_use]
    pub fn similarity(&self) -> Similarity {
        self.similarity
    }

    /// A search of `rows` and `columns`, of which one side are captions.
    ///
    /// # Errors
    /// The widths differ.
    pub fn search<'v>(&self, rows: &'v Vectors<'v>, columns: &'v Vectors<'v>, captions: Side) -> Result<Search<'v>> {
        let scoring = match self.similarity {
            Similarity::Cosine => Scoring::Product,
            Similarity::Order { form } => Scoring::Order { form: form.kernel(), captions },
        };
        let search = Search::new(rows, columns, scoring, self.threads)?;
        Ok(match self.libtorch {
            None => search,
            Some(device) => search.by(Box::new(Libtorch::new(device, rows, columns, scoring))),
        })
    }
}
