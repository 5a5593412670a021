//! Listed images: images in a folder with their captions, as the readers of `karpathy`, `flickr`, `coco` and
//! `image_folder` return them.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Component, Path};

use super::on_missing::OnMissing;
use super::writer::{DataSetWriter, ImageRow};
use crate::error::{Error, Result, SkippedItems, ValidationErrors};
use crate::io::files::is_file;
use crate::io::record_file::RecordPlace;
use crate::stage::StageContext;

/// Valid names of splits.
pub(super) const SPLITS: [&str; 4] = ["train", "restval", "val", "test"];

/// Number of images without a file that an error lists.
const LISTED: usize = 20;

/// Listed image with its captions.
#[derive(Debug)]
pub(super) struct ListedImage {
    pub image_id: i64,
    pub split: &'static str,
    /// Name of the file, without folders.
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
}

/// Writes the entries whose image is a file below `root`, in order.
///
/// Batches are written as they fill, so stages downstream can start while later files are still checked.
/// Images without captions are left out with a warning.
///
/// # Errors
/// The folder is missing, or no image is left; with [`OnMissing::Fail`], also if image files are missing, which the
/// error lists; with [`OnMissing::Skip`], also if more are missing than allowed.
pub(super) fn write_existing(
    cx: &mut StageContext<'_>,
    entries: &[ListedImage],
    root: &Path,
    on_missing: MissingImages,
) -> Result<()> {
    if !root.is_dir() {
        return Err(Error::data(format!("image folder `{}` is not a folder", root.display())));
    }
    let mut rows = DataSetWriter::default();
    let mut missing = ValidationErrors::in_file(root);
    let mut skipped = SkippedItems { skipped: 0, total: entries.len() as u64, first: vec![] };
    for entry in entries {
        cx.check_cancelled()?;
        if entry.captions.is_empty() {
            cx.warn(&entry.path, "image has no captions and is left out");
            continue;
        }
        if is_file(&root.join(&entry.path))? {
            if missing.is_empty() {
                let image = ImageRow {
                    id: entry.image_id,
                    split: entry.split,
                    file_name: &entry.file_name,
                    path: Some(&entry.path),
                    bytes: None,
                };
                rows.push(cx, &image, entry.captions.iter().map(|(id, text)| (*id, text.as_str())))?;
            }
            continue;
        }
        let named = match (&on_missing.list, entry.place) {
            (Some(list), Some(place)) => format!(", which `{list}` names in {place}"),
            _ => String::new(),
        };
        match on_missing.policy {
            OnMissing::Fail => {
                if missing.is_empty()
                    && let Some(hint) = meant_file(root, entry)?
                {
                    missing.hint(hint);
                }
                missing.add(format_args!("`{}`", entry.path), format_args!("there is no such file{named}"));
            }
            OnMissing::Skip => {
                cx.warn(&entry.path, format!("no such file{named}; the image and its captions are left out"));
                if skipped.first.len() < LISTED {
                    skipped.first.push(format!("`{}`: there is no such file{named}", entry.path));
                }
                skipped.skipped += 1;
            }
        }
    }
    missing.hint(
        "check the path of the folder, or leave missing images out with `on_missing = \"skip\"`; the stage then starts \
         over",
    );
    missing.into_result()?;
    skipped.check("images", on_missing.max_skipped, "check the path of the folder")?;
    if rows.count == 0 {
        return Err(Error::data(format!("no image is left of {} listed images", entries.len())));
    }
    rows.finish(cx)
}

/// Returns a hint that names the file that was probably meant by a path without a file: without its folders, with other
/// separators of folders, with another extension, or in the caption.
fn meant_file(root: &Path, entry: &ListedImage) -> Result<Option<String>> {
    let path = entry.path.as_str();
    for (_, text) in &entry.captions {
        if let Ok(file) = image_path("", text)
            && is_file(&root.join(&file))?
        {
            return Ok(Some(format!("the folder has `{file}`, which is a caption here: two columns are swapped")));
        }
    }
    let base = path.rsplit('/').next().unwrap_or(path);
    if base != path && is_file(&root.join(base))? {
        return Ok(Some(format!("the folder has `{base}`: names are relative to the folder")));
    }
    let slashes = path.replace('\\', "/");
    if slashes != path && is_file(&root.join(&slashes))? {
        return Ok(Some(format!("the folder has `{slashes}`: folders are separated by `/`")));
    }
    if let Some((stem, extension)) = path.rsplit_once('.') {
        for other in [extension.to_lowercase(), extension.to_uppercase()].iter().filter(|other| *other != extension) {
            let named = format!("{stem}.{other}");
            if is_file(&root.join(&named))? {
                return Ok(Some(format!("the folder has `{named}`: names must agree in upper and lower case")));
            }
        }
    }
    for extension in ["jpg", "jpeg", "png", "JPG", "JPEG", "PNG"] {
        let longer = format!("{path}.{extension}");
        if is_file(&root.join(&longer))? {
            return Ok(Some(format!("the folder has `{longer}`: file names need their extension")));
        }
    }
    Ok(None)
}

/// Returns the path of the image `name` in `folder`, relative to the image folder, or an error message. The path never
/// leads out of the image folder.
pub(super) fn image_path(folder: &str, name: &str) -> Result<String, String> {
    let path = Path::new(folder).join(name);
    let mut parts = Vec::new();
    let leaves = |part| matches!(part, Component::ParentDir | Component::RootDir | Component::Prefix(_));
    for part in Path::new(folder).components().chain(Path::new(name).components()) {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy()),
            part if leaves(part) => {
                return Err(format!("image name `{}` leads out of the image folder", path.display()));
            }
            _ => {}
        }
    }
    if name.is_empty() || parts.is_empty() || name.contains('\0') {
        return Err(format!("image name `{}` names no file", name.escape_debug()));
    }
    Ok(parts.join("/"))
}

/// Returns the split called `name`, or an error message.
pub(super) fn parse_split(name: &str) -> Result<&'static str, String> {
    SPLITS
        .into_iter()
        .find(|known| *known == name)
        .ok_or_else(|| format!("split is `{name}`, wanted `train`, `restval`, `val` or `test`"))
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
            mistakes.add(location, format_args!("image `{path}` is also that of {first}"));
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
}
