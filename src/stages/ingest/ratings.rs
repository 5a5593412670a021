//! Reader of `ratings`: human ratings of image-caption pairs.
//!
//! The names of images and captions in a file become identifiers ([`PairNames`]). Three forms of files are read.
//!
//! - A table of pairs with their ratings.
//! - Crisscrossed Captions (Parekh et al., "Crisscrossed Captions", EACL 2021): `sits_test.csv` and `sits_val.csv`, one pair per
//!   line. With a column `rater`, one rating per line.
//! - Flickr8k-Expert (Hodosh, Young, Hockenmaier, "Framing image description as a ranking task", JAIR 47, 2013):
//!   `ExpertAnnotations.txt`. A line has the file name of an image, `image.jpg#k` for the k-th caption of an image from 0, and
//!   the ratings of three people.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::StringArray;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::writer::RATING_PART_ROWS;
use super::{delimited_form, delimited_problems};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::delimited::DelimitedFile;
use pairloom_formats::text_lines::TextLines;
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput, TableRef};
use pairloom_storage::image_names::shown_name;
use pairloom_tables as tables;
use pairloom_tables::{Nullable, ratings};

/// Name of the input with the file.
const FILE: &str = "ratings.file";
/// Name of the input with the images.
const IMAGES: &str = "ratings.images";
/// Name of the input with the captions.
const CAPTIONS: &str = "ratings.captions";

/// Human ratings of image-caption pairs.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatingTable {
    /// File of the ratings, in the form that `form` names.
    pub file: SourceRef,
    /// Form of the file.
    #[serde(default, skip_serializing_if = "RatingForm::is_default")]
    pub form: RatingForm,
    /// Names of the columns of `form = "table"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<RatingColumns>,
    /// Images whose column `file_name` has the names of the file; needs `captions`. Without these tables, the number at
    /// the end of a name is the identifier: 365325 of `COCO_val2014_000000365325.jpg`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<TableRef>,
    /// Captions of `images`. The name `a.jpg#2` is the third caption of the image `a.jpg` in this table, so captions that
    /// `ingest` left out do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captions: Option<TableRef>,
    /// Separator of the columns of a CSV file; by default a comma. Fields may be quoted as in RFC 4180: `"a ""big"" dog"`. In
    /// TSV files, a quote is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub separator: Option<char>,
    /// Names of the columns of a CSV or TSV file that has no line of names, in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Vec<String>>,
}

/// Names of the columns of a table of ratings.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RatingColumns {
    /// Column of the image: its file name, or its identifier.
    pub image: String,
    /// Column of the caption: its text, its identifier, or `a.jpg#2` for the third caption of the image `a.jpg`. A text that
    /// several captions have is that of the image of the row.
    pub caption: String,
    /// Column of the rating, a number.
    pub score: String,
    /// Column of the person who gave the rating. By default `rater`, if the table has this column.
    pub rater: Option<String>,
    /// Column of the sampling of the pair. By default, the sampling is `own_image` for a caption of the image itself, and
    /// `other_image` for another one; without `captions` it is `table`.
    pub sampling: Option<String>,
}

impl Default for RatingColumns {
    fn default() -> Self {
        let [image, caption, score] = ["image", "caption", "score"].map(str::to_owned);
        Self { image, caption, score, rater: None, sampling: None }
    }
}

/// Form of a file of ratings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RatingForm {
    /// `sits_test.csv` or `sits_val.csv` of Crisscrossed Captions, or a CSV or TSV file with the same columns: `caption`,
    /// `image`, `agg_score`, `sampling_method`. With a column `rater`, a pair can have ratings of several people, each in a
    /// row.
    #[default]
    Crisscrossed,
    /// `ExpertAnnotations.txt` of Flickr8k: lines with the file name of an image, the name of a caption and the ratings of
    /// three people, from 1 to 4, between tabs. Each rating is a row. The sampling of a pair is `own_image` for a caption of
    /// the image itself, and `other_image` for another one. Needs `images` and `captions`.
    Flickr8kExpert,
    /// CSV or TSV file with the columns that `columns` names. A pair can have ratings of several people, each in a row.
    Table,
}

