//! Folder of images with a table of captions, as Hugging Face's `imagefolder`.

#[cfg(test)]
mod tests;
#[cfg(test)]
mod bucket_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::caption_rows::{self, CaptionColumns, IdentifierColumn};
use super::listed_images::{self, ListedImage, MissingImages, parse_split};
use super::{
    OnMissing, default_max_skipped, delimited_form, delimited_problems, is_default_max_skipped, max_skipped_problem,
};
use pairloom_base::error::{Error, Result};
use pairloom_images::image::{IMAGE_EXTENSIONS, strip_image_extension};
use pairloom_kernels::random::Rng;
use pairloom_stage::{Problem, SourceOrUrl, SourceRef, StageContext, StageInput};
use pairloom_storage::image_names::shown_name;

/// Name of the input of the images.
const IMAGES: &str = "image_folder.images";

/// Folder of images, with or without a table of captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageFolder {
    /// Image folder, or a prefix of a bucket (`s3://bucket/photographs`). Images that the table does not name are not used.
    #[schemars(with = "SourceOrUrl")]
    pub images: SourceRef,
    /// Table of captions with one caption, or a list of captions, in a row: CSV or TSV with column names in the first
    /// line or in `header`, JSON Lines (each of these also `.gz`), Parquet or Arrow. The rows of an image may be anywhere in the table.
    /// Without a table, all files that end in `.jpg`, `.jpeg` or `.png` are images without captions, numbered from 0 in the
    /// order of their names: enough for features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<SourceRef>,
    /// Separator of the columns of a CSV file; by default a comma. Fields may be quoted as in RFC 4180: `"a ""big"" dog"`. In
    /// TSV files, a quote is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Names of the columns of a CSV or TSV file that has no line of names, in their order: `["caption", "url"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Vec<String>>,
    /// Split of the images: a name for all (`"train"`, `"restval"`, `"val"`, `"test"`), `{ column = "split" }` for a
    /// column of the table, with `{ column = { name = "part", values = { dev = "val" } } }` for other names of splits, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split.
    pub split: ImageSplit,
    /// Names of the columns of the table.
    #[serde(default)]
    pub columns: ImageFolderColumns,
    /// Treatment of images whose file is missing, and of captions that are empty or null.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the images, and of the captions, that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Names of the columns of a table of captions.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageFolderColumns {
    /// Column of the file of the image, relative to the folder. White space is part of a name.
    pub file_name: String,
    /// Column of the caption, or of a list of captions, which a text may also have as JSON or Python writes it.
    pub caption: String,
    /// Column of the identifier of the image. Whole numbers become `image_id`. If one of them is a text, images are
    /// numbered from 0 in order of first appearance, and the identifiers are in the column `file_name` of `images`, in
    /// place of the files, which stay in `path`. By default `image_id`, if the table has this column; otherwise, or if
    /// the setting is `""`, images are numbered.
    pub image_id: Option<String>,
    /// Column of the identifier of the caption, a whole number. By default `caption_id`, if the table has this column;
    /// otherwise, or if the setting is `""`, captions are numbered from 0.
    pub caption_id: Option<String>,
}

/// Split of the images.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageSplit {
    /// All images are in the split `train`.
    Train,
    /// All images are in the split `restval`.
    Restval,
    /// All images are in the split `val`.
    Val,
    /// All images are in the split `test`.
    Test,
    /// Column of the split. All rows of an image have the same.
    Column(SplitColumn),
    /// Random split with these fractions.
    Fractions(SplitFractions),
}

/// Column of splits: its name, if its values are `train`, `restval`, `val` and `test`, or its name with other values.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SplitColumn {
    /// Name of the column.
    Name(String),
    /// Column with other values.
    Renamed(RenamedSplits),
}

/// Column of splits with names of its own.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenamedSplits {
    /// Name of the column.
    pub name: String,
    /// Splits of values of the column: `{ dev = "val", validation = "val" }`. Other values are splits themselves.
    pub values: BTreeMap<String, String>,
}

impl SplitColumn {
    /// Name of the column.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Name(name) | Self::Renamed(RenamedSplits { name, .. }) => name,
        }
    }

    /// Split of a value.
    ///
    /// # Errors
    /// Message: the value is no split.
    pub(super) fn split(&self, value: &str) -> Result<&'static str, String> {
        let known = match self {
            Self::Name(_) => None,
            Self::Renamed(column) => column.values.get(value),
        };
        parse_split(known.map_or(value, String::as_str)).map_err(|problem| {
            let (name, value) = (shown_name(self.name()), shown_name(value));
            format!(
                "{problem}; `{{ name = \"{name}\", values = {{ \"{value}\" = \"val\" }} }}` as the column gives it one"
            )
        })
    }

    /// Problem of the setting `setting`.
    pub(super) fn problem(&self, setting: &str) -> Option<Problem> {
        let Self::Renamed(column) = self else { return None };
        let problem = column.values.values().find_map(|split| parse_split(split).err())?;
        Some(Problem::new(format!("{setting}.values"), problem))
    }
}

