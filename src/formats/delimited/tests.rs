//! Tests of formats, lines, quotes and mistakes. Expected fields and lines are those of Python's `csv`.

use std::cell::Cell;
use std::io::Write as _;

use super::{DelimitedFile, DelimitedForm};
use pairloom_base::error::{Error, ErrorCategory, Result};

type Rows = Vec<(u64, Vec<String>)>;

/// Returns the rows of a file with their lines, and the warnings.
fn read_all(name: &str, content: &[u8]) -> Result<(Rows, Vec<String>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let mut rows = Vec::new();
    let visit = |line: u64, fields: &[&str]| {
        rows.push((line, fields.iter().map(|&field| field.to_owned()).collect()));
        if fields[0] == "bad" { Err("is bad".to_owned()) } else { Ok(()) }
    };
    let doubts = DelimitedFile::open(&path, DelimitedForm::default())?.for_each(|| Ok(()), visit)?;
    Ok((rows, doubts))
}

fn read(name: &str, content: &[u8]) -> Result<Rows> {
    let (rows, doubts) = read_all(name, content)?;
    assert_eq!(doubts, [""; 0]);
    Ok(rows)
}

fn described(content: &[u8]) -> String {
    let error = read_all("a.csv", content).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    format!("{error}\n{}", error.hint_text().unwrap_or_default())
}

fn row(line: u64, fields: [&str; 2]) -> (u64, Vec<String>) {
    (line, fields.map(str::to_owned).to_vec())
}

#[test]
fn csv_has_quoted_fields_and_tsv_has_not() {
    let commas = "\u{feff}a,b\n1,\"x, \"\"y\"\"\nz\"\n2,\r\n".as_bytes();
    assert_eq!(read("a.csv", commas).unwrap(), [row(2, ["1", "x, \"y\"\nz"]), row(4, ["2", ""])]);
    let tabs = b"a\tb\n\"1\tshe said \"no\"\n";
    assert_eq!(read("a.tsv", tabs).unwrap(), [row(2, ["\"1", "she said \"no\""])]);
    // A byte order mark before a quoted name.
    assert_eq!(read("a.csv", "\u{feff}\"a\",b\n1,2".as_bytes()).unwrap(), [row(2, ["1", "2"])]);
}

/// Lines by `csv.reader(file).line_num` of Python, which is the last line of a record.
#[test]
fn lines_are_counted_with_every_kind_of_line_break() {
    for text in [
        "a,b\n1,x\n\n\n2,\"y\n\nz\"\n3,w",
        "a,b\r\n1,x\r\n\r\n\r\n2,\"y\r\n\r\nz\"\r\n3,w\r\n",
        "a,b\r1,x\r\r\r2,\"y\r\rz\"\r3,w\r",
    ] {
        let lines: Vec<u64> = read("a.csv", text.as_bytes()).unwrap().into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 5, 8], "{text:?}");
    }
    let lines: Vec<u64> = read("a.tsv", b"a\tb\r\n\r\n1\tx\r\n2\ty\r\n").unwrap().iter().map(|row| row.0).collect();
    assert_eq!(lines, [3, 4]);
}

/// Python's `csv.reader(file, strict=True)` refuses each of these files: "unexpected end of data" or "',' expected after
/// '\"'".
#[test]
fn quotes_that_swallow_rows_are_refused_with_the_line_of_the_quote() {
    let rows = |count: usize| (0..count).map(|i| format!("{i},a dog\n")).collect::<String>();
    let message = described(format!("a,b\r\n0,x\r\n1,\"a dog\r\n{}", rows(149)).as_bytes());
    assert!(
        message.contains(
            "a.csv` line 3: field 2 starts with a quote that is never closed, and so swallows the 149 lines after it"
        ),
        "{message}"
    );
    assert!(message.contains("quotes inside are doubled"), "{message}");
    // The first mistake is reported beside.
    let message = described(b"a,b\nbad,x\n1,\"");
    assert!(message.contains("2 mistakes") && message.contains("line 2: is bad"), "{message}");
    assert!(message.contains("line 3: field 2 starts with a quote that is never closed\n"), "{message}");
    assert!(described(b"a,b\n1,\"x\n2,y\n").contains("never closed, and so swallows the line after it\n"));

    let message = described(format!("a,b\n1,\"a dog\n{}7,\"a cat, red\"\nbad,x\n", rows(3)).as_bytes());
    assert!(
        message.contains(
            "line 2: field 2 starts with a quote, which the next quote, in line 6, does not close: `\"a cat, red\"`"
        ),
        "{message}"
    );
    // Rows after it are checked.
    assert!(message.contains("line 7: is bad"), "{message}");
    let message = described(b"a,b\n1,\"abc\" def\n\"2\" ,x\n");
    assert!(message.contains("line 2: field 2 has text after its closing quote: `\" def`"), "{message}");
    assert!(message.contains("line 3: field 1 has text after its closing quote: `\" ,x`"), "{message}");
    let message = described(b"\"a,b\n1,x\n");
    assert!(message.contains("a.csv` line 1: field 1 starts with a quote that is never closed"), "{message}");
}