impl RatingForm {
    /// True for the default.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RatingTable {
    pub(super) fn inputs(&self) -> Vec<StageInput> {
        let images = self.images.iter().map(|from| StageInput::table(IMAGES, from, &tables::images::table()));
        let captions = self.captions.iter().map(|from| StageInput::table(CAPTIONS, from, &tables::captions::table()));
        std::iter::once(StageInput::source(FILE, &self.file)).chain(images).chain(captions).collect()
    }

    pub(super) fn check(&self) -> Vec<Problem> {
        let tables =
            "name the tables of the same data set: `images = \"pairs.images\"`, `captions = \"pairs.captions\"`";
        let mut problems = delimited_problems("ratings", self.separator, self.header.as_deref());
        if self.columns.is_some() && self.form != RatingForm::Table {
            let message = "it names the columns of `form = \"table\"`";
            problems.push(Problem::new("ratings.columns", message).hint("set `form = \"table\"` too"));
        }
        match (self.form, &self.images, &self.captions) {
            (_, Some(_), None) => problems.push(Problem::new(IMAGES, "needs `captions` beside it").hint(tables)),
            (_, None, Some(_)) => problems.push(Problem::new(CAPTIONS, "needs `images` beside it").hint(tables)),
            (RatingForm::Flickr8kExpert, None, None) => {
                let message = "`flickr8k_expert` has names of images and captions, and needs `images` and `captions`";
                problems.push(Problem::new("ratings.form", message).hint(tables));
            }
            _ => {}
        }
        for (setting, is_given) in [("separator", self.separator.is_some()), ("header", self.header.is_some())] {
            if self.form == RatingForm::Flickr8kExpert && is_given {
                let message = "`flickr8k_expert` has tabs between its columns, and no names of columns";
                let problem = Problem::new(format!("ratings.{setting}"), message);
                problems.push(problem.hint(format!("leave `{setting}` out")));
            }
        }
        problems
    }
}

/// Reads the file and writes `ratings`, in the order of the file.
pub(super) fn run(settings: &RatingTable, cx: &mut StageContext<'_>) -> Result<()> {
    let names = PairNames::read(settings, cx)?;
    let path = cx.source(FILE)?;
    let ratings = match settings.form {
        RatingForm::Crisscrossed | RatingForm::Table => read_pair_table(&path, settings, &names, cx)?,
        RatingForm::Flickr8kExpert => read_expert(&path, &names)?,
    };
    if ratings.is_empty() {
        return Err(Error::data(format!("`{}` has no ratings", path.display())));
    }
    write_rows(&ratings, cx)
}

/// Sign between the file name of an image and the number of a caption.
const CAPTION_SIGN: char = '#';

/// Finder of the identifiers of names.
#[derive(Debug)]
enum PairNames {
    /// Identifiers are the numbers at the ends of the names.
    Numbers,
    /// Names are those of the tables `images` and `captions`.
    Tables(Box<NamedItems>),
}

/// Images by their file names, with their captions.
#[derive(Debug)]
struct NamedItems {
    images: TableRef,
    captions: TableRef,
    /// Identifier of each file name; `None` for a name of several images.
    image_ids: HashMap<String, Option<i64>>,
    /// Captions of each image, in their order.
    caption_ids: HashMap<i64, Vec<i64>>,
    /// For a table that may name captions by their texts or identifiers: image and caption of each text, and the image of each
    /// caption.
    by_text: HashMap<String, Vec<(i64, i64)>>,
    image_of: HashMap<i64, i64>,
}

