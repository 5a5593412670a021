//! The memory bank on tensors: samples of the training data in the joint space, and how a batch compares with them.

use std::collections::HashMap;

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

use super::collective::Group;
use super::family::encoded::Encoded;
use super::loss::BankScores;
use super::named::Named;
use super::similarity::Similarity;
use super::slices::to_vec;
use crate::error::{Error, Result};

/// What a pair of a batch is not compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mask {
    /// Its own image, whatever the caption.
    #[default]
    OwnImage,
    /// Its own caption; other captions of its image count, as in the paper's formula.
    OwnCaption,
    /// Any caption of the batch, as in the published code.
    BatchCaptions,
    /// Nothing is left out.
    Nothing,
}

/// A training sample: a caption with its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its row in the table of samples.
    pub row: usize,
    /// What tells its image from all others.
    pub image: (i64, i64),
}

/// Names of its tensors in a checkpoint.
const IMAGES: &str = "bank.images";
const CAPTIONS: &str = "bank.captions";

impl Member {
    /// As many samples that have nothing to do with each other, for measurements.
    pub fn strangers(count: usize) -> Vec<Self> {
        let image = |row: usize| (0, row.saturating_as::<i64>());
        (0..count).map(|row| Self { row, image: image(row) }).collect()
    }
}

/// A version of the bank.
#[derive(Debug)]
pub struct Bank {
    /// The epoch, from 0, whose beginning the vectors are of.
    pub epoch: u64,
    members: Vec<Member>,
    /// `[M, d]`.
    images: Tensor,
    /// `[M, d]`.
    captions: Tensor,
    of_caption: HashMap<usize, usize>,
    of_image: HashMap<(i64, i64), Vec<usize>>,
}

impl Bank {
    /// The bank of these samples, of whose vectors each rank has those of its [share](crate::kernels::epoch::share).
    ///
    /// # Errors
    /// As [`Bank::new`] and [`Group::all_gather`].
    pub fn gather(
        epoch: u64,
        members: Vec<Member>,
        images: &Encoded,
        captions: &Encoded,
        group: &Group,
    ) -> Result<Self> {
        Self::new(epoch, members, images.gather(group)?.vectors, captions.gather(group)?.vectors)
    }

    /// The bank of these samples, whose vectors are `[M, d]`.
    ///
    /// # Errors
    /// Another number of vectors than of samples.
    pub fn new(epoch: u64, members: Vec<Member>, images: Tensor, captions: Tensor) -> Result<Self> {
        let rows = |tensor: &Tensor| tensor.size().first().copied();
        let wanted = i64::try_from(members.len()).ok();
        if rows(&images) != wanted || rows(&captions) != wanted {
            let (images, captions) = (images.size(), captions.size());
            return Err(Error::internal(format!("{} samples for {images:?} and {captions:?}", members.len())));
        }
        let of_caption = members.iter().enumerate().map(|(i, member)| (member.row, i)).collect();
        let mut of_image: HashMap<_, Vec<usize>> = HashMap::new();
        for (i, member) in members.iter().enumerate() {
            of_image.entry(member.image).or_default().push(i);
        }
        Ok(Self { epoch, members, images, captions, of_caption, of_image })
    }

    /// Samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Width of a vector.
    #[must_use]
    pub fn width(&self) -> usize {
        self.images.size().get(1).and_then(|&width| usize::try_from(width).ok()).unwrap_or(0)
    }

    /// The samples, in the order of the vectors.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The vectors of the images and of the captions of samples `start..end`, row-major.
    ///
    /// # Errors
    /// A failure of libtorch.
    pub fn vectors(&self, start: usize, end: usize) -> Result<(Vec<f32>, Vec<f32>)> {
        let size = |size: usize| size.saturating_as::<i64>();
        let values = |tensor: &Tensor| to_vec(&tensor.narrow(0, size(start), size(end - start)));
        Ok((values(&self.images)?, values(&self.captions)?))
    }

    /// How a batch compares with the bank: `images` and `captions` are its vectors `[n, d]`, `batch` its samples.
    ///
    /// What `mask` leaves out has the score −∞. Cost: two products of `[n, d]` and `[d, M]`.
    #[must_use]
    pub fn scores(
        &self,
        images: &Tensor,
        captions: &Tensor,
        batch: &[Member],
        similarity: Similarity,
        mask: Mask,
    ) -> BankScores {
        let of_images = similarity.scores(images, &self.captions);
        let of_captions = similarity.scores(&self.images, captions).tr().contiguous();
        let (rows, columns) = self.left_out(batch, mask);
        let indices = [&rows, &columns].map(|places| Some(Tensor::from_slice(places).to_device(images.device())));
        let mut scores = [of_images, of_captions];
        if !rows.is_empty() {
            let nothing = Tensor::from(f64::NEG_INFINITY).to_kind(images.kind()).to_device(images.device());
            for scores in &mut scores {
                let _ = scores.index_put_(&indices, &nothing, false);
            }
        }
        let [captions, images] = scores;
        BankScores { captions, images }
    }

    /// Rows of the batch and columns of the bank that are not compared.
    fn left_out(&self, batch: &[Member], mask: Mask) -> (Vec<i64>, Vec<i64>) {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (i, member) in batch.iter().enumerate() {
            match mask {
                Mask::OwnImage => {
                    pairs.extend(self.of_image.get(&member.image).into_iter().flatten().map(|&column| (i, column)));
                }
                Mask::OwnCaption => pairs.extend(self.of_caption.get(&member.row).map(|&column| (i, column))),
                Mask::BatchCaptions => {
                    let column = self.of_caption.get(&member.row);
                    pairs.extend(column.into_iter().flat_map(|&column| (0..batch.len()).map(move |row| (row, column))));
                }
                Mask::Nothing => {}
            }
        }
        let number = |place: usize| place.saturating_as::<i64>();
        pairs.into_iter().map(|(row, column)| (number(row), number(column))).unzip()
    }

