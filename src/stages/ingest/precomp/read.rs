//! The reader of `precomp`: what the files of all splits come to.

use std::collections::HashMap;
use std::path::Path;

use super::super::parts::{FEATURE_PART_ROWS, REGION_PART_ROWS};
use super::super::rows::{Image, Rows};
use super::super::{Precomp, PrecompTest};
use super::files::Files;
use crate::error::{Error, Mistakes, Result};
use crate::io::npy;
use crate::stage::Cx;
use crate::tables::regions::Regions;
use crate::tables::{Vectors, features, regions};

/// Reads the folder and writes images, captions, and features or regions.
///
/// - Where `ims` has a row a caption and rows repeat in fives, one row an image is kept.
/// - `image_id` is the number in the ids files, which may have a line an image or a line a caption; if a split lacks its
///   file, images are counted over `train`, `dev`, `test` instead. `caption_id` counts lines over the three.
/// - Files called `dev` become the split `val`.
pub(in super::super) fn run(set: &Precomp, cx: &mut Cx<'_>) -> Result<()> {
    let folder = cx.source("precomp.folder")?;
    let test = match set.test {
        PrecompTest::Test => "test",
        PrecompTest::Testall => "testall",
    };
    let form = if set.regions { npy::Rows::Stacks } else { npy::Rows::Vectors };
    let mut all = Vec::new();
    for (name, split) in [("train", "train"), ("dev", "val"), (test, "test")] {
        match Files::open(&folder, name, split, form)? {
            Some(files) => all.push(files),
            None if name == "testall" => {
                return Err(Error::data(format!("no `testall_ims.npy` in `{}`", folder.display()))
                    .hint("use `test = \"test\"`"));
            }
            None => cx.warn(name, format!("`{name}_ims.npy` and `{name}_caps.txt` are not there: no split `{split}`")),
        }
    }
    let Some(first) = all.first() else {
        return Err(Error::data(format!(
            "no `train_ims.npy`, `dev_ims.npy` or `{test}_ims.npy` in `{}`",
            folder.display()
        )));
    };
    check_shapes(first, &all)?;
    let shape = if set.regions { vec![first.ims.vectors(), first.ims.width()] } else { vec![first.ims.width()] };
    if let Some(dev) = all.iter_mut().find(|files| files.split == "val" && files.captions > set.dev_captions) {
        dev.used = set.dev_captions;
        let message = format!("the first {} of {} captions are used, as `dev_captions` says", dev.used, dev.captions);
        cx.warn(dev.caps.path().display().to_string(), message);
    }
    let numbered = use_ids(cx, &all, &folder)?;
    let mut writer = Writer { shape, rows: Rows::default(), ids: Vec::new(), splits: Vec::new(), values: Vec::new() };
    let (mut images, mut captions) = (0, 0);
    for files in &all {
        writer.write(cx, files, numbered, images, captions)?;
        images += files.images();
        captions += files.captions;
    }
    writer.write_features(cx)?;
    writer.rows.finish(cx)
}

/// Every split has the regions and the width of the first.
fn check_shapes(first: &Files, all: &[Files]) -> Result<()> {
    let shape = |files: &Files| [files.ims.vectors(), files.ims.width()];
    let Some(other) = all.iter().find(|files| shape(files) != shape(first)) else { return Ok(()) };
    let described = |files: &Files| match shape(files) {
        [1, width] => format!("{width}"),
        [vectors, width] => format!("{vectors} × {width}"),
    };
    Err(Error::data(format!(
        "`{}` has {} values a row, wanted {} as in `{}`",
        other.ims.path().display(),
        described(other),
        described(first),
        first.ims.path().display()
    )))
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
    /// Of a row: the width of its vector, or its regions and their width.
    shape: Vec<usize>,
    rows: Rows,
    ids: Vec<i64>,
    splits: Vec<&'static str>,
    values: Vec<f32>,
}

