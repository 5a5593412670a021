//! The files of one split of a `*_precomp` folder, checked against each other.

use std::path::Path;

use super::super::rows;
use crate::error::{Error, Mistakes, Result};
use crate::io::{
    files::is_file,
    npy::{Matrix, Rows},
    text_lines::TextLines,
};

/// Captions of an image in every published folder.
const CAPTIONS: usize = 5;

/// The files of one split.
pub(super) struct Files {
    pub split: &'static str,
    pub ims: Matrix,
    pub caps: TextLines,
    pub captions: usize,
    pub ids: Option<Vec<i64>>,
    /// Rows of `ims` and lines of `caps` that belong to one image.
    pub rows_per_image: usize,
    pub captions_per_image: usize,
    /// Captions that are used, from the first.
    pub used: usize,
}

impl Files {
    /// Opens the files called `name`; `None` if neither features nor captions are there.
    pub fn open(folder: &Path, name: &str, split: &'static str, form: Rows) -> Result<Option<Self>> {
        let path = |suffix: &str| folder.join(format!("{name}_{suffix}"));
        let (ims, caps, ids) = (path("ims.npy"), path("caps.txt"), path("ids.txt"));
        match (is_file(&ims)?, is_file(&caps)?) {
            (false, false) => return Ok(None),
            (true, true) => {}
            (has_ims, _) => {
                let (has, lacks) = if has_ims { (ims, caps) } else { (caps, ims) };
                return Err(Error::data(format!("`{}` is there without `{}`", has.display(), lacks.display())));
            }
        }
        let ims = Matrix::open(&ims, form)?;
        let caps = TextLines::read(&caps)?;
        let captions = check_captions(&caps)?;
        let (rows_per_image, captions_per_image) = layout(&ims, &caps, captions)?;
        let images = ims.rows() / rows_per_image;
        let ids = if is_file(&ids)? { Some(read_ids(&ids, images, captions)?) } else { None };
        Ok(Some(Self { split, ims, caps, captions, ids, rows_per_image, captions_per_image, used: captions }))
    }

    pub fn images(&self) -> usize {
        self.ims.rows() / self.rows_per_image
    }

    /// Rows come in equal fives everywhere or nowhere; anything else is damage.
    pub fn check_repeats(&self, row: usize) -> Result<()> {
        let repeats = self.rows_per_image == CAPTIONS;
        let one_row_a_caption = self.ims.rows() == self.captions && self.captions.is_multiple_of(CAPTIONS);
        if !one_row_a_caption || !row.is_multiple_of(CAPTIONS) || repeats_at(&self.ims, row) == repeats {
            return Ok(());
        }
        let (here, before) = if repeats { ("differ", "repeat") } else { ("repeat", "differ") };
        Err(Error::data(format!(
            "`{}` rows {row} to {} {here}, while the first five {before}: wanted one or the other in the whole file",
            self.ims.path().display(),
            row + CAPTIONS - 1
        )))
    }
}

/// Rows and captions of one image.
fn layout(ims: &Matrix, caps: &TextLines, captions: usize) -> Result<(usize, usize)> {
    let rows = ims.rows();
    if rows > 0 && rows == captions {
        let repeat = captions.is_multiple_of(CAPTIONS) && repeats_at(ims, 0);
        return Ok(if repeat { (CAPTIONS, CAPTIONS) } else { (1, 1) });
    }
    if rows > 0 && rows.checked_mul(CAPTIONS) == Some(captions) {
        return Ok((1, CAPTIONS));
    }
    Err(Error::data(format!(
        "`{}` has {rows} rows and `{}` has {captions} captions: wanted as many rows as captions, or a fifth of them",
        ims.path().display(),
        caps.path().display()
    )))
}

fn repeats_at(ims: &Matrix, row: usize) -> bool {
    (row + 1..row + CAPTIONS).all(|other| ims.row_bytes(other) == ims.row_bytes(row))
}

/// The number of captions, none of them empty.
fn check_captions(caps: &TextLines) -> Result<usize> {
    let mut mistakes = Mistakes::of(caps.path());
    let mut count = 0;
    for (line, content) in caps.iter() {
        count += 1;
        if let Err(problem) = rows::caption(content) {
            mistakes.add(format_args!("line {line}"), problem);
        }
    }
    mistakes.finish()?;
    Ok(count)
}

/// One number an image, from a file of a line an image or a line a caption.
fn read_ids(path: &Path, images: usize, captions: usize) -> Result<Vec<i64>> {
    let file = TextLines::read(path)?;
    let mut mistakes = Mistakes::of(path);
    let mut ids: Vec<i64> = Vec::new();
    for (line, content) in file.iter() {
        ids.push(content.trim().parse().unwrap_or_else(|_| {
            mistakes.add(format_args!("line {line}"), format_args!("`{content}` is no whole number"));
            0
        }));
    }
    mistakes.finish()?;
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
    let mut mistakes = Mistakes::of(path);
    for (image, ids) in ids.chunks(group).enumerate() {
        if ids.iter().any(|id| *id != ids[0]) {
            let first = image * group + 1;
            let message = format!("one image has the ids {ids:?}, wanted the same {group} times");
            mistakes.add(format_args!("lines {first} to {}", first + group - 1), message);
        }
    }
    mistakes.finish()?;
    Ok(ids.into_iter().step_by(group).collect())
}
