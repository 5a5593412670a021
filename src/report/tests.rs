//! Tests of `report`: numbers on the pages, and escaping of the data.

use std::sync::Arc;

use arrow::array::StringArray;

use super::testing::{floats, history, host, ints, pages, report, summary};
use super::{Report, RunFacts, StageFacts, add_run_to_html, add_run_to_markdown};
use pairloom_stage::{AncestorArtefact, AncestorInput, Stage as _};
use pairloom_tables as tables;

#[test]
fn both_pages_show_results_chance_and_validation() {
    let mut host = host();
    host.run(&report(true)).unwrap();
    let (markdown, html) = pages(&host);
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
    for expected in ["<td class=\"n\">50.0<small>15.0–85.0</small></td>", "best: 180.0 after epoch 1", "chance 439.3"]
    {
        assert!(html.contains(expected), "no {expected}");
    }
    // Six figures of training and ranks, four of hubs.
    assert_eq!(html.matches("<svg").count(), 10);
    let significance_test = "| made-4 | csls, k \\= 10 \\| \\<b\\> (train: loss \\= \\<i\\>) | nns | 300.8 | 292.6 | +8.2 | -3.2 … +19.0 (test images, not seeds) | 0.1234 | 40 | 31 |\n\nDiff";
    assert!(markdown.contains(significance_test), "rsum only: {markdown}");
    let hub = "| \\<script\\>alert\\(1\\)\\</script\\> \\& \"quotes\" | 1 | 2, 3, 4 |";
    assert!(markdown.contains(hub), "{markdown}");
}

/// Heights of the points of every line of a colour in a plot, from the lower end.
fn heights(svg: &str, colour: &str) -> Vec<Vec<i32>> {
    let lines = svg.split("<polyline").skip(1).filter(|line| line.contains(&format!("stroke=\"{colour}\"")));
    let points = |line: &str| {
        let points = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
        points.split_whitespace().map(|point| -point.split(',').nth(1).unwrap().parse::<i32>().unwrap()).collect()
    };
    lines.map(points).collect()
}

#[test]
fn training_curves_are_drawn() {
    let mut host = host();
    let batch = history();
    let mut columns = batch.columns().to_vec();
    // The learning rate falls to a hundredth half-way; the loss falls below that of equal scores.
    columns[6] = floats((0..40).map(|step| if step < 20 { 1e-3 } else { 1e-5 }));
    host.input_tables.insert("history".to_owned(), vec![tables::batch(&batch.schema(), columns).unwrap()]);
    host.run(&report(true)).unwrap();
    let (_, html) = pages(&host);
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
    assert_eq!(heights(recalls, "#000005").len(), 1, "the kept epoch");
}

#[test]
fn smaller_batches_make_no_spikes_and_constants_are_flat() {
    let mut host = host();
    let batch = history();
    let mut columns = batch.columns().to_vec();
    // The last batch of each of the four epochs has 3 pairs, and a loss that is summed over them.
    let pairs = |step: i64| if step % 10 == 9 { 3 } else { 8 };
    let pairs_float = |step: i64| if step % 10 == 9 { 3.0 } else { 8.0 };
    columns[2] = ints((0..40).map(pairs));
    columns[3] = floats((0..40).map(|step| pairs_float(step) * 0.4 + 1e-9 * pairs_float(step % 3)));
    host.input_tables.insert("history".to_owned(), vec![tables::batch(&batch.schema(), columns).unwrap()]);
    host.run(&report(true)).unwrap();
    let (_, html) = pages(&host);
    let figures: Vec<&str> = html.split("<figure").skip(1).collect();
    let figure = |title: &str| *figures.iter().find(|figure| figure.contains(title)).unwrap();
    let loss = figure("Training loss");
    assert!(loss.contains("without the smaller last batches of epochs"), "{loss}");
    for colour in ["#000003", "#000005"] {
        let line = &heights(loss, colour)[0];
        assert!(line.len() == 36 && line.iter().all(|height| height == &line[0]), "{line:?}");
    }
    // The learning rate is 1e-4 throughout: the line is above the axis at 0, and that is labelled.
    let rate = figure("Learning rate");
    assert!(rate.contains("1e-4"), "{rate}");
}

