//! Embeddings in npy files, whose rows are images or captions in order.

use std::path::Path;

use az::SaturatingAs;

use super::{CAPTION_IDS, EmbeddingRow, IMAGE_IDS, IMAGE_OF, PrecomputedEmbeddings};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::id_list::IdList;
use pairloom_formats::npy::{NpyFile, NpyRowKind};
use pairloom_formats::text_lines::TextLines;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;

/// Default number of captions of an image, as in the published data sets.
const CAPTIONS_PER_IMAGE: usize = 5;

/// Hint for arrays that are no matrix.
const HINT: &str = "save one vector for each row: `numpy.save(path, x.reshape(len(x), -1))` for an array such as \
                    (rows, 1, width), `numpy.save(path, x.mean(axis=1))` for vectors of tokens or patches";

/// Image file and caption file, checked for consistency.
pub(super) struct NpyFiles<'s> {
    images: NpyFile,
    captions: NpyFile,
    split: &'s str,
    image_of: CaptionImages,
    image_ids: Option<Vec<i64>>,
    caption_ids: Option<Vec<i64>>,
}

/// Mapping from captions to images.
enum CaptionImages {
    /// Number of captions of each image, which are adjacent.
    Consecutive(usize),
    /// Row of the image of each caption.
    Listed(Vec<usize>),
}

impl<'s> NpyFiles<'s> {
    /// Opens the files.
    ///
    /// # Errors
    /// A file is not an npy file of vectors, or the numbers of rows do not match.
    pub(super) fn open(
        settings: &'s PrecomputedEmbeddings,
        images: &Path,
        captions: &Path,
        cx: &StageContext<'_>,
    ) -> Result<Self> {
        let (images, captions) =
            (NpyFile::open(images, NpyRowKind::Vectors, HINT)?, NpyFile::open(captions, NpyRowKind::Vectors, HINT)?);
        for file in [&images, &captions] {
            if file.rows() == 0 {
                return Err(Error::data(format!("`{}` has no rows", file.path().display())));
            }
        }
        let image_of = match settings.image_of {
            Some(_) => CaptionImages::Listed(read_image_of(&cx.source(IMAGE_OF)?, &images, &captions)?),
            None => CaptionImages::Consecutive(check_captions_per_image(
                settings.captions_per_image.unwrap_or(CAPTIONS_PER_IMAGE),
                &images,
                &captions,
            )?),
        };
        let ids = |is_given: bool, input: &str, file: &NpyFile| {
            is_given.then(|| read_ids(&cx.source(input)?, file)).transpose()
        };
        let image_ids = ids(settings.image_ids.is_some(), IMAGE_IDS, &images)?;
        let caption_ids = ids(settings.caption_ids.is_some(), CAPTION_IDS, &captions)?;
        let split = settings.split.as_deref().unwrap_or("test");
        Ok(Self { images, captions, split, image_of, image_ids, caption_ids })
    }

    /// Calls `visit` for every image.
    pub(super) fn images(&self, mut visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        let mut values = Vec::new();
        for row in 0..self.images.rows() {
            values.clear();
            let vector = self.images.read_vector(row, &mut values).map(|()| values.as_slice());
            visit(EmbeddingRow {
                image_id: Ok(id(self.image_ids.as_deref(), row)),
                caption_id: None,
                split: Some(Ok(self.split)),
                vector,
            })?;
        }
        Ok(())
    }

    /// Calls `visit` for every caption.
    pub(super) fn captions(&self, mut visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        let mut values = Vec::new();
        for row in 0..self.captions.rows() {
            values.clear();
            let vector = self.captions.read_vector(row, &mut values).map(|()| values.as_slice());
            let image = match &self.image_of {
                CaptionImages::Consecutive(captions) => row / captions,
                CaptionImages::Listed(images) => images[row],
            };
            visit(EmbeddingRow {
                image_id: Ok(id(self.image_ids.as_deref(), image)),
                caption_id: Some(Ok(id(self.caption_ids.as_deref(), row))),
                split: None,
                vector,
            })?;
        }
        Ok(())
    }
}

/// Identifier of a row: that of the list, or its number.
fn id(ids: Option<&[i64]>, row: usize) -> i64 {
    ids.map_or_else(|| row.saturating_as::<i64>(), |ids| ids[row])
}