impl PairNames {
    /// Reads the tables that the settings name.
    fn read(settings: &RatingTable, cx: &mut StageContext<'_>) -> Result<Self> {
        let (Some(images), Some(captions)) = (&settings.images, &settings.captions) else { return Ok(Self::Numbers) };
        let mut items = NamedItems {
            images: images.clone(),
            captions: captions.clone(),
            image_ids: HashMap::new(),
            caption_ids: HashMap::new(),
            by_text: HashMap::new(),
            image_of: HashMap::new(),
        };
        while let Some(batch) = cx.read_next(IMAGES)? {
            let (ids, names) = (tables::int_column(&batch, "image_id")?, tables::text_column(&batch, "file_name")?);
            for row in 0..batch.num_rows() {
                let id = items.image_ids.entry(names.value(row).to_owned());
                id.and_modify(|known| *known = None).or_insert(Some(ids.value(row)));
            }
        }
        while let Some(batch) = cx.read_next(CAPTIONS)? {
            let (ids, images) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
            let texts = tables::text_column(&batch, "text")?;
            for row in 0..batch.num_rows() {
                let (image, id) = (images.value(row), ids.value(row));
                items.caption_ids.entry(image).or_default().push(id);
                if settings.form == RatingForm::Table {
                    items.by_text.entry(texts.value(row).to_owned()).or_default().push((image, id));
                    items.image_of.insert(id, image);
                }
            }
        }
        Ok(Self::Tables(Box::new(items)))
    }

    /// Identifier of an image.
    ///
    /// # Errors
    /// Message: the name is not among the images, or ends with no identifier.
    fn image(&self, name: &str) -> Result<i64, String> {
        match self {
            Self::Numbers => trailing_number(name.trim()),
            Self::Tables(items) => items.image(name),
        }
        .map_err(|problem| format!("image {problem}"))
    }

    /// Identifier of a caption, which may be one of the image `beside`.
    ///
    /// # Errors
    /// Message: its image is not among the images, or has fewer captions; or the name ends with no identifier.
    fn caption(&self, name: &str, beside: i64) -> Result<i64, String> {
        match self {
            Self::Numbers => trailing_number(name.trim()),
            Self::Tables(items) => {
                items.caption_by_text(name.trim(), beside).unwrap_or_else(|| items.caption(name.trim_end()))
            }
        }
        .map_err(|problem| format!("caption {problem}"))
    }

    /// Sampling of a pair whose table has none.
    fn sampling(&self, image: i64, caption: i64) -> &'static str {
        match self {
            Self::Numbers => "table",
            Self::Tables(items) if items.image_of.get(&caption) == Some(&image) => OWN_IMAGE,
            Self::Tables(_) => OTHER_IMAGE,
        }
    }
}

impl NamedItems {
    fn image(&self, name: &str) -> Result<i64, String> {
        match self.image_ids.get(name).or_else(|| self.image_ids.get(name.trim())) {
            Some(Some(id)) => Ok(*id),
            Some(None) => Err(format!("is `{}`, the file name of several images", shown_name(name))),
            None => {
                // Only images with captions are known, of a table that may name them by their identifiers.
                let id =
                    name.trim().parse().ok().filter(|id| !self.by_text.is_empty() && self.caption_ids.contains_key(id));
                id.ok_or_else(|| format!("is `{}`, which is no `file_name` of `{}`", shown_name(name), self.images))
            }
        }
    }

    /// Caption that a text or an identifier names; `None` if it names none. Of several captions with the text, that of the
    /// image `beside`.
    ///
    /// # Errors
    /// Message: several images have captions with the text.
    fn caption_by_text(&self, text: &str, beside: i64) -> Option<Result<i64, String>> {
        let Some(found) = self.by_text.get(text) else {
            let id = text.parse().ok().filter(|id| self.image_of.contains_key(id));
            return id.map(Ok);
        };
        let own = found.iter().find(|(image, _)| *image == beside);
        Some(match (own, found.as_slice()) {
            (Some((_, id)), _) | (None, [(_, id)]) => Ok(*id),
            (None, several) => Err(format!(
                "is `{}`, the text of {} captions of other images; expected `IMAGE{CAPTION_SIGN}NUMBER` or its identifier",
                shown_name(text),
                several.len()
            )),
        })
    }

