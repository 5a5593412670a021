//! Images decoded on the fly for fine-tuning, with random augmentation.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use pairloom_base::error::{Error, Result};
use pairloom_images::image::{DecodedImage, EncodedImages, HeldImage};
use pairloom_kernels::augment::Augmentation;
use pairloom_kernels::normalize::{self, ChannelStatistics};
use pairloom_kernels::resize::{CropPlace, Interpolation, ResizedCrop, crop_and_resize, resize_and_crop};

/// Images of the table `images` with the augmentation of a training.
///
/// This is torchvision's `RandomResizedCrop(side)`, `RandomHorizontalFlip`, `ToTensor`, `Normalize`, except that the
/// augmentation is a function of (seed, epoch, position). It depends neither on the thread nor on earlier images, so
/// a resumed epoch has the same pixels. Threads share it; it holds the rows of the table and no pixels.
#[derive(Debug)]
pub struct AugmentedImages {
    batches: Vec<RecordBatch>,
    /// Index of the first row of each batch, and at the end the number of rows.
    starts: Vec<usize>,
    root: Option<PathBuf>,
    format: PixelFormat,
}

/// Squares that a network reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelFormat {
    /// Side, in pixels.
    pub side: usize,
    /// Shorter side, in pixels, to which an image is resized before its centre crop is taken.
    pub resize: usize,
    /// Filter of the resizing.
    pub interpolation: Interpolation,
    /// Statistics for the normalisation.
    pub statistics: ChannelStatistics,
}

impl PixelFormat {
    /// Squares for the networks of torchvision: a centre crop of 224 is taken from an image of shorter side 256.
    #[must_use]
    pub fn imagenet(side: usize) -> Self {
        Self {
            side,
            resize: side * 8 / 7,
            interpolation: Interpolation::Bilinear,
            statistics: ChannelStatistics::IMAGENET,
        }
    }
}

impl AugmentedImages {
    /// Images of `batches` of `images`, whose paths are relative to `root`, as squares of `format`.
    ///
    /// # Errors
    /// A batch lacks columns of `images`, or the side is 0.
    pub fn new(batches: Vec<RecordBatch>, root: Option<PathBuf>, format: PixelFormat) -> Result<Self> {
        if format.side == 0 {
            return Err(Error::data("got a crop of 0 pixels, expected at least 1"));
        }
        let mut starts = vec![0];
        for batch in &batches {
            EncodedImages::new(batch, root.as_deref())?;
            starts.push(starts[starts.len() - 1] + batch.num_rows());
        }
        Ok(Self { batches, starts, root, format })
    }

    /// Number of images.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// Index of the image in row `row` of the `batch`-th batch.
    ///
    /// # Errors
    /// There is no such row.
    pub fn global_row(&self, batch: usize, row: usize) -> Result<usize> {
        let found = self.starts.get(batch).map(|start| start + row).filter(|row| *row < self.rows());
        found.ok_or_else(|| Error::data(format!("a sample has image {row} of part {batch}, which does not exist")))
    }

    /// Number of values of an image: 3 channels × side × side.
    #[must_use]
    pub fn sample_len(&self) -> usize {
        3 * self.format.side * self.format.side
    }

    /// Writes image `row`, augmented for `position` of `epoch`, to `pixels` `[3, side, side]`: red, green, blue.
    ///
    /// Cost: decoding, some milliseconds for a photograph of 500 × 375 pixels. Memory during the call: the decoded
    /// image.
    ///
    /// # Errors
    /// The image cannot be read, lies outside of the folder, is damaged or too large. The message names it.
    ///
    /// # Panics
    /// There is no such row, or the length of `pixels` is not [`AugmentedImages::sample_len`].
    pub fn write_augmented(&self, row: usize, seed: u64, epoch: u64, position: u64, pixels: &mut [f32]) -> Result<()> {
        let image = self.decode(row)?;
        let augmentation = Augmentation::draw(seed, epoch, position, image.width, image.height);
        write_view(&image, augmentation, self.format, pixels);
        Ok(())
    }

    /// Writes the centre crop of image `row`, for evaluation: its shorter side is resized, and the square in the centre
    /// is cut out.
    ///
    /// # Errors
    /// As [`AugmentedImages::write_augmented`].
    ///
    /// # Panics
    /// As [`AugmentedImages::write_augmented`].
    pub fn write_centre_crop(&self, row: usize, pixels: &mut [f32]) -> Result<()> {
        let image = self.decode(row)?;
        let PixelFormat { side, resize, interpolation, statistics } = self.format;
        let square = ResizedCrop { shorter: resize, crop: side, place: CropPlace::Centre, interpolation };
        let square = resize_and_crop(&image.rgb, image.width, image.height, square);
        normalize::to_channels(&square, side, statistics, false, pixels);
        Ok(())
    }

