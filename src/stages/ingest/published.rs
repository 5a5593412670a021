//! Reader of `published`: rows that papers print, in a table with column names in the first line.

use std::collections::HashMap;
use std::path::Path;

use super::writer::PUBLISHED_PART_ROWS;
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_base::suggest::{closest_name, quoted_list};
use pairloom_formats::delimited::{DelimitedFile, DelimitedForm};
use pairloom_stage::StageContext;
use pairloom_tables::published::{self, COLUMNS, PrintedName, PublishedCells, PublishedValue};

/// Reads the table and writes `published`, in the order of the file. Columns that the file lacks have no values.
pub(super) fn run(cx: &mut StageContext<'_>) -> Result<()> {
    let file = DelimitedFile::open(&cx.source("published")?, DelimitedForm::default())?;
    let path = file.path().to_owned();
    let places = places(&file)?;
    let mut columns: Vec<PublishedCells> = COLUMNS.iter().map(|(_, values, _)| empty(*values)).collect();
    let mut seen: HashMap<Vec<String>, u64> = HashMap::new();
    let read = |line: u64, fields: &[&str]| {
        let mut problems = Vec::new();
        let mut key = Vec::new();
        let mut dataset = "";
        for (((name, values, _), place), cells) in COLUMNS.iter().zip(&places).zip(&mut columns) {
            let field = place.map_or("", |place| fields[place].trim());
            if *name == "dataset" {
                dataset = field;
            }
            if *values == PublishedValue::Key || *name == "protocol" {
                key.push(field.to_owned());
            }
            let problem = match (field, &mut *cells) {
                ("", _) if *values == PublishedValue::Key => Some("is empty".to_owned()),
                ("", cells) => {
                    cells.push_missing();
                    None
                }
                (_, PublishedCells::Texts(texts)) => {
                    texts.push(Some(field.to_owned()));
                    (*name == "protocol").then(|| protocol_problem(field, dataset)).flatten()
                }
                (_, PublishedCells::Numbers(numbers)) => match number(field, *values) {
                    Ok(value) => {
                        numbers.push(Some(value));
                        None
                    }
                    Err(problem) => Some(problem),
                },
            };
            problems.extend(problem.map(|problem| format!("`{name}` {problem}")));
        }
        if problems.is_empty()
            && let Some(first) = seen.insert(key, line)
        {
            problems.push(format!("line {first} has the same paper, table, row, dataset and protocol"));
        }
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
    };
    for doubt in file.for_each(|| cx.check_cancelled(), read)? {
        cx.warn(path.display().to_string(), doubt);
    }
    let rows = published::batch(columns)?;
    if rows.num_rows() == 0 {
        return Err(Error::data(format!("`{}` has no rows", path.display())));
    }
    for start in (0..rows.num_rows()).step_by(PUBLISHED_PART_ROWS) {
        cx.write("published", rows.slice(start, PUBLISHED_PART_ROWS.min(rows.num_rows() - start)))?;
    }
    Ok(())
}

/// Maximum size in bytes of a file that is read before a run.
const MAX_CHECKED: u64 = 1 << 20;

/// Names of the rows of a file. `None` if the file is large, or no such table, which the run of the stage reports.
pub(super) fn printed_names(path: &Path) -> Option<Vec<PrintedName>> {
    let is_small = path.metadata().is_ok_and(|file| file.is_file() && file.len() <= MAX_CHECKED);
    let file = is_small.then(|| DelimitedFile::open(path, DelimitedForm::default()).ok()).flatten()?;
    let [paper, table, row] = file.columns(["paper", "table", "row"]).ok()?;
    let place = |name: &str| file.header().iter().position(|header| header == name);
    let (model_row, dataset) = (place("model_row"), place("dataset"));
    let mut names = Vec::new();
    let read = |_: u64, fields: &[&str]| {
        let text = |place: usize| fields[place].trim().to_owned();
        names.push(PrintedName {
            paper: text(paper),
            table: text(table),
            row: text(row),
            dataset: dataset.map(text).unwrap_or_default(),
            model_row: model_row.map(text).filter(|row| !row.is_empty()),
        });
        Ok(())
    };
    file.for_each(|| Ok(()), read).ok()?;
    Some(names)
}

