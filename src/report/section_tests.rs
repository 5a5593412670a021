//! Tests of the sections of caption similarity, scene graphs and word attention.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use serde_json::json;

use super::testing::{host, report};
use super::{Report, ReportAttention};
use pairloom_base::error::Result;
use pairloom_stage::{Stage, TableRef};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{self as tables, VectorColumn};

fn ints(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn list(schema: &SchemaRef, name: &str, lengths: &[usize], values: ArrayRef) -> ArrayRef {
    tables::list_array(schema, name, lengths.iter().copied(), values).unwrap()
}

fn captions() -> RecordBatch {
    let columns = vec![
        ints(&[1, 2, 3, 4]),
        ints(&[10, 10, 20, 20]),
        texts(&["test"; 4]),
        texts(&["a <dog>", "the dog sits on a wall", "a cat", "one | cat"]),
    ];
    tables::batch(&tables::captions::table().schema(), columns).unwrap()
}

/// Table `caption_similarity` of two images with all four captions.
fn similarity(captions: &[i64]) -> RecordBatch {
    let values = vec![2.0, 4.0, 0.5, 0.0, 0.25, 0.0, 3.0, 1.0];
    tables::caption_similarity::batch(vec![10, 20], &[4, 4], captions.to_vec(), values, "cider_d", "ptb").unwrap()
}

/// Scene graph of caption 2: dog, wall; dog is brown; dog sit on wall.
fn graphs() -> RecordBatch {
    let schema = tables::scene_graphs::table().schema();
    let tuple = |name: &str, columns: Vec<ArrayRef>| {
        let DataType::List(item) = schema.field_with_name(name).unwrap().data_type() else { panic!("no list") };
        let DataType::Struct(fields) = item.data_type() else { panic!("no tuples") };
        list(&schema, name, &[1], Arc::new(StructArray::try_new(fields.clone(), columns, None).unwrap()))
    };
    let columns = vec![
        ints(&[2]),
        ints(&[10]),
        texts(&["test"]),
        list(&schema, "objects", &[2], texts(&["<dog>", "wall"])),
        tuple("attributes", vec![texts(&["<dog>"]), texts(&["brown"])]),
        tuple("relations", vec![texts(&["<dog>"]), texts(&["sit on"]), texts(&["wall"])]),
        texts(&["rules-2"]),
        texts(&["treebank"]),
    ];
    tables::batch(&schema, columns).unwrap()
}

fn pages(similarity: RecordBatch) -> Result<[String; 2]> {
    let settings = json!({"title": "t", "captions": "a.captions", "similarity": "b.caption_similarity",
                          "graphs": "b.scene_graphs", "examples": 1});
    let stage: Report = serde_json::from_value(settings).unwrap();
    assert_eq!(stage.check(), []);
    let mut host = InMemoryHost::default();
    host.input_tables.insert("captions".to_owned(), vec![captions()]);
    host.input_tables.insert("similarity".to_owned(), vec![similarity]);
    host.input_tables.insert("graphs".to_owned(), vec![graphs()]);
    host.run(&stage)?;
    let page =
        |name: &str| String::from_utf8(host.output_files[&("page".to_owned(), name.to_owned())].to_vec()).unwrap();
    Ok([page("report.md"), page("report.html")])
}

#[test]
fn pages_show_the_distribution_extreme_pairs_and_scene_graphs() {
    let [markdown, html] = pages(similarity(&[1, 2, 3, 4, 1, 2, 3, 4])).unwrap();
    // φ of captions of the image itself: 2, 4, 3, 1, mean 2.5; of other images: 0.5, 0, 0.25, 0, mean 0.1875.
    assert!(markdown.contains("| captions of the image itself | 4 | 2.500 |"), "{markdown}");
    assert!(markdown.contains("| captions of other images | 4 | 0.188 |"), "{markdown}");
    // Largest φ with another image: caption 3 with image 10. Smallest with its own image: caption 4 with image 20.
    assert!(
        markdown.contains("**a cat**, φ \\= 0.500 with the captions:\n\n- a \\<dog\\>\n- the dog sits on a wall\n"),
        "{markdown}"
    );
    assert!(markdown.contains("**one \\| cat**, φ \\= 1.000 with the captions:\n\n- a cat\n"), "{markdown}");
    assert!(markdown.contains("- **the dog sits on a wall**: \\<dog\\> is brown; \\<dog\\> sit on wall"), "{markdown}");
    for part in ["Distribution of φ", "&lt;dog&gt;</text>", ">sit on</text>", ">brown</text>", "Scene graphs"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("<dog>"));
}

#[test]
fn a_missing_caption_is_an_error() {
    let error = pages(similarity(&[1, 2, 3, 9, 1, 2, 3, 4])).unwrap_err();
    assert!(error.to_string().contains("caption_id 9, which `captions` lacks"), "{error}");
}

#[test]
fn similarity_and_graphs_need_captions() {
    let stage: Report = serde_json::from_value(json!({"title": "t", "graphs": "a.b", "similarity": "a.b"})).unwrap();
    let settings: Vec<String> = stage.check().into_iter().map(|problem| problem.setting).collect();
    assert_eq!(settings, ["similarity", "graphs"]);
}

#[test]
fn the_attention_of_words_is_drawn_on_the_photograph() {
    let mut host = host();
    let table = |name: &str| TableRef::try_from(format!("s.{name}")).unwrap();
    let attention = Some(ReportAttention { weights: table("attention"), boxes: table("boxes") });
    let report = Report { attention, images: Some(table("images")), ..report(false) };
    assert_eq!(report.check(), []);
    assert_eq!(Report { images: None, ..report.clone() }.check()[0].setting, "attention");
    let words = ["<start>", "a", "<b>", "<end>"];
    let weights = [[0.5, 0.5], [0.25, 0.75], [0.996, 0.004], [0.5, 0.5]].concat();
    let rows = tables::attention::TableColumns {
        caption_id: vec![3; 4].into(),
        image_id: vec![10; 4].into(),
        split: tables::repeated("test", 4),
        position: vec![0, 1, 2, 3].into(),
        word: words.to_vec().into(),
        direction: tables::repeated("t2i", 4),
        weights: VectorColumn::new(weights, 2).unwrap(),
    };
    let boxes = |edges: Vec<f32>, count| {
        let boxes = RegionColumn::new(edges, count, 4).unwrap();
        let ids = vec![10].into();
        let columns = tables::region_boxes::TableColumns { image_id: ids, split: tables::repeated("test", 1), boxes };
        columns.into_batch().unwrap()
    };
    host.input_tables.insert("attention.weights".to_owned(), vec![rows.into_batch().unwrap()]);
    let edges = vec![0.0, 0.0, 0.5, 1.0, 0.5, 0.25, 1.0, 1.0];
    host.input_tables.insert("attention.boxes".to_owned(), vec![boxes(edges, 2)]);
    host.run(&report).unwrap();
    let (markdown, html) = super::testing::pages(&host);
    assert!(
        markdown.contains("- **a \\<b\\>**: a → region 2 \\(75 %\\), \\<b\\> → region 1 \\(100 %\\)"),
        "{markdown}"
    );
    // The photograph is there once, scaled to 220 × 147 pixels; a region of less than 2 % of the largest weight is not drawn.
    assert_eq!(html.matches("data:image/jpeg;base64,").count(), 1);
    assert_eq!(html.matches("<svg viewBox=\"0 0 220 147\"").count(), 2);
    assert_eq!(html.matches("href=\"#attended-0\" opacity=\"0.25\"").count(), 2);
    assert!(html.contains("<svg x=\"0\" y=\"0\" width=\"110\" height=\"147\" viewBox=\"0 0 110 147\"><use href=\"#attended-0\" opacity=\"0.33\">"));
    assert_eq!(html.matches("<svg x=\"110\" y=\"36.8\" width=\"110\" height=\"110.3\"").count(), 1);
    assert_eq!(html.matches("class=\"strongest\"").count(), 2);
    assert!(html.contains("&lt;b&gt;<small> 100 %</small>"));
    assert!(!html.contains("&lt;start&gt;"));

    host.input_tables.insert("attention.boxes".to_owned(), vec![boxes(vec![0.0; 4], 1)]);
    let error = host.run(&report).unwrap_err().to_string();
    assert_eq!(error, "image 10 of caption 3 has weights of 2 regions and 1 boxes");
}
