//! Reader of `precomp`: folders with the files `{train,dev,test,testall}_{ims.npy,caps.txt,ids.txt}`.
//!
//! Format: the folders published with VSE++ (Faghri et al., BMVC 2018), which later repositories read in the same way.

use std::collections::HashMap;
use std::path::Path;

use az::SaturatingAs;

use super::listed_images::NO_CAPTIONS;
use super::writer::{CaptionCleaner, DataSetWriter, FEATURE_PART_ROWS, ImageRow, REGION_PART_ROWS};
use super::{OnMissing, Precomp, PrecompTest};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::id_list::IdList;
use pairloom_formats::npy::{NpyFile, NpyRowKind};
use pairloom_formats::text_lines::TextLines;
use pairloom_stage::StageContext;
use pairloom_storage::files::is_file;
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{VectorColumn, features, regions};

/// Reads the folder and writes images, captions, and features or regions.
///
/// - If `ims` has one row per caption and every five rows are equal, one row per image is kept.
/// - `image_id` is the number in the ids files, which may have one line per image or one line per caption. If a split
///   has no such file, images are numbered over `train`, `dev`, `test` instead. `caption_id` numbers the lines of all
///   three splits consecutively, unless [`CaptionIds`] has other identifiers.
/// - The files `dev_*` are the split `val`.
pub(super) fn run(settings: &Precomp, cx: &mut StageContext<'_>) -> Result<()> {
    let folder = cx.source("precomp.folder")?;
    let test = match settings.test {
        PrecompTest::Test => "test",
        PrecompTest::Testall => "testall",
    };
    let row_kind = if settings.regions { NpyRowKind::VectorSets } else { NpyRowKind::Vectors };
    let mut all = Vec::new();
    for (name, split) in [("train", "train"), ("dev", "val"), (test, "test")] {
        match SplitFiles::open(&folder, name, split, row_kind, settings.on_missing)? {
            Some(files) => all.push(files),
            None if name == "testall" => {
                return Err(Error::data(format!("no `testall_ims.npy` in `{}`", folder.display()))
                    .hint("use `test = \"test\"`"));
            }
            None => cx.warn(
                name,
                format!("`{name}_ims.npy` and `{name}_caps.txt` are missing, so there is no split `{split}`"),
            ),
        }
    }
    let Some(first) = all.first() else {
        return Err(Error::data(format!(
            "no `train_ims.npy`, `dev_ims.npy` or `{test}_ims.npy` in `{}`",
            folder.display()
        )));
    };
    check_shapes(first, &all)?;
    let shape = if settings.regions { vec![first.ims.vectors(), first.ims.width()] } else { vec![first.ims.width()] };
    if let Some(dev) = all.iter_mut().find(|files| files.split == "val" && files.captions > settings.dev_captions) {
        dev.used_captions = settings.dev_captions;
        let message = format!(
            "the first {} of {} captions are used, by the setting `dev_captions`",
            dev.used_captions, dev.captions
        );
        cx.warn(dev.caps.path().display().to_string(), message);
    }
    let use_ids = check_ids(cx, &all, &folder)?;
    let mut writer = FeatureWriter {
        shape,
        rows: DataSetWriter::default(),
        ids: Vec::new(),
        splits: Vec::new(),
        values: Vec::new(),
        caption_ids: CaptionIds::read(settings, &all, cx)?,
    };
    let (mut images, mut captions) = (0, 0);
    for files in &all {
        let mut cleaner = CaptionCleaner::new(settings.on_missing, settings.max_skipped);
        writer.write(cx, files, &mut cleaner, use_ids, (images, captions))?;
        cleaner.finish(cx, files.caps.path())?;
        images += files.images();
        captions += files.captions;
    }
    writer.write_features(cx)?;
    writer.rows.finish(cx)
}

/// Checks that all splits have the number of regions and the width of the first.
fn check_shapes(first: &SplitFiles, all: &[SplitFiles]) -> Result<()> {
    let shape = |files: &SplitFiles| [files.ims.vectors(), files.ims.width()];
    let Some(other) = all.iter().find(|files| shape(files) != shape(first)) else { return Ok(()) };
    let described = |files: &SplitFiles| match shape(files) {
        [1, width] => format!("{width}"),
        [vectors, width] => format!("{vectors} × {width}"),
    };
    Err(Error::data(format!(
        "`{}` has {} values a row, expected {} as in `{}`",
        other.ims.path().display(),
        described(other),
        described(first),
        first.ims.path().display()
    )))
}

