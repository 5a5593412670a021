//! Listed images: images in a folder with their captions, as the readers of `karpathy`, `flickr`, `coco` and
//! `image_folder` return them.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Component, Path};

use super::on_missing::OnMissing;
use pairloom_base::error::ValidationErrors;
use pairloom_formats::record_file::RecordPlace;
use pairloom_storage::image_names::shown_name;

/// Maximum length of the name or identifier of an image, in bytes: that of a path on Linux.
const MAX_NAME_BYTES: usize = 4096;

/// Valid names of splits.
pub(super) const SPLITS: [&str; 4] = ["train", "restval", "val", "test"];

/// Listed image with its captions.
#[derive(Debug)]
pub(super) struct ListedImage {
    pub image_id: i64,
    pub split: &'static str,
    /// Name of the image: of its file as the list has it, or the text by which the list identifies the image.
    pub file_name: String,
    /// Path of the file, relative to the image folder.
    pub path: String,
    /// Place in the list, if the list has lines or rows.
    pub place: Option<RecordPlace>,
    /// Identifier and text of each caption, in file order.
    pub captions: Vec<(i64, String)>,
}

/// Treatment of images without a file.
#[derive(Debug, Clone)]
pub(super) struct MissingImages {
    pub policy: OnMissing,
    /// Largest share of images that may be left out.
    pub max_skipped: f64,
    /// Name of the list, for messages with the place of an image.
    pub list: Option<String>,
    /// True if images without captions are left out.
    pub needs_captions: bool,
}

impl MissingImages {
    /// Rule for images with captions, of a list without lines.
    pub fn new(policy: OnMissing, max_skipped: f64) -> Self {
        Self { policy, max_skipped, list: None, needs_captions: true }
    }
}

/// Checks the length of the name or identifier of an image. The message follows its place.
pub(super) fn check_name_length(name: &str) -> Result<(), String> {
    match name.len() {
        bytes if bytes > MAX_NAME_BYTES => Err(format!("has {bytes} bytes, wanted at most {MAX_NAME_BYTES}")),
        _ => Ok(()),
    }
}

/// Returns the path of the image `name` in `folder`, relative to the image folder, or an error message. The path never
/// leads out of the image folder.
pub(super) fn image_path(folder: &str, name: &str) -> Result<String, String> {
    check_name_length(name).map_err(|problem| format!("image name {problem}"))?;
    let path = Path::new(folder).join(name);
    let mut parts = Vec::new();
    let leaves = |part| matches!(part, Component::ParentDir | Component::RootDir | Component::Prefix(_));
    for part in Path::new(folder).components().chain(Path::new(name).components()) {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            part if leaves(part) => {
                let shown = shown_name(path.to_str().unwrap_or(name));
                return Err(format!("image name `{shown}` leads out of the image folder"));
            }
            _ => {}
        }
    }
    if name.is_empty() || parts.is_empty() || name.contains('\0') {
        return Err(format!("image name `{}` names no file", shown_name(name)));
    }
    Ok(parts.join("/"))
}

/// Returns the split called `name`, or an error message.
pub(super) fn parse_split(name: &str) -> Result<&'static str, String> {
    SPLITS
        .into_iter()
        .find(|known| *known == name)
        .ok_or_else(|| format!("split is `{}`, wanted `train`, `restval`, `val` or `test`", shown_name(name)))
}

/// Finder of duplicate identifiers and paths. `P` is a location in a file, for error messages.
#[derive(Debug)]
pub(super) struct DuplicateFinder<P> {
    images: HashMap<i64, P>,
    paths: HashMap<String, P>,
    captions: HashMap<i64, P>,
}

impl<P: Copy + Display> DuplicateFinder<P> {
    pub fn new() -> Self {
        Self { images: HashMap::new(), paths: HashMap::new(), captions: HashMap::new() }
    }

    /// Records an image, and adds a mistake if its id or path is a duplicate.
    pub fn check_image(&mut self, image_id: i64, path: &str, location: P, mistakes: &mut ValidationErrors) {
        if let Some(first) = self.images.insert(image_id, location) {
            mistakes.add(location, format_args!("image id {image_id} is also that of {first}"));
        }
        if let Some(first) = self.paths.insert(path.to_owned(), location) {
            mistakes.add(location, format_args!("image `{}` is also that of {first}", shown_name(path)));
        }
    }

    /// Records a caption, and adds a mistake if its id is a duplicate.
    pub fn check_caption(&mut self, caption_id: i64, location: P, mistakes: &mut ValidationErrors) {
        if let Some(first) = self.captions.insert(caption_id, location) {
            mistakes.add(location, format_args!("caption id {caption_id} is also that of {first}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leads_out_of_the_folder() {
        assert_eq!(image_path("", "a.jpg").unwrap(), "a.jpg");
        assert_eq!(image_path("val2014", "a.jpg").unwrap(), "val2014/a.jpg");
        assert_eq!(image_path("./val2014/", "./a.jpg").unwrap(), "val2014/a.jpg");
        for (folder, name) in
            [("", "../a.jpg"), ("", "/etc/passwd"), ("..", "a.jpg"), ("/", "a.jpg"), ("a", "b/../../c")]
        {
            let problem = image_path(folder, name).unwrap_err();
            assert!(problem.contains("leads out of the image folder"), "{problem}");
        }
        for name in ["", ".", "a\0.jpg"] {
            assert!(image_path("", name).unwrap_err().contains("names no file"));
        }
        assert!(image_path("val2014", "").unwrap_err().contains("names no file"));
    }

    #[test]
    fn names_have_the_length_of_a_path() {
        let name = "a/".repeat(2048);
        assert_eq!(image_path("b", &name).unwrap().len(), 4097);
        let problem = image_path("b", &format!("{name}a")).unwrap_err();
        assert_eq!(problem, "image name has 4097 bytes, wanted at most 4096");
    }
}
