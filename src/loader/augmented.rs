//! Pictures decoded on the fly for fine-tuning, each through a random view of it.

use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;

use crate::error::{Error, Result};
use crate::io::image::{Picture, Pictures};
use crate::kernels::augment::View;
use crate::kernels::normalize;
use crate::kernels::resize::{crop_and_resize, resize_and_crop};

/// The pictures of the table `images`, seen as training sees them.
///
/// This is torchvision's `RandomResizedCrop(side)`, `RandomHorizontalFlip`, `ToTensor`, `Normalize`, but that the view is a
/// function of (seed, epoch, position): it depends neither on the thread that makes it nor on what was made before, so a
/// resumed epoch sees the same pixels. Shared by threads; holds the rows of the table and no pixels.
#[derive(Debug)]
pub struct AugmentedPictures {
    batches: Vec<RecordBatch>,
    /// The first row of each batch, and the number of rows.
    starts: Vec<usize>,
    root: Option<PathBuf>,
    side: usize,
}

impl AugmentedPictures {
    /// The pictures of `batches` of `images`, whose paths are relative to `root`, as squares of `side` pixels.
    ///
    /// # Errors
    /// A batch has not the columns of `images`, or `side` is 0.
    pub fn new(batches: Vec<RecordBatch>, root: Option<PathBuf>, side: usize) -> Result<Self> {
        if side == 0 {
            return Err(Error::data("squares have 0 pixels a side, wanted at least 1"));
        }
        let mut starts = vec![0];
        for batch in &batches {
            Pictures::new(batch, root.as_deref())?;
            starts.push(starts[starts.len() - 1] + batch.num_rows());
        }
        Ok(Self { batches, starts, root, side })
    }

    /// Pictures in all.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    /// The picture in row `row` of the `batch`-th batch.
    ///
    /// # Errors
    /// There is no such row.
    pub fn row(&self, batch: usize, row: usize) -> Result<usize> {
        let found = self.starts.get(batch).map(|start| start + row).filter(|row| *row < self.rows());
        found.ok_or_else(|| Error::data(format!("a sample shows picture {row} of part {batch}, and there is none")))
    }

    /// Values of a sample: 3 channels × side × side.
    #[must_use]
    pub fn values(&self) -> usize {
        3 * self.side * self.side
    }

    /// Writes picture `row` as it is seen at `position` of `epoch` to `pixels`: red, green, blue, each row by row.
    ///
    /// Cost: decoding, some milliseconds for a photograph of 500 × 375 pixels. Memory while it works: the decoded picture.
    ///
    /// # Errors
    /// The picture cannot be read, lies outside of the folder, is damaged or too large: the message names it.
    ///
    /// # Panics
    /// There is no such row, or `pixels` has other than [`AugmentedPictures::values`] values.
    pub fn sample(&self, row: usize, seed: u64, epoch: u64, position: u64, pixels: &mut [f32]) -> Result<()> {
        let picture = self.decode(row)?;
        let view = View::draw(seed, epoch, position, picture.width, picture.height);
        write(&picture, view, self.side, pixels);
        Ok(())
    }

    /// Writes picture `row` as it is seen when nothing is learned: its shorter side resized to `resize`, and the square in
    /// the centre.
    ///
    /// # Errors
    /// As [`AugmentedPictures::sample`].
    ///
    /// # Panics
    /// As there.
    pub fn centre(&self, row: usize, resize: usize, pixels: &mut [f32]) -> Result<()> {
        let picture = self.decode(row)?;
        let square = resize_and_crop(&picture.rgb, picture.width, picture.height, resize, self.side);
        normalize::imagenet(&square, self.side, false, pixels);
        Ok(())
    }

    fn decode(&self, row: usize) -> Result<Picture> {
        assert!(row < self.rows(), "picture {row} of {}", self.rows());
        let batch = self.starts.partition_point(|&start| start <= row) - 1;
        let root: Option<&Path> = self.root.as_deref();
        let pictures = Pictures::new(&self.batches[batch], root)?;
        let row = row - self.starts[batch];
        pictures.decode(row).map_err(|error| error.context(format!("picture `{}`", pictures.name(row))))
    }
}

/// Writes a view of `picture` as 3 × `side` × `side` normalised values.
pub(super) fn write(picture: &Picture, view: View, side: usize, pixels: &mut [f32]) {
    let square = crop_and_resize(&picture.rgb, picture.width, picture.height, view.region, side);
    normalize::imagenet(&square, side, view.mirrored, pixels);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray};
    use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

    use super::*;
    use crate::error::Kind;
    use crate::tables;

    /// A PNG of 40 × 30 pixels, in which no two are alike.
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
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(StringArray::from_iter_values(ids.clone().map(|_| "train"))),
            Arc::new(StringArray::from_iter_values(ids.map(|id| format!("number {id}")))),
            Arc::new(StringArray::from_iter(rows.iter().map(|(path, _)| *path))),
            Arc::new(BinaryArray::from_iter(rows.iter().map(|(_, bytes)| bytes.as_deref()))),
        ];
        tables::batch(&tables::images::table().schema(), columns).unwrap()
    }

    fn seen(pictures: &AugmentedPictures, row: usize, epoch: u64, position: u64) -> Vec<f32> {
        let mut pixels = vec![f32::NAN; pictures.values()];
        pictures.sample(row, 5, epoch, position, &mut pixels).unwrap();
        pixels
    }

    #[test]
    fn a_sample_depends_on_its_picture_and_place_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.png"), png()).unwrap();
        let batches = vec![images(&[(None, Some(png()))]), images(&[]), images(&[(Some("a.png"), None)])];
        let pictures = AugmentedPictures::new(batches, Some(folder.path().to_owned()), 16).unwrap();
        assert_eq!((pictures.rows(), pictures.values()), (2, 768));
        let first = seen(&pictures, 0, 1, 2);
        assert!(first.iter().all(|value| value.is_finite()));
        assert_ne!(seen(&pictures, 0, 2, 2), first);
        assert_ne!(seen(&pictures, 0, 1, 3), first);
        // The same picture in a file, by another thread and later.
        let again = std::thread::scope(|scope| scope.spawn(|| seen(&pictures, 1, 1, 2)).join().unwrap());
        assert_eq!(again, first);
    }

    #[test]
    fn a_picture_that_cannot_be_read_is_named() {
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
        let pictures = AugmentedPictures::new(vec![images(&rows)], Some(inner), 8).unwrap();
        let mut pixels = vec![0.0; pictures.values()];
        for (row, wanted) in
            ["gone.png", "leads out of the image folder", "damaged", "a GIF picture", "neither"].into_iter().enumerate()
        {
            let error = pictures.sample(row, 0, 0, 0, &mut pixels).unwrap_err();
            let message = error.to_string();
            assert!(message.starts_with(&format!("picture `number {row}`: ")) && message.contains(wanted), "{message}");
            assert_eq!(error.kind(), Kind::Data);
        }
        let rootless = AugmentedPictures::new(vec![images(&rows)], None, 8).unwrap();
        let error = rootless.sample(0, 0, 0, 0, &mut pixels).unwrap_err();
        assert!(error.to_string().contains("relative to no folder"), "{error}");
        assert!(AugmentedPictures::new(vec![], None, 0).is_err());
    }
}
