//! Images in a folder, as the files of a data set list them: what `karpathy`, `flickr` and `coco` come to.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Component, Path};

use super::missing::OnMissing;
use super::rows::{Image, Rows};
use crate::error::{Error, Mistakes, Result};
use crate::io::files::is_file;
use crate::stage::Cx;

/// The splits that a data set may have.
pub(super) const SPLITS: [&str; 4] = ["train", "restval", "val", "test"];

/// An image and its captions.
#[derive(Debug)]
pub(super) struct Entry {
    pub image_id: i64,
    pub split: &'static str,
    /// Its name without folders.
    pub file_name: String,
    /// Where it lies below the image folder.
    pub path: String,
    /// Identifier and text of each caption, in file order.
    pub captions: Vec<(i64, String)>,
}

/// Writes the entries whose image is a file below `root`, in order.
///
/// Batches are written as they fill, so that stages downstream start while later images are still looked for.
/// An image without captions is left out with a warning.
///
/// # Errors
/// The folder is missing or no image is left; or, for [`OnMissing::Fail`], images are missing: all of them are looked
/// for before the error names them.
pub(super) fn write(cx: &mut Cx<'_>, entries: &[Entry], root: &Path, on_missing: OnMissing) -> Result<()> {
    if !root.is_dir() {
        return Err(Error::data(format!("image folder `{}` is no folder", root.display())));
    }
    let mut rows = Rows::default();
    let mut missing = Mistakes::of(root);
    for entry in entries {
        cx.proceed()?;
        if entry.captions.is_empty() {
            cx.warn(&entry.path, "image has no captions and is left out");
        } else if is_file(&root.join(&entry.path))? {
            if missing.is_empty() {
                let image = Image {
                    id: entry.image_id,
                    split: entry.split,
                    file_name: &entry.file_name,
                    path: Some(&entry.path),
                    bytes: None,
                };
                rows.push(cx, &image, entry.captions.iter().map(|(id, text)| (*id, text.as_str())))?;
            }
        } else {
            match on_missing {
                OnMissing::Fail => missing.add(format_args!("`{}`", entry.path), "there is no such file"),
                OnMissing::Skip => cx.warn(&entry.path, "no such file; the image and its captions are left out"),
            }
        }
    }
    missing.hint(
        "look whether the folder is the right one, or leave missing images out with `on_missing = \"skip\"`; the stage then \
         starts over",
    );
    missing.finish()?;
    if rows.count == 0 {
        return Err(Error::data(format!("no image is left of {} that are listed", entries.len())));
    }
    rows.finish(cx)
}

/// The path of the image `name` in `folder`, or what is wrong with it. It never leads out of the image folder.
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

/// The split called `name`, or what is wrong with it.
pub(super) fn split(name: &str) -> Result<&'static str, String> {
    SPLITS
        .into_iter()
        .find(|known| *known == name)
        .ok_or_else(|| format!("split is `{name}`, wanted `train`, `restval`, `val` or `test`"))
}

/// What has been seen of identifiers and paths, to find those that come twice. `P` is a place in a file.
#[derive(Debug)]
pub(super) struct Seen<P> {
    images: HashMap<i64, P>,
    paths: HashMap<String, P>,
    captions: HashMap<i64, P>,
}

impl<P: Copy + Display> Seen<P> {
    pub fn new() -> Self {
        Self { images: HashMap::new(), paths: HashMap::new(), captions: HashMap::new() }
    }

    /// Adds to `mistakes` what is wrong with an image of this id and path.
    pub fn image(&mut self, image_id: i64, path: &str, place: P, mistakes: &mut Mistakes) {
        if let Some(first) = self.images.insert(image_id, place) {
            mistakes.add(place, format_args!("image id {image_id} is also that of {first}"));
        }
        if let Some(first) = self.paths.insert(path.to_owned(), place) {
            mistakes.add(place, format_args!("image `{path}` is also that of {first}"));
        }
    }

    /// Adds to `mistakes` what is wrong with a caption of this id.
    pub fn caption(&mut self, caption_id: i64, place: P, mistakes: &mut Mistakes) {
        if let Some(first) = self.captions.insert(caption_id, place) {
            mistakes.add(place, format_args!("caption id {caption_id} is also that of {first}"));
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
