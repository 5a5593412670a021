//! `import_features`: vectors of images in Parquet, Arrow or npy files, `images` → `features`, or `regions`.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use arrow::array::{Int64Array, StringArray};
use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::imported_vectors::{check_row_values, import_problems};
use pairloom_base::error::{Error, Result, SkippedItems, ValidationErrors};
use pairloom_formats::id_list::IdList;
use pairloom_formats::npy::{NpyFile, NpyRowKind, is_npy};
use pairloom_formats::table_file::{ColumnKind, TableFile, has_integers, integers, texts, vectors};
use pairloom_images::image::strip_image_extension;
use pairloom_stage::{Problem, RunnableStage, SourceRef, Stage, StageContext, StageInput, StageOutput, TableRef};
use pairloom_storage::image_names::shown_name;
use pairloom_tables::halves::check_image_vector;
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{self as tables, VectorColumn, features, regions};

/// Imports vectors of images that another program computed: columns of Parquet and Arrow files, or npy arrays with lists
/// of identifiers, such as those of `pairloom export`.
///
/// Rows have the order of the files. Rows of images that are not in `images` are left out.
/// Memory: identifiers and names of the images, identifiers of an npy file, and 1,024 vectors or the regions of 128 images.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportFeatures {
    /// Files, all with vectors of one width: Parquet or Arrow files with a column of identifiers and one of vectors, or npy
    /// arrays of f16, f32 or f64 of shape (images, width), or (images, regions, width) for `regions`.
    pub files: Vec<SourceRef>,
    /// Identifiers of the rows of npy files, one list for each: a text file with one number a line, or an npy file of
    /// integers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<SourceRef>,
    /// Images that the vectors are of. Their splits are those of the vectors.
    pub images: TableRef,
    /// Columns of Parquet and Arrow files.
    #[serde(default)]
    pub columns: FeatureColumns,
    /// Meaning of an identifier: `image_id`, or the file name of the image with or without its ending.
    #[serde(default)]
    pub names: RowNames,
    /// Largest number of regions of an image in arrays of three dimensions; images with fewer have zeros in the rest. Without
    /// it, an image has one vector, and the stage writes `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_regions: Option<usize>,
    /// Largest share of the images that may have no vector. They are left out, with a warning.
    #[serde(default)]
    pub max_skipped: f64,
}

/// Meaning of the identifiers of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowNames {
    /// `image_id`.
    #[default]
    ImageId,
    /// File name, with or without its ending `.jpg`, `.jpeg` or `.png`.
    FileName,
}

/// Columns of files with vectors of images.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FeatureColumns {
    /// Column of identifiers: integers or texts.
    pub id: String,
    /// Column of vectors: lists of f16, f32 or f64, with or without a fixed size.
    pub vector: String,
}

impl Default for FeatureColumns {
    fn default() -> Self {
        Self { id: "image_id".to_owned(), vector: "feature".to_owned() }
    }
}

impl Stage for ImportFeatures {
    fn kind(&self) -> &'static str {
        "import_features"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let numbered = |setting: &'static str, sources: &[SourceRef]| -> Vec<StageInput> {
            let sources = sources.iter().enumerate();
            sources.map(|(number, source)| StageInput::source(format!("{setting}.{number}"), source)).collect()
        };
        let mut inputs = numbered("files", &self.files);
        inputs.extend(numbered("ids", &self.ids));
        inputs.push(StageInput::table("images", &self.images, &tables::images::table()));
        inputs
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![match self.max_regions {
            Some(places) => {
                StageOutput::table("regions", regions::table().schema_with_shape(&[places]), REGION_PART_ROWS)
            }
            None => StageOutput::table("features", features::table().schema(), FEATURE_PART_ROWS),
        }]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.files.is_empty() {
            problems.push(Problem::new("files", "no file").hint("`files = [\"features.parquet\"]`"));
        }
        if !self.ids.is_empty() && self.ids.len() != self.files.len() {
            let message =
                format!("got {} lists for {} files, expected one for each file", self.ids.len(), self.files.len());
            problems.push(Problem::new("ids", message));
        }
        problems.extend(import_problems(self.max_regions, self.max_skipped));
        problems
    }
}

