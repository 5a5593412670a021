//! `image_urls`: a table of URLs of images with their captions.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::caption_rows::{self, CaptionColumns, CaptionTableImage, IdentifierColumn};
use super::image_folder::ImageSplit;
use super::listed_images::NO_CAPTIONS;
use super::writer::{DataSetWriter, ImageRow};
use super::{
    OnMissing, default_max_skipped, delimited_form, delimited_problems, is_default_max_skipped, max_skipped_problem,
};
use pairloom_base::error::{Error, Result, SkippedItems, ValidationErrors};
use pairloom_formats::record_file::RecordPlace;
use pairloom_images::http_images::{FetchLimits, ImageFetcher};
use pairloom_images::image::image_size;
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput};
use pairloom_storage::image_names::{is_image_url, shown_url};

/// Table of URLs of images with their captions. The images are fetched once and become part of the store: the result is
/// that of the first run, even if the servers have other images later.
///
/// Hosts with private addresses are not asked, whether a row or a redirect names them. An interrupted run goes on after the
/// last 1,024 images.
///
/// `file_name` of an image is its URL as it stands in the table, so that the two can be joined. Reports, and messages
/// of this stage, `extract` and trainings, show its scheme, host and path alone, since a query may be a signature.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageUrls {
    /// Table with one caption, or a list of captions, in a row: CSV or TSV with column names in the first line or in
    /// `header`, JSON Lines (each of these also `.gz`), Parquet or Arrow.
    pub table: SourceRef,
    /// Names of the columns of the table.
    #[serde(default)]
    pub columns: ImageUrlColumns,
    /// Separator of the columns of a CSV file; by default a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Names of the columns of a CSV or TSV file that has no line of names, in their order: `["caption", "url"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Vec<String>>,
    /// Split of the images: a name for all, `{ column = "split" }` for a column of the table, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split by the URL.
    pub split: ImageSplit,
    /// Treatment of images that cannot be fetched, or are no JPEG or PNG, and of captions that are empty or null.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the images, and of the captions, that `on_missing = "skip"` may leave out. Of old lists, half and more is gone.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
    /// Maximum size of an image in bytes, at most 16 MiB. A run has up to 160 times as much in memory.
    #[serde(default = "default_max_bytes")]
    pub max_bytes: u64,
    /// Number of requests at a time. Not part of the key, as the following settings.
    #[serde(default = "default_parallel")]
    pub parallel: usize,
    /// Number of requests a second.
    #[serde(default = "default_per_second")]
    pub per_second: f64,
    /// Seconds after which a request has failed.
    #[serde(default = "default_timeout")]
    pub timeout: f64,
    /// Number of retries after a failure that may be temporary: no connection, a time-out, a server error, "too many
    /// requests".
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// Hosts with private addresses that may be asked, each with its port: `"10.0.0.7:80"`.
    #[serde(default)]
    pub private_hosts: Vec<String>,
}

/// Names of the columns of a table of URLs.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImageUrlColumns {
    /// Column of the URL.
    pub url: String,
    /// Column of the caption, or of a list of captions, which a text may also have as JSON or Python writes it.
    pub caption: String,
}

impl Default for ImageUrlColumns {
    fn default() -> Self {
        Self { url: "url".to_owned(), caption: "caption".to_owned() }
    }
}

/// Largest value of `max_bytes`.
const MAX_BYTES: u64 = 16 << 20;

fn default_max_bytes() -> u64 {
    MAX_BYTES
}

fn default_parallel() -> usize {
    16
}

fn default_per_second() -> f64 {
    50.0
}

fn default_timeout() -> f64 {
    30.0
}

fn default_retries() -> u32 {
    3
}

impl ImageUrls {
    /// Settings that are part of the key.
    pub(super) fn settings(&self) -> serde_json::Value {
        let mut settings = serde_json::json!(self);
        if let Some(settings) = settings.as_object_mut() {
            for name in ["parallel", "per_second", "timeout", "retries", "private_hosts"] {
                settings.remove(name);
            }
        }
        settings
    }

