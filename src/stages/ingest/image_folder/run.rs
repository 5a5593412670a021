//! Reader of `image_folder`.

use std::path::Path;

use super::super::caption_rows::{self, CaptionColumns, IdentifierColumn};
use super::super::listing::{self, ListedImage, MissingImages};
use super::super::separator::separator_byte;
use super::{ImageFolder, ImageSplit};
use crate::error::Result;
use crate::stage::StageContext;

/// Reads the table and writes the images, in order of first appearance, and their captions.
///
/// Rows with the same file have the same image: `./a.jpg` is `a.jpg`. See
/// [`ImageFolderColumns`](super::ImageFolderColumns) for the identifiers.
pub(in super::super) fn run(settings: &ImageFolder, cx: &mut StageContext<'_>) -> Result<()> {
    let path = cx.source("image_folder.captions")?;
    let entries = read(settings, &path, cx)?;
    let root = cx.source("image_folder.images")?;
    let list = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let missing = MissingImages { policy: settings.on_missing, max_skipped: settings.max_skipped, list };
    listing::write_existing(cx, &entries, &root, missing)
}

fn read(settings: &ImageFolder, path: &Path, cx: &mut StageContext<'_>) -> Result<Vec<ListedImage>> {
    let ImageFolder { columns, split, .. } = settings;
    let names = CaptionColumns {
        image: &columns.file_name,
        image_id: IdentifierColumn::of_setting(columns.image_id.as_deref(), "image_id"),
        text: &columns.caption,
        caption_id: IdentifierColumn::of_setting(columns.caption_id.as_deref(), "caption_id"),
        split: if let ImageSplit::Column(name) = split { Some(name) } else { None },
        separator: separator_byte(settings.separator),
        identifier_hint: "the columns `image_id` and `caption_id` have the identifiers, if the table has them: \
                          `columns.image_id = \"\"` numbers the images instead, `columns.caption_id = \"\"` the captions",
        hint: "name them with `columns`, such as `columns = { file_name = \"image\", caption = \"text\" }`",
    };
    let split_of = |file: &str, field: Option<&str>| split.of(file, field);
    let images = caption_rows::read(cx, path, &names, |name| listing::image_path("", name), split_of)?;
    split.check_sizes(images.len(), &images.iter().map(|image| image.split).collect())?;
    // File names are texts, so images without identifiers are numbered.
    let own: Option<Vec<&str>> = images.iter().map(|image| image.id.as_deref()).collect();
    let ids = match own {
        Some(own) => caption_rows::image_ids(cx, path, &own)?,
        None => (0..).take(images.len()).collect(),
    };
    let are_numbers = images.iter().all(|image| image.id.as_ref().is_none_or(|id| id.parse::<i64>().is_ok()));
    let entries = ids.into_iter().zip(images).map(|(image_id, image)| ListedImage {
        image_id,
        split: image.split,
        file_name: if are_numbers { image.name } else { image.id.unwrap_or(image.name) },
        path: image.key,
        place: Some(image.first),
        captions: image.captions,
    });
    Ok(entries.collect())
}
