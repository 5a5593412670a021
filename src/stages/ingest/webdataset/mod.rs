//! `webdataset`: tar files with images and their captions.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::image_folder::ImageSplit;
use super::picture_rows::{PictureRows, PictureSample, is_absent};
use super::{OnMissing, default_max_skipped, is_default_max_skipped, max_skipped_problem};
use pairloom_base::error::{Result, TruncatedList};
use pairloom_formats::json::has_more_values;
use pairloom_formats::tar_samples::{self, TarPart, TarSample};
use pairloom_images::image::IMAGE_EXTENSIONS;
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput};
use pairloom_storage::image_names::shown_name;

/// Tar files in the form of WebDataset: files of one name, up to its first point, are a sample. A sample has an image
/// (`.jpg`, `.jpeg`, `.png`) of at most 16 MiB, and captions. The images become part of the store.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebDataset {
    /// Folder with the tar files (`.tar`, `.tar.gz`, `.tgz`), which are read in the order of their names, or one tar file.
    pub shards: SourceRef,
    /// Image of a sample: the end of the name of its file after the first point, such as `input.jpg` of `000.input.jpg`. By
    /// default the one file with the end `jpg`, `jpeg` or `png`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Captions of a sample: `"txt"` for one in the file `.txt`, `{ file = "prompt.txt" }` for one in another file, named as in
    /// `image`, or `{ json = "caption" }` for a field of the file `.json` with a text or a list of texts. If the `.json` of the first sample also has `image_id` and `caption_ids`, as
    /// `pairloom export` writes them, these are the identifiers of all samples. Otherwise images and captions are numbered
    /// from 0.
    #[serde(default)]
    pub captions: CaptionMember,
    /// Split of the images: a name for all, `{ column = "split" }` for a field of the `.json`, or
    /// `{ fractions = { val = 0.1, test = 0.1 } }` for a random split by the name of the sample.
    pub split: ImageSplit,
    /// Treatment of samples without an image or without captions, of captions that are empty or null beside others, and of files
    /// that are refused: links, paths that lead out, files over 16 MiB.
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
    /// File with another end of its name: one caption.
    File(String),
    /// Field of the file `.json`: a caption or a list of captions.
    Json(String),
}

impl WebDataset {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        vec![StageInput::source("webdataset.shards", &self.shards)]
    }

    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = self.split.problems("webdataset");
        let mut check_end = |setting: &str, end: &str, example: &str| {
            if end.is_empty() || end.starts_with('.') || end.contains('/') || end != end.to_lowercase() {
                let message = format!("got `{}`, expected the end of a name in lower case", end.escape_debug());
                let hint = format!("the part after the first point, such as `{example}`");
                problems.push(Problem::new(format!("webdataset.{setting}"), message).hint(hint));
            }
        };
        if let Some(end) = &self.image {
            check_end("image", end, "input.jpg");
        }
        if let CaptionMember::File(end) = &self.captions {
            check_end("captions.file", end, "prompt.txt");
        }
        problems.extend(max_skipped_problem("webdataset", self.on_missing, self.max_skipped));
        problems
    }
}

impl WebDataset {
    /// True for the end of the name of an image.
    fn is_image(&self, extension: &str) -> bool {
        match &self.image {
            Some(image) => extension == image,
            None => IMAGE_EXTENSIONS.contains(&extension),
        }
    }

    /// End of the name of the file with captions; `None` for JSON.
    fn caption_file(&self) -> Option<&str> {
        match &self.captions {
            CaptionMember::Txt => Some("txt"),
            CaptionMember::File(end) => Some(end),
            CaptionMember::Json(_) => None,
        }
    }

    /// What a sample should have, and what it has, to end a message.
    fn expected(&self, sample: &TarSample) -> String {
        let images = match &self.image {
            Some(image) => format!("`.{image}`"),
            None => "`.jpg`, `.jpeg` or `.png`".to_owned(),
        };
        let captions = match (&self.captions, self.caption_file()) {
            (CaptionMember::Json(field), _) => format!("`{field}` in `.json`"),
            (_, file) => format!("`.{}`", file.unwrap_or_default()),
        };
        let mut ends = TruncatedList::new(LISTED_FILES);
        ends.extend(sample.members.iter().map(|(extension, _)| format!("`.{}`", shown_name(extension))));
        let has_points = sample.members.iter().any(|(extension, _)| extension.contains('.'));
        let rule = if has_points { "; the name of a sample ends at its first point" } else { "" };
        format!(", expected {images} and {captions}, got {}{rule}", ends.join(", "))
    }
}