    pub(super) fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("image_urls.table", &self.table)]
    }

    pub(super) fn check_headers(&self) -> Vec<Problem> {
        self.caption_columns().header_problems("image_urls.table", self.table.path())
    }

    fn caption_columns(&self) -> CaptionColumns<'_> {
        CaptionColumns {
            image: &self.columns.url,
            image_id: IdentifierColumn::Unused,
            text: &self.columns.caption,
            caption_id: IdentifierColumn::Unused,
            split: self.split.column(),
            form: delimited_form(self.separator, self.header.as_deref()),
            on_missing: (self.on_missing, self.max_skipped),
            shown: shown_url,
            identifier_hint: "",
            hint: "name those that differ below `image_urls`, such as `columns.url = \"…\"`",
        }
    }

    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("image_urls");
        problems.extend(delimited_problems("image_urls", self.separator, self.header.as_deref()));
        problems.extend(max_skipped_problem("image_urls", self.on_missing, self.max_skipped));
        let mut refuse =
            |name: &str, message: String| problems.push(Problem::new(format!("image_urls.{name}"), message));
        if !(1..=MAX_BYTES).contains(&self.max_bytes) {
            refuse("max_bytes", format!("got {}, expected 1 to {MAX_BYTES}", self.max_bytes));
        }
        if !(1..=256).contains(&self.parallel) {
            refuse("parallel", format!("got {}, expected 1 to 256", self.parallel));
        }
        if !(0.01..=10_000.0).contains(&self.per_second) {
            refuse("per_second", format!("got {}, expected 0.01 to 10000", self.per_second));
        }
        if !(0.1..=600.0).contains(&self.timeout) {
            refuse("timeout", format!("got {} seconds, expected 0.1 to 600", self.timeout));
        }
        if self.retries > 20 {
            refuse("retries", format!("got {}, expected at most 20", self.retries));
        }
        for host in &self.private_hosts {
            if host.rsplit_once(':').is_none_or(|(name, port)| name.is_empty() || port.parse::<u16>().is_err()) {
                refuse("private_hosts", format!("got `{host}`, expected a host and its port, such as `10.0.0.7:80`"));
            }
        }
        problems
    }
}

/// Number of images that are fetched and kept in memory together.
const BLOCK: usize = 64;
/// Number of blocks after which what was fetched is committed.
const BLOCKS_OF_STATE: usize = 16;
/// Pause before the first retry.
const PAUSE: Duration = Duration::from_secs(1);
/// Number of images that an error lists.
const LISTED: usize = 20;

/// Progress that a resumed run goes on from.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FetchProgress {
    /// Number of images of the table that were asked for.
    asked: usize,
    /// Number of images that were left out, and the first of them.
    skipped: u64,
    first: Vec<String>,
}

