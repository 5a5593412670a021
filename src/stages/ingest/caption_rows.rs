//! Rows of a table of captions, grouped by image: the reader of `captions`, `image_folder` and `image_urls`.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::OnMissing;
use super::listed_images::{UnknownSplits, check_name_length};
use super::writer::CaptionCleaner;
use pairloom_base::error::{Error, ErrorCategory, Result, ValidationErrors};
use pairloom_formats::delimited::DelimitedForm;
use pairloom_formats::record_file::{FieldValue, RecordFile, RecordPlace};
use pairloom_formats::table_file::ColumnKind;
use pairloom_stage::{Problem, StageContext};
use pairloom_storage::image_names::shown_name;

/// Memory that the images and captions of a file of any size may take, and what each byte of the file adds: more in a file
/// with compression. Those of web pages take 3 to 6 times the size of their file. A Parquet file of kilobytes may have millions of rows.
const KEPT_BYTES: u64 = 1 << 30;
const KEPT_TIMES: u64 = 8;
const KEPT_TIMES_COMPRESSED: u64 = 40;
/// Memory that an image, a caption, and an identifier of each take beside their texts, with their places in maps.
const IMAGE_BYTES: u64 = 256;
const IMAGE_ID_BYTES: u64 = 112;
const CAPTION_BYTES: u64 = 64;
const CAPTION_ID_BYTES: u64 = 40;

/// Column of identifiers, which a table may lack.
#[derive(Debug, Clone, Copy)]
pub(super) enum IdentifierColumn<'s> {
    /// No column: items are numbered.
    Unused,
    /// Column that the table must have.
    Named(&'s str),
    /// Column that is used if the table has it.
    IfPresent(&'static str),
}

impl<'s> IdentifierColumn<'s> {
    /// Column of a setting: its name, or none if it is empty. Without the setting, the column `default` if it is there.
    pub(super) fn of_setting(setting: Option<&'s str>, default: &'static str) -> Self {
        match setting {
            None => Self::IfPresent(default),
            Some("") => Self::Unused,
            Some(name) => Self::Named(name),
        }
    }

    /// Name of the column in a file. A column with another meaning, one of `taken`, is used only if it is named.
    fn name_in(self, file: &RecordFile, taken: &[&str], check: impl Fn() -> Result<()>) -> Result<Option<&'s str>> {
        Ok(match self {
            Self::Unused => None,
            Self::Named(name) => Some(name),
            Self::IfPresent(name) if taken.contains(&name) => None,
            Self::IfPresent(name) => file.has_column(name, check)?.then_some(name),
        })
    }

    fn is_if_present(self) -> bool {
        matches!(self, Self::IfPresent(_))
    }
}

/// Names of the columns of a table of captions.
#[derive(Debug)]
pub(super) struct CaptionColumns<'s> {
    /// Column of the image: its file or its identifier.
    pub image: &'s str,
    /// Column of the identifier of the image, beside its file.
    pub image_id: IdentifierColumn<'s>,
    /// Column of the caption, or of a list of captions.
    pub text: &'s str,
    /// Column of the identifier of the caption.
    pub caption_id: IdentifierColumn<'s>,
    /// Column of the split.
    pub split: Option<&'s str>,
    /// Separator and header of a CSV or TSV file, if they are not the usual ones.
    pub form: DelimitedForm<'s>,
    /// Treatment of captions that are empty or null, and the largest share of them that may be left out.
    pub on_missing: (OnMissing, f64),
    /// Form of the name of an image in messages.
    pub shown: fn(&str) -> String,
    /// Hint of the error for missing columns.
    pub hint: &'static str,
    /// Hint of the error for identifiers of a column that nobody named.
    pub identifier_hint: &'static str,
}

/// Columns of a file that are read.
struct ReadColumns<'s> {
    image_ids: Option<&'s str>,
    caption_ids: Option<&'s str>,
    /// Name and kind of each: image, caption, then those that are there of image identifier, caption identifier and split.
    all: Vec<(&'s str, ColumnKind)>,
    /// True if identifiers are read of a column that nobody named.
    has_unnamed_ids: bool,
    hint: String,
}

