//! Tests of the section of word attention.

use super::testing::{host, pages, report};
use super::{Report, ReportAttention};
use pairloom_stage::{Stage as _, TableRef};
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{self as tables, VectorColumn};

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
    let (markdown, html) = pages(&host);
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
