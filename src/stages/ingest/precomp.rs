//! `*_precomp` folders: `{train,dev,test,testall}_{ims.npy,caps.txt,ids.txt}`.
//!
//! Format: the folders published with VSE++ (Faghri et al., BMVC 2018) and read alike by the repositories after it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Int64Array, StringArray};

use super::rows::{self, Image, Rows};
use super::settings::FEATURE_PART_ROWS;
use super::{Precomp, PrecompTest};
use crate::error::{Error, Result};
use crate::io::{Mistakes, npy::Matrix, text_lines::TextLines};
use crate::stage::Cx;
use crate::tables;

/// Captions of an image in every published folder.
const CAPTIONS: usize = 5;

/// The files of one split.
struct Files {
    split: &'static str,
    ims: Matrix,
    caps: TextLines,
    captions: usize,
    ids: Option<Vec<i64>>,
    /// Rows of `ims` and lines of `caps` that belong to one image.
    rows_per_image: usize,
    captions_per_image: usize,
    /// Captions that are used, from the first.
    used: usize,
}

/// Reads the folder and writes images, captions and features.
///
/// - Where `ims` has a row a caption and rows repeat in fives, one row an image is kept.
/// - `image_id` is the number in the ids files, which may have a line an image or a line a caption; if a split lacks its
///   file, images are counted over `train`, `dev`, `test` instead. `caption_id` counts lines over the three.
/// - Files called `dev` become the split `val`.
pub(super) fn run(set: &Precomp, cx: &mut Cx<'_>) -> Result<()> {
    let folder = cx.source("precomp.folder")?;
    let test = match set.test {
        PrecompTest::Test => "test",
        PrecompTest::Testall => "testall",
    };
    let mut all = Vec::new();
    for (name, split) in [("train", "train"), ("dev", "val"), (test, "test")] {
        match Files::open(&folder, name, split)? {
            Some(files) => all.push(files),
            None if name == "testall" => {
                return Err(Error::data(format!("no `testall_ims.npy` in `{}`", folder.display()))
                    .hint("use `test = \"test\"`"));
            }
            None => cx.warn(name, format!("`{name}_ims.npy` and `{name}_caps.txt` are not there: no split `{split}`")),
        }
    }
    let Some(first) = all.first() else {
        return Err(Error::data(format!("no `train_ims.npy`, `dev_ims.npy` or `{test}_ims.npy` in `{}`", folder.display())));
    };
    let width = first.ims.width();
    if let Some(other) = all.iter().find(|files| files.ims.width() != width) {
        return Err(Error::data(format!(
            "`{}` has {} values a row, wanted {width} as in `{}`",
            other.ims.path().display(),
            other.ims.width(),
            first.ims.path().display()
        )));
    }
    if let Some(dev) = all.iter_mut().find(|files| files.split == "val" && files.captions > set.dev_captions) {
        dev.used = set.dev_captions;
        let message = format!("the first {} of {} captions are used, as `dev_captions` says", dev.used, dev.captions);
        cx.warn(dev.caps.path().display().to_string(), message);
    }
    let numbered = use_ids(cx, &all, &folder)?;
    let mut writer = Writer { width, rows: Rows::default(), ids: Vec::new(), splits: Vec::new(), values: Vec::new() };
    let (mut images, mut captions) = (0, 0);
    for files in &all {
        files.write(cx, &mut writer, numbered, images, captions)?;
        images += files.images();
        captions += files.captions;
    }
    writer.write_features(cx)?;
    writer.rows.finish(cx)
}

impl Files {
    /// Opens the files called `name`; `None` if neither features nor captions are there.
    fn open(folder: &Path, name: &str, split: &'static str) -> Result<Option<Self>> {
        let path = |suffix: &str| folder.join(format!("{name}_{suffix}"));
        let (ims, caps, ids) = (path("ims.npy"), path("caps.txt"), path("ids.txt"));
        let there = |path: &PathBuf| path.try_exists().map_err(|error| Error::io("look for", path, &error));
        match (there(&ims)?, there(&caps)?) {
            (false, false) => return Ok(None),
            (true, true) => {}
            (has_ims, _) => {
                let (has, lacks) = if has_ims { (ims, caps) } else { (caps, ims) };
                return Err(Error::data(format!("`{}` is there without `{}`", has.display(), lacks.display())));
            }
        }
        let ims = Matrix::open(&ims)?;
        let caps = TextLines::read(&caps)?;
        let captions = check_captions(&caps)?;
        let (rows_per_image, captions_per_image) = layout(&ims, &caps, captions)?;
        let images = ims.rows() / rows_per_image;
        let ids = if there(&ids)? { Some(read_ids(&ids, images, captions)?) } else { None };
        Ok(Some(Self { split, ims, caps, captions, ids, rows_per_image, captions_per_image, used: captions }))
    }

