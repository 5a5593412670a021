//! Annotation files whose form their content tells: JSON of COCO and of Karpathy, and token files of Flickr.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use pairloom_base::error::{Error, Result};
use pairloom_formats::json;

/// Annotation file, with the names of its images.
#[derive(Debug)]
pub(super) enum Annotations {
    Karpathy(Vec<String>),
    Coco(Vec<String>),
}

/// Both forms, and no more of them than tells which it is.
#[derive(Deserialize)]
struct JsonFile {
    #[serde(default)]
    images: Vec<JsonImage>,
    #[serde(default)]
    annotations: Vec<JsonAnnotation>,
}

#[derive(Deserialize)]
struct JsonImage {
    #[serde(default)]
    filepath: String,
    #[serde(alias = "file_name", default)]
    filename: String,
    sentences: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct JsonAnnotation {
    caption: Option<IgnoredAny>,
}

/// Reads a JSON file.
///
/// # Errors
/// It is none of the forms.
pub(super) fn read_json(path: &Path) -> Result<Annotations> {
    let file: JsonFile = json::read(path, "Karpathy's split file or caption annotations of COCO")?;
    let is_karpathy = file.images.first().is_some_and(|image| image.sentences.is_some());
    let is_coco = file.annotations.first().is_some_and(|annotation| annotation.caption.is_some());
    let names = file.images.into_iter().map(|JsonImage { filepath, filename, .. }| match filepath.as_str() {
        "" => filename,
        folder => format!("{folder}/{filename}"),
    });
    match (is_karpathy, is_coco) {
        (true, _) => Ok(Annotations::Karpathy(names.collect())),
        (_, true) => Ok(Annotations::Coco(names.collect())),
        _ => Err(Error::data(format!("`{}` has no captions of images", path.display())).hint(
            "expected `images` with `sentences` (Karpathy's split file), or `images` and `annotations` with `caption` \
             (COCO); a list of records is read as JSON Lines: one object a line, in a file `.jsonl`",
        )),
    }
}

/// Names of the images of a token file, with lines `name.jpg#0<TAB>caption`; `None` if its first line is of another form.
pub(super) fn read_tokens(path: &Path) -> Result<Option<Vec<String>>> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let file = BufReader::new(std::fs::File::open(path).map_err(failed)?);
    let mut names: Vec<String> = Vec::new();
    for line in file.split(b'\n') {
        let line = line.map_err(failed)?;
        let line = String::from_utf8_lossy(&line);
        let name = line.split_once('\t').and_then(|(key, _)| key.rsplit_once('#')).map(|(name, _)| name);
        match name {
            Some(name) if names.last().is_none_or(|last| last != name) => names.push(name.to_owned()),
            None if names.is_empty() => return Ok(None),
            _ => {}
        }
    }
    Ok(Some(names))
}

/// Split that the name of an annotation file says.
pub(super) fn split_of_name(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    let splits = [("train", "train"), ("val", "val"), ("dev", "val"), ("test", "test")];
    splits.iter().find(|(word, _)| name.contains(word)).map(|(_, split)| *split)
}

/// Lists of the training, validation and test images beside a token file.
pub(super) fn image_lists(files: &[PathBuf]) -> [Option<&PathBuf>; 3] {
    ["train", "val", "test"].map(|split| {
        files.iter().find(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            name.ends_with(".txt") && name.contains("images") && split_of_name(file) == Some(split)
        })
    })
}
