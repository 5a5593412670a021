//! Helpers of the tests of `report`: a small instance of every table, and access to the written pages.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};

use image::{ImageFormat, Rgb, RgbImage};

use super::Report;
use pairloom_images::image::picture_digests;
use pairloom_stage::TableRef;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

/// Settings with `summary` only, or with every table but `similarity` and `graphs`.
pub(super) fn report(all_tables: bool) -> Report {
    let table = |name: &str| TableRef::try_from(format!("s.{name}")).unwrap();
    let optional = |name: &str| all_tables.then(|| table(name));
    Report {
        title: "Hostile <title> & co".to_owned(),
        summary: Some(table("summary")),
        correlations: if all_tables { vec![table("correlations")] } else { vec![] },
        significance_tests: if all_tables { vec![table("significance_tests")] } else { vec![] },
        sweep: None,
        metrics: optional("metrics"),
        rankings: optional("rankings"),
        hubs: optional("hubs"),
        history: optional("history"),
        validation: optional("validation"),
        images: optional("images"),
        captions: optional("captions"),
        similarity: None,
        graphs: None,
        attention: None,
        examples: 4,
        seed: 1,
    }
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

pub(super) fn floats(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// Column of null texts.
fn nulls(rows: usize) -> ArrayRef {
    Arc::new(StringArray::new_null(rows))
}

pub(super) fn summary() -> RecordBatch {
    let mut columns = vec![
        texts(["made-4"]),
        texts(["nns"]),
        nulls(1),
        Arc::new(BooleanArray::from(vec![false])) as ArrayRef,
        ints([4]),
        ints([8]),
    ];
    let values = [50.0, 75.0, 100.0, 1.5, 3.25, 62.5, 87.5, 100.0, 1.0, 1.75, 475.0, 6.25];
    columns.extend(values.map(|value| floats([value])));
    tables::batch(&tables::summary::table(&tables::DEFAULT_CUTOFFS).schema(), columns).unwrap()
}

/// Row of `metrics`: direction, measure, relevance, variant, ground truth, (m, k), value.
pub(super) type MetricFixture =
    (&'static str, &'static str, Option<&'static str>, Option<&'static str>, Option<bool>, [Option<i64>; 2], f64);

const METRICS: [MetricFixture; 9] = [
    ("i2t", "recall", None, None, None, [None, Some(1)], 50.0),
    ("both", "rsum", None, None, None, [None, None], 475.0),
    ("t2i", "set_recall", None, None, None, [None, Some(5)], 31.25),
    ("i2t", "ncs", Some("<spice>"), Some("official"), Some(false), [None, Some(1)], 60.04),
    ("t2i", "ncs", Some("<spice>"), Some("official"), Some(false), [None, Some(1)], 70.06),
    ("both", "nsum", Some("<spice>"), Some("official"), Some(false), [None, None], 363.4),
    ("i2t", "ncs_ordered", Some("<spice>"), Some("official"), Some(false), [None, Some(1)], 11.1),
    ("i2t", "semantic_recall", Some("<spice>"), Some("paper"), Some(true), [Some(5), Some(1)], 20.0),
    ("t2i", "map_at_r", Some("cxc"), None, None, [None, None], 33.33),
];

/// Table `metrics` of a protocol and the method `nns`.
pub(super) fn metrics_of(protocol: &str, rows: &[MetricFixture]) -> RecordBatch {
    let n = rows.len();
    let all = |text: &str| Arc::new(StringArray::from(vec![text; n])) as ArrayRef;
    let int = |value: i64| Arc::new(Int64Array::from(vec![value; n])) as ArrayRef;
    let names = |name_of: fn(&MetricFixture) -> &'static str| {
        Arc::new(StringArray::from_iter_values(rows.iter().map(name_of))) as ArrayRef
    };
    let optional = |i: usize| Arc::new(rows.iter().map(|row| row.5[i]).collect::<Int64Array>()) as ArrayRef;
    let end = |value| Arc::new((0..n).map(|row| (row == 0).then_some(value)).collect::<Float64Array>()) as ArrayRef;
    let columns = vec![
        all(protocol),
        int(1),
        all("nns"),
        nulls(n),
        nulls(n),
        Arc::new(BooleanArray::from(vec![false; n])) as ArrayRef,
        names(|row| row.0),
        names(|row| row.1),
        Arc::new(rows.iter().map(|row| row.2).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.3).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.4).collect::<BooleanArray>()),
        optional(0),
        optional(1),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.6))),
        end(15.0),
        end(85.0),
        int(4),
        int(8),
    ];
    tables::batch(&tables::metrics::table().schema(), columns).unwrap()
}