/// Checks the ids files. Returns true if every split has one, so that they define the identifiers of images.
///
/// # Errors
/// An id occurs twice.
fn check_ids(cx: &mut StageContext<'_>, all: &[SplitFiles], folder: &Path) -> Result<bool> {
    let lacking: Vec<String> = all
        .iter()
        .filter(|files| files.ids.is_none())
        .map(|files| format!("`{}`", files.ims.path().file_name().unwrap_or_default().to_string_lossy()))
        .collect();
    if !lacking.is_empty() {
        if lacking.len() < all.len() {
            let message = format!("no ids file for {}: images are numbered by position", lacking.join(", "));
            cx.warn(folder.display().to_string(), message);
        }
        return Ok(false);
    }
    let mut mistakes = ValidationErrors::in_file(folder);
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
    mistakes.into_result()?;
    Ok(true)
}

/// Writer of features or regions, and of the other tables. Buffers at most one part of features or regions.
struct FeatureWriter {
    /// Shape of a row: `[width]` of a vector, or `[regions, width]`.
    shape: Vec<usize>,
    rows: DataSetWriter,
    ids: Vec<i64>,
    splits: Vec<&'static str>,
    values: Vec<f32>,
    caption_ids: CaptionIds,
}

impl FeatureWriter {
    /// Writes a split. The splits before it have `images_before` images and `captions_before` captions. Images without a
    /// caption are left out, with a warning.
    fn write(
        &mut self,
        cx: &mut StageContext<'_>,
        files: &SplitFiles,
        cleaner: &mut CaptionCleaner,
        use_ids: bool,
        (images_before, captions_before): (usize, usize),
    ) -> Result<()> {
        let file_name = files.ims.path().file_name().unwrap_or_default().to_string_lossy();
        let mut lines = files.caps.iter().take(files.used_captions);
        for image in 0..files.used_captions.div_ceil(files.captions_per_image) {
            cx.check_cancelled()?;
            let row = image * files.rows_per_image;
            files.check_repeats(row)?;
            let image_id = match &files.ids {
                Some(ids) if use_ids => ids[image],
                _ => to_id(images_before + image)?,
            };
            let first = image * files.captions_per_image;
            let mut captions = Vec::with_capacity(files.captions_per_image);
            for (k, (line, text)) in lines.by_ref().take(files.captions_per_image).enumerate() {
                let id = self.caption_ids.id(files.split, first + k, captions_before)?;
                let text = cleaner.clean(Some(text), format_args!("line {line}")).map_err(Error::data)?;
                captions.extend(text.map(|text| (id, text)));
            }
            if captions.is_empty() {
                cx.warn(format!("{file_name}#{row}"), NO_CAPTIONS);
                continue;
            }
            let image = ImageRow {
                id: image_id,
                split: files.split,
                file_name: &format!("{file_name}#{row}"),
                path: None,
                bytes: None,
            };
            files.ims.read_row(row, &mut self.values)?;
            self.ids.push(image_id);
            self.splits.push(files.split);
            let part_rows = if self.shape.len() == 1 { FEATURE_PART_ROWS } else { REGION_PART_ROWS };
            if self.ids.len() == part_rows {
                self.write_features(cx)?;
            }
            self.rows.push(cx, &image, captions)?;
        }
        Ok(())
    }

    fn write_features(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let image_id = std::mem::take(&mut self.ids).into();
        let split = std::mem::take(&mut self.splits).into();
        let values = std::mem::take(&mut self.values);
        match self.shape[..] {
            [count, width] => {
                let regions = RegionColumn::new(values, count, width)?;
                cx.write("regions", regions::TableColumns { image_id, split, regions }.into_batch()?)
            }
            _ => {
                let feature = VectorColumn::new(values, self.shape[0])?;
                cx.write("features", features::TableColumns { image_id, split, feature }.into_batch()?)
            }
        }
    }
}

fn to_id(number: usize) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::data(format!("{number} is too large for an id")))
}

/// Number of captions of an image in the published folders.
const CAPTIONS_PER_IMAGE: usize = 5;