#[test]
fn a_quoted_field_over_lines_that_look_like_rows_is_doubted() {
    let (rows, doubts) = read_all("a.csv", b"a,b\n1,\"a dog\n2,a cat\"\n3,x\n").unwrap();
    assert_eq!(rows, [row(2, ["1", "a dog\n2,a cat"]), row(4, ["3", "x"])]);
    assert_eq!(doubts, ["line 2: a quoted field goes on to line 3, and lines of it look like rows: 1 of 2"]);
    let message = described(b"a,b\n1,\"a dog\n2,a cat\n3,a bird\n4,a fox\"\n5,x\n");
    assert!(
        message.contains("line 2: a quoted field goes on to line 5, over 3 lines that look like rows"),
        "{message}"
    );
    assert!(message.ends_with("dog\"`; or replace line breaks inside of captions by spaces"), "{message}");
    // Warnings are limited.
    let many = format!("a,b\n{}", "1,\"a dog\n2,a cat\"\n".repeat(25));
    let (_, doubts) = read_all("a.csv", many.as_bytes()).unwrap();
    assert_eq!((doubts.len(), doubts[20].as_str()), (21, "5 more quoted fields have lines that look like rows"));
    // The last line of the first column has all columns in any case.
    assert_eq!(read("a.csv", b"a,b\n\"a dog\nruns\",1\n").unwrap(), [row(2, ["a dog\nruns", "1"])]);
    let (_, doubts) = read_all("a.csv", b"a,b\n\"a dog,1\na cat,2\na bird\",3\n").unwrap();
    assert_eq!(doubts, ["line 2: a quoted field goes on to line 4, and lines of it look like rows: 1 of 3"]);
    let message = described(b"a,b\n\"a dog,1\na cat,2\na bird,3\na fox,4\na cow\",5\n");
    assert!(message.contains("goes on to line 6, over 3 lines that look like rows"), "{message}");
    // A poem has no such lines.
    let poem = read("a.csv", b"a,b\n1,\"a dog\nruns\nand\nruns\"\n").unwrap();
    assert_eq!(poem, [row(2, ["1", "a dog\nruns\nand\nruns"])]);
}

#[test]
fn a_row_of_several_lines_has_a_maximum_length() {
    let line = "x".repeat(1 << 20) + "\n";
    let message = described(format!("a,b\n1,\"{}\"\n2,y\n", line.repeat(17)).as_bytes());
    assert!(
        message.contains(
            "a.csv` line 2: field 2 starts with a quote, and its row is longer than 16 MiB: is its quote closed?"
        ),
        "{message}"
    );
}

#[test]
fn gzip_is_decompressed_and_damage_is_an_error() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"a\tb\n1\t2\n").unwrap();
    let packed = packed.finish().unwrap();
    assert_eq!(read("a.tsv.gz", &packed).unwrap(), [row(2, ["1", "2"])]);
    for damaged in [&packed[..packed.len() - 9], b"a long enough table\tb\n"] {
        let error = read("a.tsv.gz", damaged).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data, "{error}");
    }
    let error = read("a.csv", &packed).unwrap_err();
    assert!(error.to_string().contains("is compressed with gzip, expected UTF-8 text"), "{error}");
}

