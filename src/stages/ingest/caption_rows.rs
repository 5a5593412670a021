//! Rows of a table of captions, grouped by image: the reader of `captions` and `image_folder`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use super::writer;
use crate::error::{Error, Result, ValidationErrors};
use crate::io::record_file::{FieldValue, RecordFile, RecordPlace};
use crate::io::table_file::ColumnKind;
use crate::stage::StageContext;

/// Names of the columns of a table of captions.
#[derive(Debug)]
pub(super) struct CaptionColumns<'s> {
    /// Column of the image: its file or its identifier.
    pub image: &'s str,
    /// Column of the identifier of the image, beside its file.
    pub image_id: Option<&'s str>,
    /// Column of the caption, or of a list of captions.
    pub text: &'s str,
    /// Column of the identifier of the caption.
    pub caption_id: Option<&'s str>,
    /// Column of the split.
    pub split: Option<&'s str>,
    /// Separator of the columns of a CSV file, if it is no comma.
    pub separator: Option<u8>,
    /// Hint of the error for missing columns.
    pub hint: &'static str,
}

/// Image of the table, with its captions in the order of the table.
#[derive(Debug)]
pub(super) struct CaptionTableImage {
    /// Name in its first row.
    pub name: String,
    /// Text that rows of the same image share.
    pub key: String,
    /// Identifier, if there is a column of identifiers.
    pub id: Option<String>,
    /// Split.
    pub split: &'static str,
    /// Identifier and text of each caption.
    pub captions: Vec<(i64, String)>,
    /// Place of its first row.
    pub first: RecordPlace,
}

/// Images of the table so far.
#[derive(Default)]
struct ImagesByKey {
    images: Vec<CaptionTableImage>,
    by_key: HashMap<String, usize>,
    /// Key of the image of each identifier, and the first row.
    by_id: HashMap<String, (String, RecordPlace)>,
    /// Row of each identifier of a caption, if there is a column of them.
    captions: HashMap<i64, RecordPlace>,
    count: i64,
}

/// Fields of a row that describe its image.
struct ImageFields<'r> {
    name: &'r str,
    key: String,
    id: Option<&'r str>,
    split: &'static str,
}

/// Reads the images in order of first appearance. Without a column of caption identifiers, captions are numbered from 0
/// in the order of the table.
///
/// `key_of` returns the key of a name: rows with equal keys have the same image. `split_of` returns the split of an image
/// from its key and the field of the split column.
///
/// # Errors
/// The file is not a table with these columns, has no captions, or has invalid rows, all of which the error lists. Or the
/// run was cancelled.
pub(super) fn read(
    cx: &mut StageContext<'_>,
    path: &Path,
    columns: &CaptionColumns<'_>,
    key_of: impl Fn(&str) -> Result<String, String>,
    split_of: impl Fn(&str, Option<&str>) -> Result<&'static str, String>,
) -> Result<Vec<CaptionTableImage>> {
    let mut wanted = vec![(columns.image, ColumnKind::TextsOrIntegers), (columns.text, ColumnKind::TextsOrLists)];
    let optional = [
        (columns.image_id, ColumnKind::TextsOrIntegers),
        (columns.caption_id, ColumnKind::TextsOrIntegers),
        (columns.split, ColumnKind::Texts),
    ];
    wanted.extend(optional.iter().filter_map(|(name, kind)| Some(((*name)?, *kind))));
    let mut rows = ImagesByKey::default();
    let check = || cx.check_cancelled();
    let visit = |place: RecordPlace, values: &[FieldValue<'_>]| {
        let [image, text, more @ ..] = values else { return Err("has no fields".to_owned()) };
        let mut more = more.iter();
        let mut named = |column: Option<&'_ str>| column.and_then(|column| Some((column.to_owned(), more.next()?)));
        let (image_id, caption_id, split) = (named(columns.image_id), named(columns.caption_id), named(columns.split));
        let name = image.name().map_err(|problem| format!("`{}` {problem}", columns.image))?;
        let key = key_of(&name)?;
        let id = image_id.map(|(column, value)| value.name().map_err(|problem| format!("`{column}` {problem}")));
        let id = id.transpose()?;
        let split = split.map(|(column, value)| value.name().map_err(|problem| format!("`{column}` {problem}")));
        let split = split_of(&key, split.transpose()?.as_deref())?;
        let image = rows.add_image(ImageFields { name: &name, key, id: id.as_deref(), split }, place)?;
        let texts = text.texts().map_err(|problem| format!("`{}` {problem}", columns.text))?;
        match caption_id {
            Some(_) if texts.len() > 1 => Err(format!("{} captions with one identifier, wanted one", texts.len())),
            Some((column, id)) => {
                let id = id.integer().map_err(|problem| format!("`{column}` {problem}"))?;
                rows.check_caption_id(id, place)?;
                texts.iter().try_for_each(|text| rows.add_caption(image, id, text))
            }
            None => texts.iter().try_for_each(|text| {
                rows.count += 1;
                rows.add_caption(image, rows.count - 1, text)
            }),
        }
    };
    for doubt in RecordFile::open(path, columns.separator)?.for_each(&wanted, columns.hint, check, visit)? {
        cx.warn(path.display().to_string(), doubt);
    }
    if rows.images.is_empty() {
        return Err(Error::data(format!("`{}` has no captions", path.display())));
    }
    Ok(rows.images)
}