    fn decode(&self, row: usize) -> Result<HeldImage> {
        assert!(row < self.rows(), "image {row} of {}", self.rows());
        let batch = self.starts.partition_point(|&start| start <= row) - 1;
        let root: Option<&Path> = self.root.as_deref();
        let encoded = EncodedImages::new(&self.batches[batch], root)?;
        let row = row - self.starts[batch];
        encoded.decode(row).map_err(|error| error.context(format!("image `{}`", encoded.shown_name(row))))
    }
}

/// Writes an augmented `image` as 3 × `side` × `side` normalised values.
pub(super) fn write_view(image: &DecodedImage, augmentation: Augmentation, format: PixelFormat, pixels: &mut [f32]) {
    let PixelFormat { side, interpolation, statistics, .. } = format;
    let square = crop_and_resize(&image.rgb, (image.width, image.height), augmentation.crop, side, interpolation);
    normalize::to_channels(&square, side, statistics, augmentation.flipped, pixels);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray};
    use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

    use super::*;
    use pairloom_base::error::ErrorCategory;
    use pairloom_images::image::picture_digests;
    use pairloom_tables as tables;

    /// PNG of 40 × 30 pixels, all of different colours.
    fn png() -> Vec<u8> {
        let pixel = |i: u16| [i.to_le_bytes()[0], i.to_le_bytes()[1], 200];
        let rgb: Vec<u8> = (0..40 * 30u16).flat_map(pixel).collect();
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes).write_image(&rgb, 40, 30, ExtendedColorType::Rgb8).unwrap();
        bytes
    }

    /// Rows of `images`: path or bytes.
    fn images(rows: &[(Option<&str>, Option<Vec<u8>>)]) -> RecordBatch {
        let ids = 0..i64::try_from(rows.len()).unwrap();
        let bytes = BinaryArray::from_iter(rows.iter().map(|(_, bytes)| bytes.as_deref()));
        let digests = picture_digests(&bytes);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(StringArray::from_iter_values(ids.clone().map(|_| "train"))),
            Arc::new(StringArray::from_iter_values(ids.map(|id| format!("number {id}")))),
            Arc::new(StringArray::from_iter(rows.iter().map(|(path, _)| *path))),
            Arc::new(bytes),
            Arc::new(digests),
        ];
        tables::batch(&tables::images::table().schema(), columns).unwrap()
    }

    fn augmented_pixels(augmented: &AugmentedImages, row: usize, epoch: u64, position: u64) -> Vec<f32> {
        let mut pixels = vec![f32::NAN; augmented.sample_len()];
        augmented.write_augmented(row, 5, epoch, position, &mut pixels).unwrap();
        pixels
    }

    #[test]
    fn augmentation_depends_on_image_and_position_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.png"), png()).unwrap();
        let batches = vec![images(&[(None, Some(png()))]), images(&[]), images(&[(Some("a.png"), None)])];
        let augmented =
            AugmentedImages::new(batches, Some(folder.path().to_owned()), PixelFormat::imagenet(16)).unwrap();
        assert_eq!((augmented.rows(), augmented.sample_len()), (2, 768));
        let first = augmented_pixels(&augmented, 0, 1, 2);
        assert!(first.iter().all(|value| value.is_finite()));
        assert_ne!(augmented_pixels(&augmented, 0, 2, 2), first);
        assert_ne!(augmented_pixels(&augmented, 0, 1, 3), first);
        // The same image from a file, on another thread and later.
        let again = std::thread::scope(|scope| scope.spawn(|| augmented_pixels(&augmented, 1, 1, 2)).join().unwrap());
        assert_eq!(again, first);
    }

    #[test]
    fn an_image_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        let inner = folder.path().join("images");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(inner.join("cut.png"), &png()[..60]).unwrap();
        let rows = [
            (Some("gone.png"), None),
            (Some("../secret"), None),
            (Some("cut.png"), None),
            (None, Some(b"GIF89a...".to_vec())),
            (None, None),
        ];
        let augmented = AugmentedImages::new(vec![images(&rows)], Some(inner), PixelFormat::imagenet(8)).unwrap();
        let mut pixels = vec![0.0; augmented.sample_len()];
        for (row, expected) in
            ["gone.png", "leads out of the image folder", "damaged", "a GIF image", "neither"].into_iter().enumerate()
        {
            let error = augmented.write_augmented(row, 0, 0, 0, &mut pixels).unwrap_err();
            let message = error.to_string();
            assert!(message.starts_with(&format!("image `number {row}`: ")) && message.contains(expected), "{message}");
            assert_eq!(error.category(), ErrorCategory::Data);
        }
        let rootless = AugmentedImages::new(vec![images(&rows)], None, PixelFormat::imagenet(8)).unwrap();
        let error = rootless.write_augmented(0, 0, 0, 0, &mut pixels).unwrap_err();
        assert!(error.to_string().contains("there is no image folder"), "{error}");
        assert!(AugmentedImages::new(vec![], None, PixelFormat::imagenet(0)).is_err());
    }
}