    fn images(&self) -> usize {
        self.ims.rows() / self.rows_per_image
    }

    /// Writes the split; images and captions before it are `images` and `captions`.
    fn write(
        &self,
        cx: &mut Cx<'_>,
        writer: &mut Writer,
        numbered: bool,
        images: usize,
        captions: usize,
    ) -> Result<()> {
        let file_name = self.ims.path().file_name().unwrap_or_default().to_string_lossy();
        let mut lines = self.caps.iter().take(self.used);
        for image in 0..self.used.div_ceil(self.captions_per_image) {
            cx.proceed()?;
            let row = image * self.rows_per_image;
            self.check_repeats(row)?;
            let image_id = match &self.ids {
                Some(ids) if numbered => ids[image],
                _ => id(images + image)?,
            };
            let first = id(captions + image * self.captions_per_image)?;
            let texts = lines.by_ref().take(self.captions_per_image).map(|(_, line)| line.trim());
            let image = Image {
                image_id,
                split: self.split,
                file_name: &format!("{file_name}#{row}"),
                path: None,
                bytes: None,
            };
            self.ims.read_row(row, &mut writer.values)?;
            writer.ids.push(image_id);
            writer.splits.push(self.split);
            if writer.ids.len() == FEATURE_PART_ROWS {
                writer.write_features(cx)?;
            }
            writer.rows.push(cx, &image, (first..).zip(texts))?;
        }
        Ok(())
    }

    /// Rows come in equal fives everywhere or nowhere; anything else is damage.
    fn check_repeats(&self, row: usize) -> Result<()> {
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

/// Whether images are called by the ids files: every split has one, and no number comes twice.
fn use_ids(cx: &mut Cx<'_>, all: &[Files], folder: &Path) -> Result<bool> {
    let lacking: Vec<String> = all
        .iter()
        .filter(|files| files.ids.is_none())
        .map(|files| format!("`{}`", files.ims.path().file_name().unwrap_or_default().to_string_lossy()))
        .collect();
    if !lacking.is_empty() {
        if lacking.len() < all.len() {
            let message = format!("{} without a file of ids: images are numbered by position", lacking.join(", "));
            cx.warn(folder.display().to_string(), message);
        }
        return Ok(false);
    }
    let mut mistakes = Mistakes::of(folder);
    let mut seen: HashMap<i64, (&str, usize)> = HashMap::new();
    for files in all {
        for (image, &id) in files.ids.iter().flatten().enumerate() {
            if let Some((split, other)) = seen.insert(id, (files.split, image)) {
                mistakes.add(
                    format_args!("image {image} of `{}`", files.split),
                    format_args!("id {id} is also that of image {other} of `{split}`"),
                );
            }
        }
    }
    mistakes.hint("remove the `*_ids.txt` files to number images by position");
    mistakes.finish()?;
    Ok(true)
}

/// Features that are not written yet, at most a part, and the other tables' rows.
struct Writer {
    width: usize,
    rows: Rows,
    ids: Vec<i64>,
    splits: Vec<&'static str>,
    values: Vec<f32>,
}

impl Writer {
    fn write_features(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let ids = Int64Array::from(std::mem::take(&mut self.ids));
        let splits = StringArray::from(std::mem::take(&mut self.splits));
        let vectors = tables::vectors(std::mem::take(&mut self.values), self.width)?;
        let schema = tables::features::table().schema_of_width(self.width);
        cx.write("features", tables::batch(&schema, vec![Arc::new(ids), Arc::new(splits), vectors])?)
    }
}

fn id(number: usize) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::data(format!("{number} is too large for an id")))
}
