//! `webdataset`: tar files with images and their captions.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::image_folder::ImageSplit;
use super::picture_rows::{PictureRows, PictureSample};
use super::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_base::error::Result;
use pairloom_formats::json::has_more_values;
use pairloom_formats::tar_samples::{self, TarPart, TarSample};
use pairloom_images::image::IMAGE_EXTENSIONS;
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput};

/// Tar files in the form of WebDataset: files of one name, up to its first point, are a sample. A sample has an image
/// (`.jpg`, `.jpeg`, `.png`) of at most 16 MiB, and captions. The images become part of the store.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebDataset {
    /// Folder with the tar files (`.tar`, `.tar.gz`, `.tgz`), which are read in the order of their names, or one tar file.
    pub shards: SourceRef,
    /// Captions of a sample: `"txt"` for one in the file `.txt`, or `{ json = "caption" }` for a field of the file `.json`
    /// with a text or a list of texts. If the `.json` of the first sample also has `image_id` and `caption_ids`, as
    /// `pairloom export` writes them, these are the identifiers of all samples. Otherwise images and captions are numbered
    /// from 0.
    #[serde(default)]
    pub captions: CaptionMember,
    /// Split of the images: a name for all, `{ column = "split" }` for a field of the `.json`, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split by the name of the sample.
    pub split: ImageSplit,
    /// Treatment of samples without an image or without captions, and of files that are refused: links, paths that lead out,
    /// files over 16 MiB.
    #[serde(default)]
    pub on_missing: OnMissing,
    /// Largest share of the samples that `on_missing = "skip"` may leave out.
    #[serde(default = "default_max_skipped", skip_serializing_if = "is_default_max_skipped")]
    pub max_skipped: f64,
}

/// Captions of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaptionMember {
    /// File `.txt`: one caption.
    #[default]
    Txt,
    /// Field of the file `.json`: a caption or a list of captions.
    Json(String),
}

impl WebDataset {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("webdataset.shards", &self.shards)]
    }

    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("webdataset");
        problems.extend(max_skipped_problem("webdataset", self.on_missing, self.max_skipped));
        problems
    }
}

/// Maximum number of values in a `.json` file of a sample.
const MAX_JSON_VALUES: usize = 1_000_000;

/// Endings of the names of archives.
const ARCHIVES: [&str; 3] = [".tar", ".tar.gz", ".tgz"];

/// Reads the archives and writes the images and captions of all samples, in their order.
pub(super) fn run(settings: &WebDataset, cx: &mut StageContext<'_>) -> Result<()> {
    let mut rows = PictureRows::new(&settings.split, settings.on_missing, settings.max_skipped);
    // True if samples have identifiers, which the first one decides.
    let mut have_ids = None;
    for archive in cx.source_files("webdataset.shards", &ARCHIVES)? {
        let cancel = cx.cancel().clone();
        tar_samples::for_each(
            &archive,
            || cancel.check(),
            |part| match part {
                TarPart::Sample(sample) => match parse(settings, &sample, &mut have_ids) {
                    Ok(parsed) => rows.push(parsed.sample(&sample), cx),
                    Err(message) => Ok(Err(message)),
                },
                TarPart::RefusedFile { path, member, reason } => {
                    let picture = member.filter(|(_, extension)| IMAGE_EXTENSIONS.contains(&extension.as_str()));
                    Ok(rows.refuse_file(&path, picture.map(|(key, _)| key), reason, cx))
                }
            },
        )?;
    }
    rows.finish(cx)
}

/// Parsed files of a sample.
struct ParsedSample<'a> {
    /// Extension and bytes of the image.
    picture: Option<(&'a str, &'a [u8])>,
    file_name: String,
    split: Option<String>,
    texts: Vec<String>,
    ids: Option<(i64, Vec<i64>)>,
}

impl ParsedSample<'_> {
    fn sample<'a>(&'a self, sample: &'a TarSample) -> PictureSample<'a> {
        PictureSample {
            name: &sample.key,
            file_name: &self.file_name,
            split: self.split.as_deref(),
            picture: self.picture.map(|(_, bytes)| bytes),
            texts: self.texts.iter().map(String::as_str).collect(),
            image_id: self.ids.as_ref().map(|(image, _)| *image),
            caption_ids: self.ids.as_ref().map(|(_, captions)| captions.clone()),
        }
    }
}