    fn caption(&self, name: &str) -> Result<i64, String> {
        let parts = name.rsplit_once(CAPTION_SIGN);
        let parts = parts.and_then(|(image, number)| Some((image, number.parse::<usize>().ok()?)));
        let Some((image, number)) = parts else {
            let or_text = if self.by_text.is_empty() { "" } else { ", or the text or the identifier of a caption" };
            return Err(format!("is `{}`, expected `IMAGE{CAPTION_SIGN}NUMBER`{or_text}", shown_name(name)));
        };
        let image_captions = self.caption_ids.get(&self.image(image)?).map_or(&[][..], Vec::as_slice);
        image_captions.get(number).copied().ok_or_else(|| {
            let name = shown_name(image);
            let (name, count) = (format!("{name}{CAPTION_SIGN}{number}"), image_captions.len());
            format!("is `{name}`, but that image has {count} captions in `{}`", self.captions)
        })
    }
}

/// Returns the number at the end of `name` without its extension: 732091 for `COCO_val2014:sentid:732091`, 365325 for
/// `COCO_val2014_000000365325.jpg`. The last word of the name must be a number, or letters and a number: the end of a
/// random name, such as `4f7d7ce270`, and `a.jpg#2` are no identifiers.
fn trailing_number(name: &str) -> Result<i64, String> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let is_digit = |c: char| c.is_ascii_digit();
    let word = stem.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let digits = word.trim_start_matches(|c: char| !is_digit(c));
    let is_name = name.contains(CAPTION_SIGN) || (!digits.is_empty() && !digits.chars().all(is_digit));
    if is_name {
        return Err(format!(
            "is `{}`, a name without an identifier; set `images` and `captions` to look it up",
            shown_name(name)
        ));
    }
    digits.parse().map_err(|_| format!("is `{}`, expected a name that ends with a number", shown_name(name)))
}

/// Rating of a pair.
#[derive(Debug)]
struct Rating {
    caption_id: i64,
    image_id: i64,
    rating: f64,
    sampling: String,
    /// Person who gave it, if the file names people.
    rater: Option<String>,
}

/// Writes `ratings`, in the order of the file.
fn write_rows(rows: &[Rating], cx: &mut StageContext<'_>) -> Result<()> {
    for rows in rows.chunks(RATING_PART_ROWS) {
        let part = ratings::TableColumns {
            caption_id: rows.iter().map(|row| row.caption_id).collect::<Vec<_>>().into(),
            image_id: rows.iter().map(|row| row.image_id).collect::<Vec<_>>().into(),
            rating: rows.iter().map(|row| row.rating).collect::<Vec<_>>().into(),
            sampling: StringArray::from_iter_values(rows.iter().map(|row| &row.sampling)),
            rater: Nullable(StringArray::from_iter(rows.iter().map(|row| row.rater.as_deref()))),
        };
        cx.write("ratings", part.into_batch()?)?;
    }
    Ok(())
}

/// Column that names the person who gave a rating.
const RATER: &str = "rater";

/// Column of the ratings of Crisscrossed Captions, and of the sampling.
const CRISSCROSSED: [&str; 2] = ["agg_score", "sampling_method"];

