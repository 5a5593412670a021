//! Tests of the sections of caption similarity and scene graphs.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use serde_json::json;

use super::Report;
use pairloom_base::error::Result;
use pairloom_stage::Stage;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

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