/// Files of one split.
struct SplitFiles {
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
    pub fn open(
        folder: &Path,
        name: &str,
        split: &'static str,
        row_kind: NpyRowKind,
        on_missing: OnMissing,
    ) -> Result<Option<Self>> {
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
        let captions = check_captions(&caps, on_missing)?;
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
            "`{}` rows {row} to {} {here}, but the first five {before}: expected every five rows equal, or none",
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
        "`{}` has {rows} rows and `{}` has {captions} captions: expected as many rows as captions, or a fifth of them",
        ims.path().display(),
        caps.path().display()
    )))
}

fn rows_are_equal(ims: &NpyFile, row: usize) -> bool {
    (row + 1..row + CAPTIONS_PER_IMAGE).all(|other| ims.rows_are_equal(other, row))
}

/// Checks all captions and returns their number.
fn check_captions(caps: &TextLines, on_missing: OnMissing) -> Result<usize> {
    let mut cleaner = CaptionCleaner::new(on_missing, 1.0);
    let mut mistakes = ValidationErrors::in_file(caps.path());
    let mut count = 0;
    for (line, content) in caps.iter() {
        count += 1;
        let place = format_args!("line {line}");
        if let Err(problem) = cleaner.clean(Some(content), place) {
            mistakes.add(place, problem);
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
            "`{}` has {} lines, expected {images} (one an image) or {captions} (one a caption)",
            path.display(),
            ids.len()
        )));
    }
    let group = captions / images;
    let mut mistakes = ValidationErrors::in_file(path);
    for (image, ids) in ids.chunks(group).enumerate() {
        if ids.iter().any(|id| *id != ids[0]) {
            let first = image * group + 1;
            let message = format!("one image has the ids {ids:?}, expected the same {group} times");
            mistakes.add(format_args!("lines {first} to {}", first + group - 1), message);
        }
    }
    mistakes.into_result()?;
    Ok(ids.into_iter().step_by(group).collect())
}

/// Identifiers of captions: listed for the split `test`, if the settings name a list; otherwise numbers.
#[derive(Debug, Default)]
struct CaptionIds {
    test: Option<Vec<i64>>,
    /// Number of the first caption of the folder.
    first: i64,
}

impl CaptionIds {
    /// Reads the list of `settings`, if there is one.
    ///
    /// # Errors
    /// The list has not one identifier for each caption of the split `test`, or one of them twice.
    pub fn read(settings: &Precomp, all: &[SplitFiles], cx: &StageContext<'_>) -> Result<Self> {
        if settings.test_caption_ids.is_none() {
            return Ok(Self::default());
        }
        let path = cx.source("precomp.test_caption_ids")?;
        let test = all.iter().find(|files| files.split == "test");
        let test = test.ok_or_else(|| Error::data("`test_caption_ids` is set, but there is no split `test`"))?;
        let list = IdList::read(&path)?;
        if list.ids.len() != test.captions {
            let (file, captions) = (path.display(), test.caps.path().display());
            return Err(Error::data(format!(
                "`{file}` has {} identifiers, expected {}, one for each line of `{captions}`",
                list.ids.len(),
                test.captions
            ))
            .hint("the files `testall_*` of COCO, all 5,000 test images, are read with `test = \"testall\"`"));
        }
        let mut mistakes = ValidationErrors::in_file(&path);
        let mut seen = HashMap::with_capacity(list.ids.len());
        for (index, id) in list.ids.iter().enumerate() {
            if let Some(first) = seen.insert(id, index) {
                mistakes.add(list.place(index), format_args!("{id} is also that of {}", list.place(first)));
            }
        }
        mistakes.into_result()?;
        let largest = list.ids.iter().copied().max().unwrap_or(-1).max(-1);
        // The captions of the other splits have the numbers above.
        let captions = all.iter().fold(0usize, |total, files| total.saturating_add(files.captions));
        if i64::try_from(captions).ok().and_then(|captions| largest.checked_add(captions)).is_none() {
            let file = path.display();
            return Err(Error::data(format!(
                "`{file}` has the identifier {largest}, and above it are no {captions} numbers for other captions"
            )));
        }
        Ok(Self { test: Some(list.ids), first: largest + 1 })
    }

