//! Reader of a table of rated pairs, in the format of Crisscrossed Captions.
//!
//! Format: Parekh et al., "Crisscrossed Captions", EACL 2021: `sits_test.csv` and `sits_val.csv`, one pair per line. With
//! a column `rater`, one rating per line.

use std::collections::HashMap;
use std::path::Path;

use super::super::separator::separator_byte;
use super::names::PairNames;
use super::rows::Rating;
use pairloom_base::error::Result;
use pairloom_formats::delimited::DelimitedFile;
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;

/// Column that names the person who gave a rating.
const RATER: &str = "rater";

/// Reads the ratings, row by row.
///
/// # Errors
/// The file is no CSV or TSV file with these columns, or rows have mistakes: the error lists all of them.
pub(super) fn read(
    path: &Path,
    separator: Option<char>,
    names: &PairNames,
    cx: &mut StageContext<'_>,
) -> Result<Vec<Rating>> {
    let table = DelimitedFile::open(path, separator_byte(separator))?;
    let [caption, image, rating, sampling] = table.columns(["caption", "image", "agg_score", "sampling_method"])?;
    let rater = if table.has_column(RATER) { Some(table.columns([RATER])?[0]) } else { None };
    let mut ratings = Vec::new();
    let mut seen: HashMap<(i64, i64, Option<String>), u64> = HashMap::new();
    let read = |line: u64, fields: &[&str]| {
        let (caption_id, image_id) = (names.caption(fields[caption])?, names.image(fields[image])?);
        let value = fields[rating].trim().parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| format!("rating is `{}`, wanted a number", shown_name(fields[rating])))?;
        let rater = rater.map(|place| fields[place].trim().to_owned());
        if rater.as_ref().is_some_and(String::is_empty) {
            return Err(format!("the column `{RATER}` is empty, wanted a name of the person"));
        }
        if let Some(first) = seen.insert((caption_id, image_id, rater.clone()), line) {
            let pair = format!("caption {caption_id} with image {image_id}");
            return Err(match rater {
                Some(rater) => format!("{pair} is rated by `{}` in line {first} too", shown_name(&rater)),
                None => {
                    format!("{pair} is rated in line {first} too; ratings of several people need a column `{RATER}`")
                }
            });
        }
        let sampling = fields[sampling].trim().to_owned();
        ratings.push(Rating { caption_id, image_id, rating: value, sampling, rater });
        Ok(())
    };
    for doubt in table.for_each(|| cx.check_cancelled(), read)? {
        cx.warn(path.display().to_string(), doubt);
    }
    Ok(ratings)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;
    use serde_json::json;
    use test_data::public;

    use super::super::super::testing::{folder, ingest, refused};

    const HEADER: &str = "caption,image,agg_score,sampling_method\n";

    fn settings() -> serde_json::Value {
        json!({"ratings": {"file": "sits_test.csv"}})
    }

    #[test]
    fn the_published_file_is_read_completely() {
        let Some(data) = public("cxc") else { return };
        let host = ingest(&data, settings()).unwrap();
        let rows = host.output("ratings");
        assert_eq!(rows.num_rows(), 44_833);
        let samplings = pairloom_tables::text_column(&rows, "sampling").unwrap();
        assert_eq!(samplings.iter().filter(|name| *name == Some("c2i_intrasim")).count(), 19_833);
        assert_eq!(pairloom_tables::int_column(&rows, "caption_id").unwrap().value(0), 732_091);
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
        // Names of Flickr8k, whose last digits are no identifiers.
        let content = format!("{HEADER}2549968784_39bfbe44f9.jpg#2,1056338697_4f7d7ce270.jpg,1,x\n");
        let message = refused(ingest(folder(&[("sits_test.csv", content.as_bytes())]).path(), settings()));
        assert!(
            message.contains("line 2: caption is `2549968784_39bfbe44f9.jpg#2`, a name without an identifier"),
            "{message}"
        );
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
