//! `report` in a world in memory: what the pages say, and that nothing in the data becomes markup.

use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray,
};

use image::{ImageFormat, Rgb, RgbImage};

use super::Report;
use crate::stage::{Stage, TableRef};
use crate::stages::testing::MemoryWorld;
use crate::tables;

pub(super) fn report(with_everything: bool) -> Report {
    let table = |name: &str| TableRef::try_from(format!("s.{name}")).unwrap();
    let optional = |name: &str| with_everything.then(|| table(name));
    Report {
        title: "Hostile <title> & co".to_owned(),
        summary: Some(table("summary")),
        correlations: if with_everything { vec![table("correlations")] } else { vec![] },
        contrasts: if with_everything { vec![table("contrasts")] } else { vec![] },
        metrics: optional("metrics"),
        rankings: optional("rankings"),
        hubs: optional("hubs"),
        history: optional("history"),
        validation: optional("validation"),
        images: optional("images"),
        captions: optional("captions"),
        similarity: None,
        graphs: None,
        examples: 4,
        seed: 1,
    }
}

fn texts<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn ints(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn floats(values: impl IntoIterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// A column of texts that are not there.
fn nothing(rows: usize) -> ArrayRef {
    Arc::new(StringArray::new_null(rows))
}

fn summary() -> RecordBatch {
    let mut columns = vec![
        texts(["made-4"]),
        texts(["nns"]),
        nothing(1),
        Arc::new(BooleanArray::from(vec![false])) as ArrayRef,
        ints([4]),
        ints([8]),
    ];
    let values = [50.0, 75.0, 100.0, 1.5, 3.25, 62.5, 87.5, 100.0, 1.0, 1.75, 475.0, 6.25];
    columns.extend(values.map(|value| floats([value])));
    tables::batch(&tables::summary::table(&tables::CUTOFFS).schema(), columns).unwrap()
}

/// A row of `metrics`: direction, measure, relevance, variant, ground truth, m, k, value.
type Metric =
    (&'static str, &'static str, Option<&'static str>, Option<&'static str>, Option<bool>, [Option<i64>; 2], f64);

const METRICS: [Metric; 9] = [
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

fn metrics() -> RecordBatch {
    let n = METRICS.len();
    let optional = |i: usize| Arc::new(METRICS.iter().map(|row| row.5[i]).collect::<Int64Array>()) as ArrayRef;
    let end = |value| Arc::new((0..n).map(|row| (row == 0).then_some(value)).collect::<Float64Array>()) as ArrayRef;
    let columns = vec![
        texts(METRICS.map(|_| "made-4")),
        ints(METRICS.map(|_| 1)),
        texts(METRICS.map(|_| "nns")),
        nothing(n),
        nothing(n),
        Arc::new(BooleanArray::from(vec![false; n])) as ArrayRef,
        texts(METRICS.map(|row| row.0)),
        texts(METRICS.map(|row| row.1)),
        Arc::new(METRICS.iter().map(|row| row.2).collect::<StringArray>()),
        Arc::new(METRICS.iter().map(|row| row.3).collect::<StringArray>()),
        Arc::new(METRICS.iter().map(|row| row.4).collect::<BooleanArray>()),
        optional(0),
        optional(1),
        floats(METRICS.map(|row| row.6)),
        end(15.0),
        end(85.0),
        ints(METRICS.map(|_| 4)),
        ints(METRICS.map(|_| 8)),
    ];
    tables::batch(&tables::metrics::table().schema(), columns).unwrap()
}

fn correlations() -> RecordBatch {
    let columns = vec![
        texts(["Binary", "CIDEr-D | <b>"]),
        texts(["non_gt", "all"]),
        ints([19_833, 44_833]),
        floats([0.0, 0.7385]),
        floats([0.0, 0.7675]),
        floats([0.0, 0.5]),
        floats([0.0, 0.25]),
        Arc::new(Float64Array::from(vec![None, Some(0.734)])) as ArrayRef,
    ];
    tables::batch(&tables::correlations::table().schema(), columns).unwrap()
}

fn contrasts() -> RecordBatch {
    let float = |value: f64| floats([value, 1.0]);
    let columns = vec![
        texts(["made-4", "made-4"]),
        texts(["csls", "csls"]),
        texts(["k = 10 | <b>", ""]),
        texts(["nns", "nns"]),
        nothing(2),
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
    tables::batch(&tables::contrasts::table().schema(), columns).unwrap()
}

/// (direction, query, rank, items found).
fn rankings(rows: &[(&str, i64, i64, &[i64])]) -> RecordBatch {
    let schema = tables::rankings::table(&tables::CUTOFFS).schema();
    let list = |name, values| tables::list(&schema, name, rows.iter().map(|row| row.3.len()), values).unwrap();
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
        nothing(rows.len()),
        texts(rows.iter().map(|row| row.0)),
        ints(rows.iter().map(|row| row.1)),
        ints(rows.iter().map(|_| 0)),
        hits(0),
        hits(4),
        hits(9),
        ranks(),
        ranks(),
        ranks(),
        list("top_ids", Arc::new(Int64Array::from(ids.clone()))),
        list("top_scores", Arc::new(scores)),
    ];
    tables::batch(&schema, columns).unwrap()
}

/// Captions 0 to 7 and images 10 to 13; caption 1 and image 11 are found by all.
fn hubs() -> RecordBatch {
    let items: Vec<(&str, i64)> = (0..8).map(|id| ("i2t", id)).chain((10..14).map(|id| ("t2i", id))).collect();
    let count = |most: i64| ints(items.iter().map(move |(_, id)| if id % 10 == 1 { most } else { 1 }));
    let columns = vec![
        texts(items.iter().map(|_| "made-4")),
        ints(items.iter().map(|_| 0)),
        texts(items.iter().map(|_| "nns")),
        nothing(items.len()),
        texts(items.iter().map(|item| item.0)),
        ints(items.iter().map(|item| item.1)),
        count(2),
        count(3),
        count(4),
        ints(items.iter().map(|_| 1)),
    ];
    tables::batch(&tables::hubs::table(&tables::CUTOFFS).schema(), columns).unwrap()
}

fn validation() -> RecordBatch {
    let epochs = || 0..3;
    let mut columns = vec![ints(epochs()), ints(epochs().map(|e| e * 10)), floats([9.0, 5.0, 4.0])];
    columns.extend((0..6).map(|recall| floats([f64::from(recall), 30.0, 20.0])));
    // rsum, and the score, which is the same here.
    columns.extend([(); 2].map(|()| floats([15.0, 180.0, 120.0])));
    columns.push(Arc::new(BooleanArray::from(vec![true, true, false])));
    tables::batch(&tables::validation::table().schema(), columns).unwrap()
}

fn history() -> RecordBatch {
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
    let columns = vec![
        ints([10, 11, 12, 13]),
        texts(["test"; 4]),
        texts(["ten.png", "\"><img src=x onerror=alert(1)>.png", "broken.png", "outside.png"]),
        Arc::new(StringArray::from(vec![None, None, None, Some("../../etc/hostname")])),
        Arc::new(BinaryArray::from_opt_vec(vec![Some(&png), Some(&png), Some(b"no picture"), None])),
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

pub(super) fn world() -> MemoryWorld {
    let mut world = MemoryWorld::default();
    let rankings = rankings(&[
        ("i2t", 10, 0, &[1, 2, 0]),
        ("i2t", 11, 1, &[0, 3, 2]),
        ("i2t", 12, 12, &[0, 1]),
        ("t2i", 2, 0, &[11, 10]),
        ("t2i", 7, 2, &[10, 11]),
    ]);
    for (name, batch) in [
        ("summary", summary()),
        ("metrics", metrics()),
        ("rankings", rankings),
        ("hubs", hubs()),
        ("history", history()),
        ("validation", validation()),
        ("images", images()),
        ("captions", captions()),
        ("correlations.0", correlations()),
        ("contrasts.0", contrasts()),
    ] {
        world.tables.insert(name.to_owned(), vec![batch]);
    }
    world.paths.insert("images".to_owned(), std::env::temp_dir());
    world
}

pub(super) fn pages(world: &MemoryWorld) -> (String, String) {
    let file = |name: &str| {
        let content = world.put[&("page".to_owned(), name.to_owned())].to_vec();
        String::from_utf8(content).unwrap()
    };
    (file("report.md"), file("report.html"))
}

#[test]
fn the_pages_have_the_numbers() {
    let mut world = world();
    world.run(&report(true)).unwrap();
    let (markdown, html) = pages(&world);
    let row = "| made-4 (4 × 8) | nns | 50.0 (15.0–85.0) | 75.0 | 100.0 | 1.5 | 3.2 | 62.5 | 87.5 | 100.0 | 1.0 | 1.8 \
               | 475.0 | 6.25 |";
    assert!(markdown.contains(row), "{markdown}");
    // Two captions of eight match an image: R@1 1/4, R@5 1 − (3·2)/(8·7)·… = 1 − C(6,5)/C(8,5) = 50/56; R@10 all. The
    // mean is 9/3, the median 3 (the first three miss with 20/56). One image of four: 25, 100, 100, 2, 2.5.
    let chance =
        "| chance (4 × 8) |  | 25.0 | 89.3 | 100.0 | 3.0 | 3.0 | 25.0 | 100.0 | 100.0 | 2.0 | 2.5 | 439.3 |  |";
    assert!(markdown.contains(chance), "{markdown}");
    assert!(markdown.contains("- rsum: 475.0 (chance 439.3)\n- image → text R@1: 50.0 (chance 25.0)\n"), "{markdown}");
    assert!(markdown.contains("| 1 | 5.0000 | 30.0 | 30.0 | 30.0 | 30.0 | 30.0 | 30.0 | 180.0 | kept |"), "{markdown}");
    for wanted in ["<td class=\"n\">50.0<small>15.0–85.0</small></td>", "best: 180.0 after epoch 1", "chance 439.3"] {
        assert!(html.contains(wanted), "no {wanted}");
    }
    // Six of the training and of ranks, four of hubs.
    assert_eq!(html.matches("<svg").count(), 10);
    let contrast = "| made-4 | csls, k \\= 10 \\| \\<b\\> | nns | 300.8 | 292.6 | +8.2 | -3.2 … +19.0 | 0.1234 | 40 | 31 |\n\nDiff";
    assert!(markdown.contains(contrast), "rsum alone: {markdown}");
    let hub = "| \\<script\\>alert\\(1\\)\\</script\\> \\& \"quotes\" | 1 | 2, 3, 4 |";
    assert!(markdown.contains(hub), "{markdown}");
}

/// The heights of the points of every line of a colour in a plot, from its lower end.
fn heights(svg: &str, colour: &str) -> Vec<Vec<i32>> {
    let lines = svg.split("<polyline").skip(1).filter(|line| line.contains(&format!("stroke=\"{colour}\"")));
    let points = |line: &str| {
        let points = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
        points.split_whitespace().map(|point| -point.split(',').nth(1).unwrap().parse::<i32>().unwrap()).collect()
    };
    lines.map(points).collect()
}

#[test]
fn the_course_of_a_training_is_drawn() {
    let mut world = world();
    let batch = history();
    let mut columns = batch.columns().to_vec();
    // The learning rate falls to a hundredth half-way; the loss falls below what it is when all scores are equal.
    columns[6] = floats((0..40).map(|step| if step < 20 { 1e-3 } else { 1e-5 }));
    world.tables.insert("history".to_owned(), vec![tables::batch(&batch.schema(), columns).unwrap()]);
    world.run(&report(true)).unwrap();
    let (_, html) = pages(&world);
    assert!(html.contains("if all scores were equal") && html.contains("from thick to thin: R@1, R@5, R@10"));
    let figures: Vec<&str> = html.split("<figure").skip(1).collect();
    let figure = |title: &str| *figures.iter().find(|figure| figure.contains(title)).unwrap();

    let loss = figure("Training loss");
    let (smooth, collapsed) = (&heights(loss, "#000003")[0], &heights(loss, "#000004")[0]);
    assert!(collapsed.iter().all(|height| *height == collapsed[0]), "{collapsed:?}");
    assert!(smooth[0] > collapsed[0] && smooth.last().unwrap() < &collapsed[0], "{smooth:?} {collapsed:?}");
    let rate = &heights(figure("Learning rate"), "#000003")[0];
    assert!(rate.len() == 4 && rate[0] == rate[1] && rate[1] > rate[2] && rate[2] == rate[3], "{rate:?}");
    let recalls = figure("Validation recall");
    assert_eq!([heights(recalls, "#000003").len(), heights(recalls, "#000004").len()], [3, 3]);
    assert_eq!(heights(recalls, "#000005").len(), 1, "the epoch that was kept");
}

#[test]
fn what_is_relevant_beside_one_hit_stands_in_tables_of_its_own() {
    let mut world = world();
    world.run(&report(true)).unwrap();
    let (markdown, html) = pages(&world);
    for wanted in [
        "| protocol | method | relevant | measure | i→t @1 | i→t @5 | t→i @1 | t→i @5 | sum |",
        "| made-4 | nns | own matches | set recall |  |  |  | 31.2 |  |",
        "| made-4 | nns | \\<spice\\> | NCS \\(N\\), official | 60.0 |  | 70.1 |  | 363.4 |",
        "| made-4 | nns | \\<spice\\> | Semantic Recall, paper, m \\= 5 | 20.0 |  |  |  |  |",
        "| made-4 | nns | cxc | mAP\\@R |  | 33.3 |",
        "| Binary | non\\_gt | 19833 |  | 0.0000 |  | 0.0000 | 0.0000 | 0.0000 |",
        "| CIDEr-D \\| \\<b\\> | all | 44833 | 0.734 | 0.7385 | +0.0045 | 0.7675 | 0.5000 | 0.2500 |",
    ] {
        assert!(markdown.contains(wanted), "no `{wanted}` in {markdown}");
    }
    assert!(!markdown.contains("11.1"), "{markdown}");
    assert!(html.contains("<td>&lt;spice&gt;</td><td>NCS (N), official</td><td class=\"n\">60.0</td>"), "{html}");
    assert!(html.contains("<th scope=\"row\">CIDEr-D | &lt;b&gt;</th>"), "{html}");
}

#[test]
fn correlations_alone_are_enough_too() {
    let mut world = world();
    let alone = Report { summary: None, correlations: report(true).correlations, ..report(false) };
    assert_eq!(alone.check(), []);
    world.run(&alone).unwrap();
    let (markdown, html) = pages(&world);
    assert!(
        markdown.starts_with("# Hostile \\<title\\> \\& co\n\n## Agreement with people\n\n| score |"),
        "{markdown}"
    );
    assert!(!html.contains("rsum"), "{html}");
    let nothing = Report { summary: None, ..report(false) };
    assert_eq!(nothing.check().len(), 1);
    assert_eq!(Report { summary: None, ..report(true) }.check()[0].setting, "rankings");
}

#[test]
fn right_answers_are_marked_and_missing_ones_told() {
    let mut world = world();
    world.run(&report(true)).unwrap();
    let (markdown, html) = pages(&world);
    // Image 10 found its caption 1, then one of image 11, then its caption 0.
    assert!(markdown.contains("**ten.png**, best match in 1st place:"), "{markdown}");
    assert!(markdown.contains("3. a red square (0.500) ✓"), "{markdown}");
    assert!(markdown.contains("2. a \\| pipe \\`tick\\` \\<b\\> (0.500)\n"), "{markdown}");
    // Image 12 found nothing right: its captions are 4 and 5.
    assert!(markdown.contains("best match in 13th place"), "{markdown}");
    assert!(markdown.contains("Right would have been:\n\n- four ✓\n- five ✓\n"), "{markdown}");
    // Caption 7 is of image 13, which is none of those found.
    assert!(markdown.contains("**seven**, best match in 3rd place:"), "{markdown}");
    assert!(markdown.contains("- outside.png ✓"), "{markdown}");
    assert_eq!(html.matches("<article class=\"good\"").count(), 2);
    assert_eq!(html.matches("<article class=\"bad\"").count(), 1);
    assert!(html.contains("data:image/jpeg;base64,"));
    let told: Vec<&str> = world.warnings.iter().map(|warning| warning.subject.as_str()).collect();
    assert_eq!(told, ["broken.png", "outside.png"]);
    assert!(world.warnings[1].message.contains("leads out of the image folder"), "{}", world.warnings[1].message);
}

#[test]
fn nothing_in_the_data_becomes_markup_and_the_page_needs_nothing_else() {
    let mut world = world();
    world.run(&report(true)).unwrap();
    let (_, html) = pages(&world);
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot;"));
    assert!(html.contains("<title>Hostile &lt;title&gt; &amp; co</title>"));
    for bad in ["<script", "<img src=x", "onerror=alert(1)>.png\"", "<link", "url(", "@import", "<b>"] {
        assert!(!html.contains(bad), "the page has {bad}");
    }
    let others = html.replace("http://www.w3.org/2000/svg", "").replace("src=\"data:image/jpeg;base64,", "");
    assert!(!others.contains("://"), "the page names another place");
    assert!(!others.contains(" src=\""), "the page loads something");
}

#[test]
fn a_summary_alone_is_enough_and_none_is_an_error() {
    let mut world = world();
    world.run(&report(false)).unwrap();
    let (markdown, html) = pages(&world);
    assert!(markdown.contains("475.0") && html.contains("475.0"));
    assert!(!html.contains("<svg") && !html.contains("<article"));
    assert!(world.warnings.is_empty());

    let empty = summary().slice(0, 0);
    world.tables.insert("summary".to_owned(), vec![empty]);
    assert!(world.run(&report(false)).unwrap_err().to_string().contains("`s.summary` has no rows"));
    assert_eq!(Report { title: " ".to_owned(), examples: 1000, ..report(false) }.check().len(), 2);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let made = || {
        let mut world = world();
        world.run(&report(true)).unwrap();
        pages(&world)
    };
    assert_eq!(made(), made());
}

#[test]
fn examples_come_without_captions_and_images() {
    let mut world = world();
    let report = Report { captions: None, images: None, ..report(true) };
    world.run(&report).unwrap();
    let (markdown, _) = pages(&world);
    assert!(markdown.contains("**image 10**") && markdown.contains("1. caption 1 (0.500)"), "{markdown}");
    assert!(markdown.contains("**caption 2**") && markdown.contains("1. image 11 (0.500) ✓"), "{markdown}");
}