impl Writer {
    /// Writes the split; images and captions before it are `images` and `captions`.
    fn write(&mut self, cx: &mut Cx<'_>, files: &Files, numbered: bool, images: usize, captions: usize) -> Result<()> {
        let file_name = files.ims.path().file_name().unwrap_or_default().to_string_lossy();
        let mut lines = files.caps.iter().take(files.used);
        for image in 0..files.used.div_ceil(files.captions_per_image) {
            cx.proceed()?;
            let row = image * files.rows_per_image;
            files.check_repeats(row)?;
            let image_id = match &files.ids {
                Some(ids) if numbered => ids[image],
                _ => id(images + image)?,
            };
            let first = id(captions + image * files.captions_per_image)?;
            let texts = lines.by_ref().take(files.captions_per_image).map(|(_, line)| line.trim());
            let image = Image {
                id: image_id,
                split: files.split,
                file_name: &format!("{file_name}#{row}"),
                path: None,
                bytes: None,
            };
            files.ims.read_row(row, &mut self.values)?;
            self.ids.push(image_id);
            self.splits.push(files.split);
            let part = if self.shape.len() == 1 { FEATURE_PART_ROWS } else { REGION_PART_ROWS };
            if self.ids.len() == part {
                self.write_features(cx)?;
            }
            self.rows.push(cx, &image, (first..).zip(texts))?;
        }
        Ok(())
    }

    fn write_features(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let image_id = std::mem::take(&mut self.ids).into();
        let split = std::mem::take(&mut self.splits).into();
        let values = std::mem::take(&mut self.values);
        match self.shape[..] {
            [count, width] => {
                let regions = Regions::new(values, count, width)?;
                cx.write("regions", regions::Columns { image_id, split, regions }.into_batch()?)
            }
            _ => {
                let feature = Vectors::new(values, self.shape[0])?;
                cx.write("features", features::Columns { image_id, split, feature }.into_batch()?)
            }
        }
    }
}

