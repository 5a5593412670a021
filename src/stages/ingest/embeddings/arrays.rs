//! npy files: rows are images, and captions, in order.

use std::path::Path;

use az::SaturatingAs;

use super::Embeddings;
use super::rows::Row;
use crate::error::{Error, Mistakes, Result};
use crate::io::npy::{Matrix, Rows};
use crate::io::text_lines::TextLines;

/// Captions of an image in every published data set.
const CAPTIONS: usize = 5;

/// The two files, checked against each other.
pub(super) struct Arrays<'s> {
    images: Matrix,
    captions: Matrix,
    split: &'s str,
    image_of: ImageOf,
}

/// Which image a caption describes.
enum ImageOf {
    /// Each image has so many captions, which stand together.
    Runs(usize),
    /// Of each caption the row of its image.
    Listed(Vec<i64>),
}

impl<'s> Arrays<'s> {
    /// Opens the files.
    ///
    /// # Errors
    /// One is no npy file of vectors, or what they hold does not fit together.
    pub(super) fn open(set: &'s Embeddings, images: &Path, captions: &Path, image_of: Option<&Path>) -> Result<Self> {
        let (images, captions) = (Matrix::open(images, Rows::Vectors)?, Matrix::open(captions, Rows::Vectors)?);
        for file in [&images, &captions] {
            if file.rows() == 0 {
                return Err(Error::data(format!("`{}` has no rows", file.path().display())));
            }
        }
        let image_of = match image_of {
            Some(path) => ImageOf::Listed(listed(path, &images, &captions)?),
            None => ImageOf::Runs(runs(set.captions_per_image.unwrap_or(CAPTIONS), &images, &captions)?),
        };
        Ok(Self { images, captions, split: set.split.as_deref().unwrap_or("test"), image_of })
    }

    /// Calls `act` for every image.
    pub(super) fn images(&self, mut act: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let mut values = Vec::new();
        for row in 0..self.images.rows() {
            values.clear();
            self.images.values(row, &mut values);
            let vector = Ok(values.as_slice());
            act(Row {
                image_id: Ok(row.saturating_as::<i64>()),
                caption_id: None,
                split: Some(Ok(self.split)),
                vector,
            })?;
        }
        Ok(())
    }

    /// Calls `act` for every caption.
    pub(super) fn captions(&self, mut act: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        let mut values = Vec::new();
        for row in 0..self.captions.rows() {
            values.clear();
            self.captions.values(row, &mut values);
            let image_id = match &self.image_of {
                ImageOf::Runs(captions) => (row / captions).saturating_as::<i64>(),
                ImageOf::Listed(images) => images[row],
            };
            act(Row {
                image_id: Ok(image_id),
                caption_id: Some(Ok(row.saturating_as::<i64>())),
                split: None,
                vector: Ok(&values),
            })?;
        }
        Ok(())
    }
}

/// Captions of each image, once the rows of both files bear it out.
fn runs(captions_per_image: usize, images: &Matrix, captions: &Matrix) -> Result<usize> {
    let (n_images, n_captions) = (images.rows(), captions.rows());
    // Files of one row a caption on both sides are common: rows of an image stand there once for each of its captions.
    if n_images == n_captions
        && let Some(times) = repeated(images)
    {
        return Err(Error::data(format!(
            "`{}` has every row {times} times, once for each caption of `{}`: wanted one row an image",
            images.path().display(),
            captions.path().display()
        ))
        .hint(format!("keep one of them: `numpy.save(path, x[::{times}])`")));
    }
    if n_images.checked_mul(captions_per_image) == Some(n_captions) {
        return Ok(captions_per_image);
    }
    let error = Error::data(format!(
        "`{}` has {n_images} rows and `{}` has {n_captions}: wanted {captions_per_image} captions for each image",
        images.path().display(),
        captions.path().display()
    ));
    Err(if n_images == n_captions {
        error.hint(format!(
            "set `captions_per_image = 1`; or, if images stand there once for each of their captions, keep one of them: \
             `numpy.save(path, x[::{captions_per_image}])`"
        ))
    } else if n_captions.is_multiple_of(n_images) {
        error.hint(format!("set `captions_per_image = {}`", n_captions / n_images))
    } else {
        error.hint("say with `image_of` which image each caption describes")
    })
}

/// How often each row of the file stands there, one after the other, if that is the same for all and more than once.
fn repeated(file: &Matrix) -> Option<usize> {
    let equal = |row: usize, other: usize| file.row_bytes(row) == file.row_bytes(other);
    let times = (1..file.rows()).take_while(|&row| equal(row, 0)).count() + 1;
    let all =
        times > 1 && file.rows().is_multiple_of(times) && (0..file.rows()).all(|row| equal(row, row - row % times));
    all.then_some(times)
}

/// The image of every caption, from a line each.
fn listed(path: &Path, images: &Matrix, captions: &Matrix) -> Result<Vec<i64>> {
    let hint = "write it with `numpy.savetxt(path, x, fmt=\"%d\")`";
    let file = TextLines::read(path).map_err(|error| error.hint(hint))?;
    let mut mistakes = Mistakes::of(path);
    mistakes.hint(hint);
    let mut listed = Vec::with_capacity(captions.rows());
    for (line, content) in file.iter() {
        let row = content.trim().parse::<usize>();
        if !row.as_ref().is_ok_and(|row| *row < images.rows()) {
            let message = format!("`{}` is no row of `{}`", content.escape_debug(), images.path().display());
            mistakes.add(format_args!("line {line}"), format_args!("{message}: wanted 0 to {}", images.rows() - 1));
        }
        listed.push(row.map_or(0, SaturatingAs::saturating_as));
    }
    mistakes.finish()?;
    if listed.len() == captions.rows() {
        return Ok(listed);
    }
    Err(Error::data(format!(
        "`{}` has {} lines, wanted {}, one for each row of `{}`",
        path.display(),
        listed.len(),
        captions.rows(),
        captions.path().display()
    )))
}
