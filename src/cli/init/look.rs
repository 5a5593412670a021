//! A look at a folder or a file: which form of data it is, by names, first rows and the pictures that are there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::annotations::{Annotations, image_lists, read_json, read_tokens, split_of_name};
use super::draft::{Content, Draft, Split, Value};
use super::table::{Column, TABLES, Table, ending, is_url};
use pairloom_base::error::{Error, ErrorCategory, Result, TruncatedList};
use pairloom_base::suggest::quoted_list;
use pairloom_formats::npy::{NpyFile, NpyRowKind, is_npy};
use pairloom_formats::tar_samples::{self, TarPart};
use pairloom_images::image::strip_image_extension;

/// Names of images that are looked for in a folder.
const SOUGHT: usize = 50;

/// Entries of a folder that are looked at, and folders below one.
const ENTRIES: usize = 1 << 20;
const FOLDERS: usize = 200;

/// Samples that are read of an archive.
const SAMPLES: usize = 200;

const FORMS: &str = "expected photographs with a table of captions, Karpathy's split file, COCO's annotations, Flickr's token \
                     file, a `*_precomp` folder, tar files of WebDataset, Parquet files of Hugging Face, a table of URLs, or \
                     two npy files of embeddings";

/// Finds the form of the data at `path`.
///
/// # Errors
/// There is nothing, or nothing of a known form, or a file is damaged.
pub(super) fn look(path: &Path) -> Result<Draft> {
    let found = std::fs::metadata(path).map_err(|error| Error::io("look at", path, &error))?;
    if found.is_dir() {
        return look_at_folder(path);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    match ending(path).as_str() {
        "json" => annotated(&[path.to_owned()], folder),
        "tar" | "tgz" => webdataset(path, &[path.to_owned()]),
        "npy" => embeddings(path, &files_of(folder)?),
        end if TABLES.contains(&end) => table(Table::read(path)?, folder),
        _ => match read_tokens(path)? {
            Some(names) => flickr(path, &names, folder),
            None => Err(Error::data(format!("`{}` is of no known form", path.display())).hint(FORMS)),
        },
    }
}

fn look_at_folder(folder: &Path) -> Result<Draft> {
    let files = files_of(folder)?;
    let with = |endings: &[&str]| -> Vec<PathBuf> {
        files.iter().filter(|file| endings.contains(&ending(file).as_str())).cloned().collect()
    };
    if files.iter().any(|file| file.ends_with("train_caps.txt")) {
        return precomp(folder);
    }
    let archives = with(&["tar", "tgz"]);
    if !archives.is_empty() {
        return webdataset(folder, &archives);
    }
    let mut lists = with(&["json"]);
    if lists.is_empty() {
        lists = files_of(&folder.join("annotations")).unwrap_or_default();
        lists.retain(|file| ending(file) == "json");
    }
    // A folder has other JSON files too.
    lists.retain(|file| read_json(file).is_ok());
    if !lists.is_empty() {
        return annotated(&lists, folder);
    }
    for file in with(&["txt", "token"]) {
        if let Some(names) = read_tokens(&file)? {
            return flickr(&file, &names, folder);
        }
    }
    let mut tables = with(&TABLES);
    if tables.is_empty() {
        tables = files_of(&folder.join("data")).unwrap_or_default();
        tables.retain(|file| TABLES.contains(&ending(file).as_str()));
    }
    let mut first = None;
    for file in &tables {
        match Table::read(file).and_then(|read| table(read, folder)) {
            Ok(draft) => return Ok(draft),
            Err(error) => first = first.or(Some(error)),
        }
    }
    if let Some(error) = first {
        return Err(error);
    }
    if let [one, _, ..] = with(&["npy"]).as_slice() {
        return embeddings(one, &files);
    }
    pictures_alone(folder)
}

/// Files of a folder, sorted.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_file()).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let read = std::fs::read_dir(shown).map_err(|error| Error::io("list", shown, &error))?;
    let mut all: Vec<PathBuf> = read.take(ENTRIES).flatten().map(|entry| folder.join(entry.file_name())).collect();
    all.sort_unstable();
    Ok(all)
}

