//! `import_arrays`: one npy file an image, `images` → `features`, or `regions`.

use std::path::{Component, Path};

use arrow::array::{Int64Array, StringArray};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::imported_vectors::{check_row_values, import_problems};
use pairloom_base::error::{Error, Result, SkippedItems, ValidationErrors};
use pairloom_formats::npy::{NpyFile, NpyRowKind};
use pairloom_stage::{
    MapBlock, MapInput, MapOutput, Problem, RunnableStage, SourceRef, Stage, StageContext, StageInput, StageOutput,
    TableRef, Warning,
};
use pairloom_storage::files::is_file;
use pairloom_storage::image_names::shown_name;
use pairloom_tables::halves::check_image_vector;
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{self as tables, VectorColumn, features, regions};

/// Number of rows of a part: 38 MB for 36 regions of 2,048 values.
const PART_ROWS: usize = 128;

/// Imports vectors of images from a folder with one npy file for each: an array of f16, f32 or f64 of one dimension for
/// `features`, or of shape (regions, width) or (height, width of a grid, width) for `regions`.
///
/// Memory: 128 images on each thread.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportArrays {
    /// Folder of the npy files. Files of images that are not in `images` are not used.
    pub folder: SourceRef,
    /// Images that the vectors are of. Their splits are those of the vectors.
    pub images: TableRef,
    /// Name of the file of an image, without `.npy`.
    #[serde(default)]
    pub names: ArrayNames,
    /// Largest number of regions of an image; images with fewer have zeros in the rest. Without it, an image has one vector,
    /// and the stage writes `features`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_regions: Option<usize>,
    /// Largest share of the images that may have no file. They are left out, with a warning.
    #[serde(default)]
    pub max_skipped: f64,
}

/// Names of the files of images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArrayNames {
    /// `image_id`: `391895.npy`.
    #[default]
    ImageId,
    /// File name without its ending: `1000092795.npy` of `1000092795.jpg`.
    FileName,
}

impl Stage for ImportArrays {
    fn kind(&self) -> &'static str {
        "import_arrays"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        vec![
            StageInput::source("folder", &self.folder),
            StageInput::table("images", &self.images, &tables::images::table()),
        ]
    }

    fn outputs(&self) -> Vec<StageOutput> {
        let schema = match self.max_regions {
            Some(places) => regions::table().schema_with_shape(&[places]),
            None => features::table().schema(),
        };
        vec![StageOutput::table(self.output_name(), schema, PART_ROWS)]
    }

    fn check(&self) -> Vec<Problem> {
        import_problems(self.max_regions, self.max_skipped)
    }
}

impl RunnableStage for ImportArrays {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let folder = cx.source("folder")?;
        if !folder.is_dir() {
            return Err(Error::data(format!("`{}` is not a folder", folder.display())));
        }
        let width = self.width(&folder, cx)?;
        check_row_values(self.max_regions.unwrap_or(1), width).map_err(Error::data)?;
        let cancel = cx.cancel().clone();
        let summary = cx.map(MapInput::Table("images"), self.output_name(), PART_ROWS, &|block| {
            cancel.check()?;
            self.import_block(block, &folder, width)
        })?;
        let first = summary.warnings.iter().map(|warning| format!("`{}`: {}", warning.subject, warning.message));
        let (total, skipped) = (summary.inputs, summary.inputs.saturating_sub(summary.rows));
        SkippedItems { skipped, total, first: first.collect() }.check("images", self.max_skipped, "check the folder")
    }
}

