//! `import_regions`: regions of a detector in TSV files, `images` → `regions`, `region_boxes`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use az::SaturatingAs;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::imported_vectors::{check_row_values, import_problems};
use super::ingest::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_base::error::{Error, Result, SkippedItems, ValidationErrors};
use pairloom_stage::{Problem, RunnableStage, SourceRef, Stage, StageContext, StageInput, StageOutput, TableRef};
use pairloom_storage::bounded;
use pairloom_storage::image_names::shown_name;
use pairloom_tables::halves::{LARGEST, too_large};
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{self as tables, region_boxes, regions};

/// Number of rows of a part: 38 MB for 36 regions of 2,048 values.
const PART_ROWS: usize = 128;

/// Maximum number of values of a vector. Images with fewer regions are filled up with zeros.
const MAX_WIDTH: usize = 16_384;

/// Largest length of a line. 100 regions of 2,048 values take 1.1 MB.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Number of lines that an error lists.
const LISTED: usize = 20;

/// Distance in pixels by which a box may leave the picture: detectors round.
const BOX_TOLERANCE: f32 = 1.0;

/// Imports the regions of a detector from the TSV files of bottom-up attention (Anderson et al., CVPR 2018), with their
/// boxes.
///
/// A line has six columns: the number of the image, the width and height of the picture, the number of regions, and the
/// boxes (x1, y1, x2, y2 in pixels) and feature vectors as f32 numbers in base64.
/// Lines of images that are not in `images` are left out. The published files have some that are repeated or damaged
/// (`on_missing`). Memory: 128 images.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportRegions {
    /// TSV files. All have vectors of one width.
    pub files: Vec<SourceRef>,
    /// Images that the regions are of. Their splits are those of the regions.
    pub images: TableRef,
    /// Number of the image in a line.
    #[serde(default)]
    pub image_numbers: ImageNumbers,
    /// Largest number of regions of an image: 36, or 100 for files with 10 to 100 regions an image. Images with fewer have
    /// zeros in the rest.
    #[serde(default = "default_max_regions")]
    pub max_regions: usize,
    /// Treatment of lines that repeat an image or cannot be read; by default `"fail"`. Of the lines of an image the first one
    /// that can be read counts.
    #[serde(default, skip_serializing_if = "OnMissing::is_default")]
    pub on_missing: OnMissing,
    /// Largest share of the lines that `on_missing = "skip"` may leave out, beside those of other images.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Meaning of the number of an image in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageNumbers {
    /// `image_id`, as in the files of COCO.
    #[default]
    ImageId,
    /// File name without its ending, as in the files of Flickr30k: 1000092795 of `1000092795.jpg`.
    FileName,
}

fn default_max_regions() -> usize {
    36
}

impl Stage for ImportRegions {
    fn kind(&self) -> &'static str {
        "import_regions"
    }

    fn version(&self) -> u32 {
        1
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<StageInput> {
        let files = self.files.iter().enumerate();
        let files = files.map(|(number, file)| StageInput::source(format!("files.{number}"), file));
        files.chain([StageInput::table("images", &self.images, &tables::images::table())]).collect()
    }

    fn outputs(&self) -> Vec<StageOutput> {
        vec![
            StageOutput::table("regions", regions::table().schema(), PART_ROWS),
            StageOutput::table(
                "region_boxes",
                region_boxes::table().schema_with_shape(&[self.max_regions, 4]),
                PART_ROWS,
            ),
        ]
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.files.is_empty() {
            problems.push(
                Problem::new("files", "no file")
                    .hint("`files = [\"karpathy_train_resnet101_faster_rcnn_genome.tsv\"]`"),
            );
        }
        problems.extend(import_problems(Some(self.max_regions), 0.0));
        problems.extend(max_skipped_problem("", self.on_missing, self.max_skipped));
        problems
    }
}

/// Image of the table `images`.
struct WantedImage {
    id: i64,
    split: String,
    /// File and line with its regions.
    found: Option<(usize, u64)>,
}

