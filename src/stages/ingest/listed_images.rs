//! Images of a list, in a folder or in a bucket: those that are there, and what is done about the others.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use arrow::array::{AsArray as _, BinaryBuilder, Int64Array, StringArray};

use super::listing::{ListedImage, MissingImages, image_path};
use super::on_missing::OnMissing;
use super::part_rows::PICTURE_PART_ROWS;
use super::settings::NOT_OF_ROWS;
use super::writer::{DataSetWriter, ImageRow, digests};
use crate::error::{Error, Result, SkippedItems, ValidationErrors};
use crate::io::files::is_file;
use crate::io::http_images::ObjectFetcher;
use crate::io::objects::{ObjectStamp, ObjectStorage};
use crate::stage::{
    MapBlock, MapInput, MapOutput, MappedRows, PartKey, RowKey, RowKeys, SharedEarlierRows, StageContext, object_key,
};
use crate::tables::{Nullable, images};

/// Number of images without a file that an error lists.
const LISTED: usize = 20;
/// Largest object that is read as an image.
const MAX_OBJECT: u64 = 16 << 20;
/// Number of requests at a time.
const PARALLEL: usize = 16;
/// Number of requests a second. Buckets slow down clients that send some thousands.
const PER_SECOND: f64 = 1000.0;

/// Writes the entries whose image is in the folder or bucket of the source `input`, in order. Images that need
/// captions and have none are left out with a warning.
///
/// # Errors
/// The folder is missing, or no image is left; with [`OnMissing::Fail`], also if images are missing, which the error
/// lists; with [`OnMissing::Skip`], also if more are missing than allowed. An object changed after it was listed.
pub(super) fn write_existing(
    cx: &mut StageContext<'_>,
    entries: &[ListedImage],
    input: &str,
    on_missing: &MissingImages,
) -> Result<()> {
    match cx.objects(input)? {
        Some(objects) => write_objects(cx, entries, objects, on_missing),
        None => {
            let root = cx.source(input)?;
            write_files(cx, entries, &root, on_missing)
        }
    }
}

/// Writes the entries whose image is a file below `root`. Batches are written as they fill, so stages downstream can start
/// while later files are still checked.
fn write_files(
    cx: &mut StageContext<'_>,
    entries: &[ListedImage],
    root: &Path,
    on_missing: &MissingImages,
) -> Result<()> {
    if !root.is_dir() {
        return Err(Error::data(format!("image folder `{}` is not a folder", root.display())));
    }
    let look = |path: &str| Ok(if is_file(&root.join(path))? { Found::Image } else { Found::Nothing("file") });
    let mut rows = DataSetWriter::default();
    choose(cx, entries, root, on_missing, &look, &mut |cx, entry| {
        let image = ImageRow {
            id: entry.image_id,
            split: entry.split,
            file_name: &entry.file_name,
            path: Some(&entry.path),
            bytes: None,
        };
        rows.push(cx, &image, entry.captions.iter().map(|(id, text)| (*id, text.as_str())))
    })?;
    rows.finish(cx)
}

