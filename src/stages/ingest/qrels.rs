//! Reader of `qrels`: relevance judgements, as lines of TREC or as JSON lists of relevant items.
//!
//! JSON: Chun et al., "ECCV Caption: Correcting False Negatives by Collecting Machine-and-Human-verified Image-Caption
//! Associations for MS-COCO", ECCV 2022, whose files also hold the positives of Crisscrossed Captions.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::writer::QRELS_PART_ROWS;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::json;
use pairloom_formats::text_lines::{LineBreak, LineReader};
use pairloom_formats::trec::Judgement;
use pairloom_stage::{Problem, SourceRef, StageContext, StageInput, StageOutput};
use pairloom_storage::bounded::UTF8_MARK;
use pairloom_storage::files::first_bytes;
use pairloom_storage::image_names::shown_name;
use pairloom_tables::{qrels, repeated};

/// Relevance judgements of queries and items (qrels), one file for each direction of retrieval, at least one.
///
/// A file is one of:
/// - TREC's text form: lines `query iteration item grade`, also compressed by gzip;
/// - a JSON object that maps each query to the list of its relevant items, as ECCV Caption and its form of Crisscrossed
///   Captions are published.
///
/// Queries and items have the identifiers of the tables `images` and `captions`, or of the embeddings.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QrelsFiles {
    /// Judged captions of images, such as `eccv_image_to_caption.json`.
    pub i2t: Option<SourceRef>,
    /// Judged images of captions, such as `eccv_caption_to_image.json`.
    pub t2i: Option<SourceRef>,
}

impl QrelsFiles {
    /// The given files: direction, name of the input, and file.
    fn files(&self) -> impl Iterator<Item = (&'static str, &'static str, &SourceRef)> {
        let files = [("i2t", "qrels.i2t", &self.i2t), ("t2i", "qrels.t2i", &self.t2i)];
        files.into_iter().filter_map(|(direction, input, file)| Some((direction, input, file.as_ref()?)))
    }

    pub(super) fn inputs(&self) -> Vec<StageInput> {
        self.files().map(|(_, input, file)| StageInput::source(input, file)).collect()
    }

    pub(super) fn outputs() -> Vec<StageOutput> {
        vec![StageOutput::table("qrels", qrels::table().schema(), QRELS_PART_ROWS)]
    }

    pub(super) fn check(&self) -> Option<Problem> {
        let problem = || Problem::new("qrels", "got no file, expected `i2t`, `t2i` or both");
        self.files().next().is_none().then(problem)
    }
}

/// First bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Number of judgements that a file may have: more than the largest published one, ORCAS with 18 million.
/// They take up to 100 bytes each.
const MAX_JUDGEMENTS: usize = 20_000_000;
/// Number of lines between two checks for a cancellation.
const LINES_PER_CHECK: u64 = 8192;

/// Reads the files and writes `qrels`: first the judgements of `i2t`, then those of `t2i`, in the order of the files.
///
/// Memory: all judgements.
pub(super) fn run(settings: &QrelsFiles, cx: &mut StageContext<'_>) -> Result<()> {
    let mut files = Vec::new();
    for (direction, input, _) in settings.files() {
        let path = cx.source(input)?;
        let judgements = read(&path, || cx.check_cancelled())?;
        if judgements.is_empty() {
            return Err(Error::data(format!("`{}` has no judgements", path.display())));
        }
        files.push((direction, judgements));
    }
    for (direction, judgements) in files {
        for rows in judgements.chunks(QRELS_PART_ROWS) {
            let part = qrels::TableColumns {
                direction: repeated(direction, rows.len()),
                query_id: rows.iter().map(|row| row.query).collect::<Vec<_>>().into(),
                item_id: rows.iter().map(|row| row.item).collect::<Vec<_>>().into(),
                grade: rows.iter().map(|row| row.grade).collect::<Vec<_>>().into(),
            };
            cx.write("qrels", part.into_batch()?)?;
        }
    }
    Ok(())
}

