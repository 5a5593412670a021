//! Tests of printed rows beside those of a sweep.

use super::settings::ReportSweep;
use super::testing::{files, host_of, nns, printed_rows, references, report_of, result, sweep};
use crate::testing::{MetricFixture, metrics_of};
use pairloom_base::error::Error;
use pairloom_stage_testing::InMemoryHost;

/// Columns of a printed row.
type PrintedCells<'c> = &'c [(&'c str, &'c str)];

/// Rows of two tables of a paper, and of another paper.
const PRINTED: [PrintedCells<'static>; 11] = [
    &[
        ("paper", "p"),
        ("table", "2"),
        ("row", "2.1"),
        ("protocol", "made-1k"),
        ("method", "nns"),
        ("i2t_r1", "46.9"),
        ("i2t_medr", "2"),
        ("rsum", "411.5"),
    ],
    &[("paper", "p"), ("table", "2"), ("row", "2.2"), ("protocol", "made-1k"), ("method", "nns"), ("rsum", "300")],
    &[
        ("paper", "p"),
        ("table", "2"),
        ("row", "2.3"),
        ("protocol", "made-5k"),
        ("model_row", "2.1"),
        ("method", "nns"),
        ("rsum", "350"),
    ],
    &[
        ("paper", "p"),
        ("table", "3"),
        ("row", "4.1"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("method", "csls"),
        ("printed_method", "CSLS"),
        ("hs_sum", "3.25"),
    ],
    &[
        ("paper", "p"),
        ("table", "4"),
        ("row", "4.1"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("method", "csls"),
        ("printed_method", "CSLS"),
        ("rsum", "420"),
    ],
    &[
        ("paper", "p"),
        ("table", "4"),
        ("row", "4.2"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("method", "inverted_softmax"),
        ("printed_method", "IS"),
        ("rsum", "421"),
    ],
    &[
        ("paper", "p"),
        ("table", "4"),
        ("row", "4.3"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("method", "inverted_softmax"),
        ("printed_method", "IS+X"),
        ("rsum", "422"),
    ],
    &[
        ("paper", "p"),
        ("table", "4"),
        ("row", "4.4"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("method", "relaxed_greedy over csls"),
        ("printed_method", "CSLS+RGM"),
        ("rsum", "425"),
    ],
    &[
        ("paper", "p"),
        ("table", "5"),
        ("row", "5.1"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("objective", "sum"),
        ("features", "vgg19"),
        ("method", "relaxed_greedy, lambda = 1"),
        ("rsum", "405"),
    ],
    &[
        ("paper", "p"),
        ("table", "5"),
        ("row", "5.2"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("method", "relaxed_greedy"),
        ("printed_method", "RGM"),
        ("rsum", "415"),
    ],
    &[("paper", "q"), ("table", "1"), ("row", "1"), ("method", "nns"), ("rsum", "1")],
];

/// Runs a sweep of stages `test@row=ROW` beside the tables of the paper `p`. Each row has the methods `nns` and those given.
fn run(rows: &[&str], protocol: &str, methods: &[&str], paper: &str, table: &[&str]) -> Result<InMemoryHost, Error> {
    let results = |number: usize| {
        let rsum = 410.0 + f64::from(u32::try_from(number).unwrap());
        let methods = ["nns"].iter().chain(methods);
        methods.map(|method| result(protocol, method, 45.0, 1.0, rsum, 1.5)).collect()
    };
    let mut host = host_of(&(0..rows.len()).map(results).collect::<Vec<_>>());
    host.input_tables.insert("sweep.published".to_owned(), vec![printed_rows(&PRINTED)]);
    let names: Vec<String> = rows.iter().map(|row| format!("test@row={row}.summary")).collect();
    let settings = ReportSweep {
        published: references(&["printed.published"]).pop(),
        paper: Some(paper.to_owned()),
        table: table.iter().map(|table| (*table).to_owned()).collect(),
        ..sweep(&names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    host.run(&report_of(settings))?;
    Ok(host)
}

#[test]
fn printed_values_and_differences_stand_beside_ours() {
    let (markdown, _, latex) = files(&run(&["2.1", "2.7"], "made-1k", &[], "p", &["2"]).unwrap());
    assert!(markdown.contains("| rsum | hs-sum | to printed |\n"), "{markdown}");
    assert!(markdown.contains("| 2.1 | **45.0** (46.9) | **75.0** |"), "{markdown}");
    assert!(markdown.contains("| 410.0 | **1.50** | -1.5 (411.5) |\n"), "{markdown}");
    assert!(markdown.contains("| **411.0** | **1.50** |  |\n"), "{markdown}");
    assert!(markdown.contains("| 2.1 | **1.0** (2.0) |\n"), "ranks: {markdown}");
    assert!(markdown.contains("does not have: 2.7. Printed rows that the sweep does not have: 2.2."), "{markdown}");
    assert!(!markdown.contains("of other data"), "{markdown}");
    let printed =
        "\\scriptsize \\quad printed & \\scriptsize $46.9$ &  &  &  &  &  & \\scriptsize $411.5$ &  &  \\\\\n";
    assert!(latex.contains(printed) && latex.contains(" & $-1.5$ \\\\\n"), "{latex}");
    assert_eq!(latex.matches("\\quad printed").count(), 1, "{latex}");
}

#[test]
fn printed_rows_of_methods_belong_to_the_row_of_their_model() {
    let methods = ["csls, k = 10", "inverted_softmax, beta = 30"];
    let (markdown, _, _) = files(&run(&["2.1", "2.2"], "made-1k", &methods, "p", &["2", "3", "4"]).unwrap());
    // Row 4.1 has its hs-sum in table 3 and its rsum in table 4.
    assert!(markdown.contains("| **1.50** (3.25) | -10.0 (420.0) |\n"), "{markdown}");
    let row = markdown.lines().find(|line| line.starts_with("| 2.1 | csls")).unwrap();
    assert!(row.contains("| -10.0 (420.0) |"), "{row}");
    assert!(
        markdown.contains("so none is shown: 2.1 \\(inverted\\_softmax, beta \\= 30\\): 4.2 \\(IS\\), 4.3 \\(IS+X\\)."),
        "{markdown}"
    );
    assert!(markdown.contains("Papers count an image once for each of its captions in hs-sum"), "{markdown}");
}

#[test]
fn printed_rows_of_combined_methods_are_found() {
    let methods =
        ["relaxed_greedy, lambda = 2", "relaxed_greedy, lambda = 2, slices, over csls, k = 10, chosen on val"];
    let (markdown, _, _) = files(&run(&["2.1"], "made-1k", &methods, "p", &["4"]).unwrap());
    let line = |method: &str| markdown.lines().find(|line| line.starts_with(&format!("| 2.1 | {method} |"))).unwrap();
    assert!(
        line("relaxed\\_greedy, slices, over csls, chosen on val (CSLS+RGM)").ends_with("| -15.0 (425.0) |"),
        "{markdown}"
    );
    assert!(line("relaxed\\_greedy, lambda \\= 2").ends_with("|  |"), "{markdown}");
}

#[test]
fn printed_rows_of_one_method_are_told_apart_by_parameters() {
    let methods = ["relaxed_greedy, lambda = 1, slices", "relaxed_greedy, lambda = 2, slices, chosen on val"];
    let (markdown, _, latex) = files(&run(&["2.1"], "made-1k", &methods, "p", &["5"]).unwrap());
    let line = |method: &str| markdown.lines().find(|line| line.contains(&format!("| {method} |"))).unwrap();
    assert!(line("relaxed\\_greedy, lambda \\= 1, slices").ends_with("| +5.0 (405.0) |"), "{markdown}");
    assert!(line("relaxed\\_greedy, slices, chosen on val (RGM)").ends_with("| -5.0 (415.0) |"), "{markdown}");
    assert!(!markdown.contains("several of"), "{markdown}");
    // Objective and features of the printed row stand below the name.
    assert!(line("relaxed\\_greedy, lambda \\= 1, slices").starts_with("| 2.1 (sum, vgg19) |"), "{markdown}");
    assert!(latex.contains("\\quad printed & \\scriptsize RGM & "), "{latex}");
}

/// Runs the row `2.1` of the fixture with these metrics beside one printed row of the table 5.
fn run_with_metrics(printed: &[(&str, &str)], metrics: &[MetricFixture]) -> InMemoryHost {
    let names = [
        ("paper", "p"),
        ("table", "5"),
        ("row", "1"),
        ("protocol", "made-1k"),
        ("model_row", "2.1"),
        ("method", "nns"),
    ];
    let mut host = host_of(&[nns(45.0, 1.0, 410.0, 1.5)]);
    host.input_tables.insert("sweep.published".to_owned(), vec![printed_rows(&[&[&names, printed].concat()])]);
    host.input_tables.insert(ReportSweep::metrics_input(0), vec![metrics_of("made-1k", metrics)]);
    let settings = ReportSweep {
        published: references(&["printed.published"]).pop(),
        paper: Some("p".to_owned()),
        table: vec!["5".to_owned()],
        metrics: references(&["test@row=2.1.metrics"]),
        ..sweep(&["test@row=2.1.summary"])
    };
    host.run(&report_of(settings)).unwrap();
    host
}

/// hs-sum over rows is that of the metrics; the summary has 1.50.
#[test]
fn hs_sum_counts_as_papers_do_with_metrics() {
    let hs_sum = |variant: Option<&'static str>, value| ("both", "hs_sum", None, variant, None, [None, None], value);
    let metrics = [hs_sum(None, 1.5), hs_sum(Some("duplicated"), 3.75)];
    let (markdown, _, latex) = files(&run_with_metrics(&[("hs_sum", "3.25")], &metrics));
    assert!(markdown.contains("| 410.0 | 3.75 (3.25) |"), "{markdown}");
    let said = "hs-sum counts an image once for each of its captions, as papers do.";
    assert!(markdown.contains(said) && latex.contains(said), "{markdown}\n{latex}");
    assert!(!markdown.contains("ours counts it once"), "{markdown}");
}

/// Six printed recalls have the sum 40 + 70.5 + 80 + 30 + 60 + 75 = 355.5. Five have none.
#[test]
fn a_paper_without_rsum_has_the_sum_of_its_recalls() {
    let recalls = [
        ("i2t_r1", "40.0"),
        ("i2t_r5", "70.5"),
        ("i2t_r10", "80"),
        ("t2i_r1", "30"),
        ("t2i_r5", "60"),
        ("t2i_r10", "75"),
    ];
    let (markdown, html, latex) = files(&run_with_metrics(&recalls, &[]));
    assert!(markdown.contains("| +54.5 (355.5, our sum) |\n"), "{markdown}");
    assert!(html.contains("+54.5") && html.contains("355.5, our sum"), "{html}");
    assert!(
        markdown.contains("our sum: the paper prints no rsum, and this is the sum of its six recalls."),
        "{markdown}"
    );
    assert!(latex.contains("\\scriptsize $355.5${}$^*$ & ") && latex.contains(" & $+54.5$ \\\\\n"), "{latex}");
    assert!(latex.contains("{}$^*$: our sum of the printed recalls."), "{latex}");
    let (markdown, _, latex) = files(&run_with_metrics(&recalls[1..], &[]));
    assert!(!markdown.contains("our sum") && !markdown.contains("to printed"), "{markdown}");
    assert!(!latex.contains("$^*$"), "{latex}");
    // A printed sum is taken as it is.
    let with_sum = [&recalls[..], &[("rsum", "356.0")]].concat();
    let (markdown, ..) = files(&run_with_metrics(&with_sum, &[]));
    assert!(markdown.contains("| +54.0 (356.0) |\n") && !markdown.contains("our sum"), "{markdown}");
}

/// The matching has no hs-sum over rows. Its 0.50 is nearer to 0, and is not compared with 3.75 and 4.75.
#[test]
fn an_hs_sum_of_another_count_is_marked() {
    let methods = ["nns", "relaxed_greedy, lambda = 2"];
    let run = |hs_sums: [f64; 2]| {
        let result = |(method, hs_sum): (&str, f64)| result("made-1k", method, 45.0, 1.0, 410.0, hs_sum);
        methods.into_iter().zip(hs_sums).map(result).collect()
    };
    let mut host = host_of(&[run([1.5, 0.5]), run([1.25, 2.5])]);
    for (number, value) in [3.75, 4.75].into_iter().enumerate() {
        let metrics = [("both", "hs_sum", None, Some("duplicated"), None, [None, None], value)];
        host.input_tables.insert(ReportSweep::metrics_input(number), vec![metrics_of("made-1k", &metrics)]);
    }
    let settings = ReportSweep {
        metrics: references(&["test@row=a.metrics", "test@row=b.metrics"]),
        ..sweep(&["test@row=a.summary", "test@row=b.summary"])
    };
    host.run(&report_of(settings)).unwrap();
    let (markdown, html, latex) = files(&host);
    for cell in ["| **3.75** |\n", "| 0.50 (images once) |\n", "| 4.75 |\n", "| 2.50 (images once) |\n"] {
        assert!(markdown.contains(cell), "{cell}: {markdown}");
    }
    let said = "A matching has no such count: its hs-sum counts an image once";
    assert!(markdown.contains(said) && html.contains(said) && latex.contains(said), "{markdown}\n{latex}");
    assert!(latex.contains("$0.50${}$^\\dagger$ \\\\\n") && latex.contains("\\textbf{3.75} \\\\\n"), "{latex}");
    assert!(latex.contains("{}$^\\dagger$: A matching has no such count"), "{latex}");
}

/// Rates of the fixture beside printed ones: 80 % of the images are the best one of no caption.
#[test]
fn hubs_stand_beside_printed_ones() {
    let rate = |variant: Option<&'static str>, direction: &'static str, m, value| {
        (direction, "k_occurrence_rate", None, variant, None, [Some(m), Some(1)], value)
    };
    let rates = [
        rate(Some("duplicated"), "t2i", 0, 80.0),
        rate(Some("duplicated"), "t2i", 10, 3.0),
        rate(Some("duplicated"), "i2t", 0, 99.0),
        rate(Some("duplicated_turns"), "t2i", 0, 98.0),
        rate(None, "t2i", 0, 97.0),
    ];
    let printed = [("k_occurrence_rate_0", "79.2"), ("k_occurrence_rate_10", "2.0")];
    let (markdown, _, latex) = files(&run_with_metrics(&printed, &rates));
    assert!(markdown.contains("| row | t→i 0 | t→i 10 or more |"), "{markdown}");
    assert!(markdown.contains("| 2.1 | 80.0 (79.2) | 3.0 (2.0) |"), "{markdown}");
    assert!(latex.contains("\\label{tab:made-1k-hubs}") && latex.contains("2.1 & $80.0$ & $3.0$ \\\\\n"), "{latex}");
}

#[test]
fn printed_rows_of_another_pool_belong_to_the_row_of_their_model() {
    let (markdown, _, _) = files(&run(&["2.1", "2.2"], "made-5k", &[], "p", &["2"]).unwrap());
    assert!(markdown.contains("| 410.0 | **1.50** | +60.0 (350.0) |\n"), "{markdown}");
    assert!(markdown.contains("does not have: 2.2.") && !markdown.contains("of other data"), "{markdown}");
}

#[test]
fn printed_rows_of_other_data_have_a_remark() {
    let (markdown, _, latex) = files(&run(&["2.1"], "small-100", &[], "p", &["2"]).unwrap());
    assert!(markdown.contains("| 410.0 | 1.50 | -1.5 (411.5) |\n"), "{markdown}");
    assert!(markdown.contains("The printed values are of other data, made-1k"), "{markdown}");
    assert!(latex.contains("Printed: p, table 2, single runs, of other data (made-1k)."), "{latex}");
    // The rows can be printed for several protocols.
    let (markdown, _, latex) = files(&run(&["2.1", "2.2", "2.3"], "small-100", &[], "p", &["2"]).unwrap());
    assert!(markdown.contains("The printed values are of other data, made-1k, made-5k: their order"), "{markdown}");
    assert!(latex.contains("of other data (made-1k, made-5k)."), "{latex}");
}

#[test]
fn a_sweep_without_printed_rows_has_a_warning_that_lists_what_there_is() {
    let host = run(&["a", "b"], "made-1k", &[], "p", &["2"]).unwrap();
    let warnings: Vec<String> =
        host.warnings.iter().map(|warning| format!("{}: {}", warning.subject, warning.message)).collect();
    assert_eq!(
        warnings,
        [
            "sweep.published: no row of the sweep is printed in table 2 of `p`, which has `2.1` (nns), `2.2` (nns), `2.3` \
          (nns); its rows are `a` (nns), `b` (nns): name them as the paper does"
        ]
    );
}

#[test]
fn an_unknown_paper_or_table_is_an_error_that_lists_what_there_is() {
    let error = |rows: &[&str], paper: &str, table: &[&str]| {
        let error = run(rows, "made-1k", &[], paper, table).unwrap_err();
        format!("{error} / {}", error.hint_text().unwrap_or_default())
    };
    for (found, expected) in [
        (
            error(&["2.1"], "r", &["2"]),
            "`printed.published` has no paper `r` / it has `p` with table 2, 3, 4, 5, `q` with table 1",
        ),
        (
            error(&["2.1"], "p", &["2", "9"]),
            "`printed.published` has no table 9 of `p` / it has `p` with table 2, 3, 4, 5, `q` with table 1",
        ),
    ] {
        assert!(found.contains(expected), "{found}\n{expected}");
    }
}

/// Runs stages `test@COORDINATES`, each with results of some protocols, beside printed rows of the table 1.
fn run_protocols(runs: &[(&str, &[&str])], printed: &[PrintedCells<'_>]) -> (String, String) {
    let table_cells = [("paper", "p"), ("table", "1"), ("method", "nns")];
    let printed: Vec<Vec<(&str, &str)>> =
        printed.iter().map(|cells| [table_cells.as_slice(), cells].concat()).collect();
    let printed: Vec<PrintedCells<'_>> = printed.iter().map(Vec::as_slice).collect();
    let results: Vec<_> = runs
        .iter()
        .map(|(_, protocols)| protocols.iter().map(|of| result(of, "nns", 45.0, 1.0, 410.0, 1.5)).collect())
        .collect();
    let mut host = host_of(&results);
    host.input_tables.insert("sweep.published".to_owned(), vec![printed_rows(&printed)]);
    let names: Vec<String> = runs.iter().map(|(name, _)| format!("test@{name}.summary")).collect();
    let settings = ReportSweep {
        published: references(&["printed.published"]).pop(),
        paper: Some("p".to_owned()),
        table: vec!["1".to_owned()],
        ..sweep(&names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    host.run(&report_of(settings)).unwrap();
    let (markdown, _, latex) = files(&host);
    (markdown, latex)
}

/// Section of a protocol.
fn section<'m>(markdown: &'m str, protocol: &str) -> &'m str {
    let start = markdown.find(&format!("\n## {protocol}\n")).unwrap_or_else(|| panic!("{protocol}: {markdown}"));
    let text = &markdown[start + 1..];
    text[2..].find("\n## ").map_or(text, |end| &text[..end + 2])
}

#[test]
fn printed_rows_without_a_protocol_are_of_their_data_set() {
    let printed: [PrintedCells<'_>; 2] = [
        &[("row", "1"), ("dataset", "a"), ("protocol", "a-1k"), ("rsum", "400")],
        &[("row", "2"), ("dataset", "b"), ("rsum", "300")],
    ];
    let runs: [(&str, &[&str]); 2] = [("row=1", &["a-1k"]), ("row=2", &["b-1k-five-fold", "b-1k-first-fold"])];
    let (markdown, latex) = run_protocols(&runs, &printed);
    for protocol in ["b-1k-five-fold", "b-1k-first-fold"] {
        let text = section(&markdown, protocol);
        assert!(text.contains("| +110.0 (300.0) |"), "{text}");
        let remark = "prints no protocol for 2, so the printed values may be of other pools of the data set.";
        assert!(text.contains(remark) && !text.contains("does not have: 2"), "{text}");
    }
    let text = section(&markdown, "a-1k");
    assert!(text.contains("| +10.0 (400.0) |") && !text.contains("no protocol"), "{text}");
    assert!(latex.contains("single runs, protocol not printed (2)."), "{latex}");
    // `ab` is another data set than `b`.
    let runs: [(&str, &[&str]); 1] = [("row=2", &["ab-1k"])];
    let (markdown, latex) = run_protocols(&runs, &printed);
    assert!(markdown.contains("are of other data, b without a protocol: their order"), "{markdown}");
    assert!(latex.contains("of other data (b without a protocol)."), "{latex}");
}

#[test]
fn the_first_fold_of_coco_has_the_images_of_the_single_split() {
    let printed: [PrintedCells<'_>; 2] = [
        &[("row", "7"), ("dataset", "coco"), ("protocol", "coco-1k-single"), ("rsum", "510")],
        &[("row", "13"), ("dataset", "coco"), ("protocol", "coco-5k"), ("model_row", "7"), ("rsum", "400")],
    ];
    let runs: [(&str, &[&str]); 1] = [("row=7", &["coco-1k-first-fold", "coco-5k"])];
    let (markdown, latex) = run_protocols(&runs, &printed);
    let text = section(&markdown, "coco-1k-first-fold");
    assert!(text.contains("| -100.0 (510.0) |"), "{text}");
    assert!(text.contains("values are of coco-1k-single: the same images"), "{text}");
    let text = section(&markdown, "coco-5k");
    assert!(text.contains("| +10.0 (400.0) |") && !text.contains("same images"), "{text}");
    assert!(latex.contains("of the same images (coco-1k-single)."), "{latex}");
    // The mean of five folds has other images.
    let runs: [(&str, &[&str]); 1] = [("row=7", &["coco-1k-five-fold", "coco-5k"])];
    let (markdown, _) = run_protocols(&runs, &printed);
    assert!(section(&markdown, "coco-1k-five-fold").contains("does not have: 7."), "{markdown}");
}

/// Rows of one number for two data sets, of a sweep with an axis of data sets.
#[test]
fn an_axis_of_data_sets_names_printed_rows_of_its_data() {
    let printed: [PrintedCells<'_>; 2] = [
        &[("row", "1"), ("dataset", "a"), ("protocol", "a-1k"), ("rsum", "400")],
        &[("row", "1"), ("dataset", "b"), ("protocol", "b-1k"), ("rsum", "300")],
    ];
    let runs: [(&str, &[&str]); 2] = [("data=a,row=1", &["a-1k"]), ("data=b,row=1", &["b-1k"])];
    let (markdown, _) = run_protocols(&runs, &printed);
    assert!(section(&markdown, "a-1k").contains("| +10.0 (400.0) |"), "{markdown}");
    assert!(section(&markdown, "b-1k").contains("| +110.0 (300.0) |"), "{markdown}");
    // On other data, the names tell the two apart.
    let runs: [(&str, &[&str]); 2] = [("row=1,data=a", &["small-100"]), ("row=1,data=b", &["small-100"])];
    let (markdown, _) = run_protocols(&runs, &printed);
    let text = section(&markdown, "small-100");
    assert!(text.contains("| +10.0 (400.0) |") && text.contains("| +110.0 (300.0) |"), "{text}");
    assert!(text.contains("are of other data, a-1k, b-1k:"), "{text}");
    // A number of two data sets is told apart, too, where no row belongs to it.
    let runs: [(&str, &[&str]); 1] = [("row=2,data=a", &["small-100"])];
    let second: PrintedCells<'_> = &[("row", "2"), ("dataset", "a"), ("protocol", "a-1k"), ("rsum", "350")];
    let (markdown, _) = run_protocols(&runs, &[&printed[..], &[second]].concat());
    assert!(markdown.contains("that the sweep does not have: 1 of a."), "{markdown}");
}