impl<'s> CaptionColumns<'s> {
    /// Columns of a file that are read.
    fn in_file(&self, file: &RecordFile, check: impl Fn() -> Result<()>) -> Result<ReadColumns<'s>> {
        let taken: Vec<&str> = [self.image, self.text].into_iter().chain(self.split).collect();
        let image_ids = self.image_id.name_in(file, &taken, &check)?;
        let caption_ids = self.caption_id.name_in(file, &taken, &check)?;
        let ids = [(self.image_id, image_ids), (self.caption_id, caption_ids)];
        let has_unnamed_ids = ids.iter().any(|(column, name)| column.is_if_present() && name.is_some());
        let more = if has_unnamed_ids { format!("; {}", self.identifier_hint) } else { String::new() };
        let hint = format!("{}{more}", self.hint);
        let mut all = vec![(self.image, ColumnKind::TextsOrIntegers), (self.text, ColumnKind::TextsOrLists)];
        let optional = [
            (image_ids, ColumnKind::TextsOrIntegers),
            (caption_ids, ColumnKind::TextsOrIntegers),
            (self.split, ColumnKind::Texts),
        ];
        all.extend(optional.iter().filter_map(|(name, kind)| Some(((*name)?, *kind))));
        Ok(ReadColumns { image_ids, caption_ids, all, has_unnamed_ids, hint })
    }

    /// Checks the columns of a table that is there, without reading its rows: problems of the setting `table`. JSON Lines have
    /// no header.
    pub(super) fn header_problems(&self, table: &str, path: &Path) -> Vec<Problem> {
        if !path.is_file() {
            return Vec::new();
        }
        let stop = || Err(Error::new(ErrorCategory::Interrupted, "the header is read"));
        let header = || -> Result<()> {
            let file = RecordFile::open(path, self.form)?;
            let columns = self.in_file(&file, stop)?;
            file.for_each(&columns.all, &columns.hint, stop, |_, _| Ok(())).map(drop)
        };
        match header() {
            Err(error) if error.category() != ErrorCategory::Interrupted => vec![Problem::of_error(table, &error)],
            _ => Vec::new(),
        }
    }
}

/// Image of the table, with its captions in the order of the table.
#[derive(Debug)]
pub(super) struct CaptionTableImage {
    /// Name in its first row.
    pub name: Arc<str>,
    /// Text that rows of the same image share. A name that equals it shares its memory.
    pub key: Arc<str>,
    /// Identifier, if there is a column of identifiers.
    pub id: Option<Arc<str>>,
    /// Split.
    pub split: &'static str,
    /// Identifier and text of each caption; none if all of them were left out.
    pub captions: Vec<(i64, String)>,
    /// Place of its first row.
    pub first: RecordPlace,
}

/// Images of the table so far.
#[derive(Default)]
struct ImagesByKey {
    images: Vec<CaptionTableImage>,
    by_key: HashMap<Arc<str>, usize>,
    /// Key of the image of each identifier, and the first row.
    by_id: HashMap<Arc<str>, (Arc<str>, RecordPlace)>,
    /// Row of each identifier of a caption, if there is a column of them.
    captions: HashMap<i64, RecordPlace>,
    count: i64,
    /// Bytes of memory, about.
    bytes: u64,
}

/// Fields of a row that describe its image.
struct ImageFields<'r> {
    name: &'r str,
    key: String,
    id: Option<&'r str>,
    split: &'static str,
}

/// Reads the images in order of first appearance. Without a column of caption identifiers, captions are numbered from 0
/// in the order of the table, with those that are left out.
///
/// `key_of` returns the key of a name, or of a field without one, in a row: rows with equal keys have the same image.
/// `split_of` returns the split of an image
/// from its key and the field of the split column.
///
/// # Errors
/// The file is not a table with these columns, has no captions, or has invalid rows, all of which the error lists. Or more
/// captions are left out than allowed, or the run was cancelled.
pub(super) fn read(
    cx: &mut StageContext<'_>,
    path: &Path,
    columns: &CaptionColumns<'_>,
    key_of: impl Fn(Result<&str, String>, RecordPlace) -> Result<String, String>,
    split_of: impl Fn(&str, Option<&str>) -> Result<&'static str, String>,
) -> Result<Vec<CaptionTableImage>> {
    let size = path.metadata().map_err(|error| Error::io("read", path, &error))?.len();
    read_within(kept_limit(path, size), cx, path, columns, key_of, split_of)
}