/// Random split of the images. The split of an image is a function of its file name and `split_seed` alone, so it stays
/// when other images are added: with the first eight bytes h of the BLAKE3 hash of the name and a uniform random number
/// u = SplitMix64(`split_seed`, h) in [0, 1), it is `test` if u < `test`, `val` if u < `test` + `val`, and else `train`.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitFractions {
    /// Fraction of the split `val`.
    #[serde(default)]
    pub val: f64,
    /// Fraction of the split `test`.
    #[serde(default)]
    pub test: f64,
    /// Seed of the split. Not the seed of the pipeline, so that runs with several seeds have the same test images.
    #[serde(default)]
    pub split_seed: u64,
}

impl ImageSplit {
    /// Problems of the setting `split` of a form.
    pub(super) fn problems(&self, form: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Self::Column(column) = self {
            problems.extend(column.problem(&format!("{form}.split.column")));
        }
        if let Self::Fractions(SplitFractions { val, test, .. }) = *self {
            for (name, fraction) in [("val", val), ("test", test)] {
                if !(0.0..=1.0).contains(&fraction) {
                    let setting = format!("{form}.split.fractions.{name}");
                    problems.push(Problem::new(setting, format!("got {fraction}, expected 0 to 1")));
                }
            }
            if problems.is_empty() && val + test > 1.0 {
                let message = format!("`val` and `test` are {} together, expected at most 1", val + test);
                problems.push(Problem::new(format!("{form}.split.fractions"), message));
            }
        }
        problems
    }

    /// Split of an image by its name, or by its `field` for a column of splits.
    ///
    /// # Errors
    /// The field is no split.
    pub(super) fn of(&self, name: &str, field: Option<&str>) -> Result<&'static str, String> {
        Ok(match self {
            Self::Train => "train",
            Self::Restval => "restval",
            Self::Val => "val",
            Self::Test => "test",
            Self::Column(column) => return column.split(field.unwrap_or_default()),
            Self::Fractions(fractions) => fractions.split_of(name),
        })
    }

    /// Name of the column of splits.
    pub(super) fn column(&self) -> Option<&str> {
        match self {
            Self::Column(column) => Some(column.name()),
            _ => None,
        }
    }

    /// Checks that a random split of `count` images has images in each of its parts; `splits` are those that have some.
    ///
    /// # Errors
    /// A part has none, which happens with few images.
    pub(super) fn check_sizes(&self, count: usize, splits: &BTreeSet<&str>) -> Result<()> {
        match self {
            Self::Fractions(fractions) => fractions.check_sizes(count, splits),
            _ => Ok(()),
        }
    }
}

impl Default for ImageFolderColumns {
    fn default() -> Self {
        Self { file_name: "file_name".to_owned(), caption: "caption".to_owned(), image_id: None, caption_id: None }
    }
}

impl ImageFolder {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        let captions = self.captions.iter().map(|table| StageInput::source("image_folder.captions", table));
        std::iter::once(StageInput::source(IMAGES, &self.images)).chain(captions).collect()
    }

    pub(super) fn check_headers(&self) -> Vec<Problem> {
        let table = self.captions.as_ref();
        table
            .map(|table| self.caption_columns().header_problems("image_folder.captions", table.path()))
            .unwrap_or_default()
    }

    fn caption_columns(&self) -> CaptionColumns<'_> {
        let Self { columns, split, .. } = self;
        CaptionColumns {
            image: &columns.file_name,
            image_id: IdentifierColumn::of_setting(columns.image_id.as_deref(), "image_id"),
            text: &columns.caption,
            caption_id: IdentifierColumn::of_setting(columns.caption_id.as_deref(), "caption_id"),
            split: split.column(),
            form: delimited_form(self.separator, self.header.as_deref()),
            on_missing: (self.on_missing, self.max_skipped),
            shown: |name| shown_name(name).into_owned(),
            identifier_hint: "the columns `image_id` and `caption_id` have the identifiers, if the table has them: \
                              `columns.image_id = \"\"` numbers the images instead, `columns.caption_id = \"\"` the captions",
            hint: "name those that differ below `image_folder`, such as `columns.file_name = \"…\"`",
        }
    }

    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("image_folder");
        problems.extend(delimited_problems("image_folder", self.separator, self.header.as_deref()));
        problems.extend(max_skipped_problem("image_folder", self.on_missing, self.max_skipped));
        if let (None, ImageSplit::Column(_)) = (&self.captions, &self.split) {
            let problem = Problem::new("image_folder.split", "there is no table with such a column");
            problems.push(problem.hint("name the table with `captions`, or write `split = \"train\"`"));
        }
        problems
    }
}