    /// Identifier of caption `line` of a split, from 0; the splits before it have `before` captions.
    ///
    /// # Errors
    /// The identifier is too large.
    pub fn id(&self, split: &str, line: usize, before: usize) -> Result<i64> {
        if let Some(ids) = self.test.as_ref().filter(|_| split == "test") {
            return ids.get(line).copied().ok_or_else(|| Error::internal("a caption without identifier"));
        }
        let number = before.saturating_add(line).saturating_as::<i64>();
        self.first.checked_add(number).ok_or_else(|| Error::data(format!("{number} is too large for an id")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;
    use tempfile::TempDir;
    use test_data::public;

    use super::super::Ingest;
    use super::super::testing::{captions, folder, images, ingest, npy, npy_of, refused, split_counts};
    use pairloom_stage::{OutputKind, Stage, missing_columns};
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables::{self as tables, int_column, vector_column};

    fn settings() -> serde_json::Value {
        json!({"precomp": {"folder": ""}})
    }

    fn lines(prefix: &str, count: usize) -> Vec<u8> {
        (0..count).map(|i| format!("{prefix} {i}\n")).collect::<String>().into_bytes()
    }

    /// Npy file of `images` distinct rows, each repeated `times` times.
    fn rows(images: u8, times: usize) -> Vec<u8> {
        let rows = (0..images).flat_map(|i| vec![vec![f32::from(i), 0.5]; times]);
        npy(&rows.collect::<Vec<_>>())
    }

    fn features(host: &InMemoryHost) -> Vec<(i64, f32)> {
        let batch = host.output("features");
        let (values, width) = vector_column(&batch, "feature").unwrap();
        assert_eq!(width, 2);
        int_column(&batch, "image_id")
            .unwrap()
            .values()
            .iter()
            .copied()
            .zip(values.iter().copied().step_by(2))
            .collect()
    }

    fn set(train: (&[u8], &[u8])) -> TempDir {
        folder(&[("train_ims.npy", train.0), ("train_caps.txt", train.1)])
    }

    #[test]
    fn one_row_per_image_is_kept_in_every_layout() {
        for (ims, caps) in [(rows(3, 5), 15), (rows(3, 1), 15), (rows(3, 1), 3)] {
            let set = set((&ims, &lines("caption", caps)));
            let host = ingest(set.path(), settings()).unwrap();
            assert_eq!(features(&host), [(0, 0.0), (1, 1.0), (2, 2.0)]);
            assert_eq!(split_counts(&host), [3, 0, 0]);
            let got = captions(&host);
            let each = caps / 3;
            assert_eq!(got.len(), caps);
            for (i, (id, image, split, text)) in got.into_iter().enumerate() {
                let expected = (i64::try_from(i).unwrap(), i64::try_from(i / each).unwrap());
                assert_eq!(((id, image), split.as_str(), text), (expected, "train", format!("caption {i}")));
            }
            assert_eq!(
                host.warnings.iter().map(|warning| warning.subject.as_str()).collect::<Vec<_>>(),
                ["dev", "test"]
            );
        }
    }

    #[test]
    fn empty_captions_can_be_left_out() {
        let texts = b"a\n\nb\nc\nd\n\n\n\n\n\ne\nf\ng\nh\ni\n";
        let set = set((&rows(3, 1), texts));
        let message = refused(ingest(set.path(), settings()));
        assert!(message.contains("has 6 mistakes") && message.contains("line 2: caption is empty"), "{message}");
        let skip = |share: f64| json!({"precomp": {"folder": "", "on_missing": "skip", "max_skipped": share}});
        let host = ingest(set.path(), skip(0.4)).unwrap();
        // The second image has no captions.
        assert_eq!(features(&host), [(0, 0.0), (2, 2.0)]);
        let ids: Vec<_> = captions(&host).into_iter().map(|(id, image, ..)| (id, image)).collect();
        assert_eq!(ids, [(0, 0), (2, 0), (3, 0), (4, 0), (10, 2), (11, 2), (12, 2), (13, 2), (14, 2)]);
        let message = refused(ingest(set.path(), skip(0.39)));
        assert!(message.starts_with("6 of 15 captions were left out, expected at most 0.39"), "{message}");
    }

    #[test]
    fn splits_have_their_ids_and_dev_captions_are_limited() {
        let set = folder(&[
            ("train_ims.npy", &rows(2, 1)),
            ("train_caps.txt", &lines("t", 10)),
            ("train_ids.txt", b"30\n31\n"),
            ("dev_ims.npy", &rows(3, 5)),
            ("dev_caps.txt", &lines("d", 15)),
            ("dev_ids.txt", "7\n".repeat(5).as_bytes()),
            ("test_ims.npy", &rows(1, 1)),
            ("test_caps.txt", &lines("e", 5)),
            ("test_ids.txt", b"1\n"),
        ]);
        let message = refused(ingest(set.path(), settings()));
        assert!(
            message.contains("dev_ids.txt` has 5 lines, expected 3 (one an image) or 15 (one a caption)"),
            "{message}"
        );
        std::fs::write(set.path().join("dev_ids.txt"), "7\n".repeat(5) + &"8\n".repeat(5) + &"9\n".repeat(5)).unwrap();
        let host = ingest(set.path(), json!({"precomp": {"folder": "", "dev_captions": 7}})).unwrap();
        let got: Vec<_> = images(&host).into_iter().map(|(id, split, name, _)| (id, split, name)).collect();
        let expected = [
            (30, "train", "train_ims.npy#0"),
            (31, "train", "train_ims.npy#1"),
            (7, "val", "dev_ims.npy#0"),
            (8, "val", "dev_ims.npy#5"),
            (1, "test", "test_ims.npy#0"),
        ];
        assert_eq!(got, expected.map(|(id, split, name)| (id, split.to_owned(), name.to_owned())));
        assert_eq!(features(&host), [(30, 0.0), (31, 1.0), (7, 0.0), (8, 1.0), (1, 0.0)]);
        let got: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
        assert_eq!(got.len(), 22);
        assert_eq!(got[16], (16, 8, "d 6".to_owned()));
        assert_eq!(got[17], (25, 1, "e 0".to_owned()));
        assert_eq!(host.warnings.len(), 1);
        assert!(host.warnings[0].message.contains("first 7 of 15"), "{:?}", host.warnings);
    }

    #[test]
    fn ids_must_agree_and_be_unique() {
        let set = folder(&[
            ("train_ims.npy", &rows(2, 5)),
            ("train_caps.txt", &lines("t", 10)),
            ("train_ids.txt", b"3\n3\n3\n4\n3\n5\n5\n5\n5\n5\n"),
            ("test_ims.npy", &rows(1, 1)),
            ("test_caps.txt", &lines("e", 5)),
        ]);
        assert!(refused(ingest(set.path(), settings())).contains("train_ids.txt` lines 1 to 5"));
        std::fs::write(set.path().join("train_ids.txt"), "3\n3x\n").unwrap();
        assert!(refused(ingest(set.path(), settings())).contains("train_ids.txt` line 2: `3x` is not a whole number"));
        std::fs::write(set.path().join("train_ids.txt"), "3\n4\n").unwrap();
        let host = ingest(set.path(), settings()).unwrap();
        assert_eq!(images(&host).iter().map(|image| image.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(host.warnings.iter().any(|warning| warning.message.contains("no ids file for `test_ims.npy`")));
        std::fs::write(set.path().join("test_ids.txt"), "4\n").unwrap();
        let message = refused(ingest(set.path(), settings()));
        assert!(message.contains("image 0 of `test`: id 4 is also that of image 1 of `train`"), "{message}");
    }

    #[test]
    fn mismatched_row_counts_are_refused_with_both_files_and_counts() {
        let set_ = set((&rows(3, 1), &lines("t", 14)));
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` has 3 rows and "), "{message}");
        assert!(message.contains("train_caps.txt` has 14 captions"), "{message}");

        let mut broken: Vec<Vec<f32>> = (0..3).flat_map(|i: u8| vec![vec![f32::from(i), 0.5]; 5]).collect();
        broken[12][1] = 0.25;
        let set_ = set((&npy(&broken), &lines("t", 15)));
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` rows 10 to 14 differ, but the first five are equal"), "{message}");
        broken[2][1] = 0.25;
        broken[12][1] = 0.5;
        let set_ = set((&npy(&broken), &lines("t", 15)));
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` rows 5 to 9 are equal, but the first five differ"), "{message}");

        let set_ = set((&npy(&[vec![1.0], vec![f32::INFINITY]]), &lines("t", 10)));
        assert!(
            refused(ingest(set_.path(), settings())).contains("train_ims.npy` row 1 column 0 (from 0): value is inf")
        );
    }

    /// Layouts of SCAN: one row per image in train, five in dev and test; every row is a stack of vectors.
    #[test]
    fn regions_are_written_as_their_own_table() {
        let image = |i: u8| -> Vec<f32> { (0..6u8).map(|value| f32::from(10 * i + value)).collect() };
        let stacks = |images: u8, times: usize| {
            let rows: Vec<_> = (0..images).flat_map(|i| vec![image(i); times]).collect();
            npy_of(&format!("{}, 2, 3", rows.len()), &rows.concat())
        };
        let set = folder(&[
            ("train_ims.npy", &stacks(2, 1)),
            ("train_caps.txt", &lines("t", 10)),
            ("dev_ims.npy", &stacks(1, 5)),
            ("dev_caps.txt", &lines("d", 5)),
            ("test_ims.npy", &stacks(3, 5)),
            ("test_caps.txt", &lines("e", 15)),
        ]);
        let regions = json!({"precomp": {"folder": "", "regions": true}});
        let host = ingest(set.path(), regions.clone()).unwrap();
        assert_eq!(split_counts(&host), [2, 1, 3]);
        assert_eq!(captions(&host).len(), 30);
        assert!(!host.output_tables.contains_key("features"));
        let batch = host.output("regions");
        assert_eq!(int_column(&batch, "image_id").unwrap().values(), &[0, 1, 2, 3, 4, 5]);
        let expected: Vec<f32> = [0, 1, 0, 0, 1, 2].into_iter().flat_map(image).collect();
        assert_eq!(tables::regions::values(&batch).unwrap(), (&expected[..], 2, 3));
        // The written table fits the schema that was declared without data.
        let stage: Ingest = serde_json::from_value(regions.clone()).unwrap();
        let outputs = stage.outputs();
        assert_eq!(outputs.iter().map(|output| output.name).collect::<Vec<_>>(), ["images", "captions", "regions"]);
        let OutputKind::Table { schema, .. } = &outputs[2].kind else { panic!("regions are a table") };
        assert_eq!(missing_columns(schema, &batch.schema()), Vec::<String>::new());

        let message = refused(ingest(set.path(), settings()));
        assert!(message.contains("train_ims.npy`: array has the shape [2, 2, 3]"), "{message}");
        assert!(message.contains("read with `regions = true`"), "{message}");
        std::fs::write(set.path().join("dev_ims.npy"), npy_of("5, 3, 2", &image(0).repeat(5))).unwrap();
        let message = refused(ingest(set.path(), regions.clone()));
        assert!(message.contains("dev_ims.npy` has 3 × 2 values a row, expected 2 × 3 as in"), "{message}");
        std::fs::write(set.path().join("dev_ims.npy"), rows(1, 5)).unwrap();
        let message = refused(ingest(set.path(), regions));
        assert!(message.contains("expected three dimensions: (rows, vectors, width)"), "{message}");
    }

    /// Results from before the setting `regions` existed keep their keys.
    #[test]
    fn regions_enter_the_settings_only_if_true() {
        let settings = |regions: bool| {
            let stage = json!({"precomp": {"folder": "", "regions": regions}});
            serde_json::from_value::<Ingest>(stage).unwrap().settings()
        };
        assert_eq!(settings(false)["precomp"].get("regions"), None);
        assert_eq!(settings(true)["precomp"]["regions"], true);
    }

    #[test]
    fn incomplete_splits_and_mixed_widths_are_refused() {
        let set_ = folder(&[("train_ims.npy", &rows(3, 1))]);
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` exists, but") && message.contains("train_caps.txt"), "{message}");
        assert!(refused(ingest(folder(&[]).path(), settings())).contains("no `train_ims.npy`"));
        let set_ = set((&rows(1, 1), b"a\n\nb\nc\nd\n"));
        assert!(refused(ingest(set_.path(), settings())).contains("train_caps.txt` line 2: caption is empty"));
        let testall = json!({"precomp": {"folder": "", "test": "testall"}});
        let set_ = set((&rows(1, 1), &lines("t", 5)));
        assert!(refused(ingest(set_.path(), testall)).contains("no `testall_ims.npy`"));
        std::fs::write(set_.path().join("dev_ims.npy"), npy(&[vec![1.0, 2.0, 3.0]])).unwrap();
        std::fs::write(set_.path().join("dev_caps.txt"), lines("d", 5)).unwrap();
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("dev_ims.npy` has 3 values a row, expected 2 as in"), "{message}");
    }

    /// Counts from the description of the data: 753 train rows, 565 dev rows and 625 test rows, five per image.
    #[test]
    fn a_published_layout_gives_one_row_per_image() {
        let Some(folder) = public("precomp/f8k_mini_precomp") else { return };
        let host = ingest(&folder, settings()).unwrap();
        assert_eq!(split_counts(&host), [753, 113, 125]);
        assert_eq!(captions(&host).len(), 5 * 991);
        assert_eq!(host.warnings, []);
        let batch = host.output("features");
        let (values, width) = vector_column(&batch, "feature").unwrap();
        assert_eq!((width, values.len()), (1024, 991 * 1024));
        // Image 1 of `dev` is row 5 of its file, whose values start after a header of 128 bytes.
        let file = std::fs::read(folder.join("dev_ims.npy")).unwrap();
        let row: Vec<u8> = values[754 * 1024..755 * 1024].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(row, file[128 + 5 * 4096..][..4096]);
        // The same images in another format have the same captions, with other ids.
        let Some(flickr) = public("flickr8k-1k") else { return };
        let karpathy = json!({"karpathy": {"json": "dataset_flickr8k.json", "images": "images"}});
        let groups = |host: &InMemoryHost| {
            let mut groups: BTreeMap<i64, (String, BTreeSet<String>)> = BTreeMap::new();
            for (_, image, split, text) in captions(host) {
                groups.entry(image).or_insert_with(|| (split, BTreeSet::new())).1.insert(text);
            }
            groups.into_values().collect::<BTreeSet<_>>()
        };
        assert!(groups(&host) == groups(&ingest(&flickr, karpathy).unwrap()), "captions differ");
    }

    /// One training image and two test images, of five captions each; identifiers of the test captions in `ids`.
    fn set_with_ids(ids: &[u8]) -> TempDir {
        let lines = |count: usize| "a caption\n".repeat(count).into_bytes();
        folder(&[
            ("train_ims.npy", &npy(&[vec![1.0, 2.0]])),
            ("train_caps.txt", &lines(5)),
            ("test_ims.npy", &npy(&[vec![1.0, 2.0], vec![3.0, 4.0]])),
            ("test_caps.txt", &lines(10)),
            ("ids", ids),
        ])
    }

    fn settings_with_ids() -> serde_json::Value {
        json!({"precomp": {"folder": "", "test_caption_ids": "ids"}})
    }

    #[test]
    fn listed_identifiers_are_those_of_the_test_captions() {
        let host = ingest(set_with_ids(b"7\n5\n6\n-1\n0\n1\n2\n3\n4\n8\n").path(), settings_with_ids()).unwrap();
        let rows = captions(&host);
        let split_ids = |split: &str| rows.iter().filter(|row| row.2 == split).map(|row| row.0).collect::<Vec<_>>();
        assert_eq!(split_ids("test"), [7, 5, 6, -1, 0, 1, 2, 3, 4, 8]);
        assert_eq!(split_ids("train"), [9, 10, 11, 12, 13], "the numbers above the listed ones");
        assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), [[0; 5], [1; 5], [2; 5]].concat());
    }

    #[test]
    fn wrong_lists_are_refused() {
        let message = refused(ingest(set_with_ids(b"7\n5\n6\n1\n0\n1\n2\n3\n7\n8\n").path(), settings_with_ids()));
        for part in ["line 6: 1 is also that of line 4", "line 9: 7 is also that of line 1"] {
            assert!(message.contains(part), "{message}");
        }
        let message = refused(ingest(
            set_with_ids(b"9223372036854775807\n5\n6\n1\n0\n2\n3\n4\n7\n8\n").path(),
            settings_with_ids(),
        ));
        let expected = "has the identifier 9223372036854775807, and above it are no 15 numbers for other captions";
        assert!(message.contains(expected), "{message}");
        let message = refused(ingest(set_with_ids(b"7\n5\n").path(), settings_with_ids()));
        assert!(message.contains("has 2 identifiers, expected 10, one for each line of"), "{message}");
        let without_test = folder(&[
            ("train_ims.npy", &npy(&[vec![1.0, 2.0]])),
            ("train_caps.txt", b"a\na\na\na\na\n"),
            ("ids", b"1\n"),
        ]);
        let message = refused(ingest(without_test.path(), settings_with_ids()));
        assert!(message.starts_with("`test_caption_ids` is set, but there is no split `test`"), "{message}");
    }
}