fn correlations() -> RecordBatch {
    let columns = vec![
        texts(["Binary", "CIDEr-D | <b>"]),
        texts(["non_gt", "all"]),
        ints([19_833, 44_833]),
        ints([19_833, 44_833]),
        floats([0.0, 0.7385]),
        floats([0.0, 0.7675]),
        floats([0.0, 0.5]),
        floats([0.0, 0.25]),
        Arc::new(Float64Array::from(vec![None, Some(0.734)])) as ArrayRef,
    ];
    tables::batch(&tables::correlations::table().schema(), columns).unwrap()
}

fn significance_tests_table() -> RecordBatch {
    let float = |value: f64| floats([value, 1.0]);
    let columns = vec![
        texts(["made-4", "made-4"]),
        texts(["csls", "csls"]),
        texts(["k = 10 | <b>", ""]),
        texts(["nns", "nns"]),
        nulls(2),
        texts(["train: loss = <i>", "train: loss = <i>"]),
        nulls(2),
        texts(["1", "1"]),
        texts(["2", "2"]),
        texts(["rsum", "i2t_r1"]),
        float(300.8),
        float(292.63),
        float(8.17),
        float(-3.25),
        float(19.04),
        float(0.1234),
        ints([40, 0]),
        ints([31, 0]),
        ints([750, 125]),
        ints([125, 125]),
    ];
    tables::batch(&tables::significance_tests::table().schema(), columns).unwrap()
}

/// Table `rankings` with rows of (direction, `query_id`, rank, `top_ids`).
fn rankings(rows: &[(&str, i64, i64, &[i64])]) -> RecordBatch {
    let schema = tables::rankings::table(&tables::DEFAULT_CUTOFFS).schema();
    let list = |name, values| tables::list_array(&schema, name, rows.iter().map(|row| row.3.len()), values).unwrap();
    let ids: Vec<i64> = rows.iter().flat_map(|row| row.3.to_vec()).collect();
    let scores = Float32Array::from_iter_values((0..ids.len()).map(|_| 0.5));
    let ranks = || ints(rows.iter().map(|row| row.2));
    let hits = |last: i64| -> ArrayRef {
        Arc::new(BooleanArray::from(rows.iter().map(|row| row.2 <= last).collect::<Vec<_>>()))
    };
    let columns = vec![
        texts(rows.iter().map(|_| "made-4")),
        ints(rows.iter().map(|_| 0)),
        texts(rows.iter().map(|_| "nns")),
        nulls(rows.len()),
        texts(rows.iter().map(|row| row.0)),
        ints(rows.iter().map(|row| row.1)),
        ints(rows.iter().map(|_| 0)),
        hits(1),
        hits(5),
        hits(10),
        ranks(),
        ranks(),
        ranks(),
        list("top_ids", Arc::new(Int64Array::from(ids.clone()))),
        list("top_scores", Arc::new(scores)),
    ];
    tables::batch(&schema, columns).unwrap()
}

/// Table `hubs` of captions 0 to 7 and images 10 to 13, with caption 1 and image 11 as hubs.
fn hubs() -> RecordBatch {
    let items: Vec<(&str, i64)> = (0..8).map(|id| ("i2t", id)).chain((10..14).map(|id| ("t2i", id))).collect();
    let count = |most: i64| ints(items.iter().map(move |(_, id)| if id % 10 == 1 { most } else { 1 }));
    let columns = vec![
        texts(items.iter().map(|_| "made-4")),
        ints(items.iter().map(|_| 0)),
        texts(items.iter().map(|_| "nns")),
        nulls(items.len()),
        texts(items.iter().map(|item| item.0)),
        ints(items.iter().map(|item| item.1)),
        count(2),
        count(3),
        count(4),
        ints(items.iter().map(|_| 1)),
    ];
    tables::batch(&tables::hubs::table(&tables::DEFAULT_CUTOFFS).schema(), columns).unwrap()
}