/// Regions of one image.
#[derive(Debug, PartialEq)]
struct ImageRegions {
    /// Boxes as fractions of the picture, row-major.
    boxes: Vec<f32>,
    /// Feature vectors, row-major.
    vectors: Vec<f32>,
    width: usize,
}

impl RunnableStage for ImportRegions {
    /// Rows have the order of the files. Images without regions are left out; a warning has their number.
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let mut expected = self.read_images(cx)?;
        let total = expected.len().saturating_as::<u64>();
        let mut rows = PendingRegions { places: self.max_regions, ..PendingRegions::default() };
        let (mut found, mut others) = (0u64, 0u64);
        let mut skipped = SkippedItems { skipped: 0, total: 0, first: Vec::new() };
        for file in 0..self.files.len() {
            let path = cx.source(&format!("files.{file}"))?;
            let mut mistakes = ValidationErrors::in_file(&path);
            let content = bounded::open(&path)?;
            let (mut content, mut line, mut number) = (BufReader::with_capacity(1 << 20, content), Vec::new(), 0u64);
            // Blank lines at the end are no lines.
            let mut blank = None;
            while next_line(&mut content, &mut line, &path, number)? {
                cx.check_cancelled()?;
                number += 1;
                let text = without_line_end(&line);
                if text.is_empty() {
                    blank = blank.or(Some(number));
                    continue;
                }
                if let Some(blank) = blank.take() {
                    let message = "it is blank, and there are lines after it";
                    self.refuse((file, blank), message, &mut mistakes, &mut skipped, cx);
                }
                let image = match image_number(text) {
                    Ok(image) => image,
                    Err(message) => {
                        self.refuse((file, number), &message, &mut mistakes, &mut skipped, cx);
                        continue;
                    }
                };
                let Some(image) = expected.get_mut(&image) else {
                    others += 1;
                    continue;
                };
                if let Some((first_file, first_line)) = image.found {
                    let first = self.files[first_file].path().display();
                    let message = format!("image {} is also in line {first_line} of `{first}`", image.id);
                    self.refuse((file, number), &message, &mut mistakes, &mut skipped, cx);
                    continue;
                }
                let read = parse(text, self.max_regions).and_then(|regions| rows.push(image, regions));
                if read.is_ok() || self.on_missing == OnMissing::Fail {
                    image.found = Some((file, number));
                }
                match read {
                    Ok(()) => found += 1,
                    Err(message) => self.refuse((file, number), &message, &mut mistakes, &mut skipped, cx),
                }
                if rows.ids.len() == PART_ROWS {
                    if !mistakes.is_empty() {
                        // Nothing is kept of files with mistakes, but all of them are named.
                        rows.take();
                        continue;
                    }
                    rows.write(cx)?;
                    cx.progress(found, Some(total), "images");
                }
            }
            mistakes.hint("`on_missing = \"skip\"` leaves such lines out");
            mistakes.into_result()?;
        }
        skipped.total = found + skipped.skipped;
        skipped.check("lines", self.max_skipped, "check the files and `max_regions`")?;
        if found == 0 {
            let message =
                format!("none of the {total} images of `{}` is in the files, which have {others} others", self.images);
            return Err(Error::data(message)
                .hint("`image_numbers = \"file_name\"` takes the number of a line for the name of a file"));
        }
        rows.write(cx)?;
        if found < total {
            cx.warn(
                "images",
                format!("{} of {total} images have no regions in the files, and are left out", total - found),
            );
        }
        Ok(())
    }
}

impl ImportRegions {
    /// Leaves a line out, with a warning, or adds it to the mistakes of its file.
    fn refuse(
        &self,
        (file, line): (usize, u64),
        message: &str,
        mistakes: &mut ValidationErrors,
        skipped: &mut SkippedItems,
        cx: &mut StageContext<'_>,
    ) {
        if self.on_missing == OnMissing::Fail {
            return mistakes.add(format_args!("line {line}"), message);
        }
        let place = format!("`{}` line {line}", self.files[file].path().display());
        if skipped.first.len() < LISTED {
            skipped.first.push(format!("{place}: {message}"));
        }
        skipped.skipped += 1;
        cx.warn(place, format!("left out: {message}"));
    }

