//! Rows of vectors that `import_features` reads, their images, and the parts that it writes.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::{Int64Array, StringArray};
use az::SaturatingAs;

use crate::imported_vectors::check_row_values;
use pairloom_base::error::{Result, ValidationErrors};
use pairloom_images::image::strip_image_extension;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::vector_limits::check_image_vector;
use pairloom_tables::{VectorColumn, features, regions};

/// Number of rows of a part of `features`: 8 MB for 2,048 values.
pub(super) const FEATURE_PART_ROWS: usize = 1024;

/// Number of rows of a part of `regions`: 38 MB for 36 regions of 2,048 values.
pub(super) const REGION_PART_ROWS: usize = 128;

/// Image of the table `images`.
pub(super) struct FeatureImage {
    pub id: i64,
    /// Number of its split in the list of splits.
    split: usize,
    /// File and row with its vector.
    pub found: Option<(usize, u64)>,
}

/// Images of the table `images`, by the identifiers of rows.
#[derive(Default)]
pub(super) struct WantedImages {
    pub list: Vec<FeatureImage>,
    splits: Vec<String>,
    by_id: HashMap<i64, usize>,
    by_name: HashMap<String, usize>,
    /// By file names without the ending of a picture. `None` stands for several images.
    by_stem: HashMap<String, Option<usize>>,
}

/// Identifier of a row.
#[derive(Clone, Copy)]
pub(super) enum RowId<'r> {
    Number(i64),
    Text(&'r str),
    Missing,
}

impl WantedImages {
    /// Adds an image. With a name, rows are of the image with that name. The error says that another image has it.
    pub(super) fn add(&mut self, id: i64, split: &str, name: Option<&str>) -> std::result::Result<(), String> {
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
    pub(super) fn find(&self, id: &RowId<'_>) -> Option<usize> {
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
pub(super) struct ImportedRows {
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
    pub(super) fn new(images: WantedImages, max_regions: Option<usize>) -> Self {
        let mistakes = ValidationErrors::in_table("");
        let (pending, values) = (Vec::new(), Vec::new());
        Self { images, max_regions, mistakes, file: 0, row: 0, found: 0, others: 0, width: 0, pending, values }
    }

    /// Starts with the rows of the next file.
    pub(super) fn start_file(&mut self, path: &Path) {
        (self.file, self.row, self.mistakes) = (self.file + 1, 0, ValidationErrors::in_file(path));
    }

    /// Returns all mistakes of the file as one error.
    pub(super) fn end_file(&mut self) -> Result<()> {
        std::mem::replace(&mut self.mistakes, ValidationErrors::in_table("")).into_result()
    }

    /// True if the next row, which has this identifier, is of an image that has no vector yet.
    pub(super) fn is_wanted(&self, id: &RowId<'_>) -> bool {
        self.images.find(id).is_some_and(|place| self.images.list[place].found.is_none())
    }

    /// Adds the next row of a file, of `vectors` vectors.
    pub(super) fn add(
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
            self.mistakes.add(place, "the identifier is missing, or too large for 64 bits");
            return Ok(());
        }
        let Some(index) = self.images.find(&id) else {
            self.others += 1;
            return Ok(());
        };
        let (image, file) = (&mut self.images.list[index], self.file);
        if let Some((first_file, first_row)) = image.found {
            let of = if first_file == file { String::new() } else { format!(" of file {first_file}") };
            self.mistakes.add(place, format_args!("image {} is also in row {first_row}{of}", image.id));
            return Ok(());
        }
        image.found = Some((file, row));
        self.found += 1;
        let places = self.max_regions.unwrap_or(1);
        let width = self.width;
        let checked = values.and_then(|values| {
            if vectors == 0 || vectors > places {
                return Err(format!("got {vectors} regions, wanted 1 to {places} (`max_regions`)"));
            }
            if width != 0 && values.len() / vectors != width {
                return Err(format!("got {} values, wanted {width} as in the rows before", values.len() / vectors));
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
    pub(super) fn write(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
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