#[test]
fn the_settings_of_all_stages_and_the_run_are_on_the_page() {
    let mut host = host();
    let settings = serde_json::json!({ "loss": { "sum": { "margin": 0.2 } }, "epochs": 3, "seed": 7, "min_count": 4 });
    let input = AncestorInput::Source { digest: "5f".repeat(32) };
    host.lineage.artefacts.push(AncestorArtefact {
        kind: "train".to_owned(),
        key: "0a".repeat(16),
        version: 4,
        settings,
        inputs: [("word_vectors.file".to_owned(), input)].into(),
    });
    host.run(&report(true)).unwrap();
    let (markdown, html) = pages(&host);
    let expected = "\n## Settings\n\n**train** (0a0a0a0a, version 4)\n\n- loss: sum \\(margin \\= 0.2\\)\n\
                  - epochs: 3\n- seed: 7\n- word\\_vectors.file: 5f5f5f5f5f5f\n- Defaults and inputs: min\\_count: 4\n";
    assert!(markdown.contains(expected), "{markdown}");
    assert!(html.contains("<dt>loss</dt><dd>sum (margin = 0.2)</dd>"), "{html}");
    let folded = html.split("<details>").nth(1).and_then(|rest| rest.split("</details>").next()).unwrap();
    assert!(folded.contains("<dt>min_count</dt><dd>4</dd>") && !folded.contains("loss"), "{folded}");

    let run = RunFacts {
        run: "run-1".to_owned(),
        facts: vec![("pipeline", "<b>|*p*.toml".to_owned())],
        stages: vec![StageFacts {
            name: "<i>fit".to_owned(),
            rows: "21".to_owned(),
            warnings: "9".to_owned(),
            ..StageFacts::default()
        }],
    };
    let (copy, text) = (add_run_to_html(&html, &run), add_run_to_markdown(&markdown, &run));
    assert!(copy.contains("<dd>&lt;b&gt;|*p*.toml</dd>") && copy.contains("&lt;i&gt;fit"), "{copy}");
    assert!(!copy.contains("<b>|") && copy.find("<h2>Run</h2>").unwrap() < copy.find("<footer>").unwrap(), "{copy}");
    assert!(text.starts_with(&markdown) && text.contains("- pipeline: \\<b\\>\\|\\*p\\*.toml\n"), "{text}");
    assert!(
        text.contains("| stage | kind | key | rows | warnings | seconds |") && text.contains("fit |  |  | 21 | 9 |  |"),
        "{text}"
    );
}

#[test]
fn graded_relevance_has_tables_of_its_own() {
    let mut host = host();
    host.run(&report(true)).unwrap();
    let (markdown, html) = pages(&host);
    for expected in [
        "| protocol | method | relevant | measure | i→t @1 | i→t @5 | t→i @1 | t→i @5 | sum |",
        "| made-4 | nns | own matches | set recall |  |  |  | 31.2 |  |",
        "| made-4 | nns | \\<spice\\> | NCS \\(N\\), official | 60.0 |  | 70.1 |  | 363.4 |",
        "| made-4 | nns | \\<spice\\> | Semantic Recall, paper, m \\= 5 | 20.0 |  |  |  |  |",
        "| made-4 | nns | cxc | mAP\\@R |  | 33.3 |",
        "| Binary | non\\_gt | 19833 |  | 0.0000 |  | 0.0000 | 0.0000 | 0.0000 |",
        "| CIDEr-D \\| \\<b\\> | all | 44833 | 0.734 | 0.7385 | +0.0045 | 0.7675 | 0.5000 | 0.2500 |",
    ] {
        assert!(markdown.contains(expected), "no `{expected}` in {markdown}");
    }
    assert!(!markdown.contains("11.1"), "{markdown}");
    assert!(html.contains("<td>&lt;spice&gt;</td><td>NCS (N), official</td><td class=\"n\">60.0</td>"), "{html}");
    assert!(html.contains("<th scope=\"row\">CIDEr-D | &lt;b&gt;</th>"), "{html}");
}

