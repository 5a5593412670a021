//! Features of the images of a block, in batches on several threads: preprocessing, and the network that computes them, a
//! published one or a module of the user's.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::earlier::BlockRows;
use super::shared_decoding::SharedBlock;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_images::image::{DecodedImage, EncodedImages};
use pairloom_kernels::normalize;
use pairloom_kernels::resize::{CropPlace, resize_and_crop};
use pairloom_model::networks::{ImageNetwork, NetworkOutput, TorchScriptModule};
use pairloom_model::threads;
use pairloom_spec::networks::NetworkInput;
use pairloom_spec::stages::extract::{Extract, OnUndecodable};

/// Computation of features in batches, which the blocks in work share out among the threads of the stage.
///
/// A few blocks of a deep network take minutes, and the first one is mapped alone, so a thread for each block would leave
/// others idle. The batches of a block are the same for any number of threads, and each is computed by one of them, as
/// libtorch may round differently with several.
pub(super) struct BatchComputation<'e> {
    extract: &'e Extract,
    /// Tensors are not `Sync`, so each batch has its own handles to the weights.
    network: Mutex<FeatureNetwork>,
    pool: rayon::ThreadPool,
    /// Number of values of an image.
    pub row_width: usize,
    /// Width of a vector of an image, which has one or several.
    pub width: usize,
    pub cancel: CancelToken,
}

/// Features of a batch of images.
pub(super) struct ComputedBatch {
    /// Numbers of the images that have features.
    pub rows: Vec<usize>,
    /// Their features, row-major.
    pub features: Vec<f32>,
    /// Numbers of the images that cannot be decoded, with the reasons.
    pub undecodable: Vec<(usize, Error)>,
}

impl<'e> BatchComputation<'e> {
    /// Starts the threads.
    pub fn new(extract: &'e Extract, network: FeatureNetwork, threads: usize, cancel: CancelToken) -> Result<Self> {
        let row_width = network.row_width();
        let width = row_width / extract.regions().unwrap_or(1);
        Ok(Self { extract, network: Mutex::new(network), pool: threads::pool(threads)?, row_width, width, cancel })
    }

    /// Computes the features of the images with these `numbers`, batch by batch, in their order.
    pub fn compute(
        &self,
        numbers: &[usize],
        images: &EncodedImages<'_>,
        rows: &BlockRows,
        shared: Option<&SharedBlock<'_, '_>>,
    ) -> Result<Vec<ComputedBatch>> {
        let is_broken = AtomicBool::new(false);
        let chunks = numbers.par_chunks(self.extract.full_batch());
        let batch = |numbers: &[usize]| self.compute_batch(numbers, images, rows, shared, &is_broken);
        // All batches end before the first error is returned, so that it is the same in every run.
        let computed: Vec<_> = self.pool.install(|| chunks.map(batch).collect());
        computed.into_iter().collect()
    }

    /// Computes a batch. `is_broken` is set by an image that ends the stage.
    fn compute_batch(
        &self,
        numbers: &[usize],
        images: &EncodedImages<'_>,
        rows: &BlockRows,
        shared: Option<&SharedBlock<'_, '_>>,
        is_broken: &AtomicBool,
    ) -> Result<ComputedBatch> {
        let (extract, input) = (self.extract, self.extract.input());
        let mut pixels = Vec::with_capacity(extract.full_batch() * extract.crops() * 3 * input.crop * input.crop);
        let mut batch = ComputedBatch { rows: Vec::new(), features: Vec::new(), undecodable: Vec::new() };
        for &row in numbers {
            self.cancel.check()?;
            let decode = || images.decode(row);
            let decoded_image = match (shared, rows.keys.rows[row]) {
                (Some(shared), Some(key)) => shared.decode(key, &self.cancel, decode),
                _ => decode().map(Arc::new),
            };
            match decoded_image {
                Ok(image) => {
                    if extract.ten_crop {
                        append_ten_crops(&image, &input, &mut pixels);
                    } else {
                        append_normalized(&image, &input, &mut pixels);
                    }
                    batch.rows.push(row);
                }
                Err(error) if error.category() == ErrorCategory::Data => {
                    batch.undecodable.push((row, error));
                    is_broken.fetch_or(extract.on_undecodable == OnUndecodable::Fail, Ordering::Relaxed);
                }
                Err(error) => return Err(error.context(format!("image `{}`", images.shown_name(row)))),
            }
        }
        // Others are decoded then only so that the error names all that cannot be.
        if !batch.rows.is_empty() && !is_broken.load(Ordering::Relaxed) {
            let names = batch.rows.iter().map(|&row| images.shown_name(row));
            batch.features = self.compute_features(pixels, names)?;
        }
        Ok(batch)
    }