/// Reads as [`read`] images and captions that take at most `limit` bytes of memory.
fn read_within(
    limit: u64,
    cx: &mut StageContext<'_>,
    path: &Path,
    columns: &CaptionColumns<'_>,
    key_of: impl Fn(Result<&str, String>, RecordPlace) -> Result<String, String>,
    split_of: impl Fn(&str, Option<&str>) -> Result<&'static str, String>,
) -> Result<Vec<CaptionTableImage>> {
    let kept = Cell::new(0);
    let check = || {
        cx.check_cancelled()?;
        if kept.get() <= limit { Ok(()) } else { Err(too_large(path, limit)) }
    };
    let file = RecordFile::open(path, columns.form)?;
    let ReadColumns { image_ids, caption_ids, all: columns_read, has_unnamed_ids, hint } =
        columns.in_file(&file, check)?;
    let mut rows = ImagesByKey::default();
    let mut cleaner = CaptionCleaner::new(columns.on_missing.0, columns.on_missing.1);
    let mut unknown = UnknownSplits::default();
    let has_wrong_ids = Cell::new(false);
    let wrong_id = |_: &String| has_wrong_ids.set(true);
    let visit = |place: RecordPlace, values: &[FieldValue<'_>]| {
        let [image, text, more @ ..] = values else { return Err("has no fields".to_owned()) };
        let mut more = more.iter();
        let mut named = |column: Option<&'_ str>| column.and_then(|column| Some((column.to_owned(), more.next()?)));
        let (image_id, caption_id, split) = (named(image_ids), named(caption_ids), named(columns.split));
        let name = image.name().and_then(|name| check_name_length(&name).map(|()| name));
        let name = name.map_err(|problem| format!("`{}` {problem}", columns.image));
        let key = key_of(name.as_deref().map_err(Clone::clone), place)?;
        let name = name.unwrap_or_default();
        let id = image_id.map(|(column, value)| {
            let id = value.name().and_then(|id| check_name_length(&id).map(|()| id));
            id.map_err(|problem| format!("`{column}` {problem}"))
        });
        let id = id.transpose().inspect_err(wrong_id)?;
        let split = split.map(|(column, value)| value.name().map_err(|problem| format!("`{column}` {problem}")));
        let split = split.transpose()?;
        let split = split.as_deref().map(str::trim);
        let split = match split_of(&key, split) {
            Ok(split) => split,
            Err(problem) => return unknown.add(split.unwrap_or_default(), problem),
        };
        let fields = ImageFields { name: &name, key, id: id.as_deref(), split };
        let image = rows.add_image(fields, place);
        kept.set(rows.bytes);
        let image = image.inspect_err(wrong_id)?;
        rows.check_split(image, &(columns.shown)(&name), split)?;
        let texts = text.texts().map_err(|problem| format!("`{}` {problem}", columns.text))?;
        if texts.is_empty() {
            return cleaner.leave_out(place, &format!("`{}` is an empty list", columns.text));
        }
        let mut add = |rows: &mut ImagesByKey, id, text: Option<Cow<'_, str>>| {
            if let Some(text) = cleaner.clean(text.as_deref(), place)? {
                rows.add_caption(image, id, text);
            }
            Ok::<_, String>(())
        };
        match caption_id {
            Some(_) if texts.len() > 1 => {
                has_wrong_ids.set(true);
                Err(format!("{} captions with one identifier, expected one", texts.len()))
            }
            Some((column, id)) => {
                let id = id.integer().map_err(|problem| format!("`{column}` {problem}"));
                let id = id.and_then(|id| rows.check_caption_id(id, place).map(|()| id)).inspect_err(wrong_id)?;
                texts.into_iter().try_for_each(|text| add(&mut rows, id, text))
            }
            None => texts.into_iter().try_for_each(|text| {
                rows.count += 1;
                let id = rows.count - 1;
                add(&mut rows, id, text)
            }),
        }
    };
    let doubts = file.for_each(&columns_read, &hint, check, visit).map_err(|error| {
        let error = unknown.counted(error);
        if !has_unnamed_ids || !has_wrong_ids.get() {
            return error;
        }
        let hints = error.hint_text().into_iter().chain([columns.identifier_hint]).collect::<Vec<_>>().join("; ");
        error.hint(hints)
    })?;
    for doubt in doubts {
        cx.warn(path.display().to_string(), doubt);
    }
    if rows.images.is_empty() {
        return Err(Error::data(format!("`{}` has no captions", path.display())));
    }
    cleaner.finish(cx, path)?;
    Ok(rows.images)
}

