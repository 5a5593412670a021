//! Memory bank of HAL on tensors: embeddings of training samples, and the scores of a batch with them.

use std::collections::HashMap;

use az::SaturatingAs;
use tch::{Device, Tensor};

use super::collective::CollectiveGroup;
use super::family::encode::EncodedItems;
use super::loss::MemoryBankScores;
use super::safetensors_file::NamedTensors;
use super::similarity::SimilarityScores;
use super::tensor_slices::to_vec;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::TrainingPair;
use pairloom_spec::loss::MemoryBankMask;
use pairloom_spec::similarity::EmbeddingSimilarity;

/// Names of the tensors in a checkpoint.
const IMAGES: &str = "bank.images";
const CAPTIONS: &str = "bank.captions";

/// Memory bank: embeddings of training samples at the beginning of an epoch.
#[derive(Debug)]
pub struct MemoryBank {
    /// Epoch, from 0, at whose beginning the embeddings were computed.
    pub epoch: u64,
    pairs: Vec<TrainingPair>,
    /// Embeddings of the images, `[M, d]`.
    images: Tensor,
    /// Embeddings of the captions, `[M, d]`.
    captions: Tensor,
    index_of_row: HashMap<usize, usize>,
    indices_of_image: HashMap<(i64, i64), Vec<usize>>,
}

impl MemoryBank {
    /// Gathers the memory bank of these pairs. Each rank has encoded its [share](pairloom_kernels::epoch::rank_share) of
    /// them.
    ///
    /// # Errors
    /// As [`MemoryBank::new`] and [`CollectiveGroup::all_gather`].
    pub fn gather(
        epoch: u64,
        pairs: Vec<TrainingPair>,
        images: &EncodedItems,
        captions: &EncodedItems,
        group: &CollectiveGroup,
    ) -> Result<Self> {
        Self::new(epoch, pairs, images.all_gather(group)?.vectors, captions.all_gather(group)?.vectors)
    }