    /// Computes the features of a batch of images. `names` are the names of the images.
    ///
    /// A batch that is not full is filled up: libtorch chooses its algorithms by the size of a batch, and with them the
    /// roundings. So the feature of an image does not depend on how many others are computed with it.
    fn compute_features<'n>(
        &self,
        mut pixels: Vec<f32>,
        names: impl Iterator<Item = Cow<'n, str>>,
    ) -> Result<Vec<f32>> {
        let extract = self.extract;
        let broken = |_| Error::internal("another thread panicked while it copied the handles of the network");
        let network = self.network.lock().map_err(broken)?.share();
        let crop = extract.input().crop;
        pixels.resize(extract.full_batch() * extract.crops() * 3 * crop * crop, 0.0);
        let mut features = network.compute(&pixels, crop)?;
        if extract.ten_crop {
            features = mean_of_crops(&features, self.row_width);
        }
        for (image, name) in features.chunks_exact_mut(self.row_width).zip(names) {
            if !image.iter().all(|value| value.is_finite()) {
                return Err(Error::stage(format!("the feature of `{name}` holds a NaN or an infinity"))
                    .hint("the weights are too large for the network"));
            }
            if extract.normalize || extract.captions.is_some() {
                image.chunks_exact_mut(self.width).for_each(normalize);
            }
        }
        Ok(features)
    }
}

/// Means of the features of the ten crops of each image.
fn mean_of_crops(features: &[f32], width: usize) -> Vec<f32> {
    let mut means = Vec::with_capacity(features.len() / 10);
    for crops in features.chunks_exact(10 * width) {
        let start = means.len();
        means.extend_from_slice(&crops[..width]);
        for crop in crops.chunks_exact(width).skip(1) {
            means[start..].iter_mut().zip(crop).for_each(|(sum, value)| *sum += value);
        }
        means[start..].iter_mut().for_each(|sum| *sum /= 10.0);
    }
    means
}

/// Divides a feature by its L2 norm; a zero vector stays unchanged.
pub(super) fn normalize(feature: &mut [f32]) {
    let norm = feature.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if norm > 0.0 {
        for value in feature {
            #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
            let quotient = (f64::from(*value) / norm) as f32;
            *value = quotient;
        }
    }
}

/// Network of the stage, with the output that becomes the feature.
pub(super) enum FeatureNetwork {
    Published { network: Box<ImageNetwork>, output: NetworkOutput },
    Module(TorchScriptModule),
}

impl FeatureNetwork {
    /// The same network for another thread.
    pub fn share(&self) -> Self {
        match self {
            Self::Published { network, output } => {
                Self::Published { network: Box::new(network.share()), output: *output }
            }
            Self::Module(module) => Self::Module(module.clone()),
        }
    }

    /// Number of values of an image.
    pub fn row_width(&self) -> usize {
        match self {
            Self::Published { network, output } => network.output_width(*output),
            Self::Module(module) => module.row_width(),
        }
    }

    /// Computes the values of square images, given one after the other as normalised pixels.
    ///
    /// # Errors
    /// As [`ImageNetwork::compute`] or [`TorchScriptModule::compute`].
    pub fn compute(&self, pixels: &[f32], side: usize) -> Result<Vec<f32>> {
        match self {
            Self::Published { network, output } => network.compute(pixels, side, *output),
            Self::Module(module) => {
                module.compute(pixels, side).map_err(|error| error.context("the module of `torchscript.file`"))
            }
        }
    }
}

/// Resizes `image`, crops its centre, normalises it and appends it to `pixels`: 3 channels × `crop` × `crop` values.
///
/// Equal to the bit to torchvision's `Resize(resize)`, `CenterCrop(crop)`, `ToTensor`, `Normalize`.
pub(super) fn append_normalized(image: &DecodedImage, input: &NetworkInput, pixels: &mut Vec<f32>) {
    append_square(image, input, (CropPlace::Centre, false), pixels);
}

/// Appends ten squares in place of one: torchvision's `TenCrop(crop)`, in its order.
fn append_ten_crops(image: &DecodedImage, input: &NetworkInput, pixels: &mut Vec<f32>) {
    for square in CropPlace::TEN {
        append_square(image, input, square, pixels);
    }
}

fn append_square(
    image: &DecodedImage,
    input: &NetworkInput,
    (place, mirrored): (CropPlace, bool),
    pixels: &mut Vec<f32>,
) {
    let square = resize_and_crop(&image.rgb, image.width, image.height, input.square(place));
    let start = pixels.len();
    pixels.resize(start + square.len(), 0.0);
    normalize::to_channels(&square, input.crop, input.statistics, mirrored, &mut pixels[start..]);
}