/// Number of bytes of memory that the images and captions of a file of this size may take.
fn kept_limit(path: &Path, file_bytes: u64) -> u64 {
    let is_text =
        path.extension().is_some_and(|extension| ["csv", "tsv", "jsonl"].iter().any(|text| extension == *text));
    let times = if is_text { KEPT_TIMES } else { KEPT_TIMES_COMPRESSED };
    KEPT_BYTES.saturating_add(file_bytes.saturating_mul(times))
}

fn too_large(path: &Path, limit: u64) -> Error {
    let message = format!(
        "the images and captions of `{}` take more than {limit} bytes of memory, which is too much for its size",
        path.display()
    );
    Error::data(message).hint("the file is made to fill the memory; if not, write it as CSV without compression")
}

impl ImagesByKey {
    /// Adds the image of a row, or finds it. Returns its index.
    fn add_image(&mut self, row: ImageFields<'_>, place: RecordPlace) -> Result<usize, String> {
        let ImageFields { name, key, id, split } = row;
        let known = self.by_key.get(key.as_str()).copied();
        let key: Arc<str> = known.map_or_else(|| key.into(), |known| Arc::clone(&self.images[known].key));
        let mut shared_id = None;
        if let Some(id) = id {
            match self.by_id.get_key_value(id) {
                Some((_, (other, first))) if *other != key => {
                    let (id, other) = (shown_name(id), shown_name(other));
                    return Err(format!("image identifier `{id}` is also that of `{other}` in {first}"));
                }
                Some((id, _)) => shared_id = Some(Arc::clone(id)),
                None => {
                    let id: Arc<str> = id.into();
                    self.bytes += IMAGE_ID_BYTES + id.len() as u64;
                    self.by_id.insert(Arc::clone(&id), (Arc::clone(&key), place));
                    shared_id = Some(id);
                }
            }
        }
        let index = known.unwrap_or_else(|| {
            let shared_name = if *name == *key { Arc::clone(&key) } else { name.into() };
            let name_bytes = if Arc::ptr_eq(&shared_name, &key) { 0 } else { shared_name.len() };
            self.bytes += IMAGE_BYTES + (name_bytes + key.len()) as u64;
            self.by_key.insert(Arc::clone(&key), self.images.len());
            self.images.push(CaptionTableImage {
                name: shared_name,
                key,
                id: shared_id,
                split,
                captions: Vec::new(),
                first: place,
            });
            self.images.len() - 1
        });
        let image = &self.images[index];
        if let (Some(id), Some(before)) = (id, &image.id)
            && *id != **before
        {
            let [name, id, before] = [name, id, &**before].map(shown_name);
            return Err(format!("image `{name}` has the identifier `{id}` here and `{before}` in {}", image.first));
        }
        Ok(index)
    }

    fn check_split(&self, image: usize, name: &str, split: &str) -> Result<(), String> {
        let before = self.images[image].split;
        if before == split {
            return Ok(());
        }
        Err(format!("image `{name}` is in split `{split}` here and in `{before}` before"))
    }

    fn check_caption_id(&mut self, id: i64, place: RecordPlace) -> Result<(), String> {
        self.bytes += CAPTION_ID_BYTES;
        match self.captions.insert(id, place) {
            Some(first) => Err(format!("caption id {id} is also that of {first}")),
            None => Ok(()),
        }
    }

    fn add_caption(&mut self, image: usize, id: i64, text: &str) {
        self.bytes += CAPTION_BYTES + text.len() as u64;
        let captions = &mut self.images[image].captions;
        if captions.is_empty() {
            // Most images of web pages have one caption, and a vector would begin with room for four.
            captions.reserve_exact(1);
        }
        captions.push((id, text.to_owned()));
    }
}

/// Whole number that an identifier is, beside white space.
pub(super) fn whole_number(name: &str) -> Option<i64> {
    name.trim().parse().ok()
}