/// Reads the identifiers of the rows of `file`.
///
/// # Errors
/// [`IdList::read`], or another number of identifiers than rows.
fn read_ids(path: &Path, file: &NpyFile) -> Result<Vec<i64>> {
    let ids = IdList::read(path)?.ids;
    if ids.len() == file.rows() {
        return Ok(ids);
    }
    let (list, count, rows) = (path.display(), ids.len(), file.rows());
    Err(Error::data(format!(
        "`{list}` has {count} identifiers, expected {rows}, one for each row of `{}`",
        file.path().display()
    )))
}

/// Checks that each image has `captions_per_image` captions, by the numbers of rows.
fn check_captions_per_image(captions_per_image: usize, images: &NpyFile, captions: &NpyFile) -> Result<usize> {
    let (n_images, n_captions) = (images.rows(), captions.rows());
    // Image files with one row per caption are common: they repeat the row of an image for each of its captions.
    if n_images == n_captions
        && let Some(times) = repeat_count(images)
    {
        return Err(Error::data(format!(
            "`{}` has every row {times} times, once for each caption of `{}`: expected one row per image",
            images.path().display(),
            captions.path().display()
        ))
        .hint(format!("keep one of them: `numpy.save(path, x[::{times}])`")));
    }
    if n_images.checked_mul(captions_per_image) == Some(n_captions) {
        return Ok(captions_per_image);
    }
    let plural = if captions_per_image == 1 { "" } else { "s" };
    let error = Error::data(format!(
        "`{}` has {n_images} rows and `{}` has {n_captions}: expected {captions_per_image} caption{plural} for each image",
        images.path().display(),
        captions.path().display()
    ));
    Err(if n_captions < n_images {
        error.hint("there are fewer captions than images: `images` and `captions` look swapped")
    } else if n_images == n_captions {
        error.hint(format!(
            "set `captions_per_image = 1`; or, if the row of an image is repeated for each of its captions, keep one: \
             `numpy.save(path, x[::{captions_per_image}])`"
        ))
    } else if n_captions.is_multiple_of(n_images) {
        error.hint(format!("set `captions_per_image = {}`", n_captions / n_images))
    } else {
        error.hint("give the image of each caption with `image_of`")
    })
}

/// Returns how many times each row is repeated, if all rows are repeated equally often and more than once.
fn repeat_count(file: &NpyFile) -> Option<usize> {
    let equal = |row: usize, other: usize| file.rows_are_equal(row, other);
    let times = (1..file.rows()).take_while(|&row| equal(row, 0)).count() + 1;
    let all =
        times > 1 && file.rows().is_multiple_of(times) && (0..file.rows()).all(|row| equal(row, row - row % times));
    all.then_some(times)
}

/// Reads the image of every caption from a file with one line per caption.
fn read_image_of(path: &Path, images: &NpyFile, captions: &NpyFile) -> Result<Vec<usize>> {
    let hint = "write it with `numpy.savetxt(path, x, fmt=\"%d\")`";
    let file = TextLines::read(path).map_err(|error| error.hint(hint))?;
    let mut mistakes = ValidationErrors::in_file(path);
    mistakes.hint(hint);
    let mut listed = Vec::with_capacity(captions.rows());
    for (line, content) in file.iter() {
        let row = content.trim().parse::<usize>();
        if !row.as_ref().is_ok_and(|row| *row < images.rows()) {
            let message = format!("`{}` is not a row of `{}`", shown_name(content), images.path().display());
            mistakes.add(format_args!("line {line}"), format_args!("{message}: expected 0 to {}", images.rows() - 1));
        }
        listed.push(row.unwrap_or(0));
    }
    mistakes.into_result()?;
    if listed.len() == captions.rows() {
        return Ok(listed);
    }
    let error = Error::data(format!(
        "`{}` has {} lines, expected {}, one for each row of `{}`",
        path.display(),
        listed.len(),
        captions.rows(),
        captions.path().display()
    ));
    let is_swapped = listed.len() == images.rows();
    Err(if is_swapped {
        error.hint("it has as many lines as `images` has rows: `images` and `captions` look swapped")
    } else {
        error
    })
}