/// Reads a file, whose form is known from its first bytes: its name is not part of the key of a result.
fn read(path: &Path, check: impl Fn() -> Result<()>) -> Result<Vec<Judgement>> {
    let start = first_bytes::<64>(path)?;
    let text = start.strip_prefix(UTF8_MARK).unwrap_or(&start);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => read_relevant_lists::<MAX_JUDGEMENTS>(path, check),
        _ => read_lines(path, start.starts_with(&GZIP_MAGIC), MAX_JUDGEMENTS, check),
    }
}

/// Reads at most `most` lines of TREC's form.
///
/// # Errors
/// A line is of another form, or repeats the pair of an earlier line: the error lists all such lines. Or there are more
/// judgements.
fn read_lines(path: &Path, gzip: bool, most: usize, check: impl Fn() -> Result<()>) -> Result<Vec<Judgement>> {
    let mut lines = LineReader::open(path, gzip, LineBreak::LineFeed)?;
    let mut mistakes = ValidationErrors::in_file(path);
    let mut judgements = Vec::new();
    let mut first_lines: HashMap<(i64, i64), u64> = HashMap::new();
    while let Some((number, line)) = lines.next_line()? {
        if number.is_multiple_of(LINES_PER_CHECK) {
            check()?;
        }
        let place = || format!("line {number}");
        match Judgement::parse(line) {
            Ok(None) => {}
            Err(message) => mistakes.add(place(), message),
            Ok(Some(judgement)) => match first_lines.entry((judgement.query, judgement.item)) {
                Entry::Occupied(first) => {
                    let Judgement { query, item, .. } = judgement;
                    let message = format!("query {query} with item {item} is judged in line {} too", first.get());
                    mistakes.add(place(), message);
                }
                Entry::Vacant(_) if judgements.len() == most => {
                    return Err(Error::data(format!("`{}` has more than {most} judgements", path.display())));
                }
                Entry::Vacant(entry) => {
                    entry.insert(number);
                    judgements.push(judgement);
                }
            },
        }
    }
    mistakes.hint("identifiers are the numbers in the tables `images` and `captions`");
    mistakes.into_result()?;
    Ok(judgements)
}

/// Description of a valid file, for error messages.
const EXPECTED_FORMAT: &str = "a list of relevant items for each query, `{\"42\": [16, 23]}`";

/// Judgements in the order of the file, with its mistakes.
///
/// They are checked while the file is parsed, which keeps whole numbers only: a [`Value`] for each wrong item would take
/// 70 times as much memory as the file. There are at most `MOST` queries and items.
struct RelevantLists<const MOST: usize> {
    judgements: Vec<Judgement>,
    mistakes: ValidationErrors,
}

/// Reads the file at `path`, with at most `MOST` queries and items. Every listed item has the grade 1.
///
/// # Errors
/// The file is not such an object, or has more; a query or an item is not a whole number, or occurs twice. The error names
/// the query.
fn read_relevant_lists<const MOST: usize>(path: &Path, check: impl Fn() -> Result<()>) -> Result<Vec<Judgement>> {
    let RelevantLists::<MOST> { judgements, mistakes } = json::read_while(path, EXPECTED_FORMAT, check)?;
    mistakes.of_file(path).into_result()?;
    Ok(judgements)
}

impl<'de, const MOST: usize> Deserialize<'de> for RelevantLists<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RelevantListsVisitor)
    }
}

struct RelevantListsVisitor<const MOST: usize>;