/// Number of files of a sample that a message names.
const LISTED_FILES: usize = 5;

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
                    let picture = member.filter(|(_, extension)| settings.is_image(extension));
                    Ok(rows.refuse_file(&path, picture.map(|(key, _)| key), reason, cx))
                }
            },
        )
        .map_err(|error| rows.unknown_splits.counted(error))?;
    }
    rows.finish(cx)
}

/// Parsed files of a sample.
struct ParsedSample<'a> {
    /// Extension and bytes of the image.
    picture: Option<(&'a str, &'a [u8])>,
    file_name: String,
    split: Option<String>,
    texts: Vec<Option<String>>,
    expected: String,
    ids: Option<(i64, Vec<i64>)>,
}

impl ParsedSample<'_> {
    fn sample<'a>(&'a self, sample: &'a TarSample) -> PictureSample<'a> {
        PictureSample {
            name: &sample.key,
            file_name: &self.file_name,
            split: self.split.as_deref(),
            picture: self.picture.map(|(_, bytes)| bytes),
            texts: self.texts.iter().map(Option::as_deref).collect(),
            expected: &self.expected,
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
    let pictures: Vec<_> = members.filter(|(extension, _)| settings.is_image(extension)).collect();
    if pictures.len() > 1 {
        return Err("has several images: name the end of the one to read, such as `image = \"jpg\"`".to_owned());
    }
    let picture = pictures.first().copied();
    // It may have what JSON has not, such as NaN, where nothing but the name of the file would be taken from it.
    let is_needed = settings.caption_file().is_none() || settings.split.column().is_some();
    let json = match sample.member("json").map(parse_json) {
        Some(Err(message)) if is_needed => return Err(message),
        json => json.and_then(Result::ok).unwrap_or_default(),
    };
    let texts = texts(settings, sample, &json)?;
    if picture.is_none() || texts.iter().all(|text| is_absent(text.as_deref())) {
        if sample.is_repeated {
            return Err("its other files are earlier in the archive, expected all of them side by side".to_owned());
        }
        // Such a sample is left out or refused, so its other files decide nothing.
        let (file_name, expected) = (sample.key.clone(), settings.expected(sample));
        return Ok(ParsedSample { picture, file_name, split: None, texts, expected, ids: None });
    }
    let split = match settings.split.column() {
        Some(field) => {
            let value = json.get(field).ok_or_else(|| format!("its `.json` has no `{field}`, the split"))?;
            Some(value.as_str().unwrap_or_default().to_owned())
        }
        None => None,
    };
    let key = sample.key.trim_start_matches("./");
    let own_name = || format!("{key}.{}", picture.map_or("", |(extension, _)| extension));
    let file_name = json.get("file_name").and_then(Value::as_str).map_or_else(own_name, str::to_owned);
    let ids = if settings.caption_file().is_some() { None } else { ids(&json)? };
    let ids = match (*have_ids.get_or_insert(ids.is_some()), ids) {
        (true, None) => {
            return Err(
                "its `.json` has no whole numbers `image_id` and `caption_ids`, as the first sample has".to_owned()
            );
        }
        (have_ids, ids) => ids.filter(|_| have_ids),
    };
    Ok(ParsedSample { picture, file_name, split, texts, expected: String::new(), ids })
}

fn parse_json(content: &[u8]) -> Result<Map<String, Value>, String> {
    if has_more_values(content, MAX_JSON_VALUES) {
        return Err(format!("its `.json` has more than {MAX_JSON_VALUES} values"));
    }
    serde_json::from_slice(content).map_err(|error| format!("its `.json` is no JSON object: {error}"))
}

/// Captions of a sample, `None` for a null; none if it lacks them.
fn texts(settings: &WebDataset, sample: &TarSample, json: &Map<String, Value>) -> Result<Vec<Option<String>>, String> {
    let field = match &settings.captions {
        CaptionMember::Json(field) => field,
        CaptionMember::Txt | CaptionMember::File(_) => {
            let end = settings.caption_file().unwrap_or_default();
            let Some(text) = sample.member(end) else { return Ok(Vec::new()) };
            let text = std::str::from_utf8(text).map_err(|_| format!("its `.{end}` is no UTF-8 text"))?;
            return Ok(vec![Some(text.to_owned())]);
        }
    };
    match json.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Some(text.clone())]),
        Some(Value::Array(items)) => {
            let text = |item: &Value| match item {
                Value::Null => Ok(None),
                Value::String(text) => Ok(Some(text.clone())),
                _ => Err(format!("`{field}` has a value that is no text")),
            };
            items.iter().map(text).collect()
        }
        Some(_) => Err(format!("`{field}` is neither a text nor a list of texts")),
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