impl SplitFractions {
    /// Returns the split of the image `name`, see [`SplitFractions`].
    fn split_of(self, name: &str) -> &'static str {
        let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(name.as_bytes()).as_bytes();
        let hash = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let position = Rng::new(self.split_seed, &[hash]).uniform();
        if position < self.test {
            "test"
        } else if position < self.test + self.val {
            "val"
        } else {
            "train"
        }
    }

    /// Checks that each split with a fraction has an image.
    ///
    /// # Errors
    /// A split has none, which happens with few images.
    fn check_sizes(self, count: usize, splits: &BTreeSet<&str>) -> Result<()> {
        let train = 1.0 - self.val - self.test;
        for (name, fraction) in [("train", train), ("val", self.val), ("test", self.test)] {
            // A remainder of rounding is no fraction.
            if fraction > 1e-9 && !splits.contains(name) {
                return Err(Error::data(format!(
                    "no image is in the split `{name}`: {count} images, of which the fraction {fraction} is random"
                ))
                .hint(
                    "with few images, set another `split_seed`, larger fractions, or give the splits in a column: \
                     `split = { column = \"split\" }`",
                ));
            }
        }
        Ok(())
    }
}

/// Reads the table and writes the images, in order of first appearance, and their captions.
///
/// Rows with the same file have the same image: `./a.jpg` is `a.jpg`. See
/// [`ImageFolderColumns`](self::ImageFolderColumns) for the identifiers.
pub(super) fn run(settings: &ImageFolder, cx: &mut StageContext<'_>) -> Result<()> {
    if settings.captions.is_none() {
        let entries = list(settings, cx)?;
        let rule =
            MissingImages { needs_captions: false, ..MissingImages::new(settings.on_missing, settings.max_skipped) };
        return listed_images::write_existing(cx, &entries, IMAGES, &rule);
    }
    let path = cx.source("image_folder.captions")?;
    let entries = read(settings, &path, cx)?;
    let list = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let missing = MissingImages { list, ..MissingImages::new(settings.on_missing, settings.max_skipped) };
    listed_images::write_existing(cx, &entries, IMAGES, &missing)
}

/// Lists the images of a folder or bucket without a table, in the order of their names.
fn list(settings: &ImageFolder, cx: &mut StageContext<'_>) -> Result<Vec<ListedImage>> {
    let root = cx.source(IMAGES)?;
    let endings = IMAGE_EXTENSIONS.map(|extension| format!(".{extension}"));
    let mut names = match cx.objects(IMAGES)? {
        Some(objects) => {
            let name_of_image = |name: &str| strip_image_extension(name).map(|_| name.to_owned());
            let names = objects.list_objects(|object| name_of_image(object.name))?;
            names.into_iter().flatten().collect()
        }
        None => {
            let name = |file: PathBuf| match file.strip_prefix(&root).unwrap_or(&file).to_str() {
                Some(name) => Ok(name.to_owned()),
                None => Err(Error::data(format!("the name of `{}` is no UTF-8 text", file.display()))),
            };
            cx.source_files(IMAGES, &endings.each_ref().map(String::as_str))?
                .into_iter()
                .map(name)
                .collect::<Result<Vec<String>>>()?
        }
    };
    if names.is_empty() {
        return Err(Error::data(format!(
            "`{}` has no object whose name ends in {}",
            root.display(),
            endings.join(", ")
        )));
    }
    names.sort_unstable();
    let entry = |(image_id, name): (i64, String)| {
        let split = settings.split.of(&name, None).map_err(Error::data)?;
        Ok(ListedImage { image_id, split, file_name: name.clone(), path: name, place: None, captions: Vec::new() })
    };
    let entries = (0..).zip(names).map(entry).collect::<Result<Vec<_>>>()?;
    settings.split.check_sizes(entries.len(), &entries.iter().map(|entry| entry.split).collect())?;
    Ok(entries)
}

fn read(settings: &ImageFolder, path: &Path, cx: &mut StageContext<'_>) -> Result<Vec<ListedImage>> {
    let (split, names) = (&settings.split, settings.caption_columns());
    let split_of = |file: &str, field: Option<&str>| split.of(file, field);
    let images = caption_rows::read(cx, path, &names, |name, _| listed_images::image_path("", name?), split_of)?;
    split.check_sizes(images.len(), &images.iter().map(|image| image.split).collect())?;
    // File names are texts, so images without identifiers are numbered.
    let own: Option<Vec<&str>> = images.iter().map(|image| image.id.as_deref()).collect();
    let ids = match own {
        Some(own) => caption_rows::image_ids(cx, path, &own)?,
        None => (0..).take(images.len()).collect(),
    };
    let are_numbers =
        images.iter().all(|image| image.id.as_ref().is_none_or(|id| caption_rows::whole_number(id).is_some()));
    let entries = ids.into_iter().zip(images).map(|(image_id, image)| {
        let name = if are_numbers { image.name } else { image.id.unwrap_or(image.name) };
        ListedImage {
            image_id,
            split: image.split,
            file_name: name.to_string(),
            path: image.key.to_string(),
            place: Some(image.first),
            captions: image.captions,
        }
    });
    Ok(entries.collect())
}