/// Thing at the place of an image.
enum Found {
    Image,
    /// None of these.
    Nothing(&'static str),
    /// Something else, with the reason.
    Refused(String),
}

/// Calls `keep` for the entries with captions whose image `look` finds, in order, until one is missing that must not be.
fn choose<'e>(
    cx: &mut StageContext<'_>,
    entries: &'e [ListedImage],
    place: &Path,
    on_missing: &MissingImages,
    look: &dyn Fn(&str) -> Result<Found>,
    keep: &mut dyn FnMut(&mut StageContext<'_>, &'e ListedImage) -> Result<()>,
) -> Result<()> {
    let mut missing = ValidationErrors::in_file(place);
    let mut skipped = SkippedItems { skipped: 0, total: entries.len() as u64, first: vec![] };
    let mut kept = 0;
    for entry in entries {
        cx.check_cancelled()?;
        if entry.captions.is_empty() && on_missing.needs_captions {
            cx.warn(&entry.path, "image has no captions and is left out");
            continue;
        }
        let reason = match look(&entry.path)? {
            Found::Image => {
                if missing.is_empty() {
                    keep(cx, entry)?;
                    kept += 1;
                }
                continue;
            }
            Found::Nothing(kind) => format!("there is no such {kind}"),
            Found::Refused(reason) => reason,
        };
        let named = match (&on_missing.list, entry.place) {
            (Some(list), Some(place)) => format!(", which `{list}` names in {place}"),
            _ => String::new(),
        };
        match on_missing.policy {
            OnMissing::Fail => {
                if missing.is_empty()
                    && let Some(hint) = meant_file(entry, look)?
                {
                    missing.hint(hint);
                }
                missing.add(format_args!("`{}`", entry.path), format_args!("{reason}{named}"));
            }
            OnMissing::Skip => {
                let short = reason.strip_prefix("there is ").unwrap_or(&reason);
                cx.warn(&entry.path, format!("{short}{named}; the image and its captions are left out"));
                if skipped.first.len() < LISTED {
                    skipped.first.push(format!("`{}`: {reason}{named}", entry.path));
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
    if kept == 0 {
        return Err(Error::data(format!("no image is left of {} listed images", entries.len())));
    }
    Ok(())
}

/// Returns a hint that names the file that was probably meant by a path without a file: without its folders, with other
/// separators of folders, with another extension, or in the caption.
fn meant_file(entry: &ListedImage, look: &dyn Fn(&str) -> Result<Found>) -> Result<Option<String>> {
    let is_there = |path: &str| Ok::<_, Error>(!matches!(look(path)?, Found::Nothing(_)));
    let path = entry.path.as_str();
    for (_, text) in &entry.captions {
        if let Ok(file) = image_path("", text)
            && is_there(&file)?
        {
            return Ok(Some(format!("the folder has `{file}`, which is a caption here: two columns are swapped")));
        }
    }
    let base = path.rsplit('/').next().unwrap_or(path);
    if base != path && is_there(base)? {
        return Ok(Some(format!("the folder has `{base}`: names are relative to the folder")));
    }
    let slashes = path.replace('\\', "/");
    if slashes != path && is_there(&slashes)? {
        return Ok(Some(format!("the folder has `{slashes}`: folders are separated by `/`")));
    }
    if let Some((stem, extension)) = path.rsplit_once('.') {
        for other in [extension.to_lowercase(), extension.to_uppercase()].iter().filter(|other| *other != extension) {
            let named = format!("{stem}.{other}");
            if is_there(&named)? {
                return Ok(Some(format!("the folder has `{named}`: names must agree in upper and lower case")));
            }
        }
    }
    for extension in ["jpg", "jpeg", "png", "JPG", "JPEG", "PNG"] {
        let longer = format!("{path}.{extension}");
        if is_there(&longer)? {
            return Ok(Some(format!("the folder has `{longer}`: file names need their extension")));
        }
    }
    Ok(None)
}

/// Object of an entry.
struct ListedObjectOf<'e> {
    entry: &'e ListedImage,
    stamp: ObjectStamp,
    key: RowKey,
}

/// Function that reads objects by name and stamp.
type FetchObjects<'f> = dyn Fn(&[(&str, ObjectStamp)]) -> Result<Vec<Vec<u8>>> + 'f;

/// Writes the entries whose image is an object of a bucket. Objects whose bytes an earlier result has are copied from it;
/// the others are read, and become part of the store.
fn write_objects(
    cx: &mut StageContext<'_>,
    entries: &[ListedImage],
    objects: ObjectStorage,
    on_missing: &MissingImages,
) -> Result<()> {
    let url = objects.display_path("");
    // 48 bytes an object: buckets have millions.
    let mut listed = objects.list_objects(|object| (RowKey::of(object.name.as_bytes()), object.stamp))?;
    listed.sort_unstable_by_key(|(name, ..)| *name);
    let find = |path: &str| {
        let at = listed.binary_search_by_key(&RowKey::of(path.as_bytes()), |(name, ..)| *name).ok()?;
        listed.get(at).map(|(_, stamp)| *stamp)
    };
    let look = |path: &str| {
        Ok(match find(path) {
            None => Found::Nothing("object"),
            Some(stamp) if stamp.bytes > MAX_OBJECT => {
                Found::Refused(format!("the object has {} bytes, wanted at most {MAX_OBJECT}", stamp.bytes))
            }
            Some(_) => Found::Image,
        })
    };
    let mut wanted = Vec::new();
    choose(cx, entries, Path::new(&url), on_missing, &look, &mut |_, entry| {
        if let Some(stamp) = find(&entry.path) {
            let key = object_key(&url, &entry.path, stamp.as_bytes());
            wanted.push(ListedObjectOf { entry, stamp, key });
        }
        Ok(())
    })?;
    drop(listed);
    let mut rows = DataSetWriter::default();
    for ListedObjectOf { entry, .. } in &wanted {
        let captions = entry.captions.iter().map(|(id, text)| (*id, text.as_str()));
        rows.push_captions(cx, entry.image_id, entry.split, captions)?;
    }
    rows.finish(cx)?;
    let cancel = cx.cancel().clone();
    let earlier = cx.earlier_rows("images", NOT_OF_ROWS)?;
    // One block at a time is read, which bounds the memory.
    let fetcher = Mutex::new(ObjectFetcher::new(objects, PARALLEL, PER_SECOND)?);
    cx.map(MapInput::Range(wanted.len()), "images", PICTURE_PART_ROWS, &|block| {
        let fetch = |wanted: &[(&str, ObjectStamp)]| {
            fetcher.lock().unwrap_or_else(PoisonError::into_inner).fetch_all(wanted, &|| cancel.check())
        };
        read_block(&wanted, block, &earlier, &fetch)
    })?;
    Ok(())
}

/// Rows of a block of objects: copied from earlier results, or read.
fn read_block(
    wanted: &[ListedObjectOf<'_>],
    block: &MapBlock,
    earlier: &SharedEarlierRows,
    fetch: &FetchObjects<'_>,
) -> Result<MapOutput> {
    let wanted = wanted.get(block.range.clone()).unwrap_or_default();
    let keys: Vec<RowKey> = wanted.iter().map(|object| object.key).collect();
    let part_key = PartKey::of(wanted.iter().map(|ListedObjectOf { entry, key, .. }| {
        (Some(*key), entry.image_id, [entry.split, entry.file_name.as_str()])
    }));
    if let Some(part) = MapOutput::find_earlier(earlier, part_key.as_ref(), || keys.clone())? {
        return Ok(part);
    }
    let found = earlier.as_ref().map(|earlier| earlier.find(&keys)).transpose()?.unwrap_or_default();
    let mut known = Vec::with_capacity(wanted.len());
    for at in 0..wanted.len() {
        known.push(match found.rows.get(at) {
            Some(Some((batch, row))) => {
                let bytes = batch.column_by_name("bytes").and_then(|column| column.as_binary_opt::<i32>());
                bytes.map(|bytes| (bytes, *row))
            }
            _ => None,
        });
    }
    let new = wanted.iter().zip(&known).filter(|(_, known)| known.is_none());
    let new: Vec<(&str, ObjectStamp)> = new.map(|(object, _)| (object.entry.path.as_str(), object.stamp)).collect();
    let copied = (wanted.len() - new.len()) as u64;
    let mut read = fetch(&new)?.into_iter();
    let mut bytes = BinaryBuilder::new();
    for known in &known {
        match known {
            Some((column, row)) => bytes.append_value(column.value(*row)),
            None => bytes.append_value(read.next().ok_or_else(|| Error::internal("an object was not read"))?),
        }
    }
    let texts =
        |of: fn(&ListedImage) -> &str| StringArray::from_iter_values(wanted.iter().map(|object| of(object.entry)));
    let bytes = bytes.finish();
    let batch = images::TableColumns {
        image_id: Int64Array::from_iter_values(wanted.iter().map(|object| object.entry.image_id)),
        split: texts(|entry| entry.split),
        file_name: texts(|entry| &entry.file_name),
        path: Nullable(StringArray::new_null(wanted.len())),
        digest: digests(&bytes),
        bytes: Nullable(bytes),
    };
    let rows = MappedRows::New(batch.into_batch()?);
    Ok(MapOutput { rows, warnings: found.warnings, row_keys: RowKeys(keys), part_key, copied })
}