impl<'de, const MOST: usize> Visitor<'de> for RelevantListsVisitor<MOST> {
    type Value = RelevantLists<MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<RelevantLists<MOST>, M::Error> {
        let mut lists = RelevantLists { judgements: Vec::new(), mistakes: ValidationErrors::in_table("") };
        // Key of each query in the file; empty for the usual form of its number.
        let mut queries: HashMap<i64, Box<str>> = HashMap::new();
        while let Some(key) = map.next_key::<String>()? {
            let shown = shown_name(&key);
            let Ok(query) = key.trim().parse::<i64>() else {
                lists.mistakes.add(format_args!("query `{shown}`"), "expected a whole number");
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let kept = if key == query.to_string() { "" } else { &key };
            if let Some(first) = queries.insert(query, kept.into()) {
                let number = query.to_string();
                let first: &str = if first.is_empty() { &number } else { &first };
                let same = if first == key { String::new() } else { format!(", before as `{}`", shown_name(first)) };
                lists.mistakes.add(format_args!("query `{shown}`"), format_args!("it appears twice{same}"));
            }
            let most = MOST.saturating_sub(queries.len());
            let RelevantLists { judgements, mistakes } = &mut lists;
            map.next_value_seed(ListOfQuery { query, shown, judgements, mistakes, most })?;
            if judgements.len() > most {
                return Err(M::Error::custom(format_args!("more than {MOST} queries and items")));
            }
        }
        Ok(lists)
    }
}

/// Reader of the value of a query, a list of items.
struct ListOfQuery<'l> {
    query: i64,
    /// Query in messages.
    shown: Cow<'l, str>,
    judgements: &'l mut Vec<Judgement>,
    mistakes: &'l mut ValidationErrors,
    /// Number of judgements with those of this list after which the others are left out.
    most: usize,
}

impl ListOfQuery<'_> {
    fn add_mistake(self, found: &str) {
        let place = format!("query `{}`", self.shown);
        self.mistakes.add(place, format_args!("it has {found}, expected a list of items"));
    }
}

impl<'de> DeserializeSeed<'de> for ListOfQuery<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ListOfQuery<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut items: S) -> Result<(), S::Error> {
        let Self { query, shown, judgements, mistakes, most } = self;
        let mut seen = HashSet::new();
        let mut index = 0_u64;
        while let Some(item) = items.next_element()? {
            match item {
                ListedItem::Id(item) if judgements.len() <= most && !seen.insert(item) => {
                    mistakes.add(format_args!("query `{shown}`"), format_args!("item {item} appears twice"));
                }
                ListedItem::Id(_) if judgements.len() > most => {}
                ListedItem::Id(item) => judgements.push(Judgement { query, item, grade: 1.0 }),
                wrong => mistakes.add(
                    format_args!("query `{shown}`"),
                    format_args!("item {index} (from 0) is {wrong}, expected a whole number"),
                ),
            }
            index += 1;
        }
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<(), M::Error> {
        IgnoredAny.visit_map(map)?;
        self.add_mistake("an object");
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.add_mistake("null");
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.add_mistake("a truth value");
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.add_mistake("a number");
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.add_mistake("a number");
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.add_mistake("a number");
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.add_mistake("a text");
        Ok(())
    }
}

/// Item of a list: a whole number, or a value of another type.
enum ListedItem {
    Id(i64),
    /// Value without items: null, a truth value, another number, or a text.
    Scalar(Value),
    Collection(&'static str),
}

impl fmt::Display for ListedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Scalar(value) => f.write_str(&shown_name(&value.to_string())),
            Self::Collection(kind) => f.write_str(kind),
        }
    }
}

impl<'de> Deserialize<'de> for ListedItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListedItemVisitor)
    }
}

struct ListedItemVisitor;