/// 20 MB of one header, field or row, from a file of some kilobytes.
#[test]
fn gzip_without_an_end_of_line_is_refused() {
    let many = "a,".repeat(300_000);
    for (start, rest, expected) in [
        ("", "a,", "line 1: it has more than 16777216 bytes"),
        ("a,b\n1,\"", "\n\n", "its row is longer than 16 MiB: is its quote closed?"),
        (&format!("{many}\n"), "", "line 1: it has more than 262144 fields"),
        (&format!("a,b\n{many}\n"), "", "line 2: it has more than 262144 fields"),
    ] {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(start.as_bytes()).unwrap();
        packed.write_all(rest.repeat(10 << 20).as_bytes()).unwrap();
        let error = read("a.csv.gz", &packed.finish().unwrap()).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
}

#[test]
fn all_mistakes_are_reported_with_their_lines() {
    let message = read("a.tsv", b"a\tb\r\nbad\t1\r\n2\r\nok\t3\r\nx\t\xff\r\ny\t\0\r\n").unwrap_err().to_string();
    for part in [
        "4 mistakes",
        "line 2: is bad",
        "line 3: 1 fields, expected 2",
        "line 5: bytes that are not UTF-8",
        "line 6: a zero byte",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(read("a.txt", b"a\n").unwrap_err().hint_text().unwrap().contains(".csv"));
    assert!(read("a.csv", b"").unwrap_err().to_string().contains("no header"));
    let message = described(b"a,b\n1, \"x, y\"\n");
    assert!(message.contains("line 2: 3 fields") && message.contains("a quote must follow the separator"), "{message}");
    assert!(described(b"a,b\n1,\"x\ny\",z\n").contains("line 2: 3 fields to line 3, expected 2"));
}

#[test]
fn columns_are_found_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "a,b,a\n").unwrap();
    let table = DelimitedFile::open(&path, DelimitedForm::default()).unwrap();
    assert_eq!(table.columns(["b"]).unwrap(), [1]);
    let error = table.columns(["a", "c"]).unwrap_err();
    assert!(error.to_string().contains("`c`") && error.to_string().contains("`a` is there twice"), "{error}");
    assert!(error.hint_text().unwrap().contains("`a`, `b`"));
    let error = DelimitedFile::open(&path, DelimitedForm::default())
        .unwrap()
        .columns(["a", "c", "a", "c"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("has 2 mistakes"), "{error}");
    // Line breaks of names are escaped.
    std::fs::write(&path, "\"a\nb\",c\n").unwrap();
    let error = DelimitedFile::open(&path, DelimitedForm::default()).unwrap().columns(["a"]).unwrap_err();
    assert!(error.hint_text().unwrap().ends_with("its columns are `a\\nb`, `c`"), "{error:?}");
    // A header of many columns is not shown whole.
    std::fs::write(&path, (0..100_000).map(|i| format!("{i},")).collect::<String>()).unwrap();
    let error = DelimitedFile::open(&path, DelimitedForm::default()).unwrap().columns(["c"]).unwrap_err();
    assert!(error.hint_text().unwrap().len() < 300, "{error}");
}

#[test]
fn another_separator_is_named_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, content: &str, separator: Option<u8>| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        DelimitedFile::open(&path, DelimitedForm { separator, header: None })
    };
    let refused = |name: &str, content: &str, separator: Option<u8>| {
        let error: Error = match open(name, content, separator) {
            Ok(table) => table.columns(["a", "b"]).unwrap_err(),
            Err(error) => error,
        };
        format!("{error}; {}", error.hint_text().unwrap_or_default())
    };
    let message = refused("a.csv", "a;b\n1;2,5\n", None);
    assert!(message.contains("its columns are separated by semicolons, expected commas: `a;b`"), "{message}");
    assert!(message.ends_with("set `separator = \";\"`"), "{message}");
    let message = refused("a.csv", "a\tb\n", None);
    assert!(
        message.contains("tabs") && message.contains(".tsv") && message.contains("`separator = \"\\t\"`"),
        "{message}"
    );
    let message = refused("a.csv", "sep=;\na;b\n", None);
    assert!(message.contains("line 1: `sep=` is for Excel") && message.contains("set `separator`"), "{message}");
    assert!(refused("a.tsv", "a,b\n", None).contains("separated by commas, expected tabs"));
    assert!(refused("a.tsv", "a\tb\n", Some(b';')).contains("`separator` is for CSV files"));

    let table = open("a.csv", "a;b\n1;\"x;y, z\"\n", Some(b';')).unwrap();
    assert_eq!(table.columns(["a", "b"]).unwrap(), [0, 1]);
    let mut rows = Vec::new();
    table
        .for_each(
            || Ok(()),
            |_, fields| {
                rows.push(fields.join("|"));
                Ok(())
            },
        )
        .unwrap();
    assert_eq!(rows, ["1|x;y, z"]);
}