/// Place of each column of the table in the file, `None` if the file lacks it.
///
/// # Errors
/// Columns of the file are unknown or there twice, or a key is missing.
fn places(file: &DelimitedFile) -> Result<Vec<Option<usize>>> {
    let mut mistakes = ValidationErrors::in_file(file.path());
    let known = || COLUMNS.iter().map(|(name, ..)| *name);
    for (i, name) in file.header().iter().enumerate() {
        if !known().any(|known| known == name) {
            let hint = closest_name(name, known()).map(|known| format!("; did you mean `{known}`?"));
            let shown = name.escape_debug();
            mistakes.add("line 1", format_args!("unknown column `{shown}`{}", hint.unwrap_or_default()));
            mistakes.hint(format!("the columns of such a table are {}", quoted_list(known())));
        } else if file.header()[..i].contains(name) {
            mistakes.add("line 1", format_args!("column `{name}` is there twice"));
        }
    }
    let place_of = |name: &str| file.header().iter().position(|header| header == name);
    for (name, ..) in COLUMNS.iter().filter(|(_, values, _)| *values == PublishedValue::Key) {
        if place_of(name).is_none() {
            mistakes.add("line 1", format_args!("no column `{name}`, which each row needs"));
        }
    }
    mistakes.into_result()?;
    Ok(known().map(place_of).collect())
}

fn empty(values: PublishedValue) -> PublishedCells {
    match values {
        PublishedValue::Key | PublishedValue::Text => PublishedCells::Texts(Vec::new()),
        PublishedValue::Percentage | PublishedValue::Number => PublishedCells::Numbers(Vec::new()),
    }
}

/// Parses a printed number.
fn number(field: &str, values: PublishedValue) -> Result<f64, String> {
    let wrong = |expected| Err(format!("is `{}`, expected {expected}", field.escape_debug()));
    // `parse` reads `nan`, `inf` and `1e3` too, which nobody prints in a table.
    let is_printed = field.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    match field.parse::<f64>() {
        Ok(value) if is_printed && values == PublishedValue::Percentage && !(0.0..=100.0).contains(&value) => {
            wrong("a percentage from 0 to 100")
        }
        Ok(value) if is_printed => Ok(value),
        _ if field == "-" || field == "–" => wrong("an empty field for a number that is not printed"),
        _ => wrong("a number with a decimal point, without a unit or separators"),
    }
}

