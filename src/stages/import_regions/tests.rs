//! Tests of the import of regions: files of two forms, mistakes, and limits.

use arrow::array::{Int64Array, RecordBatch};

use super::*;
use pairloom_stage_testing::InMemoryHost;

fn base64_of(values: &[f32]) -> String {
    STANDARD.encode(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

fn line(image: i64, boxes: &[f32], vectors: &[f32]) -> String {
    format!("{image}\t200\t100\t{}\t{}\t{}\n", boxes.len() / 4, base64_of(boxes), base64_of(vectors))
}

fn images(names: [&str; 3]) -> RecordBatch {
    let columns = tables::images::TableColumns {
        image_id: vec![5, 6, 7].into(),
        split: vec!["train", "val", "test"].into(),
        file_name: names.to_vec().into(),
        path: tables::Nullable(vec![None::<&str>; 3].into()),
        bytes: tables::Nullable(vec![None::<&[u8]>; 3].into()),
        digest: tables::Nullable(vec![None::<&str>; 3].into()),
    };
    columns.into_batch().expect("images")
}

fn run(text: &str, more: &str) -> Result<InMemoryHost> {
    run_on(images(["1005.jpg", "1006.jpg", "1007.jpg"]), text, more)
}

fn run_on(images: RecordBatch, text: &str, more: &str) -> Result<InMemoryHost> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.tsv");
    std::fs::write(&path, text).expect("a file");
    let mut host = InMemoryHost::default();
    host.source_paths.insert("files.0".to_owned(), path);
    host.input_tables.insert("images".to_owned(), vec![images]);
    let settings = format!("files = [\"a.tsv\"]\nimages = \"x.images\"\nmax_regions = 2\n{more}");
    host.run(&toml::from_str::<ImportRegions>(&settings).expect("settings"))?;
    Ok(host)
}

/// Image 9 is not in the table, and image 6 has no line.
#[test]
fn regions_have_the_splits_of_their_images_and_boxes_in_fractions() {
    let text = [
        line(7, &[0.0, 50.0, 100.0, 100.0, 20.0, 10.0, 40.0, 20.0], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        line(9, &[0.0; 4], &[1.0; 3]),
        line(5, &[0.0, 0.0, 200.5, 100.0], &[7.0, 8.0, 9.0]),
    ];
    let host = run(&text.concat(), "").expect("regions");
    let found = host.output("regions");
    assert_eq!(tables::int_column(&found, "image_id").expect("ids"), &Int64Array::from(vec![7, 5]));
    assert_eq!(tables::text_column(&found, "split").expect("splits").value(0), "test");
    let (values, places, width) = regions::values(&found).expect("regions");
    assert_eq!((places, width), (2, 3));
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0, 0.0]);
    let boxes = host.output("region_boxes");
    assert_eq!(tables::int_column(&boxes, "image_id").expect("ids"), &Int64Array::from(vec![7, 5]));
    let column = boxes.column_by_name("boxes").expect("boxes");
    let expected = [0.0, 0.5, 0.5, 1.0, 0.1, 0.1, 0.2, 0.2, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
    let wanted = RegionColumn::new(expected.to_vec(), 2, 4).expect("boxes");
    assert_eq!(column, &tables::ColumnValues::into_array(wanted));
    assert_eq!(host.warnings.len(), 1, "{:?}", host.warnings);
    assert!(host.warnings[0].message.starts_with("1 of 3 images have no regions"), "{:?}", host.warnings);
    let ended = [line(7, &[0.0; 4], &[1.0; 3]).replace('\n', "\r\n"), "\r\n\n".to_owned()].concat();
    assert_eq!(run(&ended, "").expect("regions").output("regions").num_rows(), 1);
    let by_name = run(&line(1006, &[0.0; 4], &[1.0]), "image_numbers = \"file_name\"").expect("regions");
    assert_eq!(by_name.output("regions").num_rows(), 1);
}

#[test]
fn a_name_that_is_a_url_is_shown_without_its_password_and_query() {
    let images = images(["1005.jpg", "https://me:secret@h.org/1006.jpg?signature=secret.v1", "1007.jpg"]);
    let error = run_on(images, &line(1005, &[0.0; 4], &[1.0]), "image_numbers = \"file_name\"").unwrap_err();
    assert_eq!(error.to_string(), "the name `https://h.org/1006.jpg` of image 6 is no number");
}

#[test]
fn all_wrong_lines_are_named() {
    let text = [
        line(5, &[10.0, 0.0, 5.0, 10.0], &[1.0]),
        "6\t200\t100\n".to_owned(),
        line(7, &[0.0; 12], &[1.0; 3]),
        "x\n".to_owned(),
        line(7, &[0.0; 4], &[1.0]),
        format!("6\t200\t100\t1\t{}\t!!\n", base64_of(&[0.0; 4])),
    ];
    let message = run(&text.concat(), "").expect_err("mistakes").to_string();
    for part in [
        "line 1: the box of region 0 is [10.0, 0.0, 5.0, 10.0] in a picture of 200 × 100 pixels",
        "line 2: got 3 columns, expected 6",
        "line 3: got 3 regions, expected at most 2",
        "line 4: got `x` as the number of the image",
        "line 5: image 7 is also in line 3 of",
        "line 6: image 6 is also in line 2 of",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let one = |text: &str| run(text, "").expect_err("a mistake").to_string();
    let none = one("5\t200\t100\t0\t\t\n");
    assert!(none.contains("line 1: got `0` as the number of regions, expected a number from 1"), "{none}");
    let blank = one(&format!("\n{}", line(5, &[0.0; 4], &[1.0])));
    assert!(blank.contains("line 1: it is blank, and there are lines after it"), "{blank}");
    let large = one(&line(5, &[0.0; 8], &[1.0, 3e38]));
    assert!(large.contains("line 1: the vector of region 1 holds 3e38, expected numbers of at most 1e12"), "{large}");
    assert!(one(&line(5, &[0.0, 0.0, 300.0, 10.0], &[1.0])).contains("expected x1 ≤ x2 and y1 ≤ y2 within it"));
    // The box of the file, not fractions of the picture.
    let high = one(&line(5, &[0.0, 0.0, 10.0, f32::NAN], &[1.0]));
    assert!(high.contains("the box of region 0 is [0.0, 0.0, 10.0, NaN] in a picture of 200 × 100"), "{high}");
    assert!(one(&line(5, &[0.0; 4], &[0.0])).contains("has only zeros"));
    assert!(one(&line(5, &[0.0; 4], &[f32::NAN])).contains("is not finite"));
    assert!(one(&line(5, &[0.0; 8], &[1.0; 3])).contains("expected a multiple of the 2 regions"));
    let wide = one(&line(5, &[0.0; 4], &vec![1.0; 16_385]));
    assert!(wide.contains("line 1: its vectors have 16385 values, expected at most 16384"), "{wide}");
    let widths = [line(5, &[0.0; 4], &[1.0]), line(6, &[0.0; 4], &[1.0; 2])].concat();
    assert!(one(&widths).contains("line 2: its vectors have 2 values, those before 1"));
    assert!(
        one(&format!("5\t200\t100\t1\t{}\t!!\n", base64_of(&[0.0; 4]))).contains("the feature vectors are no base64")
    );
    assert_eq!(
        one(&line(9, &[0.0; 4], &[1.0])),
        "none of the 3 images of `x.images` is in the files, which have 1 others"
    );
}

/// Of image 7 the first line is broken, as in the published files, and the second one counts. Image 9 is not in the table.
#[test]
fn repeated_and_broken_lines_can_be_left_out() {
    let text = [
        "7\t200\t100\t1\tAAAA\n".to_owned(),
        line(7, &[0.0; 4], &[3.0]),
        line(9, &[0.0; 4], &[1.0]),
        line(5, &[0.0; 4], &[1.0]),
        line(5, &[0.0; 4], &[2.0]),
    ];
    let refused = run(&text.concat(), "").expect_err("mistakes");
    assert!(refused.to_string().contains("has 3 mistakes"), "{refused}");
    assert_eq!(refused.hint_text(), Some("`on_missing = \"skip\"` leaves such lines out"));
    let host = run(&text.concat(), "on_missing = \"skip\"\nmax_skipped = 0.5").expect("regions");
    let found = host.output("regions");
    assert_eq!(tables::int_column(&found, "image_id").expect("ids"), &Int64Array::from(vec![7, 5]));
    assert_eq!(regions::values(&found).expect("regions").0, [3.0, 0.0, 1.0, 0.0]);
    let warnings: Vec<_> =
        host.warnings.iter().map(|warning| format!("{}: {}", warning.subject, warning.message)).collect();
    assert_eq!(
        warnings[..2],
        [
            "`a.tsv` line 1: left out: got 5 columns, expected 6: image, width, height, regions, boxes, vectors",
            "`a.tsv` line 5: left out: image 5 is also in line 4 of `a.tsv`",
        ]
    );
    let capped = run(&text.concat(), "on_missing = \"skip\"").expect_err("too many");
    assert!(capped.to_string().starts_with("2 of 4 lines were left out, expected at most 0.1 of them"), "{capped}");
    let all = run(&text[0], "on_missing = \"skip\"\nmax_skipped = 1.0").expect_err("all");
    assert!(all.to_string().starts_with("all 1 lines were left out"), "{all}");
}