    /// Reads the images, by the number that a line has.
    fn read_images(&self, cx: &mut StageContext<'_>) -> Result<HashMap<i64, WantedImage>> {
        let mut images = HashMap::new();
        while let Some(batch) = cx.read_next("images")? {
            let (ids, splits) = (tables::int_column(&batch, "image_id")?, tables::text_column(&batch, "split")?);
            let names = tables::text_column(&batch, "file_name")?;
            for row in 0..batch.num_rows() {
                let (id, name) = (ids.value(row), names.value(row));
                let number = match self.image_numbers {
                    ImageNumbers::ImageId => Some(id),
                    ImageNumbers::FileName => Path::new(name).file_stem().and_then(|stem| stem.to_str()?.parse().ok()),
                };
                let Some(number) = number else {
                    let message = format!("the name `{}` of image {id} is no number", shown_name(name));
                    return Err(Error::data(message)
                        .hint("`image_numbers = \"image_id\"` takes the numbers of lines for `image_id`"));
                };
                let image = WantedImage { id, split: splits.value(row).to_owned(), found: None };
                if images.insert(number, image).is_some() {
                    return Err(Error::data(format!("two images have the number {number} in `{}`", self.images)));
                }
            }
        }
        Ok(images)
    }
}

/// Reads the next line. Returns false at the end of the file.
fn next_line(content: &mut impl BufRead, line: &mut Vec<u8>, path: &Path, before: u64) -> Result<bool> {
    line.clear();
    let read = content.take(MAX_LINE_BYTES + 1).read_until(b'\n', line);
    let read = read.map_err(|error| Error::io("read", path, &error))?;
    if read.saturating_as::<u64>() > MAX_LINE_BYTES {
        let (path, number) = (path.display(), before + 1);
        return Err(Error::data(format!("`{path}` line {number}: it has more than {MAX_LINE_BYTES} bytes")));
    }
    Ok(read > 0)
}

/// Line without its end. Tabs at its end separate empty columns.
fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Number of the image of a line.
fn image_number(line: &[u8]) -> std::result::Result<i64, String> {
    let field = line.split(|&byte| byte == b'\t').next().unwrap_or_default();
    let text = String::from_utf8_lossy(&field[..field.len().min(40)]);
    text.parse().map_err(|_| format!("got `{text}` as the number of the image, expected an integer"))
}

