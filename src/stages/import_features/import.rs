//! Settings of `import_features`, and the reading of its files.

use std::path::Path;

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::imported_rows::{FEATURE_PART_ROWS, ImportedRows, REGION_PART_ROWS, RowId, WantedImages};
use crate::imported_vectors::{check_row_values, import_problems};
use pairloom_base::error::{Error, Result, SkippedItems};
use pairloom_formats::id_list::IdList;
use pairloom_formats::npy::{NpyFile, NpyRowKind, is_npy};
use pairloom_formats::table_file::{ColumnKind, TableFile, has_integers, integers, texts, vectors};
use pairloom_stage::{Problem, RunnableStage, SourceRef, Stage, StageContext, StageInput, StageOutput, TableRef};
use pairloom_tables::{self as tables, features, regions};

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
                format!("got {} lists for {} files, wanted one for each file", self.ids.len(), self.files.len());
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
            Some(_) => (NpyRowKind::VectorSets, "wanted (images, regions, width)"),
            None => (NpyRowKind::Vectors, "wanted (images, width); `max_regions` imports (images, regions, width)"),
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
            return Err(Error::data(format!("`{}` is no npy file, wanted one for each list of `ids`", path.display()))
                .hint("tables have a column of identifiers: import them in a stage of their own, without `ids`"));
        }
        let file = TableFile::open(path)?;
        let FeatureColumns { id, vector } = &self.columns;
        let wanted = [(id.as_str(), ColumnKind::TextsOrIntegers), (vector.as_str(), ColumnKind::Vectors)];
        file.check_columns(&wanted, "name them with `columns = { id = \"…\", vector = \"…\" }`")?;
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