impl<'de> Visitor<'de> for ListedItemVisitor {
    type Value = ListedItem;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_i64<E>(self, value: i64) -> Result<ListedItem, E> {
        Ok(ListedItem::Id(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<ListedItem, E> {
        Ok(i64::try_from(value).map_or_else(|_| ListedItem::Scalar(value.into()), ListedItem::Id))
    }

    fn visit_f64<E>(self, value: f64) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<ListedItem, E> {
        Ok(ListedItem::Scalar(value.into()))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, items: S) -> Result<ListedItem, S::Error> {
        IgnoredAny.visit_seq(items)?;
        Ok(ListedItem::Collection("a list"))
    }

    fn visit_map<M: MapAccess<'de>>(self, fields: M) -> Result<ListedItem, M::Error> {
        IgnoredAny.visit_map(fields)?;
        Ok(ListedItem::Collection("an object"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::GzEncoder;
    use serde_json::json;
    use test_data::public;

    use super::super::Ingest;
    use super::super::testing::{folder, ingest, refused};
    use super::*;
    use pairloom_stage::Stage;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables::{float_column, int_column, text_column};

    /// Direction, query, item and grade of every row.
    fn rows(host: &InMemoryHost) -> Vec<(String, i64, i64, f64)> {
        let batch = host.output("qrels");
        let (query, item) = (int_column(&batch, "query_id").unwrap(), int_column(&batch, "item_id").unwrap());
        let (direction, grade) = (text_column(&batch, "direction").unwrap(), float_column(&batch, "grade").unwrap());
        let row = |i: usize| (direction.value(i).to_owned(), query.value(i), item.value(i), grade.value(i));
        (0..batch.num_rows()).map(row).collect()
    }

    fn read_one(content: &[u8]) -> Result<InMemoryHost> {
        ingest(folder(&[("judged", content)]).path(), json!({"qrels": {"t2i": "judged"}}))
    }

    #[test]
    fn lines_and_lists_give_one_table() {
        let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"5 0 80 2\n\n5 0 81 -1\n4 0 80 0.5").unwrap();
        let lists = b"\xef\xbb\xbf\n {\"80\": [5, 4], \"-2\": [], \"7\": [5]}";
        let folder = folder(&[("a.gz", &gzip.finish().unwrap()), ("b", lists)]);
        let both = json!({"qrels": {"i2t": "b", "t2i": "a.gz"}});
        let row = |direction: &str, query, item, grade| (direction.to_owned(), query, item, grade);
        let expected = [
            row("i2t", 80, 5, 1.0),
            row("i2t", 80, 4, 1.0),
            row("i2t", 7, 5, 1.0),
            row("t2i", 5, 80, 2.0),
            row("t2i", 5, 81, -1.0),
            row("t2i", 4, 80, 0.5),
        ];
        assert_eq!(rows(&ingest(folder.path(), both).unwrap()), expected);
        let one = ingest(folder.path(), json!({"qrels": {"t2i": "a.gz"}})).unwrap();
        assert_eq!(rows(&one), expected[3..]);
    }

    #[test]
    fn every_wrong_line_is_named() {
        let message = refused(read_one(b"5 0 80 1\n5 0 80\n\n5 0 80 0\nx 0 80 1\n5 0 82 high\n6 0 80 1\n"));
        for part in [
            "has 4 mistakes",
            "line 2: 3 fields, expected 4: query, iteration, item, grade",
            "line 4: query 5 with item 80 is judged in line 1 too",
            "line 5: query is `x`, expected a whole number",
            "line 6: grade is `high`, expected a number",
            "identifiers are the numbers in the tables",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn every_wrong_list_is_named_with_its_query() {
        let lists = br#"{"5": [80, 81, 80], "a": [1], "6": 80, "05": [80], "7": [1.5, "2", null], "8": {"80": 1}}"#;
        let message = refused(read_one(lists));
        for part in [
            "has 8 mistakes",
            "query `5`: item 80 appears twice",
            "query `a`: expected a whole number",
            "query `6`: it has a number, expected a list of items",
            "query `05`: it appears twice, before as `5`",
            "query `7`: item 0 (from 0) is 1.5, expected a whole number",
            "query `7`: item 1 (from 0) is \"2\", expected a whole number",
            "query `7`: item 2 (from 0) is null",
            "query `8`: it has an object, expected a list of items",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        for (json, part) in [
            (&b"[[5, 80]]"[..], "is not a list of relevant items for each query"),
            (b"{\"5\": [80]", "the file is cut short"),
            (b"{\"5\": [80]} 1", "line 1 column 13"),
        ] {
            let message = refused(read_one(json));
            assert!(message.contains(part), "{message}");
        }
    }

    /// Values of such items took 70 times as much memory as the file.
    #[test]
    fn wrong_items_of_lists_are_counted_and_not_kept() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let objects = "{\"\":0},".repeat(100_000);
        let lists = format!("{{\"5\": [{deep}, {objects} 80], \"6\": {deep}}}");
        let message = refused(read_one(lists.as_bytes()));
        for part in [
            "has 100002 mistakes",
            "query `5`: item 0 (from 0) is a list, expected a whole number",
            "query `5`: item 1 (from 0) is an object, expected a whole number",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let message =
            refused(read_one(format!("{{\" 5\": [1, 18446744073709551615], \"5\": {deep}, \" 5\": []}}").as_bytes()));
        for part in [
            "has 4 mistakes",
            "query ` 5`: item 1 (from 0) is 18446744073709551615, expected a whole number",
            "query `5`: it appears twice, before as ` 5`",
            "query ` 5`: it appears twice, before as `5`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn a_file_of_too_many_judgements_is_refused() {
        let folder =
            folder(&[("lines", b"5 0 80 1\n5 0 81 1\n5 0 82 1\n"), ("lists", b"{\"5\": [80, 81, 82], \"6\": []}")]);
        let lines = |most| read_lines(&folder.path().join("lines"), false, most, || Ok(()));
        assert_eq!(lines(3).unwrap().len(), 3);
        assert!(lines(2).unwrap_err().to_string().ends_with("lines` has more than 2 judgements"));
        let path = folder.path().join("lists");
        assert_eq!(read_relevant_lists::<5>(&path, || Ok(())).unwrap().len(), 3);
        for error in [read_relevant_lists::<4>(&path, || Ok(())), read_relevant_lists::<2>(&path, || Ok(()))] {
            let message = error.unwrap_err().to_string();
            assert!(message.contains("queries and items at line 1 column"), "{message}");
        }
    }

    #[test]
    fn empty_files_and_no_file_are_refused() {
        for empty in [&b""[..], b"\n \n", b"{}", b"{\"5\": []}"] {
            let message = refused(read_one(empty));
            assert!(message.contains("judged` has no judgements"), "{message}");
        }
        assert!(refused(read_one(b"\xff\xfe5\0 \0")).contains("is UTF-16 text"));
        let stage: Ingest = serde_json::from_value(json!({"qrels": {}})).unwrap();
        let problems: Vec<String> = stage.check().into_iter().map(|problem| problem.message).collect();
        assert_eq!(problems, ["got no file, expected `i2t`, `t2i` or both"]);
    }

    /// Counts of queries and pairs from the description of the data; 35,585 pairs of Crisscrossed Captions have a rating
    /// of 3 or more.
    #[test]
    fn the_published_files_are_read_completely() {
        let Some(data) = public("eccv") else { return };
        for (name, images, i2t, captions, t2i) in
            [("eccv", 1261, 22_550, 1332, 11_279), ("cxc", 5000, 35_585, 24_972, 35_585)]
        {
            let (image_lists, caption_lists) =
                (format!("{name}_image_to_caption.json"), format!("{name}_caption_to_image.json"));
            let host = ingest(&data, json!({"qrels": {"i2t": image_lists, "t2i": caption_lists}})).unwrap();
            let rows = rows(&host);
            for (direction, queries, pairs) in [("i2t", images, i2t), ("t2i", captions, t2i)] {
                let found: Vec<i64> = rows.iter().filter(|row| row.0 == direction).map(|row| row.1).collect();
                let distinct: HashSet<i64> = found.iter().copied().collect();
                assert_eq!((distinct.len(), found.len()), (queries, pairs), "{name} {direction}");
            }
        }
    }
}
