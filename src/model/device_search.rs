//! Searches of images and captions by their embeddings, on the device of the run.

use std::sync::Arc;

use super::device::to_tch;
use super::libtorch_scores::LibtorchScores;
use super::similarity::EmbeddingSimilarity;
use pairloom_base::error::Result;
use pairloom_base::runtime::{Device, RemoteTasks};
use pairloom_kernels::hubness::distance::Distance;
use pairloom_search::{CpuSearchFactory, MatrixSide, Search, SearchFactory, VectorMatrix, VectorScores};

/// Factory of searches that compute their scores on one device.
///
/// On the CPU the scores are [`VectorScores`], without libtorch. On a GPU libtorch computes them ([`LibtorchScores`])
/// and the CPU ranks by them. Ranks and lists are equal bit for bit; sums over scores are rounded in other places.
#[derive(Debug, Clone)]
pub struct DeviceSearchFactory {
    similarity: EmbeddingSimilarity,
    threads: usize,
    /// Device on which libtorch computes the scores; `None` for the CPU kernels without libtorch.
    libtorch: Option<tch::Device>,
    remote: Option<Arc<dyn RemoteTasks>>,
}

impl DeviceSearchFactory {
    /// Creates searches whose scores are computed on `device` and ranked on `threads` threads.
    ///
    /// # Errors
    /// As [`to_tch`]: the GPU is not available.
    pub fn new(device: Device, similarity: EmbeddingSimilarity, threads: usize) -> Result<Self> {
        let device = to_tch(device)?;
        Ok(Self { similarity, threads, libtorch: device.is_cuda().then_some(device), remote: None })
    }

    /// Lets other processes compute the sections of searches on the CPU.
    #[must_use]
    pub fn with_remote(self, remote: Option<Arc<dyn RemoteTasks>>) -> Self {
        Self { remote, ..self }
    }

    /// Uses libtorch on the CPU, for tests of the GPU's code without a GPU.
    #[doc(hidden)]
    #[must_use]
    pub fn with_libtorch(similarity: EmbeddingSimilarity, threads: usize) -> Self {
        Self { similarity, threads, libtorch: Some(tch::Device::Cpu), remote: None }
    }

    fn cpu_factory(&self) -> CpuSearchFactory {
        let order = match self.similarity {
            EmbeddingSimilarity::Cosine => None,
            EmbeddingSimilarity::Order { form } => Some(form),
        };
        CpuSearchFactory { order, threads: self.threads }
    }
}

impl SearchFactory for DeviceSearchFactory {
    fn search<'v>(
        &self,
        rows: &'v VectorMatrix<'v>,
        columns: &'v VectorMatrix<'v>,
        captions: MatrixSide,
    ) -> Result<Search<'v>> {
        let cpu_factory = self.cpu_factory();
        let Some(device) = self.libtorch else {
            return Ok(cpu_factory.search(rows, columns, captions)?.with_remote(self.remote.clone()));
        };
        let vectors = VectorScores::new(rows, columns, cpu_factory.score_function(captions), self.threads)?;
        Ok(Search::from_boxed(Box::new(LibtorchScores::new(device, vectors)), self.threads))
    }

    fn distance(&self) -> Distance {
        self.cpu_factory().distance()
    }
}