impl ImportArrays {
    fn output_name(&self) -> &'static str {
        if self.max_regions.is_some() { "regions" } else { "features" }
    }

    /// File of an image, relative to the folder.
    fn file(&self, id: i64, name: &str) -> Result<String> {
        match self.names {
            ArrayNames::ImageId => Ok(format!("{id}.npy")),
            ArrayNames::FileName => {
                let path = Path::new(name);
                if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
                    let name = shown_name(name);
                    return Err(Error::data(format!("the name `{name}` of image {id} leads out of the folder")));
                }
                // Unlike `with_extension`, this adds to a name that has no ending.
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                Ok(path.with_file_name(stem + ".npy").to_string_lossy().into_owned())
            }
        }
    }

    /// Width of the vectors of the first image that has a file. All others must have it.
    fn width(&self, folder: &Path, cx: &mut StageContext<'_>) -> Result<usize> {
        let (mut width, mut count) = (None, 0);
        while let Some(batch) = cx.read_next("images")? {
            let (ids, names) = (tables::int_column(&batch, "image_id")?, tables::text_column(&batch, "file_name")?);
            count += batch.num_rows();
            for row in 0..batch.num_rows() {
                if width.is_none() {
                    let file = self.file(ids.value(row), names.value(row))?;
                    if is_there(folder, &file)? {
                        width = Some(open(folder, &file)?.width());
                    }
                }
            }
        }
        width.ok_or_else(|| {
            let message =
                format!("none of the {count} images of `{}` has a file in `{}`", self.images, folder.display());
            Error::data(message).hint("`names` says if files are named by `image_id` or by `file_name`")
        })
    }

    fn import_block(&self, block: &MapBlock, folder: &Path, width: usize) -> Result<MapOutput> {
        let (ids, splits) = (tables::int_column(&block.rows, "image_id")?, tables::text_column(&block.rows, "split")?);
        let names = tables::text_column(&block.rows, "file_name")?;
        let places = self.max_regions.unwrap_or(1);
        let mut kept = Vec::with_capacity(block.rows.num_rows());
        let mut values = Vec::with_capacity(block.rows.num_rows() * places * width);
        let mut mistakes = ValidationErrors::in_file(folder);
        let mut warnings = Vec::new();
        for row in 0..block.rows.num_rows() {
            let (id, name) = (ids.value(row), names.value(row));
            let (file, start) = (self.file(id, name)?, values.len());
            if !is_there(folder, &file)? {
                let (subject, message) = (shown_name(name).into_owned(), "image left out: it has no file".to_owned());
                warnings.push(Warning { subject, message });
                continue;
            }
            let array = open(folder, &file).map_err(|error| error.to_string());
            match array.and_then(|array| self.read(&array, id, width, &mut values)) {
                Ok(()) => {
                    kept.push(row);
                    values.resize(start + places * width, 0.0);
                }
                Err(message) => {
                    values.truncate(start);
                    mistakes.add(format_args!("`{}`", shown_name(&file)), message);
                }
            }
        }
        mistakes.into_result()?;
        let image_id = Int64Array::from_iter_values(kept.iter().map(|&row| ids.value(row)));
        let split = StringArray::from_iter_values(kept.iter().map(|&row| splits.value(row)));
        let batch = match self.max_regions {
            Some(places) => {
                let regions = RegionColumn::new(values, places, width)?;
                regions::TableColumns { image_id, split, regions }.into_batch()?
            }
            None => {
                let feature = VectorColumn::new(values, width)?;
                features::TableColumns { image_id, split, feature }.into_batch()?
            }
        };
        Ok(MapOutput { warnings, ..MapOutput::new(batch) })
    }

    /// Appends the vectors of a file.
    fn read(&self, file: &NpyFile, id: i64, width: usize, values: &mut Vec<f32>) -> std::result::Result<(), String> {
        let (rows, places) = (file.rows(), self.max_regions.unwrap_or(1));
        if file.width() != width {
            return Err(format!("has vectors of {} values, that of the first image {width}", file.width()));
        }
        if rows == 0 || rows > places {
            let wanted = match self.max_regions {
                Some(places) => format!("1 to {places} (`max_regions`)"),
                None => "one; `max_regions` imports several".to_owned(),
            };
            return Err(format!("has {rows} vectors, expected {wanted}"));
        }
        for row in 0..rows {
            let start = values.len();
            file.read_vector(row, values).map_err(|message| format!("vector {row}: {message}"))?;
            check_image_vector(id, &values[start..]).map_err(|error| error.to_string())?;
            // Zeros stand for no region.
            if self.max_regions.is_some() && values[start..].iter().all(|&value| value == 0.0) {
                return Err(format!("vector {row} has only zeros, which stand for no region"));
            }
        }
        Ok(())
    }
}

/// True if the folder has a file.
fn is_there(folder: &Path, file: &str) -> Result<bool> {
    is_file(&folder.join(file)).map_err(|error| error.with_shown_name(file, &shown_name(file)))
}