#[test]
fn reading_ends_with_a_failed_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, "a\n1\n2\n3\n").unwrap();
    let rows = Cell::new(0);
    let check = || if rows.get() < 2 { Ok(()) } else { Err(Error::interrupted()) };
    let result = DelimitedFile::open(&path, DelimitedForm::default()).unwrap().for_each(check, |_, _| {
        rows.set(rows.get() + 1);
        Ok(())
    });
    assert_eq!((result.unwrap_err().category(), rows.get()), (ErrorCategory::Interrupted, 2));
}

/// Tables as those of CC3M, whose first line is a row.
#[test]
fn a_table_without_names_of_columns_needs_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("Train_GCC-training.tsv");
    std::fs::write(&path, "a very typical bus station\thttp://x.de/1.jpg\nsierra looked stunning\thttp://x.de/2\n")
        .unwrap();
    let table = DelimitedFile::open(&path, DelimitedForm::default()).unwrap();
    let error = table.column_places(&["url", "caption"], "name them with `columns`").unwrap_err();
    assert!(error.to_string().ends_with("line 1: expected names of columns, got a row: `a very typical bus station`"));
    assert_eq!(error.hint_text(), Some("name its 2 columns in their order, such as `header = [\"url\", \"caption\"]`"));
    let header = ["caption", "url"].map(str::to_owned);
    let table = DelimitedFile::open(&path, DelimitedForm { separator: None, header: Some(&header) }).unwrap();
    assert_eq!(table.columns(["url", "caption"]).unwrap(), [1, 0]);
    let error = table.column_places(&["text"], "").unwrap_err();
    assert_eq!(error.hint_text(), Some("by the setting `header`, its columns are `caption`, `url`"));
    let mut rows = Vec::new();
    let visit = |line: u64, fields: &[&str]| {
        rows.push((line, fields[1].to_owned()));
        Ok(())
    };
    table.for_each(|| Ok(()), visit).unwrap();
    assert_eq!(rows, [(1, "http://x.de/1.jpg".to_owned()), (2, "http://x.de/2".to_owned())]);
    for (first, is_row) in [("a,b", false), ("file.name,a dog", false), ("0,1", false), ("A.JPG,b", true)] {
        std::fs::write(path.with_extension("csv"), format!("{first}\n")).unwrap();
        let table = DelimitedFile::open(&path.with_extension("csv"), DelimitedForm::default()).unwrap();
        let error = table.column_places(&["c"], "name it").unwrap_err().to_string();
        assert_eq!(error.contains("got a row"), is_row, "{first}: {error}");
    }
}

/// `iconv -f LATIN1` of the bytes of "狗" in GBK would give "¹·".
#[test]
fn no_encoding_is_guessed() {
    let message = described(b"a,b\n1,\xb9\xb7\n");
    assert!(message.contains("line 2: bytes that are not UTF-8"), "{message}");
    assert!(message.contains("`iconv -f ENCODING -t UTF-8") && message.contains("GB18030 of Chinese"), "{message}");
    // In the name of a column, too.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, b"\xb9\xb7,b\n").unwrap();
    let error = DelimitedFile::open(&path, DelimitedForm::default()).unwrap().columns(["a"]).unwrap_err();
    assert!(error.hint_text().unwrap().contains("`iconv -f ENCODING -t UTF-8"), "{error:?}");
}
