//! A table of captions, with no pictures: enough for all that compares captions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use super::listing;
use super::rows::{self, Image, Rows};
use super::settings::CaptionTable;
use crate::error::{Error, Mistakes, Result};
use crate::io::delimited::Delimited;
use crate::stage::Cx;

/// An image as the table names it, with its captions in the order of the table.
struct Described {
    name: String,
    split: &'static str,
    captions: Vec<(i64, String)>,
}

/// Reads the table and writes images, in order of their first caption, and their captions.
///
/// If every image is named by a whole number, that is its `image_id`; otherwise images are numbered from 0 in order of
/// first appearance. Without a column of caption identifiers a caption's is its place in the table, from 0.
pub(super) fn run(set: &CaptionTable, cx: &mut Cx<'_>) -> Result<()> {
    let path = cx.source("captions.file")?;
    let images = read(set, Delimited::open(&path)?)?;
    let ids = identifiers(&path, &images)?;
    let mut rows = Rows::default();
    for (id, image) in ids.into_iter().zip(&images) {
        let row = Image { id, split: image.split, file_name: &image.name, path: None, bytes: None };
        rows.push(cx, &row, image.captions.iter().map(|(id, text)| (*id, text.as_str())))?;
    }
    rows.finish(cx)
}

/// The identifier of each image.
///
/// # Errors
/// Two images with one: names such as `7` and `007`, which are one number.
fn identifiers(path: &Path, images: &[Described]) -> Result<Vec<i64>> {
    let ids: Option<Vec<i64>> = images.iter().map(|image| image.name.parse().ok()).collect();
    let Some(ids) = ids else { return Ok((0..).take(images.len()).collect()) };
    let mut names: HashMap<i64, &str> = HashMap::with_capacity(ids.len());
    let mut mistakes = Mistakes::of(path);
    for (id, image) in ids.iter().zip(images) {
        if let Some(other) = names.insert(*id, &image.name) {
            mistakes.add(format_args!("image `{}`", image.name), format_args!("is the number {id}, as `{other}` is"));
        }
    }
    mistakes.finish()?;
    Ok(ids)
}

fn read(set: &CaptionTable, table: Delimited) -> Result<Vec<Described>> {
    let path = table.path().to_owned();
    // A column that is not asked for is looked up by the name of one that is.
    let id_column = set.caption_id.as_deref().unwrap_or(&set.text);
    let split_column = set.split_column.as_deref().unwrap_or(&set.text);
    let [image, text, id, split] = table.columns([&set.image, &set.text, id_column, split_column])?;
    let fixed = set.split.as_deref().map(listing::split).transpose().map_err(Error::data)?;
    let mut images: Vec<Described> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut seen: HashMap<i64, u64> = HashMap::new();
    let mut count = 0;
    table.for_each(|line, fields| {
        let row = count;
        count += 1;
        let name = fields[image].trim();
        if name.is_empty() {
            return Err("the image is not named".to_owned());
        }
        let split = fixed.map_or_else(|| listing::split(fields[split].trim()), Ok)?;
        let id = match &set.caption_id {
            Some(column) => fields[id]
                .trim()
                .parse()
                .map_err(|_| format!("`{column}` is `{}`, wanted a whole number", fields[id].escape_debug()))?,
            None => row,
        };
        if let Some(first) = seen.insert(id, line) {
            return Err(format!("caption id {id} is also that of line {first}"));
        }
        let text = rows::caption(fields[text])?.to_owned();
        let place = match places.entry(name.to_owned()) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                images.push(Described { name: name.to_owned(), split, captions: vec![] });
                *place.insert(images.len() - 1)
            }
        };
        let image = &mut images[place];
        if image.split != split {
            return Err(format!("image `{name}` is in split `{split}` here and in `{}` before", image.split));
        }
        image.captions.push((id, text));
        Ok(())
    })?;
    if images.is_empty() {
        return Err(Error::data(format!("`{}` has no captions", path.display())));
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_data::public;

    use super::super::testing::{captions, folder, images, ingest, refused, split_counts};

    #[test]
    fn names_are_numbered_in_order_and_captions_stand_together() {
        let table = b"part\tpicture\tsays\ntest\tb.jpg\tone\ntrain\ta.jpg\ttwo \ntest\tb.jpg\tthree\n";
        let settings =
            json!({"captions": {"file": "c.tsv", "image": "picture", "text": "says", "split_column": "part"}});
        let world = ingest(folder(&[("c.tsv", table)]).path(), settings).unwrap();
        let wanted = [(0, "test", "b.jpg"), (1, "train", "a.jpg")];
        assert_eq!(images(&world), wanted.map(|(id, split, name)| (id, split.to_owned(), name.to_owned(), None)));
        let wanted = [(0, 0, "test", "one"), (2, 0, "test", "three"), (1, 1, "train", "two")];
        assert_eq!(
            captions(&world),
            wanted.map(|(id, image, split, text)| (id, image, split.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn whole_numbers_are_identifiers() {
        let table = b"caption_id,image_id,caption\n7,391,\"a, b\"\n5,391,c\n";
        let settings = json!({"captions": {"file": "c.csv", "caption_id": "caption_id", "split": "val"}});
        let world = ingest(folder(&[("c.csv", table)]).path(), settings).unwrap();
        assert_eq!(images(&world)[0], (391, "val".to_owned(), "391".to_owned(), None));
        assert_eq!(
            captions(&world).iter().map(|row| (row.0, row.3.as_str())).collect::<Vec<_>>(),
            [(7, "a, b"), (5, "c")]
        );
    }

    #[test]
    fn two_names_of_one_number_are_refused() {
        let settings = json!({"captions": {"file": "c.csv", "split": "test"}});
        let table = b"image_id,caption\n7,a\n007,b\n8,c\n+7,d\n";
        let message = refused(ingest(folder(&[("c.csv", table)]).path(), settings.clone()));
        assert!(message.contains("image `007`: is the number 7, as `7` is"), "{message}");
        assert!(message.contains("image `+7`: is the number 7"), "{message}");
        // Beside a name that is no number all are names, and differ.
        let world = ingest(folder(&[("c.csv", b"image_id,caption\n7,a\n007,b\nx,c\n")]).path(), settings).unwrap();
        assert_eq!(images(&world).iter().map(|row| row.0).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let table = b"id,image_id,caption,split\n1,1,a,test\n1,1,b,test\nx,1,b,test\n3,1, ,test\n4,1,c,train\n5,,c,test\n6,2,c,dev\n";
        let settings = json!({"captions": {"file": "c.csv", "caption_id": "id", "split_column": "split"}});
        let message = refused(ingest(folder(&[("c.csv", table)]).path(), settings));
        for part in [
            "line 3: caption id 1 is also that of line 2",
            "line 4: `id` is `x`, wanted a whole number",
            "line 5: caption is empty",
            "line 6: image `1` is in split `train` here and in `test` before",
            "line 7: the image is not named",
            "line 8: split is `dev`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let settings = json!({"captions": {"file": "c.csv", "split": "test"}});
        assert!(
            refused(ingest(folder(&[("c.csv", b"image_id,caption\n")]).path(), settings)).contains("has no captions")
        );
    }

    #[test]
    fn flickr30k_is_read_whole() {
        let Some(data) = public("f30k-captions") else { return };
        let settings = json!({"captions": {"file": "captions.tsv.gz", "image": "image", "split_column": "split"}});
        let world = ingest(&data, settings).unwrap();
        assert_eq!(split_counts(&world), [29_000, 1014, 1000]);
        assert_eq!(captions(&world).len(), 155_070);
    }
}