/// Opens a file of the folder.
fn open(folder: &Path, file: &str) -> Result<NpyFile> {
    let hint = "expected (width), (regions, width) or (height, width of a grid, width)";
    let array = NpyFile::open(&folder.join(file), NpyRowKind::OneImage, hint);
    array.map_err(|error| error.with_shown_name(file, &shown_name(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_stage_testing::InMemoryHost;

    /// Npy file of f32 values with a shape such as `2, 3`.
    fn npy(shape: &str, values: &[f32]) -> Vec<u8> {
        let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape}), }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{text:<117}\n").bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    fn run(files: &[(&str, Vec<u8>)], more: &str) -> Result<InMemoryHost> {
        run_with_names(["1005.jpg", "1006.x.jpg", "1007"], files, more)
    }

    fn run_with_names(names: [&str; 3], files: &[(&str, Vec<u8>)], more: &str) -> Result<InMemoryHost> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let images = tables::images::TableColumns {
            image_id: vec![5, 6, 7].into(),
            split: vec!["train", "val", "test"].into(),
            file_name: names.to_vec().into(),
            path: tables::Nullable(vec![None::<&str>; 3].into()),
            bytes: tables::Nullable(vec![None::<&[u8]>; 3].into()),
            digest: tables::Nullable(vec![None::<&str>; 3].into()),
        };
        let mut host = InMemoryHost::default();
        host.source_paths.insert("folder".to_owned(), folder.path().to_owned());
        host.input_tables.insert("images".to_owned(), vec![images.into_batch().unwrap()]);
        let settings = format!("folder = \"x\"\nimages = \"x.images\"\n{more}");
        let stage = toml::from_str::<ImportArrays>(&settings).unwrap();
        assert_eq!(stage.check(), []);
        host.run(&stage)?;
        Ok(host)
    }

    #[test]
    fn vectors_have_the_splits_of_their_images() {
        let files = [
            ("1007.npy", npy("2,", &[1.0, 2.0])),
            ("1005.npy", npy("1, 2", &[3.0, 4.0])),
            ("1006.x.npy", npy("2,", &[5.0, 6.0])),
            ("9.npy", npy("3,", &[7.0; 3])),
        ];
        let batch = run(&files, "names = \"file_name\"").unwrap().output("features");
        assert_eq!(tables::int_column(&batch, "image_id").unwrap().values(), &[5, 6, 7]);
        assert_eq!(tables::text_column(&batch, "split").unwrap().value(1), "val");
        assert_eq!(tables::vector_column(&batch, "feature").unwrap(), (&[3.0, 4.0, 5.0, 6.0, 1.0, 2.0][..], 2));
    }

    #[test]
    fn regions_and_grids_are_filled_up_with_zeros() {
        let files = [("5.npy", npy("1, 2, 1", &[1.0, 2.0])), ("7.npy", npy("3, 1", &[3.0, 4.0, 5.0]))];
        let host = run(&files, "max_regions = 4\nmax_skipped = 0.5").unwrap();
        let batch = host.output("regions");
        let expected = [1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0, 0.0];
        assert_eq!(regions::values(&batch).unwrap(), (&expected[..], 4, 1));
        assert_eq!((host.warnings.len(), host.warnings[0].subject.as_str()), (1, "1006.x.jpg"));
        let error = run(&files, "max_regions = 4").unwrap_err().to_string();
        assert!(error.contains("1 of 3 images were left out"), "{error}");
    }

    #[test]
    fn names_that_are_urls_are_shown_without_passwords_and_queries() {
        let urls = ["https://me:secret@h.org/a.jpg?signature=secret.v1", "https://h.org/b.jpg?secret.v1", "1007.jpg"];
        let files = ["https:/me:secret@h.org/a.jpg?signature=secret.npy", "https:/h.org/b.jpg?secret.npy", "1007.npy"];
        let by_name = "names = \"file_name\"\nmax_skipped = 0.5";
        let host =
            run_with_names(urls, &[(files[0], npy("1,", &[1.0])), (files[2], npy("1,", &[2.0]))], by_name).unwrap();
        assert_eq!(host.output("features").num_rows(), 2);
        assert_eq!((host.warnings.len(), host.warnings[0].subject.as_str()), (1, "https://h.org/b.jpg"));
        let out = "https://me:secret@h.org/../../../a.jpg?secret";
        let one = [(files[2], npy("1,", &[2.0]))];
        let cases = [
            (run_with_names(urls, &one, "names = \"file_name\""), "`https://h.org/a.jpg`: image left out"),
            (
                run_with_names([out, urls[1], urls[2]], &one, by_name),
                "the name `https://h.org/../../../a.jpg` of image 5",
            ),
            (
                run_with_names(urls, &[(files[0], npy("1,", &[1.0])), (files[1], vec![])], by_name),
                "`https://h.org/b.jpg`: ",
            ),
            (run_with_names(urls, &[(files[0], b"PK".to_vec())], by_name), "https://h.org/a.jpg`"),
        ];
        for (run, expected) in cases {
            let error = run.unwrap_err();
            let error = format!("{error} {:?}", error.hint_text());
            assert!(error.contains(expected) && !error.contains("secret"), "{expected}: {error}");
        }
    }

    #[test]
    fn mistakes_name_their_files() {
        let files = [
            ("5.npy", npy("1, 2", &[1.0, 2.0])),
            ("6.npy", npy("3,", &[1.0; 3])),
            ("7.npy", npy("2, 2", &[1.0, f32::NAN, 1.0, 1.0])),
        ];
        let error = run(&files, "").unwrap_err().to_string();
        for expected in [
            "`6.npy`: has vectors of 3 values, that of the first image 2",
            "`7.npy`: has 2 vectors, expected one; `max_regions` imports several",
        ] {
            assert!(error.contains(expected), "{error}");
        }
        let error = run(&files, "max_regions = 2").unwrap_err().to_string();
        assert!(error.contains("`7.npy`: vector 0: the value of column 1 is NaN"), "{error}");
        let error = run(&[("5.npy", npy("2, 1", &[1.0, 0.0])), ("6.npy", b"PK".to_vec())], "max_regions = 2");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`5.npy`: vector 1 has only zeros") && error.contains("not an npy file"), "{error}");
        let error = run(&[("1005.npy", npy("1,", &[1.0]))], "").unwrap_err();
        assert!(error.to_string().starts_with("none of the 3 images") && error.hint_text().is_some(), "{error}");
    }
}
