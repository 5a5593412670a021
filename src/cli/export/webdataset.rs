//! Tar files in the form of WebDataset: for each image the picture, its first caption (`.txt`), and all captions with
//! identifiers and split (`.json`).

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::json;
use tar::{Builder, Header};

use super::{ExportSource, NewFile, NewFolder};
use pairloom_base::error::{Error, Result};
use pairloom_images::image::{EncodedImages, extension};
use pairloom_tables as tables;

/// Largest number of images of an archive.
const MAX_IMAGES: usize = 10_000;
/// Number of bytes of pictures after which an archive ends.
const MAX_BYTES: usize = 1 << 30;

/// Captions of an image: identifiers and texts.
type Captions = (Vec<i64>, Vec<String>);

/// Archive that is written.
struct ArchiveWriter {
    tar: Builder<NewFile>,
    name: String,
    images: usize,
    bytes: usize,
}

/// Writes the images of `source` with their `captions`. Returns the number of images.
///
/// # Errors
/// The table has no pictures, one cannot be read, or an image has no captions; or the folder cannot be written.
pub(super) fn write_webdataset(
    source: &ExportSource<'_>,
    captions: &ExportSource<'_>,
    folder: &mut NewFolder,
) -> Result<usize> {
    let captions = read_captions(captions)?;
    let root = source.image_folder();
    let (mut rows, mut archives) = (0, 0);
    let mut archive: Option<ArchiveWriter> = None;
    for batch in source.batches()? {
        let batch = batch?;
        let expected =
            |_| Error::usage(format!("`{}.{}` has no pictures, expected `images`", source.stage(), source.table()));
        let images = EncodedImages::new(&batch, root.as_deref()).map_err(expected)?;
        let (ids, splits) = (tables::int_column(&batch, "image_id")?, tables::text_column(&batch, "split")?);
        for row in 0..images.len() {
            let (id, name) = (ids.value(row), images.name(row));
            let in_image = |error: Error| error.context(format!("image {id}, `{}`", images.shown_name(row)));
            let (caption_ids, texts) = captions.get(&id).ok_or_else(|| in_image(Error::data("it has no captions")))?;
            let picture = images.encoded(row).map_err(in_image)?;
            let writer = match &mut archive {
                Some(writer) if writer.images < MAX_IMAGES && writer.bytes < MAX_BYTES => writer,
                full => {
                    full.take().map_or(Ok(()), ArchiveWriter::finish)?;
                    archives += 1;
                    full.insert(ArchiveWriter::create(folder, format!("{}-{:06}.tar", source.table(), archives - 1))?)
                }
            };
            let all = json!({
                "image_id": id,
                "file_name": name,
                "split": splits.value(row),
                "caption_ids": caption_ids,
                "captions": texts,
            });
            // Extensions begin at the first point of a name, so names are numbers.
            let key = format!("{id:09}");
            writer.append(&format!("{key}.{}", extension(&picture).unwrap_or("img")), &picture)?;
            writer.append(&format!("{key}.txt"), texts[0].as_bytes())?;
            writer.append(&format!("{key}.json"), all.to_string().as_bytes())?;
            writer.images += 1;
            rows += 1;
        }
    }
    if rows == 0 {
        return Err(source.has_no_rows());
    }
    archive.map_or(Ok(()), ArchiveWriter::finish)?;
    Ok(rows)
}

/// Captions by image, in the order of the table.
fn read_captions(captions: &ExportSource<'_>) -> Result<HashMap<i64, Captions>> {
    let mut all: HashMap<i64, Captions> = HashMap::new();
    for batch in captions.batches()? {
        let batch = batch?;
        let [ids, images] = ["caption_id", "image_id"].map(|name| tables::int_column(&batch, name));
        let (ids, images, texts) = (ids?, images?, tables::text_column(&batch, "text")?);
        for row in 0..batch.num_rows() {
            let (in_image, own) = all.entry(images.value(row)).or_default();
            in_image.push(ids.value(row));
            own.push(texts.value(row).to_owned());
        }
    }
    Ok(all)
}

impl ArchiveWriter {
    fn create(folder: &mut NewFolder, name: String) -> Result<Self> {
        Ok(Self { tar: Builder::new(folder.file(&name)?), name, images: 0, bytes: 0 })
    }

    /// Appends a file. Its header depends on name and size only.
    fn append(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        self.bytes += content.len();
        let written = self.tar.append_data(&mut header, name, content);
        written.map_err(|error| Error::io("write", &PathBuf::from(&self.name), &error))
    }

    fn finish(self) -> Result<()> {
        let file = self.tar.into_inner().map_err(|error| Error::io("write", &PathBuf::from(&self.name), &error))?;
        file.finish()
    }
}