impl RunnableStage for ImportFeatures {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let mut rows = ImportedRows::new(self.read_images(cx)?, self.max_regions);
        for number in 0..self.files.len() {
            let path = cx.source(&format!("files.{number}"))?;
            rows.start_file(&path);
            if is_npy(&path)? {
                self.read_array(number, &path, &mut rows, cx)?;
            } else {
                self.read_table(&path, &mut rows, cx)?;
            }
            rows.end_file()?;
        }
        rows.write(cx)?;
        let (total, found) = (rows.images.list.len().saturating_as::<u64>(), rows.found);
        if found == 0 && total > 0 {
            let (others, images) = (rows.others, &self.images);
            let message =
                format!("none of the {total} images of `{images}` is in the files, which have {others} others");
            return Err(Error::data(message).hint("`names` says if identifiers are `image_id` or `file_name`"));
        }
        if found < total {
            let message = format!("{} of {total} images have no vector in the files, and are left out", total - found);
            cx.warn("images", message);
        }
        let missing = rows.images.list.iter().filter(|image| image.found.is_none());
        let first = missing.take(5).map(|image| format!("image {} has no vector", image.id)).collect();
        SkippedItems { skipped: total - found, total, first }.check("images", self.max_skipped, "check the files")
    }
}

impl ImportFeatures {
    fn read_images(&self, cx: &mut StageContext<'_>) -> Result<WantedImages> {
        let mut images = WantedImages::default();
        while let Some(batch) = cx.read_next("images")? {
            let (ids, splits) = (tables::int_column(&batch, "image_id")?, tables::text_column(&batch, "split")?);
            let names = tables::text_column(&batch, "file_name")?;
            for row in 0..batch.num_rows() {
                let name = match self.names {
                    RowNames::ImageId => None,
                    RowNames::FileName => Some(names.value(row)),
                };
                images.add(ids.value(row), splits.value(row), name).map_err(|message| {
                    Error::data(format!("`{}`: {message}", self.images))
                        .hint("`names = \"image_id\"` tells images apart by their identifiers")
                })?;
            }
        }
        Ok(images)
    }

    /// Reads an npy file and its list of identifiers.
    fn read_array(&self, number: usize, path: &Path, rows: &mut ImportedRows, cx: &mut StageContext<'_>) -> Result<()> {
        let (kind, hint) = match self.max_regions {
            Some(_) => (NpyRowKind::VectorSets, "expected (images, regions, width)"),
            None => (NpyRowKind::Vectors, "expected (images, width); `max_regions` imports (images, regions, width)"),
        };
        let array = NpyFile::open(path, kind, hint)?;
        // Before a row is read.
        check_row_values(array.vectors(), array.width())
            .map_err(|message| Error::data(format!("`{}`: {message}", path.display())))?;
        if self.ids.is_empty() {
            return Err(Error::data(format!("`{}` has no identifiers", path.display()))
                .hint("`ids = [\"features_ids.txt\"]` names a list of them, one for each npy file"));
        }
        let list = cx.source(&format!("ids.{number}"))?;
        let ids = IdList::read(&list)?;
        if ids.ids.len() != array.rows() {
            let (list, path) = (list.display(), path.display());
            let message = format!("`{list}` has {} identifiers, `{path}` {} rows", ids.ids.len(), array.rows());
            return Err(Error::data(message));
        }
        let mut values = Vec::new();
        for (row, &id) in ids.ids.iter().enumerate() {
            values.clear();
            if rows.is_wanted(&RowId::Number(id)) {
                array.read_row(row, &mut values)?;
            }
            rows.add(RowId::Number(id), Ok(&values), array.vectors(), cx)?;
        }
        Ok(())
    }