    /// Creates the memory bank of these pairs from their embeddings `[M, d]`.
    ///
    /// # Errors
    /// The numbers of embeddings and pairs differ.
    pub fn new(epoch: u64, pairs: Vec<TrainingPair>, images: Tensor, captions: Tensor) -> Result<Self> {
        let rows = |tensor: &Tensor| tensor.size().first().copied();
        let expected = i64::try_from(pairs.len()).ok();
        if rows(&images) != expected || rows(&captions) != expected {
            let (images, captions) = (images.size(), captions.size());
            return Err(Error::internal(format!(
                "got {} pairs for embeddings {images:?} and {captions:?}",
                pairs.len()
            )));
        }
        let index_of_row = pairs.iter().enumerate().map(|(i, pair)| (pair.row, i)).collect();
        let mut indices_of_image: HashMap<_, Vec<usize>> = HashMap::new();
        for (i, pair) in pairs.iter().enumerate() {
            indices_of_image.entry(pair.image).or_default().push(i);
        }
        Ok(Self { epoch, pairs, images, captions, index_of_row, indices_of_image })
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// True if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Width of an embedding.
    #[must_use]
    pub fn width(&self) -> usize {
        self.images.size().get(1).and_then(|&width| usize::try_from(width).ok()).unwrap_or(0)
    }

    /// Samples in the order of their embeddings.
    #[must_use]
    pub fn pairs(&self) -> &[TrainingPair] {
        &self.pairs
    }

    /// Embeddings of the images and of the captions of samples `start..end`, row-major.
    ///
    /// # Errors
    /// A failure of libtorch.
    pub fn vectors(&self, start: usize, end: usize) -> Result<(Vec<f32>, Vec<f32>)> {
        let size = |size: usize| size.saturating_as::<i64>();
        let values = |tensor: &Tensor| to_vec(&tensor.narrow(0, size(start), size(end - start)));
        Ok((values(&self.images)?, values(&self.captions)?))
    }

    /// Scores of a batch with the memory bank. `images` and `captions` are the embeddings `[n, d]` of the pairs
    /// `batch`; columns beyond those of the memory bank do not count, since some models have more in a training step.
    ///
    /// Samples excluded by `mask` have the score −∞. Cost: two products of `[n, d]` and `[d, M]`.
    #[must_use]
    pub fn scores(
        &self,
        images: &Tensor,
        captions: &Tensor,
        batch: &[TrainingPair],
        similarity: EmbeddingSimilarity,
        mask: MemoryBankMask,
    ) -> MemoryBankScores {
        let [images, captions] = [images, captions].map(|side| side.narrow(1, 0, self.images.size()[1]));
        let of_images = similarity.scores(&images, &self.captions);
        let of_captions = similarity.scores(&self.images, &captions).tr().contiguous();
        let (rows, columns) = self.masked_places(batch, mask);
        let indices = [&rows, &columns].map(|places| Some(Tensor::from_slice(places).to_device(images.device())));
        let mut scores = [of_images, of_captions];
        if !rows.is_empty() {
            let nothing = Tensor::from(f64::NEG_INFINITY).to_kind(images.kind()).to_device(images.device());
            for scores in &mut scores {
                let _ = scores.index_put_(&indices, &nothing, false);
            }
        }
        let [captions, images] = scores;
        MemoryBankScores { captions, images }
    }

    /// Indices (rows of the batch, columns of the memory bank) that are not compared.
    fn masked_places(&self, batch: &[TrainingPair], mask: MemoryBankMask) -> (Vec<i64>, Vec<i64>) {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (i, pair) in batch.iter().enumerate() {
            match mask {
                MemoryBankMask::OwnImage => {
                    places.extend(
                        self.indices_of_image.get(&pair.image).into_iter().flatten().map(|&column| (i, column)),
                    );
                }
                MemoryBankMask::OwnCaption => {
                    places.extend(self.index_of_row.get(&pair.row).map(|&column| (i, column)));
                }
                MemoryBankMask::BatchCaptions => {
                    let column = self.index_of_row.get(&pair.row);
                    places
                        .extend(column.into_iter().flat_map(|&column| (0..batch.len()).map(move |row| (row, column))));
                }
                MemoryBankMask::Nothing => {}
            }
        }
        let number = |place: usize| place.saturating_as::<i64>();
        places.into_iter().map(|(row, column)| (number(row), number(column))).unzip()
    }

    /// Adds the embeddings to a checkpoint. The samples are not saved, because they follow from the epoch.
    pub(super) fn save_to(&self, named: &mut NamedTensors) {
        named.tensors.insert(IMAGES.to_owned(), self.images.shallow_clone());
        named.tensors.insert(CAPTIONS.to_owned(), self.captions.shallow_clone());
    }
}

/// Embeddings of a memory bank from a checkpoint.
#[derive(Debug)]
pub struct SavedMemoryBank {
    images: Tensor,
    captions: Tensor,
}

impl SavedMemoryBank {
    /// Takes the embeddings out of a checkpoint, if it has any.
    pub(super) fn from_named_tensors(named: &mut NamedTensors, device: Device) -> Result<Option<Self>> {
        if !named.tensors.contains_key(IMAGES) {
            return Ok(None);
        }
        let (images, captions) = (named.take(IMAGES)?, named.take(CAPTIONS)?);
        Ok(Some(Self { images: images.to_device(device), captions: captions.to_device(device) }))
    }

    /// Restores the memory bank of `epoch` with these samples.
    ///
    /// # Errors
    /// The numbers of embeddings and samples differ.
    pub fn with_pairs(self, epoch: u64, pairs: Vec<TrainingPair>) -> Result<MemoryBank> {
        MemoryBank::new(epoch, pairs, self.images, self.captions)
    }
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;

    fn pair(row: usize, image: i64) -> TrainingPair {
        TrainingPair { row, image: (0, image) }
    }