/// Parses the files of a sample.
fn parse<'a>(
    settings: &WebDataset,
    sample: &'a TarSample,
    have_ids: &mut Option<bool>,
) -> Result<ParsedSample<'a>, String> {
    let members = sample.members.iter().map(|(extension, content)| (extension.as_str(), content.as_slice()));
    let pictures: Vec<_> = members.filter(|(extension, _)| IMAGE_EXTENSIONS.contains(extension)).collect();
    if pictures.len() > 1 {
        return Err("has several images".to_owned());
    }
    let picture = pictures.first().copied();
    // It may have what JSON has not, such as NaN, where nothing but the name of the file would be taken from it.
    let is_needed = settings.captions != CaptionMember::Txt || matches!(settings.split, ImageSplit::Column(_));
    let json = match sample.member("json").map(parse_json) {
        Some(Err(message)) if is_needed => return Err(message),
        json => json.and_then(Result::ok).unwrap_or_default(),
    };
    let texts = texts(settings, sample, &json)?;
    if picture.is_none() || texts.is_empty() {
        // Such a sample is left out or refused, so its other files decide nothing.
        return Ok(ParsedSample { picture, file_name: sample.key.clone(), split: None, texts, ids: None });
    }
    let split = match &settings.split {
        ImageSplit::Column(field) => {
            let value = json.get(field).ok_or_else(|| format!("its `.json` has no `{field}`, the split"))?;
            Some(value.as_str().unwrap_or_default().to_owned())
        }
        _ => None,
    };
    let key = sample.key.trim_start_matches("./");
    let own_name = || format!("{key}.{}", picture.map_or("", |(extension, _)| extension));
    let file_name = json.get("file_name").and_then(Value::as_str).map_or_else(own_name, str::to_owned);
    let ids = if settings.captions == CaptionMember::Txt { None } else { ids(&json)? };
    let ids = match (*have_ids.get_or_insert(ids.is_some()), ids) {
        (true, None) => {
            return Err(
                "its `.json` has no whole numbers `image_id` and `caption_ids`, as the first sample has".to_owned()
            );
        }
        (have_ids, ids) => ids.filter(|_| have_ids),
    };
    Ok(ParsedSample { picture, file_name, split, texts, ids })
}

fn parse_json(content: &[u8]) -> Result<Map<String, Value>, String> {
    if has_more_values(content, MAX_JSON_VALUES) {
        return Err(format!("its `.json` has more than {MAX_JSON_VALUES} values"));
    }
    serde_json::from_slice(content).map_err(|error| format!("its `.json` is no JSON object: {error}"))
}

/// Captions of a sample; none if it lacks them.
fn texts(settings: &WebDataset, sample: &TarSample, json: &Map<String, Value>) -> Result<Vec<String>, String> {
    match &settings.captions {
        CaptionMember::Txt => {
            let Some(text) = sample.member("txt") else { return Ok(Vec::new()) };
            let text = std::str::from_utf8(text).map_err(|_| "its `.txt` is no UTF-8 text".to_owned())?;
            Ok(vec![text.to_owned()])
        }
        CaptionMember::Json(field) => match json.get(field) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(vec![text.clone()]),
            Some(Value::Array(items)) => {
                let text = |item: &Value| item.as_str().map(str::to_owned);
                let texts: Option<Vec<String>> = items.iter().map(text).collect();
                texts.ok_or_else(|| format!("`{field}` has a value that is no text"))
            }
            Some(_) => Err(format!("`{field}` is neither a text nor a list of texts")),
        },
    }
}

/// Identifiers of the image and its captions in the `.json`, if it has them. A number that is too large is an error.
fn ids(json: &Map<String, Value>) -> Result<Option<(i64, Vec<i64>)>, String> {
    let (Some(image), Some(Value::Array(captions))) = (json.get("image_id"), json.get("caption_ids")) else {
        return Ok(None);
    };
    if let Some(wrong) = captions.iter().chain([image]).find(|id| id.is_number() && !id.is_i64()) {
        return Err(format!("the identifier {wrong} is no whole number of 64 bits"));
    }
    let captions: Option<Vec<i64>> = captions.iter().map(Value::as_i64).collect();
    Ok(image.as_i64().zip(captions))
}