    /// Reads a Parquet or Arrow file.
    fn read_table(&self, path: &Path, rows: &mut ImportedRows, cx: &mut StageContext<'_>) -> Result<()> {
        if self.max_regions.is_some() {
            return Err(Error::data(format!("`{}` is no npy file", path.display()))
                .hint("regions are read from npy arrays of shape (images, regions, width)"));
        }
        if !self.ids.is_empty() {
            return Err(Error::data(format!(
                "`{}` is no npy file, expected one for each list of `ids`",
                path.display()
            ))
            .hint("tables have a column of identifiers: import them in a stage of their own, without `ids`"));
        }
        let file = TableFile::open(path)?;
        let FeatureColumns { id, vector } = &self.columns;
        let columns_read = [(id.as_str(), ColumnKind::TextsOrIntegers), (vector.as_str(), ColumnKind::Vectors)];
        file.check_columns(&columns_read, "name them with `columns = { id = \"…\", vector = \"…\" }`")?;
        let cancel = cx.cancel().clone();
        for batch in file.batches(&[id, vector], || cancel.check())? {
            let batch = batch?;
            let vectors = vectors(&batch, vector)?;
            if has_integers(&batch, id)? {
                let ids = integers(&batch, id)?;
                for (row, id) in ids.iter().enumerate() {
                    rows.add(id.map_or(RowId::Missing, RowId::Number), vectors.get(row), 1, cx)?;
                }
            } else {
                let ids = texts(&batch, id)?;
                for row in 0..batch.num_rows() {
                    rows.add(ids.get(row).map_or(RowId::Missing, RowId::Text), vectors.get(row), 1, cx)?;
                }
            }
        }
        Ok(())
    }
}

/// Number of rows of a part of `features`: 8 MB for 2,048 values.
const FEATURE_PART_ROWS: usize = 1024;

/// Number of rows of a part of `regions`: 38 MB for 36 regions of 2,048 values.
const REGION_PART_ROWS: usize = 128;

/// Image of the table `images`.
struct FeatureImage {
    pub id: i64,
    /// Number of its split in the list of splits.
    split: usize,
    /// File and row with its vector.
    pub found: Option<(usize, u64)>,
}

/// Images of the table `images`, by the identifiers of rows.
#[derive(Default)]
struct WantedImages {
    pub list: Vec<FeatureImage>,
    splits: Vec<String>,
    by_id: HashMap<i64, usize>,
    by_name: HashMap<String, usize>,
    /// By file names without the ending of a picture. `None` stands for several images.
    by_stem: HashMap<String, Option<usize>>,
}

/// Identifier of a row.
#[derive(Clone, Copy)]
enum RowId<'r> {
    Number(i64),
    Text(&'r str),
    Missing,
}

impl WantedImages {
    /// Adds an image. With a name, rows are of the image with that name. The error says that another image has it.
    fn add(&mut self, id: i64, split: &str, name: Option<&str>) -> std::result::Result<(), String> {
        let place = self.list.len();
        let known = self.splits.iter().position(|known| known == split);
        let split = known.unwrap_or_else(|| {
            self.splits.push(split.to_owned());
            self.splits.len() - 1
        });
        self.list.push(FeatureImage { id, split, found: None });
        let Some(name) = name else {
            self.by_id.insert(id, place);
            return Ok(());
        };
        if let Some(stem) = strip_image_extension(name) {
            self.by_stem.entry(stem.to_owned()).and_modify(|place| *place = None).or_insert(Some(place));
        }
        match self.by_name.insert(name.to_owned(), place) {
            Some(other) => {
                let (name, other) = (shown_name(name), self.list[other].id);
                Err(format!("images {other} and {id} both have the file name `{name}`"))
            }
            None => Ok(()),
        }
    }

    /// Place of the image of a row in the list.
    fn find(&self, id: &RowId<'_>) -> Option<usize> {
        match (id, self.by_name.is_empty()) {
            (RowId::Number(id), true) => self.by_id.get(id).copied(),
            // Only the usual form of a number: `007` may be another image than 7.
            (RowId::Text(text), true) => {
                let id: i64 = text.parse().ok()?;
                self.by_id.get(&id).copied().filter(|_| id.to_string() == *text)
            }
            (RowId::Number(id), false) => self.find_name(&id.to_string()),
            (RowId::Text(text), false) => self.find_name(text),
            (RowId::Missing, _) => None,
        }
    }

    /// Place of the image with this file name, or else of the only one with it and the ending of a picture.
    fn find_name(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied().or_else(|| self.by_stem.get(name).copied().flatten())
    }
}

/// Rows of the files, and those that are not written yet.
struct ImportedRows {
    pub images: WantedImages,
    max_regions: Option<usize>,
    mistakes: ValidationErrors,
    /// Number of the file that is read, from 1, and of the next of its rows, from 0.
    file: usize,
    row: u64,
    /// Rows with an image, and others.
    pub found: u64,
    pub others: u64,
    /// Values of a vector; 0 before the first.
    width: usize,
    /// Places of images in the list, and their vectors.
    pending: Vec<usize>,
    values: Vec<f32>,
}

