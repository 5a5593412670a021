//! Reader of Flickr8k-Expert: `ExpertAnnotations.txt`, with three ratings of each pair.
//!
//! Format: Hodosh, Young, Hockenmaier, "Framing image description as a ranking task", JAIR 47, 2013. A line has the file
//! name of an image, `image.jpg#k` for the k-th caption of an image from 0, and the ratings of three people.

use std::collections::HashMap;
use std::path::Path;

use super::names::{CAPTION_SIGN, PairNames};
use super::rows::Rating;
use pairloom_base::error::{Result, ValidationErrors};
use pairloom_formats::text_lines::TextLines;
use pairloom_storage::image_names::shown_name;

/// Number of ratings of a pair.
const RATINGS: usize = 3;
/// Values of a rating.
const SCALE: std::ops::RangeInclusive<u8> = 1..=4;

/// Sampling of a caption with its own image.
const OWN_IMAGE: &str = "own_image";
/// Sampling of a caption with an image of other captions.
const OTHER_IMAGE: &str = "other_image";

/// Reads the ratings, line by line.
///
/// # Errors
/// Lines have mistakes: the error lists all of them.
pub(super) fn read(path: &Path, names: &PairNames) -> Result<Vec<Rating>> {
    let file = TextLines::read(path)?;
    let mut mistakes = ValidationErrors::in_file(path);
    let (mut ratings, mut seen) = (Vec::new(), HashMap::new());
    for (number, line) in file.iter().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("line {number}");
        let pair = match read_line(line, names) {
            Ok(pair) => pair,
            Err(message) => {
                mistakes.add(place, message);
                continue;
            }
        };
        if let Some(first) = seen.insert((pair.image_id, pair.caption_id), number) {
            let message = format_args!("the pair is rated in line {first} too").to_string();
            mistakes.add(place, message);
        }
        ratings.extend(pair.ratings.map(|rating| Rating {
            caption_id: pair.caption_id,
            image_id: pair.image_id,
            rating,
            sampling: pair.sampling.to_owned(),
            rater: None,
        }));
    }
    mistakes.into_result()?;
    Ok(ratings)
}

/// Line of the file.
struct ExpertPair {
    image_id: i64,
    caption_id: i64,
    sampling: &'static str,
    ratings: [f64; RATINGS],
}

/// Reads a line, or returns a message.
fn read_line(line: &str, names: &PairNames) -> Result<ExpertPair, String> {
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [image, caption, of_people @ ..] = fields.as_slice() else {
        return Err(format!("{} fields, wanted an image, a caption and {RATINGS} ratings between tabs", fields.len()));
    };
    let Ok(of_people) = <[&str; RATINGS]>::try_from(of_people) else {
        return Err(format!("{} ratings, wanted {RATINGS}", of_people.len()));
    };
    let mut ratings = [0.0; RATINGS];
    for (rating, text) in ratings.iter_mut().zip(of_people) {
        let number = text.parse::<u8>().ok().filter(|number| SCALE.contains(number));
        let number = number.ok_or_else(|| {
            let text = shown_name(text);
            format!("rating is `{text}`, wanted a whole number from {} to {}", SCALE.start(), SCALE.end())
        })?;
        *rating = f64::from(number);
    }
    let own = caption.rsplit_once(CAPTION_SIGN).is_some_and(|(of, _)| of == *image);
    Ok(ExpertPair {
        image_id: names.image(image)?,
        caption_id: names.caption(caption)?,
        sampling: if own { OWN_IMAGE } else { OTHER_IMAGE },
        ratings,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Float64Type;
    use serde_json::json;

    use super::super::super::testing::{folder, ingest, ingest_beside, refused};
    use pairloom_base::error::Result;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables::{int_column, text_column};

    const CAPTIONS: &str = "image,caption\n1056338697_4f7d7ce270.jpg,one\n1056338697_4f7d7ce270.jpg,two\n\
                            2549968784_39bfbe44f9.jpg,a\n2549968784_39bfbe44f9.jpg,b\n2549968784_39bfbe44f9.jpg,c\n";

    /// Reads a file of ratings beside the captions above.
    fn read(name: &str, content: &str, form: &str) -> Result<InMemoryHost> {
        let folder = folder(&[("captions.csv", CAPTIONS.as_bytes()), (name, content.as_bytes())]);
        let captions = json!({"captions": {"file": "captions.csv", "image": "image", "split": "test"}});
        let pairs = ingest(folder.path(), captions).unwrap();
        let settings = json!({"ratings": {
            "file": name, "form": form, "images": "pairs.images", "captions": "pairs.captions",
        }});
        ingest_beside(
            folder.path(),
            settings,
            &[("ratings.images", &pairs, "images"), ("ratings.captions", &pairs, "captions")],
        )
    }

    #[test]
    fn each_rating_of_a_line_is_a_row() {
        let lines = "1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#2\t1\t1\t2\r\n\
                     1056338697_4f7d7ce270.jpg\t1056338697_4f7d7ce270.jpg#1\t4\t4\t3\n";
        let host = read("ExpertAnnotations.txt", lines, "flickr8k_expert").unwrap();
        let rows = host.output("ratings");
        assert_eq!(rows["rating"].as_primitive::<Float64Type>().values(), &[1.0, 1.0, 2.0, 4.0, 4.0, 3.0]);
        // Captions are numbered in the order of the table: 0 and 1 of the first image, 2 to 4 of the second.
        assert_eq!(int_column(&rows, "caption_id").unwrap().values(), &[4, 4, 4, 1, 1, 1]);
        assert_eq!(int_column(&rows, "image_id").unwrap().values(), &[0; 6]);
        let samplings = text_column(&rows, "sampling").unwrap();
        assert_eq!((samplings.value(0), samplings.value(5)), ("other_image", "own_image"));
        assert_eq!(text_column(&rows, "rater").unwrap().null_count(), 6);
    }

    #[test]
    fn every_mistake_is_named_with_its_line() {
        let lines = "1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#2\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#2\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#3\t1\t1\t2\n\
                     other.jpg\t2549968784_39bfbe44f9.jpg#2\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#1\t0.5\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#1\t1\t2\n\
                     a b c\n";
        let message = refused(read("ExpertAnnotations.txt", lines, "flickr8k_expert"));
        for part in [
            "line 2: the pair is rated in line 1 too",
            "line 3: caption is `2549968784_39bfbe44f9.jpg#3`, but that image has 3 captions in `pairs.captions`",
            "line 4: image is `other.jpg`, which is no `file_name` of `pairs.images`",
            "line 5: caption is `2549968784_39bfbe44f9.jpg`, wanted `IMAGE#NUMBER`",
            "line 6: rating is `0.5`, wanted a whole number from 1 to 4",
            "line 7: 2 ratings, wanted 3",
            "line 8: 1 fields, wanted an image, a caption and 3 ratings between tabs",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn a_table_of_pairs_can_have_names_too() {
        let rows = "caption,image,agg_score,sampling_method,rater\n\
                    2549968784_39bfbe44f9.jpg#0,1056338697_4f7d7ce270.jpg,2,x,Ann\n";
        let host = read("ratings.csv", rows, "crisscrossed").unwrap();
        let rows = host.output("ratings");
        assert_eq!(int_column(&rows, "caption_id").unwrap().value(0), 2);
        assert_eq!(int_column(&rows, "image_id").unwrap().value(0), 0);
    }
}