fn validation() -> RecordBatch {
    let epochs = || 0..3;
    let mut columns = vec![ints(epochs()), ints(epochs().map(|e| e * 10)), floats([9.0, 5.0, 4.0])];
    columns.extend((0..6).map(|recall| floats([f64::from(recall), 30.0, 20.0])));
    // rsum and the selection metric, which are equal here.
    columns.extend([(); 2].map(|()| floats([15.0, 180.0, 120.0])));
    columns.push(Arc::new(BooleanArray::from(vec![true, true, false])));
    tables::batch(&tables::validation::table().schema(), columns).unwrap()
}

pub(super) fn history() -> RecordBatch {
    let steps = 0..40i64;
    let columns = vec![
        ints(steps.clone()),
        ints(steps.clone().map(|step| step / 20)),
        ints(steps.clone().map(|_| 8)),
        floats(
            steps
                .clone()
                .map(|step| if step == 5 { f64::NAN } else { 1000.0 / f64::from(1 + i32::try_from(step).unwrap()) }),
        ),
        floats(steps.clone().map(|_| 100.0)),
        floats(steps.clone().map(|_| 1.0)),
        floats(steps.map(|_| 1e-4)),
    ];
    tables::batch(&tables::history::table().schema(), columns).unwrap()
}

fn images() -> RecordBatch {
    let mut png = Cursor::new(Vec::new());
    RgbImage::from_pixel(300, 200, Rgb([10, 200, 30])).write_to(&mut png, ImageFormat::Png).unwrap();
    let png = png.into_inner();
    let bytes = BinaryArray::from_opt_vec(vec![Some(&png), Some(&png), Some(b"no image"), None]);
    let digests = picture_digests(&bytes);
    let columns = vec![
        ints([10, 11, 12, 13]),
        texts(["test"; 4]),
        texts(["ten.png", "\"><img src=x onerror=alert(1)>.png", "broken.png", "outside.png"]),
        Arc::new(StringArray::from(vec![None, None, None, Some("../../etc/hostname")])),
        Arc::new(bytes),
        Arc::new(digests),
    ];
    tables::batch(&tables::images::table().schema(), columns).unwrap()
}

fn captions() -> RecordBatch {
    let columns = vec![
        ints(0..8),
        ints((0..8).map(|caption| 10 + caption / 2)),
        texts(["test"; 8]),
        texts([
            "a red square",
            "<script>alert(1)</script> & \"quotes\"",
            "a | pipe `tick` <b>",
            "two\nlines",
            "four",
            "five",
            "six",
            "seven",
        ]),
    ];
    tables::batch(&tables::captions::table().schema(), columns).unwrap()
}

/// Host with an instance of every table.
pub(super) fn host() -> InMemoryHost {
    let mut host = InMemoryHost::default();
    let rankings = rankings(&[
        ("i2t", 10, 1, &[1, 2, 0]),
        ("i2t", 11, 2, &[0, 3, 2]),
        ("i2t", 12, 13, &[0, 1]),
        ("t2i", 2, 1, &[11, 10]),
        ("t2i", 7, 3, &[10, 11]),
    ]);
    for (name, batch) in [
        ("summary", summary()),
        ("metrics", metrics_of("made-4", &METRICS)),
        ("rankings", rankings),
        ("hubs", hubs()),
        ("history", history()),
        ("validation", validation()),
        ("images", images()),
        ("captions", captions()),
        ("correlations.0", correlations()),
        ("significance_tests.0", significance_tests_table()),
    ] {
        host.input_tables.insert(name.to_owned(), vec![batch]);
    }
    host.source_paths.insert("images".to_owned(), std::env::temp_dir());
    host
}

/// Returns the Markdown and the HTML page.
pub(super) fn pages(host: &InMemoryHost) -> (String, String) {
    let file = |name: &str| {
        let content = host.output_files[&("page".to_owned(), name.to_owned())].to_vec();
        String::from_utf8(content).unwrap()
    };
    (file("report.md"), file("report.html"))
}