impl ImportedRows {
    fn new(images: WantedImages, max_regions: Option<usize>) -> Self {
        let mistakes = ValidationErrors::in_table("");
        let (pending, values) = (Vec::new(), Vec::new());
        Self { images, max_regions, mistakes, file: 0, row: 0, found: 0, others: 0, width: 0, pending, values }
    }

    /// Starts with the rows of the next file.
    fn start_file(&mut self, path: &Path) {
        (self.file, self.row, self.mistakes) = (self.file + 1, 0, ValidationErrors::in_file(path));
    }

    /// Returns all mistakes of the file as one error.
    fn end_file(&mut self) -> Result<()> {
        std::mem::replace(&mut self.mistakes, ValidationErrors::in_table("")).into_result()
    }

    /// True if the next row, which has this identifier, is of an image that has no vector yet.
    fn is_wanted(&self, id: &RowId<'_>) -> bool {
        self.images.find(id).is_some_and(|place| self.images.list[place].found.is_none())
    }

    /// Adds the next row of a file, of `vectors` vectors.
    fn add(
        &mut self,
        id: RowId<'_>,
        values: std::result::Result<&[f32], String>,
        vectors: usize,
        cx: &mut StageContext<'_>,
    ) -> Result<()> {
        let row = self.row;
        self.row += 1;
        let place = format_args!("row {row}");
        if row.is_multiple_of(1024) {
            cx.check_cancelled()?;
        }
        if matches!(id, RowId::Missing) {
            self.mistakes.add(place, format_args!("the identifier is missing or above {}", i64::MAX));
            return Ok(());
        }
        let Some(index) = self.images.find(&id) else {
            self.others += 1;
            return Ok(());
        };
        let (image, file) = (&mut self.images.list[index], self.file);
        if let Some((first_file, first_row)) = image.found {
            let place_of_first = if first_file == file { String::new() } else { format!(" of file {first_file}") };
            self.mistakes.add(place, format_args!("image {} is also in row {first_row}{place_of_first}", image.id));
            return Ok(());
        }
        image.found = Some((file, row));
        self.found += 1;
        let places = self.max_regions.unwrap_or(1);
        let width = self.width;
        let checked = values.and_then(|values| {
            if vectors == 0 || vectors > places {
                return Err(format!("got {vectors} regions, expected 1 to {places} (`max_regions`)"));
            }
            if width != 0 && values.len() / vectors != width {
                return Err(format!("got {} values, expected {width} as in the rows before", values.len() / vectors));
            }
            check_row_values(places, values.len() / vectors)?;
            check_image_vector(image.id, values).map_err(|error| error.to_string())?;
            Ok(values)
        });
        match checked {
            Ok([]) => self.mistakes.add(place, "the vector has no values"),
            Ok(values) => {
                self.width = values.len() / vectors;
                self.pending.push(index);
                self.values.extend_from_slice(values);
                self.values.resize(self.pending.len() * places * self.width, 0.0);
            }
            Err(message) => self.mistakes.add(place, message),
        }
        let part = if self.max_regions.is_some() { REGION_PART_ROWS } else { FEATURE_PART_ROWS };
        if self.pending.len() >= part {
            self.write(cx)?;
        }
        Ok(())
    }

    /// Writes the pending rows. Nothing is kept of files with mistakes, but all of them are named.
    fn write(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
        let (pending, values) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.values));
        if pending.is_empty() || !self.mistakes.is_empty() {
            return Ok(());
        }
        let images = || pending.iter().map(|&place| &self.images.list[place]);
        let image_id = Int64Array::from_iter_values(images().map(|image| image.id));
        let split = StringArray::from_iter_values(images().map(|image| self.images.splits[image.split].as_str()));
        let (output, batch) = match self.max_regions {
            Some(places) => {
                let regions = RegionColumn::new(values, places, self.width)?;
                ("regions", regions::TableColumns { image_id, split, regions }.into_batch()?)
            }
            None => {
                let feature = VectorColumn::new(values, self.width)?;
                ("features", features::TableColumns { image_id, split, feature }.into_batch()?)
            }
        };
        cx.write(output, batch)?;
        cx.progress(self.found, Some(self.images.list.len().saturating_as::<u64>()), "images");
        Ok(())
    }
}
