//! Reader of `captions`: a table of captions without images, for stages that need captions only.

use super::caption_rows::{self, CaptionColumns, IdentifierColumn};
use super::image_folder::SplitColumn;
use super::listed_images::NO_CAPTIONS;
use super::writer::{DataSetWriter, ImageRow};
use super::{CaptionTable, delimited_form, listed_images};
use pairloom_base::error::{Error, Result};
use pairloom_stage::{Problem, StageContext};
use pairloom_storage::image_names::shown_name;

/// Columns of the table.
fn columns(settings: &CaptionTable) -> CaptionColumns<'_> {
    CaptionColumns {
        image: &settings.image,
        image_id: IdentifierColumn::Unused,
        text: &settings.text,
        caption_id: IdentifierColumn::of_setting(settings.caption_id.as_deref(), "caption_id"),
        split: settings.split_column.as_ref().map(SplitColumn::name),
        form: delimited_form(settings.separator, settings.header.as_deref()),
        on_missing: (settings.on_missing, settings.max_skipped),
        shown: |name| shown_name(name).into_owned(),
        hint: "name them with `image`, `text` and `caption_id`",
        identifier_hint: "captions have the identifiers of the column `caption_id`, since the table has it: \
                          `caption_id = \"\"` numbers them instead",
    }
}

/// Problems of the header of the table.
pub(super) fn check_headers(settings: &CaptionTable) -> Vec<Problem> {
    columns(settings).header_problems("captions.file", settings.file.path())
}