impl ImagesByKey {
    /// Adds the image of a row, or finds it. Returns its index.
    fn add_image(&mut self, row: ImageFields<'_>, place: RecordPlace) -> Result<usize, String> {
        let ImageFields { name, key, id, split } = row;
        if let Some(id) = id {
            match self.by_id.entry(id.to_owned()) {
                Entry::Occupied(entry) if entry.get().0 != key => {
                    let (other, first) = entry.get();
                    return Err(format!("image identifier `{id}` is also that of `{other}` in {first}"));
                }
                Entry::Occupied(_) => {}
                Entry::Vacant(entry) => {
                    entry.insert((key.clone(), place));
                }
            }
        }
        let index = match self.by_key.entry(key) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                self.images.push(CaptionTableImage {
                    name: name.to_owned(),
                    key: entry.key().clone(),
                    id: id.map(str::to_owned),
                    split,
                    captions: Vec::new(),
                    first: place,
                });
                *entry.insert(self.images.len() - 1)
            }
        };
        let image = &self.images[index];
        if image.split != split {
            return Err(format!("image `{name}` is in split `{split}` here and in `{}` before", image.split));
        }
        if let (Some(id), Some(before)) = (id, &image.id)
            && id != before
        {
            return Err(format!("image `{name}` has the identifier `{id}` here and `{before}` in {}", image.first));
        }
        Ok(index)
    }

    fn check_caption_id(&mut self, id: i64, place: RecordPlace) -> Result<(), String> {
        match self.captions.insert(id, place) {
            Some(first) => Err(format!("caption id {id} is also that of {first}")),
            None => Ok(()),
        }
    }

    fn add_caption(&mut self, image: usize, id: i64, text: &str) -> Result<(), String> {
        self.images[image].captions.push((id, writer::clean_caption(text)?.to_owned()));
        Ok(())
    }
}

/// Returns the identifiers of images: the whole numbers that `names` are, or numbers from 0 if one of them is a text. Warns
/// of a few texts among numbers.
///
/// # Errors
/// Two names are the same number, such as `7` and `007`.
pub(super) fn image_ids(cx: &mut StageContext<'_>, path: &Path, names: &[&str]) -> Result<Vec<i64>> {
    let ids: Option<Vec<i64>> = names.iter().map(|name| name.parse().ok()).collect();
    let Some(ids) = ids else {
        let mut texts = names.iter().filter(|name| name.parse::<i64>().is_err());
        if let Some(first) = texts.next() {
            let count = 1 + texts.count();
            if count * 2 < names.len() {
                let message = format!(
                    "{count} of {} identifiers of images are no whole numbers, such as `{}`: so all are texts, and images \
                     are numbered from 0",
                    names.len(),
                    first.escape_debug()
                );
                cx.warn(path.display().to_string(), message);
            }
        }
        return Ok((0..).take(names.len()).collect());
    };
    let mut seen: HashMap<i64, &str> = HashMap::with_capacity(ids.len());
    let mut mistakes = ValidationErrors::in_file(path);
    for (id, name) in ids.iter().zip(names) {
        if let Some(other) = seen.insert(*id, name) {
            mistakes.add(format_args!("image `{name}`"), format_args!("is the number {id}, as `{other}` is"));
        }
    }
    mistakes.into_result()?;
    Ok(ids)
}
