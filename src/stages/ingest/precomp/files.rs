//! Files of one split of a `*_precomp` folder, checked for consistency.

use std::path::Path;

use super::super::writer;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::id_list::IdList;
use pairloom_formats::npy::{NpyFile, NpyRowKind};
use pairloom_formats::text_lines::TextLines;
use pairloom_storage::files::is_file;

/// Number of captions of an image in the published folders.
const CAPTIONS_PER_IMAGE: usize = 5;

/// Files of one split.
pub(super) struct SplitFiles {
    pub split: &'static str,
    pub ims: NpyFile,
    pub caps: TextLines,
    pub captions: usize,
    pub ids: Option<Vec<i64>>,
    /// Number of rows of `ims` for each image: 1, or 5 equal ones.
    pub rows_per_image: usize,
    pub captions_per_image: usize,
    /// Number of captions that are used, from the first.
    pub used_captions: usize,
}

impl SplitFiles {
    /// Opens the files with the prefix `name`. Returns `None` if there are neither features nor captions.
    pub fn open(folder: &Path, name: &str, split: &'static str, row_kind: NpyRowKind) -> Result<Option<Self>> {
        let path = |suffix: &str| folder.join(format!("{name}_{suffix}"));
        let (ims, caps, ids) = (path("ims.npy"), path("caps.txt"), path("ids.txt"));
        match (is_file(&ims)?, is_file(&caps)?) {
            (false, false) => return Ok(None),
            (true, true) => {}
            (has_ims, _) => {
                let (has, lacks) = if has_ims { (ims, caps) } else { (caps, ims) };
                return Err(Error::data(format!("`{}` exists, but `{}` does not", has.display(), lacks.display())));
            }
        }
        let hint = match row_kind {
            NpyRowKind::Vectors => "vectors of regions, (images, regions, width), are read with `regions = true`",
            NpyRowKind::VectorSets | NpyRowKind::OneImage => {
                "one vector an image, (images, width), is read without `regions = true`"
            }
        };
        let ims = NpyFile::open(&ims, row_kind, hint)?;
        let caps = TextLines::read(&caps)?;
        let captions = check_captions(&caps)?;
        let (rows_per_image, captions_per_image) = layout(&ims, &caps, captions)?;
        let images = ims.rows() / rows_per_image;
        let ids = if is_file(&ids)? { Some(read_ids(&ids, images, captions)?) } else { None };
        Ok(Some(Self { split, ims, caps, captions, ids, rows_per_image, captions_per_image, used_captions: captions }))
    }

    pub fn images(&self) -> usize {
        self.ims.rows() / self.rows_per_image
    }

    /// Checks that the five rows from `row` are equal if and only if the first five rows of the file are.
    pub fn check_repeats(&self, row: usize) -> Result<()> {
        let repeats = self.rows_per_image == CAPTIONS_PER_IMAGE;
        let one_row_per_caption = self.ims.rows() == self.captions && self.captions.is_multiple_of(CAPTIONS_PER_IMAGE);
        if !one_row_per_caption || !row.is_multiple_of(CAPTIONS_PER_IMAGE) || rows_are_equal(&self.ims, row) == repeats
        {
            return Ok(());
        }
        let (here, before) = if repeats { ("differ", "are equal") } else { ("are equal", "differ") };
        Err(Error::data(format!(
            "`{}` rows {row} to {} {here}, but the first five {before}: wanted every five rows equal, or none",
            self.ims.path().display(),
            row + CAPTIONS_PER_IMAGE - 1
        )))
    }
}

/// Returns the numbers of rows and of captions of each image.
fn layout(ims: &NpyFile, caps: &TextLines, captions: usize) -> Result<(usize, usize)> {
    let rows = ims.rows();
    if rows > 0 && rows == captions {
        let repeat = captions.is_multiple_of(CAPTIONS_PER_IMAGE) && rows_are_equal(ims, 0);
        return Ok(if repeat { (CAPTIONS_PER_IMAGE, CAPTIONS_PER_IMAGE) } else { (1, 1) });
    }
    if rows > 0 && rows.checked_mul(CAPTIONS_PER_IMAGE) == Some(captions) {
        return Ok((1, CAPTIONS_PER_IMAGE));
    }
    Err(Error::data(format!(
        "`{}` has {rows} rows and `{}` has {captions} captions: wanted as many rows as captions, or a fifth of them",
        ims.path().display(),
        caps.path().display()
    )))
}

fn rows_are_equal(ims: &NpyFile, row: usize) -> bool {
    (row + 1..row + CAPTIONS_PER_IMAGE).all(|other| ims.rows_are_equal(other, row))
}

/// Checks all captions and returns their number.
fn check_captions(caps: &TextLines) -> Result<usize> {
    let mut mistakes = ValidationErrors::in_file(caps.path());
    let mut count = 0;
    for (line, content) in caps.iter() {
        count += 1;
        if let Err(problem) = writer::clean_caption(content) {
            mistakes.add(format_args!("line {line}"), problem);
        }
    }
    mistakes.into_result()?;
    Ok(count)
}

/// Reads the id of each image from a file with one line per image or one line per caption.
fn read_ids(path: &Path, images: usize, captions: usize) -> Result<Vec<i64>> {
    let ids = IdList::read(path)?.ids;
    if ids.len() == images {
        return Ok(ids);
    }
    if ids.len() != captions {
        return Err(Error::data(format!(
            "`{}` has {} lines, wanted {images} (one an image) or {captions} (one a caption)",
            path.display(),
            ids.len()
        )));
    }
    let group = captions / images;
    let mut mistakes = ValidationErrors::in_file(path);
    for (image, ids) in ids.chunks(group).enumerate() {
        if ids.iter().any(|id| *id != ids[0]) {
            let first = image * group + 1;
            let message = format!("one image has the ids {ids:?}, wanted the same {group} times");
            mistakes.add(format_args!("lines {first} to {}", first + group - 1), message);
        }
    }
    mistakes.into_result()?;
    Ok(ids.into_iter().step_by(group).collect())
}