    /// Adds its vectors to what is kept of a training; its samples follow from the epoch.
    pub(super) fn keep(&self, named: &mut Named) {
        named.tensors.insert(IMAGES.to_owned(), self.images.shallow_clone());
        named.tensors.insert(CAPTIONS.to_owned(), self.captions.shallow_clone());
    }
}

/// The vectors of a bank that was kept.
#[derive(Debug)]
pub struct Kept {
    images: Tensor,
    captions: Tensor,
}

impl Kept {
    /// Takes them out of what was kept of a training, if there are any.
    pub(super) fn take(named: &mut Named, device: Device) -> Result<Option<Self>> {
        if !named.tensors.contains_key(IMAGES) {
            return Ok(None);
        }
        let (images, captions) = (named.take(IMAGES)?, named.take(CAPTIONS)?);
        Ok(Some(Self { images: images.to_device(device), captions: captions.to_device(device) }))
    }

    /// The bank of `epoch`, of these samples.
    ///
    /// # Errors
    /// Another number of vectors than of samples.
    pub fn of(self, epoch: u64, members: Vec<Member>) -> Result<Bank> {
        Bank::new(epoch, members, self.images, self.captions)
    }
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;

    fn member(row: usize, image: i64) -> Member {
        Member { row, image: (0, image) }
    }

    /// Rows 10 to 13 of images 5, 5, 6, 7.
    fn bank() -> Bank {
        let members = vec![member(10, 5), member(11, 5), member(12, 6), member(13, 7)];
        let images = Tensor::from_slice(&[1.0f64, 0.0, 1.0, 0.0, 0.0, 1.0, 0.6, 0.8]).view([4, 2]);
        let captions = Tensor::from_slice(&[0.0f64, 1.0, 1.0, 0.0, 0.8, 0.6, 0.6, 0.8]).view([4, 2]);
        Bank::new(3, members, images, captions).expect("a bank")
    }

    fn scores(mask: Mask) -> (Vec<f64>, Vec<f64>) {
        let images = Tensor::from_slice(&[1.0f64, 0.0, 0.0, 1.0]).view([2, 2]);
        let captions = Tensor::from_slice(&[0.0f64, 1.0, 0.6, 0.8]).view([2, 2]);
        // Another caption of image 5, and the pair of row 12.
        let batch = [member(9, 5), member(12, 6)];
        let found = bank().scores(&images, &captions, &batch, Similarity::Cosine, mask);
        let values = |tensor: &Tensor| Vec::try_from(tensor.view(-1)).expect("f64 values");
        (values(&found.captions), values(&found.images))
    }

    /// By hand: products with the captions (0,1), (1,0), (.8,.6), (.6,.8) and the images (1,0), (1,0), (0,1), (.6,.8).
    #[test]
    fn a_batch_compares_with_what_is_not_masked() {
        const OUT: f64 = f64::NEG_INFINITY;
        let cases = [
            (Mask::Nothing, [0.0, 1.0, 0.8, 0.6, 1.0, 0.0, 0.6, 0.8], [0.0, 0.0, 1.0, 0.8, 0.6, 0.6, 0.8, 1.0]),
            (Mask::OwnImage, [OUT, OUT, 0.8, 0.6, 1.0, 0.0, OUT, 0.8], [OUT, OUT, 1.0, 0.8, 0.6, 0.6, OUT, 1.0]),
            (Mask::OwnCaption, [0.0, 1.0, 0.8, 0.6, 1.0, 0.0, OUT, 0.8], [0.0, 0.0, 1.0, 0.8, 0.6, 0.6, OUT, 1.0]),
            (Mask::BatchCaptions, [0.0, 1.0, OUT, 0.6, 1.0, 0.0, OUT, 0.8], [0.0, 0.0, OUT, 0.8, 0.6, 0.6, OUT, 1.0]),
        ];
        for (mask, captions, images) in cases {
            let (got_captions, got_images) = scores(mask);
            for (got, wanted) in got_captions.iter().chain(&got_images).zip(captions.iter().chain(&images)) {
                assert!((got - wanted).abs() < 1e-12 || got == wanted, "{mask:?}: {got_captions:?} {got_images:?}");
            }
        }
    }

    #[test]
    fn a_bank_is_kept_and_taken() {
        let bank = bank();
        let mut named = Named::default();
        assert!(Kept::take(&mut named, Device::Cpu).expect("nothing").is_none());
        let members = bank.members.clone();
        let floats = |tensor: &Tensor| tensor.to_kind(Kind::Float);
        let bank = Bank::new(3, members.clone(), floats(&bank.images), floats(&bank.captions)).expect("a bank");
        bank.keep(&mut named);
        let mut named = Named::from_bytes(&named.to_bytes().expect("bytes")).expect("tensors");
        let kept = Kept::take(&mut named, Device::Cpu).expect("tensors").expect("a bank");
        let back = kept.of(3, members).expect("a bank");
        assert_eq!(back.images, bank.images);
        assert_eq!(back.captions, bank.captions);
        assert!(Bank::new(0, vec![], bank.images, bank.captions).is_err());
    }
}