#[test]
fn a_report_of_correlations_only_is_valid() {
    let mut host = host();
    let alone = Report { summary: None, correlations: report(true).correlations, ..report(false) };
    assert_eq!(alone.check(), []);
    host.run(&alone).unwrap();
    let (markdown, html) = pages(&host);
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
fn matches_are_marked_and_missed_matches_listed() {
    let mut host = host();
    host.run(&report(true)).unwrap();
    let (markdown, html) = pages(&host);
    // Image 10 retrieved its caption 1, then one of image 11, then its caption 0.
    assert!(markdown.contains("**ten.png**, best match in 1st place:"), "{markdown}");
    assert!(markdown.contains("3. a red square (0.500) ✓"), "{markdown}");
    assert!(markdown.contains("2. a \\| pipe \\`tick\\` \\<b\\> (0.500)\n"), "{markdown}");
    // None of the captions of image 12, 4 and 5, was retrieved.
    assert!(markdown.contains("best match in 13th place"), "{markdown}");
    assert!(markdown.contains("Matches that were not retrieved:\n\n- four ✓\n- five ✓\n"), "{markdown}");
    // Caption 7 belongs to image 13, which was not retrieved.
    assert!(markdown.contains("**seven**, best match in 3rd place:"), "{markdown}");
    assert!(markdown.contains("- outside.png ✓"), "{markdown}");
    assert_eq!(html.matches("<article class=\"good\"").count(), 2);
    assert_eq!(html.matches("<article class=\"bad\"").count(), 1);
    assert!(html.contains("data:image/jpeg;base64,"));
    let warned: Vec<&str> = host.warnings.iter().map(|warning| warning.subject.as_str()).collect();
    assert_eq!(warned, ["broken.png", "outside.png"]);
    assert!(host.warnings[1].message.contains("leads out of the image folder"), "{}", host.warnings[1].message);
}

/// A page is handed on.
#[test]
fn images_at_urls_are_named_without_passwords_and_queries() {
    let mut host = host();
    let images = &mut host.input_tables.get_mut("images").unwrap()[0];
    let names = ["https://me:secret@h.org/it's.png?signature=secret", "b", "http://h.org/\u{202e}c.png?secret", "d"];
    let mut columns = images.columns().to_vec();
    columns[images.schema().index_of("file_name").unwrap()] = Arc::new(StringArray::from(names.to_vec()));
    *images = tables::batch(&images.schema(), columns).unwrap();
    host.run(&report(true)).unwrap();
    let (markdown, html) = pages(&host);
    assert!(markdown.contains("**https://h.org/it's.png**, best match in 1st place:"), "{markdown}");
    assert!(html.contains("https://h.org/it's.png") && !markdown.contains("secret") && !html.contains("secret"));
    assert_eq!(host.warnings[0].subject, "http://h.org/\\u{202e}c.png");
}

#[test]
fn data_is_escaped_and_the_page_is_self_contained() {
    let mut host = host();
    host.run(&report(true)).unwrap();
    let (_, html) = pages(&host);
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot;"));
    assert!(html.contains("<title>Hostile &lt;title&gt; &amp; co</title>"));
    for bad in ["<script", "<img src=x", "onerror=alert(1)>.png\"", "<link", "url(", "@import", "<b>"] {
        assert!(!html.contains(bad), "the page has {bad}");
    }
    let others = html.replace("http://www.w3.org/2000/svg", "").replace("src=\"data:image/jpeg;base64,", "");
    assert!(!others.contains("://"), "the page has a link to another host");
    assert!(!others.contains(" src=\""), "the page loads a resource");
}

#[test]
fn a_report_of_a_summary_only_is_valid_and_an_empty_summary_is_an_error() {
    let mut host = host();
    host.run(&report(false)).unwrap();
    let (markdown, html) = pages(&host);
    assert!(markdown.contains("475.0") && html.contains("475.0"));
    assert!(!html.contains("<svg") && !html.contains("<article"));
    assert!(host.warnings.is_empty());

    let empty = summary().slice(0, 0);
    host.input_tables.insert("summary".to_owned(), vec![empty]);
    assert!(host.run(&report(false)).unwrap_err().to_string().contains("`s.summary` has no rows"));
    assert_eq!(Report { title: " ".to_owned(), examples: 1000, ..report(false) }.check().len(), 2);
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let made = || {
        let mut host = host();
        host.run(&report(true)).unwrap();
        pages(&host)
    };
    assert_eq!(made(), made());
}

#[test]
fn examples_do_not_need_captions_and_images() {
    let mut host = host();
    let report = Report { captions: None, images: None, ..report(true) };
    host.run(&report).unwrap();
    let (markdown, _) = pages(&host);
    assert!(markdown.contains("**image 10**") && markdown.contains("1. caption 1 (0.500)"), "{markdown}");
    assert!(markdown.contains("**caption 2**") && markdown.contains("1. image 11 (0.500) ✓"), "{markdown}");
}
