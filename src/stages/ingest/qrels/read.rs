//! Reading of judgements from files of either form.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use super::super::part_rows::QRELS_PART_ROWS;
use super::{QrelsFiles, relevant_lists};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_formats::line_reader::{LineBreak, LineReader};
use pairloom_formats::trec::Judgement;
use pairloom_stage::StageContext;
use pairloom_storage::files::first_bytes;
use pairloom_storage::text_start::UTF8_MARK;
use pairloom_tables::{qrels, repeated};

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
pub(in super::super) fn run(settings: &QrelsFiles, cx: &mut StageContext<'_>) -> Result<()> {
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
        Some(b'{' | b'[') => relevant_lists::read::<MAX_JUDGEMENTS>(path, check),
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::write::GzEncoder;
    use serde_json::json;
    use test_data::public;

    use super::super::super::Ingest;
    use super::super::super::testing::{folder, ingest, refused};
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
        let wanted = [
            row("i2t", 80, 5, 1.0),
            row("i2t", 80, 4, 1.0),
            row("i2t", 7, 5, 1.0),
            row("t2i", 5, 80, 2.0),
            row("t2i", 5, 81, -1.0),
            row("t2i", 4, 80, 0.5),
        ];
        assert_eq!(rows(&ingest(folder.path(), both).unwrap()), wanted);
        let one = ingest(folder.path(), json!({"qrels": {"t2i": "a.gz"}})).unwrap();
        assert_eq!(rows(&one), wanted[3..]);
    }

    #[test]
    fn every_wrong_line_is_named() {
        let message = refused(read_one(b"5 0 80 1\n5 0 80\n\n5 0 80 0\nx 0 80 1\n5 0 82 high\n6 0 80 1\n"));
        for part in [
            "has 4 mistakes",
            "line 2: 3 fields, wanted 4: query, iteration, item, grade",
            "line 4: query 5 with item 80 is judged in line 1 too",
            "line 5: query is `x`, wanted a whole number",
            "line 6: grade is `high`, wanted a number",
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
            "query `a`: wanted a whole number",
            "query `6`: it has a number, wanted a list of items",
            "query `05`: it appears twice, before as `5`",
            "query `7`: item 0 (from 0) is 1.5, wanted a whole number",
            "query `7`: item 1 (from 0) is \"2\", wanted a whole number",
            "query `7`: item 2 (from 0) is null",
            "query `8`: it has an object, wanted a list of items",
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
            "query `5`: item 0 (from 0) is a list, wanted a whole number",
            "query `5`: item 1 (from 0) is an object, wanted a whole number",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        let message =
            refused(read_one(format!("{{\" 5\": [1, 18446744073709551615], \"5\": {deep}, \" 5\": []}}").as_bytes()));
        for part in [
            "has 4 mistakes",
            "query ` 5`: item 1 (from 0) is 18446744073709551615, wanted a whole number",
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
        assert_eq!(relevant_lists::read::<5>(&path, || Ok(())).unwrap().len(), 3);
        for error in [relevant_lists::read::<4>(&path, || Ok(())), relevant_lists::read::<2>(&path, || Ok(()))] {
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
        assert_eq!(problems, ["got no file, wanted `i2t`, `t2i` or both"]);
    }

    /// Counts of queries and pairs from the description of the data; 35,585 pairs of Crisscrossed Captions have a rating
    /// of 3 or more.
    #[test]
    fn the_published_files_are_read_completely() {
        let Some(data) = public("eccv") else { return };
        for (name, images, i2t, captions, t2i) in
            [("eccv", 1261, 22_550, 1332, 11_279), ("cxc", 5000, 35_585, 24_972, 35_585)]
        {
            let (of_images, of_captions) =
                (format!("{name}_image_to_caption.json"), format!("{name}_caption_to_image.json"));
            let host = ingest(&data, json!({"qrels": {"i2t": of_images, "t2i": of_captions}})).unwrap();
            let rows = rows(&host);
            for (direction, queries, pairs) in [("i2t", images, i2t), ("t2i", captions, t2i)] {
                let found: Vec<i64> = rows.iter().filter(|row| row.0 == direction).map(|row| row.1).collect();
                let distinct: std::collections::HashSet<i64> = found.iter().copied().collect();
                assert_eq!((distinct.len(), found.len()), (queries, pairs), "{name} {direction}");
            }
        }
    }
}