/// Problem of a protocol that cannot be the name of one in results: `coco-1k-five-fold` begins with the data set.
fn protocol_problem(protocol: &str, dataset: &str) -> Option<String> {
    let begins = protocol.strip_prefix(dataset).is_some_and(|rest| rest.starts_with('-') && rest.len() > 1);
    let shown = protocol.escape_debug();
    (!begins).then(|| {
        format!(
            "is `{shown}`, expected its name in results, `{dataset}-…`; the name in the paper is `printed_protocol`"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{Array, RecordBatch};
    use serde_json::json;

    use super::super::testing::{folder, ingest, refused};
    use pairloom_tables::{float_column, text_column};

    fn read(content: &str) -> RecordBatch {
        let folder = folder(&[("rows.tsv", content.as_bytes())]);
        ingest(folder.path(), json!({"published": "rows.tsv"})).unwrap().output("published")
    }

    fn mistakes(content: &str) -> String {
        refused(ingest(folder(&[("rows.tsv", content.as_bytes())]).path(), json!({"published": "rows.tsv"})))
    }

    #[test]
    fn columns_may_be_in_any_order_and_most_may_be_missing() {
        let rows = read(
            "rsum\trow\ttable\tpaper\tdataset\tnote\n466.7\t2.12\t2\thal-2020\tcoco\t\n\t2.13\t2\thal-2020\tcoco\tx\n",
        );
        let text = |name: &str, row| {
            text_column(&rows, name)
                .unwrap()
                .is_valid(row)
                .then(|| text_column(&rows, name).unwrap().value(row).to_owned())
        };
        assert_eq!(rows.num_rows(), 2);
        assert_eq!([text("paper", 0), text("row", 1)], [Some("hal-2020".to_owned()), Some("2.13".to_owned())]);
        assert_eq!([text("note", 0), text("note", 1), text("protocol", 0)], [None, Some("x".to_owned()), None]);
        let rsum = float_column(&rows, "rsum").unwrap();
        assert_eq!((rsum.value(0), rsum.is_null(1)), (466.7, true));
    }

    #[test]
    fn mistakes_of_the_header_are_named_together() {
        let message = mistakes("paper\ttable\trow\trsumm\ti2t_r1\ti2t_r1\n");
        for part in [
            "has 3 mistakes",
            "line 1: unknown column `rsumm`; did you mean `rsum`?",
            "line 1: column `i2t_r1` is there twice",
            "line 1: no column `dataset`, which each row needs",
            "the columns of such a table are `paper`, `table`, `row`, `dataset`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }

    #[test]
    fn mistakes_of_rows_are_named_with_their_lines() {
        let rows = [
            "a\t1\t1\tcoco\tcoco-5k\t50.0\t300.1",
            "a\t1\t1\tcoco\tcoco-5k\t50.0\t300.1",
            "a\t1\t1\tcoco\tcoco-1k-single\t50.0\t300.1",
            "\t1\t2\tcoco\tc2\t101\t1,026",
            "a\t1\t3\tcoco\t\t-\tnan",
            "a\t1\t4\tcoco\t\t5e1\t5 %",
            "a\t1\t5\tcoco\tcoco-5k\t50.0",
            "a\t1\t6\tcoco\tcocoa-5k\t-1\t-0.5",
        ];
        let message = mistakes(&format!("paper\ttable\trow\tdataset\tprotocol\ti2t_r1\trsum\n{}\n", rows.join("\n")));
        for part in [
            "has 6 mistakes",
            "line 3: line 2 has the same paper, table, row, dataset and protocol",
            "line 5: `paper` is empty; `protocol` is `c2`, expected its name in results, `coco-…`; the name in the paper is \
             `printed_protocol`; `i2t_r1` is `101`, expected a percentage from 0 to 100; `rsum` is `1,026`, expected a number \
             with a decimal point",
            "line 6: `i2t_r1` is `-`, expected an empty field for a number that is not printed; `rsum` is `nan`, expected",
            "line 7: `i2t_r1` is `5e1`, expected a number with a decimal point, without a unit or separators; `rsum` is `5 %`",
            "line 8: 6 fields, expected 7",
            "line 9: `protocol` is `cocoa-5k`",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(!message.contains("-0.5"), "skewness can be negative: {message}");
        assert!(mistakes("paper\ttable\trow\tdataset\n").contains("has no rows"));
        assert!(mistakes("").contains("has no header"));
    }

    /// Rows of a paper in `data/published/`.
    fn paper(name: &str) -> RecordBatch {
        let folder = test_data::root().join("data/published");
        ingest(&folder, json!({"published": format!("{name}.tsv")})).unwrap().output("published")
    }

    const PAPERS: [(&str, usize); 4] =
        [("knn-margin-2019", 29), ("local-scaling-2019", 71), ("hal-2020", 34), ("sam-2022", 61)];

    /// Numbers of `columns` in a row, if all are printed.
    fn numbers(rows: &RecordBatch, row: usize, columns: &[&str]) -> Option<Vec<f64>> {
        let columns = columns.iter().map(|name| float_column(rows, name).unwrap());
        columns.map(|column| column.is_valid(row).then(|| column.value(row))).collect()
    }

    const RECALLS: [&str; 6] = ["i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10"];
    const NCS: [&str; 6] = ["i2t_ncs1", "i2t_ncs5", "i2t_ncs10", "t2i_ncs1", "t2i_ncs5", "t2i_ncs10"];

    /// A printed sum checks the six numbers beside it. Only one differs by more than rounding can explain: a misprint of
    /// the paper.
    #[test]
    fn printed_sums_are_those_of_the_printed_numbers() {
        let mut checked = 0;
        let mut wrong = Vec::new();
        for (name, n_rows) in PAPERS {
            let rows = paper(name);
            assert_eq!(rows.num_rows(), n_rows, "{name}");
            let (table, number) = (text_column(&rows, "table").unwrap(), text_column(&rows, "row").unwrap());
            for row in 0..n_rows {
                for (parts, sum) in [(RECALLS, "rsum"), (NCS, "nsum")] {
                    let (Some(parts), Some(sum)) = (numbers(&rows, row, &parts), numbers(&rows, row, &[sum])) else {
                        continue;
                    };
                    checked += 1;
                    if (parts.iter().sum::<f64>() - sum[0]).abs() > 0.35 {
                        wrong.push(format!("{name} {} {}: {}", table.value(row), number.value(row), sum[0]));
                    }
                }
            }
        }
        assert_eq!(wrong, ["sam-2022 3 4: 387.9"]);
        assert_eq!(checked, 150);
    }

    /// Papers that print a row of another paper again print the same numbers.
    #[test]
    fn rows_that_two_papers_print_are_equal() {
        let rows_of = |name: &str| {
            let rows = paper(name);
            let [table, number] = ["table", "row"].map(|name| text_column(&rows, name).unwrap());
            let keys = (0..rows.num_rows()).map(|row| (table.value(row).to_owned(), number.value(row).to_owned()));
            let recalls = (0..rows.num_rows()).map(|row| numbers(&rows, row, &RECALLS));
            keys.zip(recalls).collect::<BTreeMap<_, _>>()
        };
        let [hal, first, knn] = ["hal-2020", "local-scaling-2019", "knn-margin-2019"].map(rows_of);
        let key = |table: &str, row: &str| (table.to_owned(), row.to_owned());
        for row in ["2.1", "2.2", "2.5", "2.6", "2.9", "2.10", "2.13", "2.20"] {
            assert!(hal[&key("2", row)].is_some(), "{row}");
            assert_eq!(hal[&key("2", row)], first[&key("2", row)], "{row}");
        }
        assert_eq!(hal[&key("2", "2.21")], knn[&key("4", "3.15")]);
        assert_eq!(knn[&key("4", "3.4")], knn[&key("2", "2.6")]);
        assert_eq!(first[&key("4", "4.15")], first[&key("2", "2.12")]);
    }

    /// The hub table of `knn-margin-2019`: counts of 25,000 items, and their percentages.
    #[test]
    fn printed_counts_of_hubs_are_the_printed_percentages() {
        let rows = paper("knn-margin-2019");
        let names = |unit: &str| [0, 1, 2, 5, 10].map(|m| format!("k_occurrence_{unit}_{m}"));
        let values = |row, unit: &str| {
            numbers(&rows, row, &names(unit).each_ref().map(String::as_str)).unwrap_or_else(|| panic!("row {row}"))
        };
        let (counts, rates) = (values(28, "count"), values(28, "rate"));
        let items = numbers(&rows, 28, &["n_items"]).unwrap()[0];
        assert_eq!(counts[..3].iter().sum::<f64>(), items);
        for (count, rate) in counts.iter().zip(&rates) {
            assert!((100.0 * count / items - rate).abs() <= 0.05, "{count} of {items} is {rate} %");
        }
    }
}
