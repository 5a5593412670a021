//! Human ratings of pairs of captions and images, as Crisscrossed Captions has them.
//!
//! Format: Parekh and others, "Crisscrossed Captions", EACL 2021: `sits_test.csv` and `sits_val.csv`, a line a pair.

use std::collections::HashMap;

use arrow::array::StringArray;

use super::parts::RATING_PART_ROWS;
use crate::error::{Error, Result};
use crate::io::delimited::Delimited;
use crate::stage::Cx;
use crate::tables::ratings;

#[derive(Default)]
struct Columns {
    caption_ids: Vec<i64>,
    image_ids: Vec<i64>,
    ratings: Vec<f64>,
    samplings: Vec<String>,
}

/// Reads the table and writes `ratings`, in its order.
pub(super) fn run(cx: &mut Cx<'_>) -> Result<()> {
    let table = Delimited::open(&cx.source("ratings.file")?)?;
    let path = table.path().to_owned();
    let [caption, image, rating, sampling] = table.columns(["caption", "image", "agg_score", "sampling_method"])?;
    let mut columns = Columns::default();
    let mut seen: HashMap<(i64, i64), u64> = HashMap::new();
    table.for_each(|line, fields| {
        let caption_id = number(fields[caption]).map_err(|problem| format!("caption {problem}"))?;
        let image_id = number(fields[image]).map_err(|problem| format!("image {problem}"))?;
        let value = fields[rating].trim().parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| format!("rating is `{}`, wanted a number", fields[rating].escape_debug()))?;
        if let Some(first) = seen.insert((caption_id, image_id), line) {
            return Err(format!("caption {caption_id} with image {image_id} is rated in line {first} too"));
        }
        columns.caption_ids.push(caption_id);
        columns.image_ids.push(image_id);
        columns.ratings.push(value);
        columns.samplings.push(fields[sampling].trim().to_owned());
        Ok(())
    })?;
    if columns.ratings.is_empty() {
        return Err(Error::data(format!("`{}` has no ratings", path.display())));
    }
    for start in (0..columns.ratings.len()).step_by(RATING_PART_ROWS) {
        let rows = start..columns.ratings.len().min(start + RATING_PART_ROWS);
        let part = ratings::Columns {
            caption_id: columns.caption_ids[rows.clone()].to_vec().into(),
            image_id: columns.image_ids[rows.clone()].to_vec().into(),
            rating: columns.ratings[rows.clone()].to_vec().into(),
            sampling: StringArray::from_iter_values(&columns.samplings[rows]),
        };
        cx.write("ratings", part.into_batch()?)?;
    }
    Ok(())
}

/// The identifier that ends `name`, before any extension: 732091 of `COCO_val2014:sentid:732091`, 365325 of
/// `COCO_val2014_000000365325.jpg`.
fn number(name: &str) -> Result<i64, String> {
    let stem = name.trim();
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    let start = stem
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| at + stem[at..].chars().next().map_or(1, char::len_utf8));
    stem[start..].parse().map_err(|_| format!("is `{}`, wanted a name that ends with a number", name.escape_debug()))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;
    use serde_json::json;
    use test_data::public;

    use super::super::testing::{folder, ingest, refused};
    use super::*;

    const HEADER: &str = "caption,image,agg_score,sampling_method\n";

    fn settings() -> serde_json::Value {
        json!({"ratings": {"file": "sits_test.csv"}})
    }

    #[test]
    fn identifiers_are_the_numbers_at_the_end() {
        assert_eq!(number("COCO_val2014:sentid:732091"), Ok(732_091));
        assert_eq!(number("COCO_val2014_000000365325.jpg"), Ok(365_325));
        assert_eq!(number(" 12 "), Ok(12));
        for name in ["", "a.jpg", "5é", "99999999999999999999"] {
            assert!(number(name).unwrap_err().contains("ends with a number"), "{name}");
        }
    }

    #[test]
    fn the_published_file_is_read_whole() {
        let Some(data) = public("cxc") else { return };
        let world = ingest(&data, settings()).unwrap();
        let rows = world.output("ratings");
        assert_eq!(rows.num_rows(), 44_833);
        let samplings = crate::tables::texts(&rows, "sampling").unwrap();
        assert_eq!(samplings.iter().filter(|name| *name == Some("c2i_intrasim")).count(), 19_833);
        assert_eq!(crate::tables::ids(&rows, "caption_id").unwrap().value(0), 732_091);
        assert_eq!(rows.column(2).as_primitive::<Float64Type>().value(1), 4.97);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let content =
            format!("{HEADER}a:1,b_1.jpg,1,x\na:1,b_1.jpg,2,x\na,b_1.jpg,2,x\na:2,b,2,x\na:2,b_1.jpg,nan,x\n");
        let message = refused(ingest(folder(&[("sits_test.csv", content.as_bytes())]).path(), settings()));
        for part in [
            "line 3: caption 1 with image 1 is rated in line 2 too",
            "line 4: caption is `a`",
            "line 5: image is `b`",
            "line 6: rating is `nan`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let message = refused(ingest(folder(&[("sits_test.csv", HEADER.as_bytes())]).path(), settings()));
        assert!(message.contains("has no ratings"), "{message}");
    }
}