/// Parses a line with at most `places` regions.
fn parse(line: &[u8], places: usize) -> std::result::Result<ImageRegions, String> {
    let columns: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
    let [_, width, height, count, boxes, vectors] = columns.as_slice() else {
        return Err(format!(
            "got {} columns, expected 6: image, width, height, regions, boxes, vectors",
            columns.len()
        ));
    };
    let number = |field: &[u8], what: &str| -> std::result::Result<usize, String> {
        let text = String::from_utf8_lossy(&field[..field.len().min(40)]);
        let number = text.parse().ok().filter(|number| (1..1 << 20).contains(number));
        number.ok_or_else(|| format!("got `{text}` as the {what}, expected a number from 1"))
    };
    let (width, height) = (number(width, "width of the picture")?, number(height, "height of the picture")?);
    let count = number(count, "number of regions")?;
    if count > places {
        return Err(format!("got {count} regions, expected at most {places} (`max_regions`)"));
    }
    let mut boxes = floats(boxes, "boxes")?;
    if boxes.len() != 4 * count {
        return Err(format!("got {} values of boxes, expected {}, four for each region", boxes.len(), 4 * count));
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes are below 2^20")]
    let size = [width as f32, height as f32];
    for (region, edges) in boxes.chunks_exact_mut(4).enumerate() {
        let pixels: [f32; 4] = [edges[0], edges[1], edges[2], edges[3]];
        for axis in 0..2 {
            let (from, to) = (pixels[axis], pixels[axis + 2]);
            if !(from <= to && from >= -BOX_TOLERANCE && to <= size[axis] + BOX_TOLERANCE) {
                let message = format!("{pixels:?} in a picture of {width} × {height} pixels");
                return Err(format!("the box of region {region} is {message}, expected x1 ≤ x2 and y1 ≤ y2 within it"));
            }
            edges[axis] = (from / size[axis]).clamp(0.0, 1.0);
            edges[axis + 2] = (to / size[axis]).clamp(0.0, 1.0);
        }
    }
    let vectors = floats(vectors, "feature vectors")?;
    if vectors.is_empty() || vectors.len() % count != 0 {
        return Err(format!(
            "got {} values of feature vectors, expected a multiple of the {count} regions",
            vectors.len()
        ));
    }
    let width = vectors.len() / count;
    if width > MAX_WIDTH {
        return Err(format!("its vectors have {width} values, expected at most {MAX_WIDTH}"));
    }
    check_row_values(places, width)?;
    for (region, vector) in vectors.chunks_exact(width).enumerate() {
        if let Some(value) = too_large(vector) {
            return Err(format!(
                "the vector of region {region} holds {value:e}, expected numbers of at most {LARGEST:e}"
            ));
        }
        if !vector.iter().all(|value| value.is_finite()) || vector.iter().all(|&value| value == 0.0) {
            return Err(format!(
                "the vector of region {region} is not finite, or has only zeros, which stand for no region"
            ));
        }
    }
    Ok(ImageRegions { boxes, vectors, width })
}

/// Little-endian f32 numbers in base64.
fn floats(field: &[u8], what: &str) -> std::result::Result<Vec<f32>, String> {
    let bytes = STANDARD.decode(field).map_err(|error| format!("the {what} are no base64: {error}"))?;
    if bytes.len() % 4 != 0 {
        return Err(format!("the {what} have {} bytes, expected four for each number", bytes.len()));
    }
    Ok(bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

/// Rows that are written together.
#[derive(Default)]
struct PendingRegions {
    places: usize,
    /// Width of a vector; 0 before the first image.
    width: usize,
    ids: Vec<i64>,
    splits: Vec<String>,
    vectors: Vec<f32>,
    boxes: Vec<f32>,
}

impl PendingRegions {
    /// Adds an image, with zeros in the places without a region.
    fn push(&mut self, image: &WantedImage, regions: ImageRegions) -> std::result::Result<(), String> {
        if self.width != 0 && self.width != regions.width {
            return Err(format!("its vectors have {} values, those before {}", regions.width, self.width));
        }
        self.width = regions.width;
        self.ids.push(image.id);
        self.splits.push(image.split.clone());
        self.vectors.extend(regions.vectors);
        self.boxes.extend(regions.boxes);
        self.vectors.resize(self.ids.len() * self.places * self.width, 0.0);
        self.boxes.resize(self.ids.len() * self.places * 4, 0.0);
        Ok(())
    }

    /// Takes the rows. The width of the vectors stays.
    fn take(&mut self) -> Self {
        let (places, width) = (self.places, self.width);
        std::mem::replace(self, Self { places, width, ..Self::default() })
    }

    /// Writes the rows, if there are any, and clears them.
    fn write(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
        let Self { places, width, ids, splits, vectors, boxes } = self.take();
        if ids.is_empty() {
            return Ok(());
        }
        let regions = RegionColumn::new(vectors, places, width)?;
        let (image_id, split) = (ids.clone().into(), splits.clone().into());
        cx.write("regions", regions::TableColumns { image_id, split, regions }.into_batch()?)?;
        let boxes = RegionColumn::new(boxes, places, 4)?;
        cx.write(
            "region_boxes",
            region_boxes::TableColumns { image_id: ids.into(), split: splits.into(), boxes }.into_batch()?,
        )
    }
}

#[cfg(test)]
mod tests;
