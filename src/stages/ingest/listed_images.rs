//! Listed images: images of a list with their captions, as the readers of `karpathy`, `flickr`, `coco` and `image_folder` return
//! them, and the writing of those that are in the folder or bucket. A rule says what is done about the others.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::path::{Component, Path};
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array as _, AsArray as _, BinaryBuilder, Int64Array, RecordBatch, StringArray, StringBuilder};
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::writer::{DataSetWriter, ImageRow, PICTURE_PART_ROWS};
use super::{NOT_OF_ROWS, OnMissing};
use pairloom_base::error::{Error, Result, SkippedItems, ValidationErrors};
use pairloom_formats::record_file::RecordPlace;
use pairloom_images::http_images::ObjectFetcher;
use pairloom_images::image::picture_digest;
use pairloom_stage::{
    MapBlock, MapInput, MapOutput, MappedRows, PartKey, RowKey, RowKeys, SharedEarlierRows, StageContext, object_key,
};
use pairloom_storage::files::is_file;
use pairloom_storage::image_names::shown_name;
use pairloom_storage::objects::{ObjectStamp, ObjectStorage};
use pairloom_tables::{Nullable, images, text_column};

/// Warning about an image that needs captions and has none.
pub(super) const NO_CAPTIONS: &str = "image has no captions and is left out";

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
    // Of the first missing images, the files that were probably meant are looked for.
    let mut looked = 0;
    for entry in entries {
        cx.check_cancelled()?;
        if entry.captions.is_empty() && on_missing.needs_captions {
            cx.warn(shown_name(&entry.path), NO_CAPTIONS);
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
        let meant = if looked < LISTED { meant_file(entry, look)? } else { None };
        looked += 1;
        match on_missing.policy {
            OnMissing::Fail => {
                if let Some(hint) = meant {
                    missing.hint(hint);
                }
                missing.add(format_args!("`{}`", shown_name(&entry.path)), format_args!("{reason}{named}"));
            }
            OnMissing::Skip => {
                let named = meant.map_or(named.clone(), |meant| format!("{named}; {meant}"));
                let short = reason.strip_prefix("there is ").unwrap_or(&reason);
                let path = shown_name(&entry.path);
                if skipped.first.len() < LISTED {
                    skipped.first.push(format!("`{path}`: {reason}{named}"));
                }
                cx.warn(path, format!("{short}{named}; the image and its captions are left out"));
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
/// separators of folders, with another form of its letters or of its extension, or in the caption.
fn meant_file(entry: &ListedImage, look: &dyn Fn(&str) -> Result<Found>) -> Result<Option<String>> {
    let is_there = |path: &str| Ok::<_, Error>(!matches!(look(path)?, Found::Nothing(_)));
    let found = |shown: &str, meaning: &str| Ok(Some(format!("the folder has `{shown}`{meaning}")));
    let path = entry.path.as_str();
    for (_, text) in &entry.captions {
        if let Ok(file) = image_path("", text)
            && is_there(&file)?
        {
            return found(&shown_name(&file), ", which is a caption here: two columns are swapped");
        }
    }
    let base = path.rsplit('/').next().unwrap_or(path);
    if base != path && is_there(base)? {
        let shown = shown_name(path);
        return found(shown.rsplit('/').next().unwrap_or_default(), ": names are relative to the folder");
    }
    let slashes = path.replace('\\', "/");
    if slashes != path && is_there(&slashes)? {
        return found(&shown_name(&slashes), ": folders are separated by `/`");
    }
    if path.trim() != path && is_there(path.trim())? {
        return found(&shown_name(path.trim()), ": white space is part of a name");
    }
    // A letter with its accent can be one character or two, which look alike.
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(path);
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(path);
    for form in [path, &composed, &decomposed] {
        let mut names = vec![form.to_owned()];
        if let Some((stem, extension)) = form.rsplit_once('.') {
            names.extend([extension.to_lowercase(), extension.to_uppercase()].map(|other| format!("{stem}.{other}")));
        }
        for named in names.iter().filter(|named| *named != path) {
            if is_there(named)? {
                return found(
                    &shown_name(named),
                    match (form == path, named == form) {
                        (true, _) => ": names must agree in upper and lower case",
                        (false, true) => ": its letters are in another form of Unicode",
                        (false, false) => {
                            ": its letters are in another form of Unicode, and its ending in another case"
                        }
                    },
                );
            }
        }
    }
    for extension in ["jpg", "jpeg", "png", "JPG", "JPEG", "PNG"] {
        let longer = format!("{path}.{extension}");
        if is_there(&longer)? {
            return found(&shown_name(&longer), ": file names need their extension");
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
                Found::Refused(format!("the object has {} bytes, expected at most {MAX_OBJECT}", stamp.bytes))
            }
            Some(_) => Found::Image,
        })
    };
    let mut to_fetch = Vec::new();
    choose(cx, entries, Path::new(&url), on_missing, &look, &mut |_, entry| {
        if let Some(stamp) = find(&entry.path) {
            let key = object_key(&url, &entry.path, stamp.as_bytes());
            to_fetch.push(ListedObjectOf { entry, stamp, key });
        }
        Ok(())
    })?;
    drop(listed);
    let mut rows = DataSetWriter::default();
    for ListedObjectOf { entry, .. } in &to_fetch {
        let captions = entry.captions.iter().map(|(id, text)| (*id, text.as_str()));
        rows.push_captions(cx, entry.image_id, entry.split, captions)?;
    }
    rows.finish(cx)?;
    let cancel = cx.cancel().clone();
    let earlier = cx.earlier_rows("images", NOT_OF_ROWS)?;
    // One block at a time is read, which bounds the memory.
    let fetcher = Mutex::new(ObjectFetcher::new(objects, PARALLEL, PER_SECOND)?);
    cx.map(MapInput::Range(to_fetch.len()), "images", PICTURE_PART_ROWS, &|block| {
        let fetch = |objects: &[(&str, ObjectStamp)]| {
            fetcher.lock().unwrap_or_else(PoisonError::into_inner).fetch_all(objects, &|| cancel.check())
        };
        read_block(&to_fetch, block, &earlier, &fetch)
    })?;
    Ok(())
}

/// Rows of a block of objects: copied from earlier results, or read.
fn read_block(
    objects: &[ListedObjectOf<'_>],
    block: &MapBlock,
    earlier: &SharedEarlierRows,
    fetch: &FetchObjects<'_>,
) -> Result<MapOutput> {
    let objects = objects.get(block.range.clone()).unwrap_or_default();
    let keys: Vec<RowKey> = objects.iter().map(|object| object.key).collect();
    let part_key = PartKey::of(objects.iter().map(|ListedObjectOf { entry, key, .. }| {
        (Some(*key), entry.image_id, [entry.split, entry.file_name.as_str()])
    }));
    if let Some(part) = MapOutput::find_earlier(earlier, part_key.as_ref(), || keys.clone())? {
        return Ok(part);
    }
    let found = earlier.as_ref().map(|earlier| earlier.find(&keys)).transpose()?.unwrap_or_default();
    let known_picture = |at: usize| {
        let (batch, row): &(RecordBatch, usize) = found.rows.get(at)?.as_ref()?;
        let bytes = batch.column_by_name("bytes")?.as_binary_opt::<i32>()?.value(*row);
        // The part that both are in was compared with its digest.
        let digest = text_column(batch, "digest").ok().filter(|digests| digests.is_valid(*row));
        Some((bytes, digest.map_or_else(|| picture_digest(bytes).into(), |digests| Cow::from(digests.value(*row)))))
    };
    let known: Vec<_> = (0..objects.len()).map(known_picture).collect();
    let new = objects.iter().zip(&known).filter(|(_, known)| known.is_none());
    let new: Vec<(&str, ObjectStamp)> = new.map(|(object, _)| (object.entry.path.as_str(), object.stamp)).collect();
    let copied = (objects.len() - new.len()) as u64;
    let mut read = fetch(&new)?.into_iter();
    let (mut bytes, mut digests) = (BinaryBuilder::new(), StringBuilder::new());
    for known in known {
        if let Some((picture, digest)) = known {
            bytes.append_value(picture);
            digests.append_value(digest);
        } else {
            let picture = read.next().ok_or_else(|| Error::internal("an object was not read"))?;
            digests.append_value(picture_digest(&picture));
            bytes.append_value(picture);
        }
    }
    let texts =
        |text: fn(&ListedImage) -> &str| StringArray::from_iter_values(objects.iter().map(|object| text(object.entry)));
    let batch = images::TableColumns {
        image_id: Int64Array::from_iter_values(objects.iter().map(|object| object.entry.image_id)),
        split: texts(|entry| entry.split),
        file_name: texts(|entry| &entry.file_name),
        path: Nullable(StringArray::new_null(objects.len())),
        digest: Nullable(digests.finish()),
        bytes: Nullable(bytes.finish()),
    };
    let rows = MappedRows::New(batch.into_batch()?);
    Ok(MapOutput { rows, warnings: found.warnings, row_keys: RowKeys(keys), part_key, copied })
}

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
        bytes if bytes > MAX_NAME_BYTES => Err(format!("has {bytes} bytes, expected at most {MAX_NAME_BYTES}")),
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
        .ok_or_else(|| format!("split is `{}`, expected `train`, `restval`, `val` or `test`", shown_name(name)))
}

/// Values that are no splits: the first row of each is a mistake, and the others are counted.
#[derive(Debug, Default)]
pub(super) struct UnknownSplits {
    /// Number of rows of each of the first values.
    rows: BTreeMap<String, u64>,
}

impl UnknownSplits {
    /// Counts a row with the split `value`.
    ///
    /// # Errors
    /// The problem, if the row is the first one with this value.
    pub fn add(&mut self, value: &str, problem: String) -> Result<(), String> {
        if let Some(rows) = self.rows.get_mut(value) {
            *rows += 1;
            return Ok(());
        }
        if self.rows.len() < LISTED {
            self.rows.insert(value.to_owned(), 1);
        }
        Err(problem)
    }

    /// Adds the number of rows of each value that several have to the hint of an error.
    pub fn counted(&self, error: Error) -> Error {
        let several = self.rows.iter().filter(|(_, rows)| **rows > 1);
        let counts = several.map(|(value, rows)| format!("the split `{}` occurs {rows} times", shown_name(value)));
        let hints: Vec<String> = error.hint_text().map(str::to_owned).into_iter().chain(counts).collect();
        if hints.is_empty() { error } else { error.hint(hints.join("; ")) }
    }
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
    use std::cell::RefCell;
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, ObjectStoreExt as _};

    use super::*;
    use pairloom_images::image::picture_digests;
    use pairloom_stage::{EarlierPart, EarlierRows, FoundRows};
    use pairloom_storage::objects::Location;
    use pairloom_tables as tables;

    /// Rows of one part of an earlier result.
    #[derive(Debug)]
    struct PartInMemory(Vec<RowKey>, RecordBatch);

    impl EarlierRows for PartInMemory {
        fn find(&self, keys: &[RowKey]) -> Result<FoundRows> {
            let row = |key| self.0.iter().position(|known| known == key).map(|row| (self.1.clone(), row));
            Ok(FoundRows { rows: keys.iter().map(row).collect(), warnings: Vec::new() })
        }
        fn find_part(&self, _: &PartKey) -> Result<Option<EarlierPart>> {
            Ok(None)
        }
    }

    fn entry(name: &str) -> ListedImage {
        let (path, file_name) = (name.to_owned(), name.to_owned());
        ListedImage { image_id: 7, split: "test", file_name, path, place: None, captions: Vec::new() }
    }

    #[test]
    fn copied_rows_have_the_digests_of_a_fresh_run_and_are_not_hashed_again() {
        let names = ["a.jpg", "b.jpg", "c.jpg"];
        let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        for name in names {
            futures::executor::block_on(inner.put(&name.into(), name.into())).unwrap();
        }
        let objects = ObjectStorage::at_url(&inner, &Location::parse("s3://b".into()).unwrap());
        let mut listed = objects.list_objects(|object| (object.name.to_owned(), object.stamp)).unwrap();
        listed.sort_by(|(one, _), (other, _)| one.cmp(other));
        let entries = names.map(entry);
        let objects_at = |chosen: &[usize]| -> Vec<ListedObjectOf<'_>> {
            let object = |at: &usize| {
                let stamp = listed[*at].1;
                let key = object_key("s3://b", names[*at], stamp.as_bytes());
                ListedObjectOf { entry: &entries[*at], stamp, key }
            };
            chosen.iter().map(object).collect()
        };
        let fetched = RefCell::new(Vec::new());
        let fetch = |objects: &[(&str, ObjectStamp)]| {
            fetched.borrow_mut().extend(objects.iter().map(|(name, _)| (*name).to_owned()));
            Ok(objects.iter().map(|(name, _)| name.as_bytes().to_vec()).collect())
        };
        let read = |chosen: &[usize], earlier: &SharedEarlierRows| {
            let block = MapBlock { range: 0..chosen.len(), rows: RecordBatch::new_empty(Schema::empty().into()) };
            let output = read_block(&objects_at(chosen), &block, earlier, &fetch).unwrap();
            let MappedRows::New(batch) = output.rows else { panic!("there is no earlier part") };
            (batch, output.row_keys.0, output.copied)
        };
        let (fresh, _, copied) = read(&[0, 1, 2], &None);
        assert_eq!((copied, fetched.take().len()), (0, 3));
        let bytes = fresh["bytes"].as_binary::<i32>();
        assert_eq!(fresh["digest"].as_string::<i32>(), &picture_digests(bytes));

        let (part, keys, _) = read(&[1, 0], &None);
        fetched.take();
        let earlier = |digests: [Option<&str>; 2]| -> SharedEarlierRows {
            let mut columns = part.columns().to_vec();
            let digests = StringArray::from_iter(digests.into_iter().zip(part["digest"].as_string::<i32>()).map(
                |(made_up, own)| match made_up {
                    Some("own") => own,
                    made_up => made_up,
                },
            ));
            columns[part.schema().index_of("digest").unwrap()] = Arc::new(digests);
            let part = tables::batch(&part.schema(), columns).unwrap();
            Some(Arc::new(PartInMemory(keys.clone(), part)))
        };
        let (again, _, copied) = read(&[0, 1, 2], &earlier([Some("own"); 2]));
        assert_eq!((copied, fetched.take()), (2, vec!["c.jpg".to_owned()]));
        assert_eq!(again, fresh);
        // A digest that nobody can compute, and one that is missing.
        let (made_up, ..) = read(&[0, 1, 2], &earlier([Some("made up"), None]));
        let digests: Vec<_> = made_up["digest"].as_string::<i32>().iter().map(Option::unwrap).collect();
        let fresh = fresh["digest"].as_string::<i32>();
        assert_eq!(digests, [fresh.value(0), "made up", fresh.value(2)]);
    }

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
        assert_eq!(problem, "image name has 4097 bytes, expected at most 4096");
    }
}