/// Reads the table, fetches the images in order of first appearance, and writes them with their captions.
pub(super) fn run(settings: &ImageUrls, cx: &mut StageContext<'_>) -> Result<()> {
    let path = cx.source("image_urls.table")?;
    let images = read(settings, &path, cx)?;
    let fetcher = ImageFetcher::new(FetchLimits {
        max_bytes: settings.max_bytes,
        parallel: settings.parallel,
        per_second: settings.per_second,
        timeout: Duration::from_secs_f64(settings.timeout),
        retries: settings.retries,
        pause: PAUSE,
        private_hosts: settings.private_hosts.iter().cloned().collect(),
    })?;
    let mut progress: FetchProgress = match cx.saved_state()? {
        Some(state) => serde_json::from_slice(&state).map_err(|error| Error::internal(error.to_string()))?,
        None => FetchProgress::default(),
    };
    let captioned = images.iter().filter(|image| !image.captions.is_empty()).count();
    let mut rows = DataSetWriter::default();
    let first = progress.asked;
    for (block, to_fetch) in images[first..].chunks(BLOCK).enumerate() {
        cx.progress(progress.asked as u64, Some(images.len() as u64), "images");
        let numbered = (progress.asked..).zip(to_fetch);
        let (numbered, without): (Vec<_>, Vec<_>) = numbered.partition(|(_, image)| !image.captions.is_empty());
        for (_, image) in without {
            cx.warn(shown_url(&image.name), NO_CAPTIONS);
        }
        let urls: Vec<&str> = numbered.iter().map(|(_, image)| &*image.name).collect();
        let cancel = cx.cancel().clone();
        let fetched = fetcher.fetch_all(&urls, &|| cancel.check())?;
        let mut mistakes = ValidationErrors::in_file(&path);
        for ((number, image), fetched) in numbered.into_iter().zip(fetched) {
            // Pages with an error often come with the status of a success.
            let picture = fetched.and_then(|bytes| match image_size(&bytes) {
                Ok(_) => Ok(bytes),
                Err(error) => Err(error.to_string()),
            });
            let url = shown_url(&image.name);
            match picture {
                Ok(bytes) => push(cx, &mut rows, image, number, &bytes)?,
                Err(message) if settings.on_missing == OnMissing::Fail => {
                    mistakes.add(format_args!("`{url}` in {}", image.first), message);
                }
                Err(message) => {
                    let named = format!("`{url}` in {}: {message}", image.first);
                    cx.warn(url, format!("the image in {} is left out: {message}", image.first));
                    progress.skipped += 1;
                    if progress.first.len() < LISTED {
                        progress.first.push(named);
                    }
                }
            }
        }
        mistakes.hint(
            "leave out images that cannot be fetched with `on_missing = \"skip\"`; `private_hosts = [\"10.0.0.7:80\"]` allows a \
             host of your network",
        );
        mistakes.into_result()?;
        progress.asked += to_fetch.len();
        // The share of all images cannot be met any more.
        check_skipped(settings, &progress, captioned)?;
        if (block + 1) % BLOCKS_OF_STATE == 0 {
            rows.write(cx)?;
            let state = serde_json::to_vec(&progress).map_err(|error| Error::internal(error.to_string()))?;
            cx.save_state(state.into(), 1)?;
        }
    }
    check_skipped(settings, &progress, captioned)?;
    rows.finish(cx)
}

/// Checks that the images that were left out are at most the allowed share of all.
fn check_skipped(settings: &ImageUrls, progress: &FetchProgress, images: usize) -> Result<()> {
    let skipped = SkippedItems { skipped: progress.skipped, total: images as u64, first: progress.first.clone() };
    skipped.check("images", settings.max_skipped, "check the URLs, and whether this machine reaches them")
}

/// Reads the table: images by their URL, with their captions.
fn read(settings: &ImageUrls, path: &Path, cx: &mut StageContext<'_>) -> Result<Vec<CaptionTableImage>> {
    let names = settings.caption_columns();
    let key = |url: Result<&str, String>, place: RecordPlace| match url {
        Ok(url) if is_image_url(url) => Ok(url.trim().to_owned()),
        // Each such row is an image of its own, which is left out. No URL is the text of a place.
        _ if settings.on_missing == OnMissing::Skip => Ok(place.to_string()),
        Ok(url) => Err(format!("`{}` is no URL with `http://` or `https://`", shown_url(url))),
        Err(problem) => Err(problem),
    };
    let images = caption_rows::read(cx, path, &names, key, |url, field| settings.split.of(url, field))?;
    settings.split.check_sizes(images.len(), &images.iter().map(|image| image.split).collect())?;
    Ok(images)
}

/// Writes an image, which gets its number in the table, so that the others do not change it.
fn push(
    cx: &mut StageContext<'_>,
    rows: &mut DataSetWriter,
    image: &CaptionTableImage,
    number: usize,
    bytes: &[u8],
) -> Result<()> {
    let id = i64::try_from(number).map_err(|_| Error::internal("too many images"))?;
    let row = ImageRow { id, split: image.split, file_name: &image.key, path: None, bytes: Some(bytes) };
    rows.push(cx, &row, image.captions.iter().map(|(id, text)| (*id, text.as_str())))
}