/// Reads the table and writes images, in order of their first caption, and their captions.
///
/// If the names of all images are whole numbers, these are the `image_id`s; otherwise images are numbered from 0 in
/// order of first appearance. Without a column of caption identifiers, captions are numbered from 0 in the order of the
/// table.
pub(super) fn run(settings: &CaptionTable, cx: &mut StageContext<'_>) -> Result<()> {
    let path = cx.source("captions.file")?;
    let columns = columns(settings);
    let fixed = settings.split.as_deref().map(listed_images::parse_split).transpose().map_err(Error::data)?;
    let split_of = |_: &str, field: Option<&str>| match (fixed, &settings.split_column) {
        (Some(fixed), _) => Ok(fixed),
        (None, Some(column)) => column.split(field.unwrap_or("")),
        (None, None) => Err("there is no split".to_owned()),
    };
    let images = caption_rows::read(cx, &path, &columns, |name, _| name.map(str::to_owned), split_of)?;
    let names: Vec<&str> = images.iter().map(|image| &*image.name).collect();
    let ids = caption_rows::image_ids(cx, &path, &names)?;
    let mut rows = DataSetWriter::default();
    for (id, image) in ids.into_iter().zip(&images) {
        if image.captions.is_empty() {
            cx.warn((columns.shown)(&image.name), NO_CAPTIONS);
            continue;
        }
        let row = ImageRow { id, split: image.split, file_name: &image.name, path: None, bytes: None };
        rows.push(cx, &row, image.captions.iter().map(|(id, text)| (*id, text.as_str())))?;
    }
    rows.finish(cx)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_data::public;

    use super::super::testing::{captions, folder, images, ingest, refused, split_counts};

    #[test]
    fn images_are_numbered_in_order_and_their_captions_are_adjacent() {
        let table = b"part\tpicture\tsays\ntest\tb.jpg\tone\ntrain\ta.jpg\ttwo \ntest\tb.jpg\tthree\n";
        let settings =
            json!({"captions": {"file": "c.tsv", "image": "picture", "text": "says", "split_column": "part"}});
        let host = ingest(folder(&[("c.tsv", table)]).path(), settings).unwrap();
        let expected = [(0, "test", "b.jpg"), (1, "train", "a.jpg")];
        assert_eq!(images(&host), expected.map(|(id, split, name)| (id, split.to_owned(), name.to_owned(), None)));
        let expected = [(0, 0, "test", "one"), (2, 0, "test", "three"), (1, 1, "train", "two")];
        assert_eq!(
            captions(&host),
            expected.map(|(id, image, split, text)| (id, image, split.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn whole_numbers_are_identifiers() {
        let table = b"caption_id,image_id,caption\n7,391,\"a, b\"\n5,391,c\n";
        let settings = json!({"captions": {"file": "c.csv", "caption_id": "caption_id", "split": "val"}});
        let host = ingest(folder(&[("c.csv", table)]).path(), settings).unwrap();
        assert_eq!(images(&host)[0], (391, "val".to_owned(), "391".to_owned(), None));
        assert_eq!(
            captions(&host).iter().map(|row| (row.0, row.3.as_str())).collect::<Vec<_>>(),
            [(7, "a, b"), (5, "c")]
        );
    }

    #[test]
    fn a_column_of_identifiers_is_used_without_a_setting() {
        let table = b"caption_id,image_id,caption\n7,391,a\n5,391,c\n";
        let ids = |settings| {
            let host = ingest(folder(&[("c.csv", table)]).path(), json!({ "captions": settings })).unwrap();
            captions(&host).iter().map(|row| row.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(json!({"file": "c.csv", "split": "val"})), [7, 5]);
        assert_eq!(ids(json!({"file": "c.csv", "split": "val", "caption_id": ""})), [0, 1]);
        let texts = b"caption_id,image_id,caption\na#0,391,a\n";
        let settings = json!({"captions": {"file": "c.csv", "split": "val"}});
        let message = refused(ingest(folder(&[("c.csv", texts)]).path(), settings));
        assert!(message.contains("`caption_id` is `a#0`, expected a whole number"), "{message}");
        assert!(message.ends_with("`caption_id = \"\"` numbers them instead"), "{message}");
    }

    #[test]
    fn numbers_with_a_point_are_a_warning() {
        let settings = json!({"captions": {"file": "c.csv", "split": "val"}});
        let table = b"image_id,caption\n1006.0,a\n1007.0,b\n";
        let host = ingest(folder(&[("c.csv", table)]).path(), settings.clone()).unwrap();
        let expected = "2 of 2 identifiers of images are no whole numbers, but numbers with a point, such as `1006.0`";
        assert!(host.warnings[0].message.starts_with(expected), "{:?}", host.warnings);
        let names = b"image_id,caption\n1006.jpg,a\n7.5,b\n";
        assert_eq!(ingest(folder(&[("c.csv", names)]).path(), settings).unwrap().warnings, []);
    }

    #[test]
    fn two_names_of_one_number_are_refused() {
        let settings = json!({"captions": {"file": "c.csv", "split": "test"}});
        let table = b"image_id,caption\n7,a\n007,b\n8,c\n+7,d\n";
        let message = refused(ingest(folder(&[("c.csv", table)]).path(), settings.clone()));
        assert!(message.contains("image `007`: is the number 7, as `7` is"), "{message}");
        assert!(message.contains("image `+7`: is the number 7"), "{message}");
        // If one name is not a number, all names are texts, and these differ.
        let host = ingest(folder(&[("c.csv", b"image_id,caption\n7,a\n007,b\nx,c\n")]).path(), settings).unwrap();
        assert_eq!(images(&host).iter().map(|row| row.0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(host.warnings[0].message.starts_with("1 of 3 identifiers of images are no whole numbers, such as `x`"));
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let table = b"id,image_id,caption,split\n1,1,a,test\n1,1,b,test\nx,1,b,test\n3,1, ,test\n4,1,c,train\n5,,c,test\n6,2,c,dev\n";
        let settings = json!({"captions": {"file": "c.csv", "caption_id": "id", "split_column": "split"}});
        let message = refused(ingest(folder(&[("c.csv", table)]).path(), settings));
        for part in [
            "line 3: caption id 1 is also that of line 2",
            "line 4: `id` is `x`, expected a whole number",
            "line 5: caption is empty",
            "line 6: image `1` is in split `train` here and in `test` before",
            "line 7: `image_id` is empty",
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
    fn empty_captions_can_be_left_out_of_a_table_without_names_of_columns() {
        let table = b"a.jpg\tdev\tone\na.jpg\tdev\t \nb.jpg\ttrain\t\nc.jpg\ttrain\tfour\n";
        let settings = json!({"captions": {"file": "c.tsv", "header": ["image_id", "part", "caption"], "on_missing": "skip",
            "max_skipped": 0.5, "split_column": {"name": "part", "values": {"dev": "val"}}}});
        let host = ingest(folder(&[("c.tsv", table)]).path(), settings).unwrap();
        let expected = [(0, 0, "val", "one"), (3, 2, "train", "four")];
        assert_eq!(
            captions(&host),
            expected.map(|(id, image, split, text)| (id, image, split.to_owned(), text.to_owned()))
        );
        assert_eq!(images(&host).len(), 2);
        let warnings: Vec<_> = host.warnings.iter().map(|warning| (&*warning.subject, &*warning.message)).collect();
        assert!(
            warnings[0].1.starts_with("2 of 4 captions are left out: line 2: caption is empty; line 3"),
            "{warnings:?}"
        );
        assert_eq!(warnings[1], ("b.jpg", "image has no captions and is left out"));
    }

    #[test]
    fn flickr30k_is_read_completely() {
        let Some(data) = public("f30k-captions") else { return };
        let settings = json!({"captions": {"file": "captions.tsv.gz", "image": "image", "split_column": "split"}});
        let host = ingest(&data, settings).unwrap();
        assert_eq!(split_counts(&host), [29_000, 1014, 1000]);
        assert_eq!(captions(&host).len(), 155_070);
    }
}