/// Reads the ratings, row by row.
///
/// # Errors
/// The file is no CSV or TSV file with these columns, or rows have mistakes: the error lists all of them.
fn read_pair_table(
    path: &Path,
    settings: &RatingTable,
    names: &PairNames,
    cx: &mut StageContext<'_>,
) -> Result<Vec<Rating>> {
    let table = DelimitedFile::open(path, delimited_form(settings.separator, settings.header.as_deref()))?;
    let mut columns = settings.columns.clone().unwrap_or_default();
    let hint = if settings.form == RatingForm::Crisscrossed {
        let [score, sampling] = CRISSCROSSED.map(str::to_owned);
        columns = RatingColumns { score, sampling: Some(sampling), ..columns };
        "a table with other columns is read with `form = \"table\"`"
    } else {
        "name those that differ below `ratings`, such as `columns.score = \"…\"`"
    };
    let rater_column = columns.rater.or_else(|| table.has_column(RATER).then(|| RATER.to_owned()));
    let optional = [&rater_column, &columns.sampling].map(Option::as_deref);
    let [caption, image, score] = [&columns.caption, &columns.image, &columns.score].map(String::as_str);
    let needed: Vec<&str> = [caption, image, score].into_iter().chain(optional.into_iter().flatten()).collect();
    let places = table.column_places(&needed, hint)?;
    let mut more = places.iter().skip(3).copied();
    let [rater, sampling] = optional.map(|column| column.and_then(|_| more.next()));
    let [caption, image, rating] = [places[0], places[1], places[2]];
    let mut ratings = Vec::new();
    let mut seen: HashMap<(i64, i64, Option<String>), u64> = HashMap::new();
    let read = |line: u64, fields: &[&str]| {
        let image_id = names.image(fields[image]);
        let caption_id = names.caption(fields[caption], *image_id.as_ref().unwrap_or(&-1))?;
        let image_id = image_id?;
        let value = fields[rating].trim().parse().ok().filter(|value: &f64| value.is_finite());
        let value = value.ok_or_else(|| format!("rating is `{}`, expected a number", shown_name(fields[rating])))?;
        let rater = rater.map(|place| fields[place].trim().to_owned());
        if rater.as_ref().is_some_and(String::is_empty) {
            let column = rater_column.as_deref().unwrap_or(RATER);
            return Err(format!("the column `{column}` is empty, expected a name of the person"));
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
        let sampling = sampling.map_or_else(|| names.sampling(image_id, caption_id), |place| fields[place].trim());
        let sampling = sampling.to_owned();
        ratings.push(Rating { caption_id, image_id, rating: value, sampling, rater });
        Ok(())
    };
    for doubt in table.for_each(|| cx.check_cancelled(), read)? {
        cx.warn(path.display().to_string(), doubt);
    }
    Ok(ratings)
}

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
fn read_expert(path: &Path, names: &PairNames) -> Result<Vec<Rating>> {
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
    let [image, caption, people_ratings @ ..] = fields.as_slice() else {
        return Err(format!(
            "{} fields, expected an image, a caption and {RATINGS} ratings between tabs",
            fields.len()
        ));
    };
    let Ok(people_ratings) = <[&str; RATINGS]>::try_from(people_ratings) else {
        return Err(format!("{} ratings, expected {RATINGS}", people_ratings.len()));
    };
    let mut ratings = [0.0; RATINGS];
    for (rating, text) in ratings.iter_mut().zip(people_ratings) {
        let number = text.parse::<u8>().ok().filter(|number| SCALE.contains(number));
        let number = number.ok_or_else(|| {
            let text = shown_name(text);
            format!("rating is `{text}`, expected a whole number from {} to {}", SCALE.start(), SCALE.end())
        })?;
        *rating = f64::from(number);
    }
    let own = caption.rsplit_once(CAPTION_SIGN).is_some_and(|(named, _)| named == *image);
    let image_id = names.image(image)?;
    Ok(ExpertPair {
        image_id,
        caption_id: names.caption(caption, image_id)?,
        sampling: if own { OWN_IMAGE } else { OTHER_IMAGE },
        ratings,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::Float64Type;
    use serde_json::json;
    use test_data::public;

    use super::super::testing::{folder, ingest, ingest_beside, refused};
    use super::*;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables::{int_column, text_column};

    #[test]
    fn identifiers_are_the_numbers_at_the_end() {
        assert_eq!(trailing_number("COCO_val2014:sentid:732091"), Ok(732_091));
        assert_eq!(trailing_number("COCO_val2014_000000365325.jpg"), Ok(365_325));
        assert_eq!(trailing_number("12"), Ok(12));
        assert_eq!(trailing_number("photographs/img12.jpg"), Ok(12));
        for name in ["", "a.jpg", "5é", "99999999999999999999"] {
            assert!(trailing_number(name).is_err(), "{name}");
        }
        assert!(trailing_number("a.jpg").unwrap_err().contains("expected a name that ends with a number"));
    }

    /// File names of Flickr8k end with random letters and digits.
    #[test]
    fn the_end_of_a_random_name_is_no_identifier() {
        for name in ["1056338697_4f7d7ce270.jpg", "2549968784_39bfbe44f9.jpg#2", "a_12.jpg#0", "1_2f3"] {
            let message = trailing_number(name).unwrap_err();
            assert!(message.ends_with("; set `images` and `captions` to look it up"), "{name}: {message}");
        }
    }

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
        let samplings = text_column(&rows, "sampling").unwrap();
        assert_eq!(samplings.iter().filter(|name| *name == Some("c2i_intrasim")).count(), 19_833);
        assert_eq!(int_column(&rows, "caption_id").unwrap().value(0), 732_091);
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

    const CAPTIONS: &str = "image,caption\n1056338697_4f7d7ce270.jpg,one\n1056338697_4f7d7ce270.jpg,two\n\
                            2549968784_39bfbe44f9.jpg,a\n2549968784_39bfbe44f9.jpg,b\n2549968784_39bfbe44f9.jpg,c\n";

    /// Reads a file of ratings beside the captions above.
    fn read_form(name: &str, content: &str, form: &str) -> Result<InMemoryHost> {
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
        let host = read_form("ExpertAnnotations.txt", lines, "flickr8k_expert").unwrap();
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
    fn every_mistake_of_an_expert_file_is_named_with_its_line() {
        let lines = "1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#2\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#2\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#3\t1\t1\t2\n\
                     other.jpg\t2549968784_39bfbe44f9.jpg#2\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg\t1\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#1\t0.5\t1\t2\n\
                     1056338697_4f7d7ce270.jpg\t2549968784_39bfbe44f9.jpg#1\t1\t2\n\
                     a b c\n";
        let message = refused(read_form("ExpertAnnotations.txt", lines, "flickr8k_expert"));
        for part in [
            "line 2: the pair is rated in line 1 too",
            "line 3: caption is `2549968784_39bfbe44f9.jpg#3`, but that image has 3 captions in `pairs.captions`",
            "line 4: image is `other.jpg`, which is no `file_name` of `pairs.images`",
            "line 5: caption is `2549968784_39bfbe44f9.jpg`, expected `IMAGE#NUMBER`",
            "line 6: rating is `0.5`, expected a whole number from 1 to 4",
            "line 7: 2 ratings, expected 3",
            "line 8: 1 fields, expected an image, a caption and 3 ratings between tabs",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    /// Captions are named by a text, a text that two images have, a place, and an identifier.
    #[test]
    fn a_plain_table_has_columns_of_any_name() {
        let captions = "image,caption\na.jpg,A dog .\na.jpg,Two dogs .\nb.jpg,A dog .\nb.jpg,A cat .\n";
        let rows = "photo;says;how good;who\na.jpg;A cat .;1;Ann\nb.jpg;A dog .;4.5;Ann\nb.jpg;A dog .;4;Ben\n\
                    a.jpg;a.jpg#1;3;Ann\n0;2;2;Ann\n";
        let files: [(&str, &[u8]); 2] = [("captions.csv", captions.as_bytes()), ("ratings.csv", rows.as_bytes())];
        let folder = folder(&files);
        let pairs = json!({"captions": {"file": "captions.csv", "image": "image", "split": "test"}});
        let pairs = ingest(folder.path(), pairs).unwrap();
        let read = |columns: serde_json::Value| {
            let settings = json!({"ratings": {"file": "ratings.csv", "form": "table", "columns": columns, "separator": ";",
                                              "images": "pairs.images", "captions": "pairs.captions"}});
            let tables = [("ratings.images", &pairs, "images"), ("ratings.captions", &pairs, "captions")];
            ingest_beside(folder.path(), settings, &tables)
        };
        let columns = json!({"image": "photo", "caption": "says", "score": "how good", "rater": "who"});
        let host = read(columns).unwrap();
        let rows = host.output("ratings");
        assert_eq!(int_column(&rows, "image_id").unwrap().values(), &[0, 1, 1, 0, 0]);
        assert_eq!(int_column(&rows, "caption_id").unwrap().values(), &[3, 2, 2, 1, 2]);
        assert_eq!(rows["rating"].as_primitive::<Float64Type>().values(), &[1.0, 4.5, 4.0, 3.0, 2.0]);
        let texts =
            |name: &str| text_column(&rows, name).unwrap().iter().flatten().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(texts("rater"), ["Ann", "Ann", "Ben", "Ann", "Ann"]);
        assert_eq!(texts("sampling"), ["other_image", "own_image", "own_image", "own_image", "other_image"]);

        let message = refused(read(json!({"image": "photo", "caption": "says", "score": "how good"})));
        assert!(message.contains("line 4: caption 2 with image 1 is rated in line 3 too"), "{message}");
        let message = refused(read(json!({})));
        assert!(message.contains("no column `score`"), "{message}");
        assert!(
            message.contains("its columns are `photo`, `says`, `how good`, `who`; name those that differ"),
            "{message}"
        );
    }

    #[test]
    fn texts_of_a_plain_table_that_name_no_caption_are_mistakes() {
        let captions = "image,caption\na.jpg,A dog .\nb.jpg,A dog .\nc.jpg,A cat .\n";
        let rows = "c.jpg,A dog .,1\nc.jpg,A bird .,1\nd.jpg,A cat .,1\nc.jpg,A cat .,high\n";
        let files: [(&str, &[u8]); 2] = [("captions.csv", captions.as_bytes()), ("ratings.csv", rows.as_bytes())];
        let folder = folder(&files);
        let pairs = json!({"captions": {"file": "captions.csv", "image": "image", "split": "test"}});
        let pairs = ingest(folder.path(), pairs).unwrap();
        let settings = json!({"ratings": {"file": "ratings.csv", "form": "table", "header": ["image", "caption", "score"],
                                          "images": "pairs.images", "captions": "pairs.captions"}});
        let tables = [("ratings.images", &pairs, "images"), ("ratings.captions", &pairs, "captions")];
        let message = refused(ingest_beside(folder.path(), settings, &tables));
        for part in [
            "line 1: caption is `A dog .`, the text of 2 captions of other images",
            "line 2: caption is `A bird .`, expected `IMAGE#NUMBER`, or the text or the identifier of a caption",
            "line 3: image is `d.jpg`, which is no `file_name` of `pairs.images`",
            "line 4: rating is `high`, expected a number",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        // Without tables, names end with identifiers.
        let settings = json!({"ratings": {"file": "r.csv", "form": "table"}});
        let table = b"caption,image,score\n7,COCO_val2014_000000365325.jpg,4\n";
        std::fs::write(folder.path().join("r.csv"), table).unwrap();
        let rows = ingest(folder.path(), settings).unwrap().output("ratings");
        assert_eq!(int_column(&rows, "caption_id").unwrap().value(0), 7);
        assert_eq!(int_column(&rows, "image_id").unwrap().value(0), 365_325);
        assert_eq!(text_column(&rows, "sampling").unwrap().value(0), "table");
    }

    #[test]
    fn a_table_of_pairs_can_have_names_too() {
        let rows = "caption,image,agg_score,sampling_method,rater\n\
                    2549968784_39bfbe44f9.jpg#0,1056338697_4f7d7ce270.jpg,2,x,Ann\n";
        let host = read_form("ratings.csv", rows, "crisscrossed").unwrap();
        let rows = host.output("ratings");
        assert_eq!(int_column(&rows, "caption_id").unwrap().value(0), 2);
        assert_eq!(int_column(&rows, "image_id").unwrap().value(0), 0);
    }
}