fn id(number: usize) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::data(format!("{number} is too large for an id")))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::json;
    use tempfile::TempDir;
    use test_data::public;

    use super::super::super::Ingest;
    use super::super::super::testing::{captions, folder, images, ingest, npy, npy_of, refused, split_counts};
    use crate::stage::{Form, Stage, missing_columns};
    use crate::stages::testing::MemoryWorld;
    use crate::tables::{self, floats, ids};

    fn settings() -> serde_json::Value {
        json!({"precomp": {"folder": ""}})
    }

    fn lines(prefix: &str, count: usize) -> Vec<u8> {
        (0..count).map(|i| format!("{prefix} {i}\n")).collect::<String>().into_bytes()
    }

    /// `images` distinct rows, each `times` times.
    fn rows(images: u8, times: usize) -> Vec<u8> {
        let rows = (0..images).flat_map(|i| vec![vec![f32::from(i), 0.5]; times]);
        npy(&rows.collect::<Vec<_>>())
    }

    fn features(world: &MemoryWorld) -> Vec<(i64, f32)> {
        let batch = world.output("features");
        let (values, width) = floats(&batch, "feature").unwrap();
        assert_eq!(width, 2);
        ids(&batch, "image_id").unwrap().values().iter().copied().zip(values.iter().copied().step_by(2)).collect()
    }

    fn set(train: (&[u8], &[u8])) -> TempDir {
        folder(&[("train_ims.npy", train.0), ("train_caps.txt", train.1)])
    }

    #[test]
    fn one_row_an_image_is_kept_whatever_the_layout() {
        for (ims, caps) in [(rows(3, 5), 15), (rows(3, 1), 15), (rows(3, 1), 3)] {
            let set = set((&ims, &lines("caption", caps)));
            let world = ingest(set.path(), settings()).unwrap();
            assert_eq!(features(&world), [(0, 0.0), (1, 1.0), (2, 2.0)]);
            assert_eq!(split_counts(&world), [3, 0, 0]);
            let got = captions(&world);
            let each = caps / 3;
            assert_eq!(got.len(), caps);
            for (i, (id, image, split, text)) in got.into_iter().enumerate() {
                let wanted = (i64::try_from(i).unwrap(), i64::try_from(i / each).unwrap());
                assert_eq!(((id, image), split.as_str(), text), (wanted, "train", format!("caption {i}")));
            }
            assert_eq!(
                world.warnings.iter().map(|warning| warning.subject.as_str()).collect::<Vec<_>>(),
                ["dev", "test"]
            );
        }
    }

    #[test]
    fn splits_ids_and_the_dev_convention() {
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
            message.contains("dev_ids.txt` has 5 lines, wanted 3 (one an image) or 15 (one a caption)"),
            "{message}"
        );
        std::fs::write(set.path().join("dev_ids.txt"), "7\n".repeat(5) + &"8\n".repeat(5) + &"9\n".repeat(5)).unwrap();
        let world = ingest(set.path(), json!({"precomp": {"folder": "", "dev_captions": 7}})).unwrap();
        let got: Vec<_> = images(&world).into_iter().map(|(id, split, name, _)| (id, split, name)).collect();
        let wanted = [
            (30, "train", "train_ims.npy#0"),
            (31, "train", "train_ims.npy#1"),
            (7, "val", "dev_ims.npy#0"),
            (8, "val", "dev_ims.npy#5"),
            (1, "test", "test_ims.npy#0"),
        ];
        assert_eq!(got, wanted.map(|(id, split, name)| (id, split.to_owned(), name.to_owned())));
        assert_eq!(features(&world), [(30, 0.0), (31, 1.0), (7, 0.0), (8, 1.0), (1, 0.0)]);
        let got: Vec<_> = captions(&world).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
        assert_eq!(got.len(), 22);
        assert_eq!(got[16], (16, 8, "d 6".to_owned()));
        assert_eq!(got[17], (25, 1, "e 0".to_owned()));
        assert_eq!(world.warnings.len(), 1);
        assert!(world.warnings[0].message.contains("first 7 of 15"), "{:?}", world.warnings);
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
        assert!(refused(ingest(set.path(), settings())).contains("train_ids.txt` line 2: `3x` is no whole number"));
        std::fs::write(set.path().join("train_ids.txt"), "3\n4\n").unwrap();
        let world = ingest(set.path(), settings()).unwrap();
        assert_eq!(images(&world).iter().map(|image| image.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(world.warnings.iter().any(|warning| warning.message.contains("`test_ims.npy` without a file of ids")));
        std::fs::write(set.path().join("test_ids.txt"), "4\n").unwrap();
        let message = refused(ingest(set.path(), settings()));
        assert!(message.contains("image 0 of `test`: id 4 is also that of image 1 of `train`"), "{message}");
    }

    #[test]
    fn rows_that_do_not_fit_are_refused_with_both_files_and_numbers() {
        let set_ = set((&rows(3, 1), &lines("t", 14)));
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` has 3 rows and "), "{message}");
        assert!(message.contains("train_caps.txt` has 14 captions"), "{message}");

        let mut broken: Vec<Vec<f32>> = (0..3).flat_map(|i: u8| vec![vec![f32::from(i), 0.5]; 5]).collect();
        broken[12][1] = 0.25;
        let set_ = set((&npy(&broken), &lines("t", 15)));
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` rows 10 to 14 differ, while the first five repeat"), "{message}");
        broken[2][1] = 0.25;
        broken[12][1] = 0.5;
        let set_ = set((&npy(&broken), &lines("t", 15)));
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` rows 5 to 9 repeat, while the first five differ"), "{message}");

        let set_ = set((&npy(&[vec![1.0], vec![f32::INFINITY]]), &lines("t", 10)));
        assert!(
            refused(ingest(set_.path(), settings())).contains("train_ims.npy` row 1 column 0 (from 0): value is inf")
        );
    }

    /// SCAN's layouts: train one row an image, dev and test five, and every row a stack of vectors.
    #[test]
    fn regions_are_a_table_of_their_own() {
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
        let world = ingest(set.path(), regions.clone()).unwrap();
        assert_eq!(split_counts(&world), [2, 1, 3]);
        assert_eq!(captions(&world).len(), 30);
        assert!(!world.written.contains_key("features"));
        let batch = world.output("regions");
        assert_eq!(ids(&batch, "image_id").unwrap().values(), &[0, 1, 2, 3, 4, 5]);
        let wanted: Vec<f32> = [0, 1, 0, 0, 1, 2].into_iter().flat_map(image).collect();
        assert_eq!(tables::regions::values(&batch).unwrap(), (&wanted[..], 2, 3));
        // What is declared before any data is seen accepts what is written.
        let stage: Ingest = serde_json::from_value(regions.clone()).unwrap();
        let outputs = stage.outputs();
        assert_eq!(outputs.iter().map(|output| output.name).collect::<Vec<_>>(), ["images", "captions", "regions"]);
        let Form::Table { schema, .. } = &outputs[2].form else { panic!("regions are a table") };
        assert_eq!(missing_columns(schema, &batch.schema()), Vec::<String>::new());

        let message = refused(ingest(set.path(), settings()));
        assert!(message.contains("train_ims.npy`: array has shape [2, 2, 3]"), "{message}");
        assert!(message.contains("read with `regions = true`"), "{message}");
        std::fs::write(set.path().join("dev_ims.npy"), npy_of("5, 3, 2", &image(0).repeat(5))).unwrap();
        let message = refused(ingest(set.path(), regions.clone()));
        assert!(message.contains("dev_ims.npy` has 3 × 2 values a row, wanted 2 × 3 as in"), "{message}");
        std::fs::write(set.path().join("dev_ims.npy"), rows(1, 5)).unwrap();
        let message = refused(ingest(set.path(), regions));
        assert!(message.contains("wanted vectors of regions: (images, regions, width)"), "{message}");
    }

    /// Results of before there were regions keep their keys.
    #[test]
    fn regions_enter_the_settings_only_when_they_are_asked_for() {
        let settings = |regions: bool| {
            let stage = json!({"precomp": {"folder": "", "regions": regions}});
            serde_json::from_value::<Ingest>(stage).unwrap().settings()
        };
        assert_eq!(settings(false)["precomp"].get("regions"), None);
        assert_eq!(settings(true)["precomp"]["regions"], true);
    }

    #[test]
    fn half_a_split_no_split_and_other_widths_are_refused() {
        let set_ = folder(&[("train_ims.npy", &rows(3, 1))]);
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("train_ims.npy` is there without") && message.contains("train_caps.txt"), "{message}");
        assert!(refused(ingest(folder(&[]).path(), settings())).contains("no `train_ims.npy`"));
        let set_ = set((&rows(1, 1), b"a\n\nb\nc\nd\n"));
        assert!(refused(ingest(set_.path(), settings())).contains("train_caps.txt` line 2: caption is empty"));
        let testall = json!({"precomp": {"folder": "", "test": "testall"}});
        let set_ = set((&rows(1, 1), &lines("t", 5)));
        assert!(refused(ingest(set_.path(), testall)).contains("no `testall_ims.npy`"));
        std::fs::write(set_.path().join("dev_ims.npy"), npy(&[vec![1.0, 2.0, 3.0]])).unwrap();
        std::fs::write(set_.path().join("dev_caps.txt"), lines("d", 5)).unwrap();
        let message = refused(ingest(set_.path(), settings()));
        assert!(message.contains("dev_ims.npy` has 3 values a row, wanted 2 as in"), "{message}");
    }

    /// Counts of the data's own description: 753 train rows, 565 dev rows and 625 test rows, five a picture.
    #[test]
    fn a_published_layout_gives_one_row_an_image() {
        let Some(folder) = public("precomp/f8k_mini_precomp") else { return };
        let world = ingest(&folder, settings()).unwrap();
        assert_eq!(split_counts(&world), [753, 113, 125]);
        assert_eq!(captions(&world).len(), 5 * 991);
        assert_eq!(world.warnings, []);
        let batch = world.output("features");
        let (values, width) = floats(&batch, "feature").unwrap();
        assert_eq!((width, values.len()), (1024, 991 * 1024));
        // Image 1 of `dev` is row 5 of its file, whose values start after a header of 128 bytes.
        let file = std::fs::read(folder.join("dev_ims.npy")).unwrap();
        let row: Vec<u8> = values[754 * 1024..755 * 1024].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(row, file[128 + 5 * 4096..][..4096]);
        // The captions are those of the same pictures in another form, under ids of their own.
        let Some(flickr) = public("flickr8k-1k") else { return };
        let karpathy = json!({"karpathy": {"json": "dataset_flickr8k.json", "images": "images"}});
        let groups = |world: &MemoryWorld| {
            let mut groups: BTreeMap<i64, (String, BTreeSet<String>)> = BTreeMap::new();
            for (_, image, split, text) in captions(world) {
                groups.entry(image).or_insert_with(|| (split, BTreeSet::new())).1.insert(text);
            }
            groups.into_values().collect::<BTreeSet<_>>()
        };
        assert!(groups(&world) == groups(&ingest(&flickr, karpathy).unwrap()), "captions differ");
    }
}