/// Folder at `near`, or below it, that has the first of these files.
fn find_images(near: &Path, names: &[String]) -> Option<PathBuf> {
    let names: Vec<&String> = names.iter().filter(|name| !name.trim().is_empty()).take(SOUGHT).collect();
    let has_them = |folder: &Path| {
        let there = names.iter().filter(|name| folder.join(name.trim()).is_file()).count();
        // Lists name images that are gone.
        there > 0 && 2 * there >= names.len()
    };
    let mut open = vec![near.to_owned()];
    let mut i = 0;
    while let Some(folder) = open.get(i).cloned() {
        if has_them(&folder) {
            return Some(folder);
        }
        if open.len() < FOLDERS {
            open.extend(entries(&folder).unwrap_or_default().into_iter().filter(|path| path.is_dir()));
        }
        i += 1;
    }
    None
}

/// Error for a list whose images are nowhere.
fn no_images(list: &Path, names: &[String], near: &Path) -> Error {
    let near = if near.as_os_str().is_empty() { Path::new(".") } else { near };
    let name = names.iter().find(|name| !name.is_empty()).map_or("", String::as_str);
    Error::data(format!("`{}` names `{name}`, which is in no folder at or below `{}`", list.display(), near.display()))
        .hint("put the folder of the images beside the list, or name the folder that has both")
}

/// Annotations of COCO in several files, or Karpathy's split file.
fn annotated(files: &[PathBuf], folder: &Path) -> Result<Draft> {
    let (mut all, mut folders, mut count) = (Vec::new(), Vec::new(), 0);
    for file in files {
        match read_json(file)? {
            Annotations::Karpathy(names) => {
                let images = find_images(folder, &names).ok_or_else(|| no_images(file, &names, folder))?;
                return Ok(Draft {
                    found: format!("a split file of Karpathy with {} images", names.len()),
                    notes: vec![],
                    form: "karpathy",
                    settings: vec![("json", Value::Path(file.clone())), ("images", Value::Path(images))],
                    content: Content::Pictures,
                    images: Some(names.len()),
                    tested: "test",
                });
            }
            Annotations::Coco(names) => {
                let near = if folder.ends_with("annotations") { folder.parent().unwrap_or(folder) } else { folder };
                folders.push(find_images(near, &names).ok_or_else(|| no_images(file, &names, near))?);
                count += names.len();
                all.push(file.clone());
            }
        }
    }
    let is_one = folders.iter().all(|one| *one == folders[0]);
    let root = if is_one { folders[0].clone() } else { folders[0].parent().unwrap_or(folder).to_owned() };
    let below = |folder: &Path| folder.strip_prefix(&root).unwrap_or(folder).display().to_string();
    let splits: Vec<&str> = all.iter().map(|file| split_of_name(file).unwrap_or("train")).collect();
    let tested = ["test", "val", "train"].into_iter().find(|split| splits.contains(split)).unwrap_or("train");
    let files = all.into_iter().zip(&folders).zip(&splits).map(|((file, folder), split)| (file, below(folder), *split));
    let mut notes = Vec::new();
    if tested != "test" {
        notes.push(format!("No file of test images: the results are those of the split `{tested}`."));
    }
    if !splits.contains(&"train") {
        return Err(Error::data("no annotation file has training images, by their names")
            .hint("name the folder that also has a file such as `captions_train2014.json`"));
    }
    Ok(Draft {
        found: format!("caption annotations of COCO with {count} images"),
        notes,
        form: "coco",
        settings: vec![("files", Value::CocoFiles(files.collect())), ("images", Value::Path(root.clone()))],
        content: Content::Pictures,
        images: Some(count),
        tested,
    })
}

fn flickr(tokens: &Path, names: &[String], folder: &Path) -> Result<Draft> {
    let files = files_of(folder)?;
    let [Some(train), Some(val), Some(test)] = image_lists(&files) else {
        return Err(Error::data(format!(
            "`{}` is a token file, and its lists of images are not beside it",
            tokens.display()
        ))
        .hint("expected three files such as `Flickr_8k.trainImages.txt`, `….devImages.txt` and `….testImages.txt`"));
    };
    let images = find_images(folder, names).ok_or_else(|| no_images(tokens, names, folder))?;
    let path = |path: &Path| Value::Path(path.to_owned());
    Ok(Draft {
        found: format!("a token file of Flickr with {} images", names.len()),
        notes: vec![],
        form: "flickr",
        settings: vec![
            ("tokens", path(tokens)),
            ("images", path(&images)),
            ("train", path(train)),
            ("val", path(val)),
            ("test", path(test)),
        ],
        content: Content::Pictures,
        images: Some(names.len()),
        tested: "test",
    })
}

