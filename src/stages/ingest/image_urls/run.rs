//! Reader of `image_urls`.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::caption_rows::{self, CaptionColumns, CaptionTableImage, IdentifierColumn};
use super::super::image_folder::ImageSplit;
use super::super::on_missing::OnMissing;
use super::super::separator::separator_byte;
use super::super::writer::{DataSetWriter, ImageRow};
use super::ImageUrls;
use pairloom_base::error::{Error, Result, SkippedItems, ValidationErrors};
use pairloom_formats::record_file::RecordPlace;
use pairloom_images::http_images::{FetchLimits, ImageFetcher};
use pairloom_images::image::image_size;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::{is_image_url, shown_url};

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
pub(in super::super) fn run(settings: &ImageUrls, cx: &mut StageContext<'_>) -> Result<()> {
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
    let mut rows = DataSetWriter::default();
    let first = progress.asked;
    for (block, wanted) in images[first..].chunks(BLOCK).enumerate() {
        cx.progress(progress.asked as u64, Some(images.len() as u64), "images");
        let urls: Vec<&str> = wanted.iter().map(|image| &*image.name).collect();
        let cancel = cx.cancel().clone();
        let fetched = fetcher.fetch_all(&urls, &|| cancel.check())?;
        let mut mistakes = ValidationErrors::in_file(&path);
        for ((image, fetched), number) in wanted.iter().zip(fetched).zip(progress.asked..) {
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
        progress.asked += wanted.len();
        // The share of all images cannot be met any more.
        check_skipped(settings, &progress, images.len())?;
        if (block + 1) % BLOCKS_OF_STATE == 0 {
            rows.write(cx)?;
            let state = serde_json::to_vec(&progress).map_err(|error| Error::internal(error.to_string()))?;
            cx.save_state(state.into(), 1)?;
        }
    }
    check_skipped(settings, &progress, images.len())?;
    rows.finish(cx)
}

/// Checks that the images that were left out are at most the allowed share of all.
fn check_skipped(settings: &ImageUrls, progress: &FetchProgress, images: usize) -> Result<()> {
    let skipped = SkippedItems { skipped: progress.skipped, total: images as u64, first: progress.first.clone() };
    skipped.check("images", settings.max_skipped, "check the URLs, and whether this machine reaches them")
}

/// Reads the table: images by their URL, with their captions.
fn read(settings: &ImageUrls, path: &Path, cx: &mut StageContext<'_>) -> Result<Vec<CaptionTableImage>> {
    let names = CaptionColumns {
        image: &settings.columns.url,
        image_id: IdentifierColumn::Unused,
        text: &settings.columns.caption,
        caption_id: IdentifierColumn::Unused,
        split: if let ImageSplit::Column(name) = &settings.split { Some(name) } else { None },
        separator: separator_byte(settings.separator),
        shown: shown_url,
        identifier_hint: "",
        hint: "name them with `columns`, such as `columns = { url = \"image_url\", caption = \"text\" }`",
    };
    let key = |url: Result<&str, String>, place: RecordPlace| match url {
        Ok(url) if is_image_url(url) => Ok(url.to_owned()),
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
