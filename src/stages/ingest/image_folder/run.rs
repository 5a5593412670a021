//! Reader of `image_folder`.

use std::path::{Path, PathBuf};

use super::super::caption_rows::{self, CaptionColumns, IdentifierColumn};
use super::super::listed_images;
use super::super::listing::{self, ListedImage, MissingImages};
use super::super::separator::separator_byte;
use super::settings::IMAGES;
use super::{ImageFolder, ImageSplit};
use pairloom_base::error::{Error, Result};
use pairloom_images::image::{IMAGE_EXTENSIONS, strip_image_extension};
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;

/// Reads the table and writes the images, in order of first appearance, and their captions.
///
/// Rows with the same file have the same image: `./a.jpg` is `a.jpg`. See
/// [`ImageFolderColumns`](super::ImageFolderColumns) for the identifiers.
pub(in super::super) fn run(settings: &ImageFolder, cx: &mut StageContext<'_>) -> Result<()> {
    if settings.captions.is_none() {
        let entries = list(settings, cx)?;
        let rule =
            MissingImages { needs_captions: false, ..MissingImages::new(settings.on_missing, settings.max_skipped) };
        return listed_images::write_existing(cx, &entries, IMAGES, &rule);
    }
    let path = cx.source("image_folder.captions")?;
    let entries = read(settings, &path, cx)?;
    let list = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let missing = MissingImages { list, ..MissingImages::new(settings.on_missing, settings.max_skipped) };
    listed_images::write_existing(cx, &entries, IMAGES, &missing)
}

/// Lists the images of a folder or bucket without a table, in the order of their names.
fn list(settings: &ImageFolder, cx: &mut StageContext<'_>) -> Result<Vec<ListedImage>> {
    let root = cx.source(IMAGES)?;
    let endings = IMAGE_EXTENSIONS.map(|extension| format!(".{extension}"));
    let mut names = match cx.objects(IMAGES)? {
        Some(objects) => {
            let name_of_image = |name: &str| strip_image_extension(name).map(|_| name.to_owned());
            let names = objects.list_objects(|object| name_of_image(object.name))?;
            names.into_iter().flatten().collect()
        }
        None => {
            let name = |file: PathBuf| match file.strip_prefix(&root).unwrap_or(&file).to_str() {
                Some(name) => Ok(name.to_owned()),
                None => Err(Error::data(format!("the name of `{}` is no UTF-8 text", file.display()))),
            };
            cx.source_files(IMAGES, &endings.each_ref().map(String::as_str))?
                .into_iter()
                .map(name)
                .collect::<Result<Vec<String>>>()?
        }
    };
    if names.is_empty() {
        return Err(Error::data(format!(
            "`{}` has no object whose name ends in {}",
            root.display(),
            endings.join(", ")
        )));
    }
    names.sort_unstable();
    let entry = |(image_id, name): (i64, String)| {
        let split = settings.split.of(&name, None).map_err(Error::data)?;
        Ok(ListedImage { image_id, split, file_name: name.clone(), path: name, place: None, captions: Vec::new() })
    };
    let entries = (0..).zip(names).map(entry).collect::<Result<Vec<_>>>()?;
    settings.split.check_sizes(entries.len(), &entries.iter().map(|entry| entry.split).collect())?;
    Ok(entries)
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
        shown: |name| shown_name(name).into_owned(),
        identifier_hint: "the columns `image_id` and `caption_id` have the identifiers, if the table has them: \
                          `columns.image_id = \"\"` numbers the images instead, `columns.caption_id = \"\"` the captions",
        hint: "name them with `columns`, such as `columns = { file_name = \"image\", caption = \"text\" }`",
    };
    let split_of = |file: &str, field: Option<&str>| split.of(file, field);
    let images = caption_rows::read(cx, path, &names, |name, _| listing::image_path("", name?), split_of)?;
    split.check_sizes(images.len(), &images.iter().map(|image| image.split).collect())?;
    // File names are texts, so images without identifiers are numbered.
    let own: Option<Vec<&str>> = images.iter().map(|image| image.id.as_deref()).collect();
    let ids = match own {
        Some(own) => caption_rows::image_ids(cx, path, &own)?,
        None => (0..).take(images.len()).collect(),
    };
    let are_numbers = images.iter().all(|image| image.id.as_ref().is_none_or(|id| id.parse::<i64>().is_ok()));
    let entries = ids.into_iter().zip(images).map(|(image_id, image)| {
        let name = if are_numbers { image.name } else { image.id.unwrap_or(image.name) };
        ListedImage {
            image_id,
            split: image.split,
            file_name: name.to_string(),
            path: image.key.to_string(),
            place: Some(image.first),
            captions: image.captions,
        }
    });
    Ok(entries.collect())
}