fn precomp(folder: &Path) -> Result<Draft> {
    let features = folder.join("train_ims.npy");
    let (file, content) = match NpyFile::open(&features, NpyRowKind::VectorSets, "") {
        Ok(file) => (file, Content::Regions),
        Err(_) => (NpyFile::open(&features, NpyRowKind::Vectors, "")?, Content::Features),
    };
    let what = if content == Content::Regions { "regions" } else { "features" };
    let mut settings = vec![("folder", Value::Path(folder.to_owned()))];
    if content == Content::Regions {
        settings.push(("regions", Value::True));
    }
    Ok(Draft {
        found: format!("a `*_precomp` folder with {what} of width {}, {} training rows", file.width(), file.rows()),
        notes: vec![],
        form: "precomp",
        settings,
        content,
        images: Some(file.rows()),
        tested: "test",
    })
}

fn webdataset(shards: &Path, archives: &[PathBuf]) -> Result<Draft> {
    let first = &archives[0];
    let count = Cell::new(0);
    let (mut has_texts, mut fields) = (false, Vec::new());
    let check = || {
        if count.get() < SAMPLES {
            Ok(())
        } else {
            Err(Error::new(ErrorCategory::Interrupted, "enough samples are read"))
        }
    };
    let read = tar_samples::for_each(first, check, |part| {
        if let TarPart::Sample(sample) = part {
            count.set(count.get() + 1);
            has_texts |= sample.member("txt").is_some();
            if fields.is_empty()
                && let Some(json) = sample.member("json")
                && let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(json)
            {
                fields = object.into_iter().filter(|(_, value)| value.is_string() || value.is_array()).collect();
            }
        }
        Ok(Ok(()))
    });
    let images = match read {
        Ok(()) if archives.len() == 1 => Some(count.get()),
        Err(error) if error.category() != ErrorCategory::Interrupted => return Err(error),
        _ => None,
    };
    let split = Split::Random(images);
    let tested = split.tested();
    let mut settings = vec![("shards", Value::Path(shards.to_owned())), ("split", Value::Split(split))];
    if !has_texts {
        let field = ["caption", "captions", "text", "sentences"]
            .into_iter()
            .find(|name| fields.iter().any(|(field, _)| field == name))
            .ok_or_else(|| {
                let names = quoted_list(fields.iter().map(|(name, _)| name.as_str()));
                Error::data(format!(
                    "`{}` has no `.txt`, and no field of captions in its `.json`: {names}",
                    first.display()
                ))
                .hint("expected samples of `key.jpg` with `key.txt`, or with `key.json` and its field `caption`")
            })?;
        settings.push(("captions", Value::Names(vec![("json", field.to_owned())])));
    }
    Ok(Draft {
        found: format!("{} of WebDataset", count_of(archives.len(), "archive")),
        notes: vec![],
        form: "webdataset",
        settings,
        content: Content::Pictures,
        images,
        tested,
    })
}

