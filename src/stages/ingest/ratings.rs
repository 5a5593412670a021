//! Reader of `ratings`: human ratings of image-caption pairs, in the format of Crisscrossed Captions.
//!
//! Format: Parekh et al., "Crisscrossed Captions", EACL 2021: `sits_test.csv` and `sits_val.csv`, one pair per line. With
//! a column `rater`, one rating per line: Flickr8k-Expert (Hodosh, Young, Hockenmaier, JAIR 47, 2013) has three of each
//! pair.

use std::collections::HashMap;

use arrow::array::StringArray;

use super::RatingTable;
use super::part_rows::RATING_PART_ROWS;
use super::separator::separator_byte;
use crate::error::{Error, Result};
use crate::io::delimited::DelimitedFile;
use crate::stage::StageContext;
use crate::tables::{Nullable, ratings};

/// Column that names the person who gave a rating.
const RATER: &str = "rater";

#[derive(Default)]
struct RatingColumns {
    caption_ids: Vec<i64>,
    image_ids: Vec<i64>,
    ratings: Vec<f64>,
    samplings: Vec<String>,
    raters: Vec<Option<String>>,
}

/// Reads the file and writes `ratings`, in the order of the file.
pub(super) fn run(settings: &RatingTable, cx: &mut StageContext<'_>) -> Result<()> {
    let table = DelimitedFile::open(&cx.source("ratings.file")?, separator_byte(settings.separator))?;
    let path = table.path().to_owned();
    let [caption, image, rating, sampling] = table.columns(["caption", "image", "agg_score", "sampling_method"])?;
    let rater = if table.has_column(RATER) { Some(table.columns([RATER])?[0]) } else { None };
    let mut columns = RatingColumns::default();
    let mut seen: HashMap<(i64, i64, Option<String>), u64> = HashMap::new();
    let read = |line: u64, fields: &[&str]| {
        let caption_id = trailing_number(fields[caption]).map_err(|problem| format!("caption {problem}"))?;
        let image_id = trailing_number(fields[image]).map_err(|problem| format!("image {problem}"))?;
        let value = fields[rating].trim().parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| format!("rating is `{}`, wanted a number", fields[rating].escape_debug()))?;
        let rater = rater.map(|place| fields[place].trim().to_owned());
        if rater.as_ref().is_some_and(String::is_empty) {
            return Err(format!("the column `{RATER}` is empty, wanted a name of the person"));
        }
        if let Some(first) = seen.insert((caption_id, image_id, rater.clone()), line) {
            let pair = format!("caption {caption_id} with image {image_id}");
            return Err(match rater {
                Some(rater) => format!("{pair} is rated by `{}` in line {first} too", rater.escape_debug()),
                None => {
                    format!("{pair} is rated in line {first} too; ratings of several people need a column `{RATER}`")
                }
            });
        }
        columns.caption_ids.push(caption_id);
        columns.image_ids.push(image_id);
        columns.ratings.push(value);
        columns.samplings.push(fields[sampling].trim().to_owned());
        columns.raters.push(rater);
        Ok(())
    };
    for doubt in table.for_each(|| cx.check_cancelled(), read)? {
        cx.warn(path.display().to_string(), doubt);
    }
    if columns.ratings.is_empty() {
        return Err(Error::data(format!("`{}` has no ratings", path.display())));
    }
    for start in (0..columns.ratings.len()).step_by(RATING_PART_ROWS) {
        let rows = start..columns.ratings.len().min(start + RATING_PART_ROWS);
        let part = ratings::TableColumns {
            caption_id: columns.caption_ids[rows.clone()].to_vec().into(),
            image_id: columns.image_ids[rows.clone()].to_vec().into(),
            rating: columns.ratings[rows.clone()].to_vec().into(),
            sampling: StringArray::from_iter_values(&columns.samplings[rows.clone()]),
            rater: Nullable(StringArray::from_iter(&columns.raters[rows])),
        };
        cx.write("ratings", part.into_batch()?)?;
    }
    Ok(())
}

/// Returns the number at the end of `name` without its extension: 732091 for `COCO_val2014:sentid:732091`, 365325 for
/// `COCO_val2014_000000365325.jpg`.
fn trailing_number(name: &str) -> Result<i64, String> {
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
        assert_eq!(trailing_number("COCO_val2014:sentid:732091"), Ok(732_091));
        assert_eq!(trailing_number("COCO_val2014_000000365325.jpg"), Ok(365_325));
        assert_eq!(trailing_number(" 12 "), Ok(12));
        for name in ["", "a.jpg", "5é", "99999999999999999999"] {
            assert!(trailing_number(name).unwrap_err().contains("ends with a number"), "{name}");
        }
    }

    #[test]
    fn the_published_file_is_read_completely() {
        let Some(data) = public("cxc") else { return };
        let host = ingest(&data, settings()).unwrap();
        let rows = host.output("ratings");
        assert_eq!(rows.num_rows(), 44_833);
        let samplings = crate::tables::text_column(&rows, "sampling").unwrap();
        assert_eq!(samplings.iter().filter(|name| *name == Some("c2i_intrasim")).count(), 19_833);
        assert_eq!(crate::tables::int_column(&rows, "caption_id").unwrap().value(0), 732_091);
        assert_eq!(rows.column(2).as_primitive::<Float64Type>().value(1), 4.97);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let content =
            format!("{HEADER}a:1,b_1.jpg,1,x\na:1,b_1.jpg,2,x\na,b_1.jpg,2,x\na:2,b,2,x\na:2,b_1.jpg,nan,x\n");
        let message = refused(ingest(folder(&[("sits_test.csv", content.as_bytes())]).path(), settings()));
        for part in [
            "line 3: caption 1 with image 1 is rated in line 2 too; ratings of several people need a column `rater`",
            "line 4: caption is `a`",
            "line 5: image is `b`",
            "line 6: rating is `nan`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let message = refused(ingest(folder(&[("sits_test.csv", HEADER.as_bytes())]).path(), settings()));
        assert!(message.contains("has no ratings"), "{message}");
    }

    #[test]
    fn several_people_can_rate_a_pair() {
        let header = HEADER.replace('\n', ",rater\n");
        let read = |rows: &str| {
            let content = format!("{header}{rows}");
            ingest(folder(&[("sits_test.csv", content.as_bytes())]).path(), settings())
        };
        let host = read("a:1,b_1.jpg,1,x,Ann\na:1,b_1.jpg,3,x,Ben\na:2,b_1.jpg,4,x,Ann\n").unwrap();
        let rows = host.output("ratings");
        assert_eq!(rows["rating"].as_primitive::<Float64Type>().values(), &[1.0, 3.0, 4.0]);
        let raters: Vec<_> = rows["rater"].as_string::<i32>().iter().flatten().collect();
        assert_eq!(raters, ["Ann", "Ben", "Ann"]);
        let message = refused(read("a:1,b_1.jpg,1,x,Ann\na:1,b_1.jpg,3,x,Ann\na:2,b_1.jpg,4,x, \n"));
        for part in
            ["line 3: caption 1 with image 1 is rated by `Ann` in line 2 too", "line 4: the column `rater` is empty"]
        {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