/// Returns the identifiers of images: the whole numbers that `names` are, or numbers from 0 if one of them is a text. Warns
/// of a few texts among numbers.
///
/// # Errors
/// Two names are the same number, such as `7` and `007`.
pub(super) fn image_ids(cx: &mut StageContext<'_>, path: &Path, names: &[&str]) -> Result<Vec<i64>> {
    let ids: Option<Vec<i64>> = names.iter().map(|name| whole_number(name)).collect();
    let Some(ids) = ids else {
        if let Some(message) = text_doubt(names) {
            cx.warn(path.display().to_string(), message);
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

/// Returns a warning if identifiers that become texts were probably meant as whole numbers: a few texts are among numbers,
/// or there is a point in numbers, as pandas writes a column with a gap.
fn text_doubt(names: &[&str]) -> Option<String> {
    let is_with_point = |name: &str| {
        let zeros = name.split_once('.').filter(|(whole, _)| whole_number(whole).is_some());
        zeros.is_some_and(|(_, zeros)| zeros.trim_end().bytes().all(|byte| byte == b'0'))
    };
    let texts = || names.iter().filter(|name| whole_number(name).is_none());
    let count = texts().count();
    let pointed = texts().find(|name| is_with_point(name));
    let (shown, reason) = match pointed {
        Some(shown) if texts().filter(|name| is_with_point(name)).count() * 2 >= count => {
            (shown, ", but numbers with a point")
        }
        _ if count * 2 < names.len() => (texts().next()?, ""),
        _ => return None,
    };
    Some(format!(
        "{count} of {} identifiers of images are no whole numbers{reason}, such as `{}`: so all are texts, and images are \
         numbered from 0",
        names.len(),
        shown_name(shown)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::folder;
    use super::*;
    use pairloom_stage_testing::InMemoryHost;

    /// Reads a table with the columns `id`, `image` and `text`, whose images and captions take at most `limit` bytes.
    fn read_table(limit: u64, rows: &str) -> Result<Vec<CaptionTableImage>> {
        let columns = CaptionColumns {
            image: "image",
            image_id: IdentifierColumn::Named("id"),
            text: "text",
            caption_id: IdentifierColumn::Unused,
            split: None,
            form: DelimitedForm::default(),
            on_missing: (OnMissing::Fail, 0.1),
            shown: str::to_owned,
            hint: "",
            identifier_hint: "",
        };
        let folder = folder(&[("a.csv", format!("id,image,text\n{rows}").as_bytes())]);
        let key_of = |name: Result<&str, String>, _| name.map(|name| name.trim_start_matches("./").to_owned());
        let path = folder.path().join("a.csv");
        read_within(limit, &mut InMemoryHost::default(), &path, &columns, key_of, |_, _| Ok("test"))
    }

    #[test]
    fn images_and_captions_are_kept_within_a_limit_for_the_size_of_the_file() {
        let rows = |count: usize| (0..count).map(|row| format!("{row},{row},a\n")).collect::<String>();
        // 433 bytes and three times the digits of each row.
        assert_eq!(read_table(450 * 1000, &rows(1000)).unwrap().len(), 1000);
        let error = read_table(430 * 1000, &rows(2000)).unwrap_err();
        let expected = "take more than 430000 bytes of memory, which is too much for its size";
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(error.hint_text().unwrap().contains("without compression"), "{error}");
        // Rows with a mistake count too: each has another identifier of one image.
        let same = (0..1000).map(|row| format!("{row},a.jpg,a\n")).collect::<String>();
        assert!(read_table(200 * 1000, &same).unwrap_err().to_string().contains("999 mistakes"));
        assert!(read_table(50 * 1000, &same).unwrap_err().to_string().contains("50000 bytes of memory"));
        let of = |name: &str, bytes| kept_limit(Path::new(name), bytes);
        assert_eq!([0, 1 << 20, u64::MAX].map(|bytes| of("a.csv", bytes)), [1 << 30, 1_082_130_432, u64::MAX]);
        assert_eq!(["a.csv.gz", "a.parquet"].map(|name| of(name, 1 << 20)), [(1 << 30) + (40 << 20); 2]);
    }

    #[test]
    fn a_name_that_is_the_key_shares_its_memory() {
        let images = read_table(u64::MAX, "1,a,x\n2,./b,y\n1,./a,z\n").unwrap();
        assert_eq!(
            images.iter().map(|image| (&*image.name, &*image.key)).collect::<Vec<_>>(),
            [("a", "a"), ("./b", "b")]
        );
        assert!(Arc::ptr_eq(&images[0].name, &images[0].key));
        assert_eq!(images[0].captions, [(0, "x".to_owned()), (2, "z".to_owned())]);
    }

    #[test]
    fn names_and_identifiers_have_at_most_4096_bytes() {
        let name = "a".repeat(4096);
        assert_eq!(&*read_table(u64::MAX, &format!("{name},{name},x\n")).unwrap()[0].name, name);
        let message = read_table(u64::MAX, &format!("1,{name}b,x\n{name}b,2,x\n")).unwrap_err().to_string();
        for part in [
            "line 2: `image` has 4097 bytes, expected at most 4096",
            "line 3: `id` has 4097 bytes, expected at most 4096",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