    /// Samples of rows 10 to 13 and images 5, 5, 6, 7.
    fn bank() -> MemoryBank {
        let pairs = vec![pair(10, 5), pair(11, 5), pair(12, 6), pair(13, 7)];
        let images = Tensor::from_slice(&[1.0f64, 0.0, 1.0, 0.0, 0.0, 1.0, 0.6, 0.8]).view([4, 2]);
        let captions = Tensor::from_slice(&[0.0f64, 1.0, 1.0, 0.0, 0.8, 0.6, 0.6, 0.8]).view([4, 2]);
        MemoryBank::new(3, pairs, images, captions).expect("a bank")
    }

    fn scores(mask: MemoryBankMask) -> (Vec<f64>, Vec<f64>) {
        let images = Tensor::from_slice(&[1.0f64, 0.0, 0.0, 1.0]).view([2, 2]);
        let captions = Tensor::from_slice(&[0.0f64, 1.0, 0.6, 0.8]).view([2, 2]);
        // Another caption of image 5, and the pair of row 12.
        let batch = [pair(9, 5), pair(12, 6)];
        let found = bank().scores(&images, &captions, &batch, EmbeddingSimilarity::Cosine, mask);
        let values = |tensor: &Tensor| Vec::try_from(tensor.view(-1)).expect("f64 values");
        (values(&found.captions), values(&found.images))
    }

    /// By hand: products with the captions (0,1), (1,0), (.8,.6), (.6,.8) and the images (1,0), (1,0), (0,1), (.6,.8).
    #[test]
    fn masked_samples_score_minus_infinity() {
        const OUT: f64 = f64::NEG_INFINITY;
        let cases = [
            (
                MemoryBankMask::Nothing,
                [0.0, 1.0, 0.8, 0.6, 1.0, 0.0, 0.6, 0.8],
                [0.0, 0.0, 1.0, 0.8, 0.6, 0.6, 0.8, 1.0],
            ),
            (
                MemoryBankMask::OwnImage,
                [OUT, OUT, 0.8, 0.6, 1.0, 0.0, OUT, 0.8],
                [OUT, OUT, 1.0, 0.8, 0.6, 0.6, OUT, 1.0],
            ),
            (
                MemoryBankMask::OwnCaption,
                [0.0, 1.0, 0.8, 0.6, 1.0, 0.0, OUT, 0.8],
                [0.0, 0.0, 1.0, 0.8, 0.6, 0.6, OUT, 1.0],
            ),
            (
                MemoryBankMask::BatchCaptions,
                [0.0, 1.0, OUT, 0.6, 1.0, 0.0, OUT, 0.8],
                [0.0, 0.0, OUT, 0.8, 0.6, 0.6, OUT, 1.0],
            ),
        ];
        for (mask, captions, images) in cases {
            let (got_captions, got_images) = scores(mask);
            for (got, expected) in got_captions.iter().chain(&got_images).zip(captions.iter().chain(&images)) {
                assert!((got - expected).abs() < 1e-12 || got == expected, "{mask:?}: {got_captions:?} {got_images:?}");
            }
        }
    }

    #[test]
    fn a_memory_bank_survives_a_round_trip() {
        let bank = bank();
        let mut named = NamedTensors::default();
        assert!(SavedMemoryBank::from_named_tensors(&mut named, Device::Cpu).expect("nothing").is_none());
        let pairs = bank.pairs.clone();
        let floats = |tensor: &Tensor| tensor.to_kind(Kind::Float);
        let bank = MemoryBank::new(3, pairs.clone(), floats(&bank.images), floats(&bank.captions)).expect("a bank");
        bank.save_to(&mut named);
        let mut named = NamedTensors::from_bytes(&named.to_bytes().expect("bytes")).expect("tensors");
        let saved = SavedMemoryBank::from_named_tensors(&mut named, Device::Cpu).expect("tensors").expect("a bank");
        let back = saved.with_pairs(3, pairs).expect("a bank");
        assert_eq!(back.images, bank.images);
        assert_eq!(back.captions, bank.captions);
        assert!(MemoryBank::new(0, vec![], bank.images, bank.captions).is_err());
    }
}