/// Table of captions, with pictures in it, URLs, or the names of files at or below `near`.
fn table(table: Table, near: &Path) -> Result<Draft> {
    let split = |table: &Table, images: Option<usize>| match table.split() {
        Some((column, values)) => {
            let tested = if values.values().any(|split| *split == "test") { "test" } else { "val" };
            let renamed = values.into_iter().filter(|(value, split)| value != split);
            let values = renamed.map(|(value, split)| (value.to_owned(), split)).collect();
            Split::Column { name: column.name.clone(), values, tested }
        }
        None => Split::Random(images),
    };
    let name = table.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(url) = table.names().find(|name| is_url(name)) {
        let message =
            format!("`{}` begins with a row, expected the names of its columns: `{url}`", table.path.display());
        return Err(
            Error::data(message).hint("write a first line such as `caption` and `url`, with a tab between them")
        );
    }
    let no_captions = || {
        let names = quoted_list(table.names());
        Error::data(format!("`{}` has no column of captions: {names}", table.path.display()))
            .hint("expected a column such as `caption` or `text`")
    };
    let (mut settings, mut notes) = (Vec::new(), Vec::new());
    let named = |default: &str, name: &str| (default != name).then(|| name.to_owned());
    let (found, form, images, split) = if let Some(pictures) = table.pictures() {
        let captions = table.captions(&pictures.name).ok_or_else(no_captions)?;
        let images = table.is_whole.then_some(captions.values.len());
        let folder = table.path.parent().unwrap_or(near);
        let others = files_of(folder)?.into_iter().filter(|file| ending(file) == ending(&table.path)).count();
        let (files, images) = if others > 1 { (folder, None) } else { (table.path.as_path(), images) };
        settings.push(("files", Value::Path(files.to_owned())));
        settings.extend(named("image", &pictures.name).map(|name| ("image", Value::Text(name))));
        settings.extend(named("caption", &captions.name).map(|name| ("caption", Value::Text(name))));
        skip_gaps(&table, captions, None, &mut settings, &mut notes);
        (format!("a table with pictures and captions, `{name}`"), "hugging_face", images, split(&table, images))
    } else if let Some(urls) = table.urls() {
        let captions = table.captions(&urls.name).ok_or_else(no_captions)?;
        let images = table.count(urls);
        settings.push(("table", Value::Path(table.path.clone())));
        let names = [("url", named("url", &urls.name)), ("caption", named("caption", &captions.name))];
        let names: Vec<_> = names.into_iter().filter_map(|(setting, name)| Some((setting, name?))).collect();
        if !names.is_empty() {
            settings.push(("columns", Value::Names(names)));
        }
        settings.push(("on_missing", Value::Text("skip".to_owned())));
        (format!("a table of URLs with captions, `{name}`"), "image_urls", images, split(&table, images))
    } else {
        let files = table.file_columns();
        let (file, folder) = files
            .iter()
            .find_map(|column| Some((*column, find_images(near, &column.values)?)))
            .ok_or_else(|| no_files(&table, near))?;
        let captions = table.captions(&file.name).ok_or_else(no_captions)?;
        let images = table.count(file);
        settings.push(("images", Value::Path(folder.clone())));
        settings.push(("captions", Value::Path(table.path.clone())));
        let names = [("file_name", named("file_name", &file.name)), ("caption", named("caption", &captions.name))];
        let names: Vec<_> = names.into_iter().filter_map(|(setting, name)| Some((setting, name?))).collect();
        if !names.is_empty() {
            settings.push(("columns", Value::Names(names)));
        }
        skip_gaps(&table, captions, Some((file, &folder)), &mut settings, &mut notes);
        (format!("photographs with a table of captions, `{name}`"), "image_folder", images, split(&table, images))
    };
    if let Some(separator) = table.separator {
        settings.push(("separator", Value::Text(separator.to_string())));
    }
    let tested = split.tested();
    settings.push(("split", Value::Split(split)));
    Ok(Draft { found, notes, form, settings, content: Content::Pictures, images, tested })
}

/// Lets `ingest` leave out rows of a table with an empty caption, or with a file that is not in the folder.
fn skip_gaps(
    table: &Table,
    captions: &Column,
    files: Option<(&Column, &Path)>,
    settings: &mut Vec<(&'static str, Value)>,
    notes: &mut Vec<String>,
) {
    let rows = captions.values.len();
    let empty = captions.values.iter().filter(|caption| caption.trim().is_empty()).count();
    let (mut gone, mut gone_rows, mut named) = (0, 0, 0);
    if let Some((column, folder)) = files {
        let mut rows_of: BTreeMap<&str, usize> = BTreeMap::new();
        column
            .values
            .iter()
            .filter(|name| !name.trim().is_empty())
            .for_each(|name| *rows_of.entry(name).or_default() += 1);
        let missing = rows_of.iter().filter(|(name, _)| !folder.join(name).is_file());
        (gone, gone_rows) = missing.fold((0, 0), |(names, all), (_, rows)| (names + 1, all + rows));
        named = rows_of.len();
    }
    if empty == 0 && gone == 0 {
        return;
    }
    settings.push(("on_missing", Value::Text("skip".to_owned())));
    let percent = |part: usize, whole: usize| (100 * part).div_ceil(whole.max(1));
    let share = percent(empty, rows).max(percent(gone, named));
    if share > 10 {
        settings.push(("max_skipped", Value::Share(share)));
    }
    let counted = [(empty, "an empty caption"), (gone_rows, "a file that is not there")];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let counted: Vec<String> =
        counted.map(|(count, what)| format!("{} with {what}", count_of(*count, "row"))).collect();
    let of = if table.is_whole { "of" } else { "of the first" };
    notes.push(format!("`on_missing` leaves out {}, {of} {rows}.", counted.join(" and ")));
}

fn no_files(table: &Table, near: &Path) -> Error {
    match table.file_columns().first() {
        Some(column) => no_images(&table.path, &column.values, near),
        None => {
            let mut names = TruncatedList::default();
            names.extend(table.names().map(|name| format!("`{name}`")));
            let message = format!("`{}` has no column of images or URLs: {}", table.path.display(), names.join(", "));
            Error::data(message).hint("expected a column such as `file_name` or `url`, and one of captions")
        }
    }
}

/// Two npy files of embeddings, one of which is `one`.
fn embeddings(one: &Path, files: &[PathBuf]) -> Result<Draft> {
    let is_of = |file: &Path, words: &[&str]| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        words.iter().any(|word| name.contains(word))
    };
    let arrays: Vec<&PathBuf> = files.iter().filter(|file| is_npy(file).unwrap_or(false)).collect();
    let images = arrays.iter().find(|file| is_of(file, &["image", "img", "im_", "ims", "visual"]));
    let captions = arrays.iter().find(|file| is_of(file, &["caption", "cap_", "caps", "text", "txt"]));
    let (Some(images), Some(captions)) = (images, captions) else {
        return Err(Error::data(format!("`{}` has no partner", one.display())).hint(
            "expected two npy files such as `images.npy` and `captions.npy` in one folder: one row an image, one row a caption",
        ));
    };
    let [rows, texts] =
        [images, captions].map(|file| NpyFile::open(file, NpyRowKind::Vectors, "").map(|file| file.rows()));
    let (rows, texts) = (rows?, texts?);
    let mut settings = vec![("images", Value::Path((*images).clone())), ("captions", Value::Path((*captions).clone()))];
    if rows == 0 || !texts.is_multiple_of(rows) {
        return Err(Error::data(format!(
            "`{}` has {texts} rows, and `{}` has {rows}",
            captions.display(),
            images.display()
        ))
        .hint(
            "expected an equal number of captions of each image; otherwise `embeddings` has the setting `image_of`",
        ));
    }
    settings.push(("captions_per_image", Value::Number(texts / rows)));
    Ok(Draft {
        found: format!("embeddings of {rows} images and {texts} captions"),
        notes: vec!["Rows of the captions are grouped by image, in the order of the images.".to_owned()],
        form: "embeddings",
        settings,
        content: Content::Embeddings,
        images: Some(rows),
        tested: "test",
    })
}

/// Folder of pictures without captions.
fn pictures_alone(folder: &Path) -> Result<Draft> {
    let mut open = vec![folder.to_owned()];
    let (mut count, mut i) = (0, 0);
    while let Some(below) = open.get(i).cloned() {
        let all = entries(&below)?;
        count +=
            all.iter().filter(|path| path.to_str().is_some_and(|name| strip_image_extension(name).is_some())).count();
        if open.len() < FOLDERS {
            open.extend(all.into_iter().filter(|path| path.is_dir()));
        }
        i += 1;
    }
    if count == 0 {
        return Err(Error::data(format!("`{}` has no data of a known form", folder.display())).hint(FORMS));
    }
    // The parent of `.` is only in its absolute path.
    let parent = match folder.file_name() {
        Some(_) => folder.parent().map(Path::to_owned),
        None => std::fs::canonicalize(folder).ok().and_then(|folder| folder.parent().map(Path::to_owned)),
    };
    let mut beside = parent.and_then(|parent| files_of(&parent).ok()).unwrap_or_default().into_iter();
    let captions = beside.find(|file| {
        let is_table = TABLES.contains(&ending(file).as_str());
        is_table
            && Table::read(file).and_then(|read| table(read, folder)).is_ok_and(|draft| draft.form == "image_folder")
    });
    let note = captions.map(|file| {
        let file = file.display();
        format!("The table `{file}` beside the folder has captions of these pictures: name it in place of the folder, `pairloom init {file}`.")
    });
    Ok(Draft {
        found: format!("{} without captions", count_of(count, "picture")),
        notes: note.into_iter().collect(),
        form: "image_folder",
        settings: vec![("images", Value::Path(folder.to_owned())), ("split", Value::Text("train".to_owned()))],
        content: Content::PicturesAlone,
        images: Some(count),
        tested: "train",
    })
}

fn count_of(count: usize, singular: &str) -> String {
    super::super::units::format_items(count, &format!("{singular}s"))
}
