//! Tests of sweeps: numbers calculated by hand, bold, LaTeX, curves, and mistakes in the settings.

use arrow::array::RecordBatch;

use super::settings::ReportSweep;
use super::testing::{TWO_ROWS, files, host_of, nns, references, report_of, result, sweep, two_rows, validation};
use crate::testing::metrics_of;
use pairloom_stage::{Problem, Stage as _};
use pairloom_tables::summary;

#[test]
fn means_deviations_intervals_and_tests_are_those_by_hand() {
    let mut host = host_of(&two_rows());
    let settings = ReportSweep { baseline: Some("a".to_owned()), ..sweep(&TWO_ROWS) };
    assert_eq!(report_of(settings.clone()).check(), []);
    host.run(&report_of(settings)).unwrap();
    let (markdown, html, _) = files(&host);
    assert!(
        markdown.contains(
            "| row | i→t R@1 | i→t R@5 | i→t R@10 | t→i R@1 | t→i R@5 | t→i R@10 | rsum | hs-sum | runs | to a | p |"
        ),
        "{markdown}"
    );
    // a: rsum 400, 404, 408 has mean 404, deviation √((16 + 0 + 16)/2) = 4, and with t = 4.3027 of two degrees of freedom
    // the interval 404 ± 4.3027·4/√3 = 404 ± 9.94. hs-sum 6, 6.5, 7: 6.5 ± 0.5.
    let a = "| a | **46.0** ± 1.0 | **75.0** ± 0.0 | **85.0** ± 0.0 | **40.0** ± 0.0 | **75.0** ± 0.0 | **85.0** ± 0.0 | \
             404.0 ± 4.0 (394.1–413.9) | 6.50 ± 0.50 | 3 |  |  |";
    // b: 410, 412, 420 has mean 414, deviation √((16 + 4 + 36)/2) = 5.29, interval ± 13.14. The differences 10, 8, 12 have
    // mean 10 and deviation 2, so t = 10·√3/2 and p = 1 − √(75/77) = 0.0131; two of eight sign patterns are as far.
    let b = "| b | 44.0 ± 0.0 | **75.0** ± 0.0 | **85.0** ± 0.0 | **40.0** ± 0.0 | **75.0** ± 0.0 | **85.0** ± 0.0 | \
             **414.0** ± 5.3 (400.9–427.1) | **4.00** ± 0.00 | 3 | +10.0 | 0.013 (0.250) |";
    assert!(markdown.contains(a) && markdown.contains(b), "{markdown}");
    // The smaller rank is the better one. t→i has no ranks.
    assert!(
        markdown.contains("| row | i→t med r |\n|---|---:|\n| a | 3.0 ± 0.0 |\n| b | **2.0** ± 0.0 |\n"),
        "{markdown}"
    );
    assert!(markdown.contains("2 rows, 6 runs, repeated over seed."), "{markdown}");
    assert!(markdown.contains("- best rsum, made-1k: 414.0 (row b)\n"), "{markdown}");
    assert!(
        html.contains(
            "<td class=\"n best\">414.0<span class=\"deviation\"> ± 5.3</span><small>400.9–427.1</small></td>"
        ),
        "{html}"
    );
    assert!(
        html.contains("<td class=\"n\">404.0<span class=\"deviation\"> ± 4.0</span><small>394.1–413.9</small></td>"),
        "{html}"
    );
}

#[test]
fn single_runs_have_no_deviation_and_no_test() {
    let mut host = host_of(&[nns(40.0, 1.0, 400.0, 6.0), nns(41.0, 1.0, 398.04, f64::NAN)]);
    let settings = ReportSweep { baseline: Some("first".to_owned()), ..sweep(&["first.summary", "second.summary"]) };
    host.run(&report_of(settings)).unwrap();
    let (markdown, _, latex) = files(&host);
    assert!(markdown.contains("| stage | i→t R@1 |") && !markdown.contains("runs |"), "{markdown}");
    assert!(markdown.contains("| **400.0** | **6.00** |  |  |\n"), "{markdown}");
    // A missing hs-sum is empty, and a column without any is left out.
    assert!(markdown.contains("| 398.0 |  | -2.0 |  |\n"), "{markdown}");
    assert!(!markdown.contains('±') && !latex.contains("\\pm"), "{markdown}");
    let mut host = host_of(&[nns(40.0, 1.0, 400.0, f64::NAN)]);
    host.run(&report_of(sweep(&["first.summary"]))).unwrap();
    let (markdown, html, _) = files(&host);
    assert!(!markdown.contains("hs-sum |") && !markdown.contains("**4") && !html.contains(" best\""), "{markdown}");
}

#[test]
fn rows_are_compared_over_the_repetitions_that_both_have() {
    let names = [
        "test@row=a,seed=1.summary",
        "test@row=a,seed=2.summary",
        "test@row=b,seed=2.summary",
        "test@row=b,seed=5.summary",
        "test@row=c,seed=9.summary",
    ];
    let mut host = host_of(&[400.0, 404.0, 405.5, 407.5, 500.0].map(|rsum| nns(1.0, 1.0, rsum, 1.0)));
    host.run(&report_of(ReportSweep { baseline: Some("a".to_owned()), ..sweep(&names) })).unwrap();
    let (markdown, _, _) = files(&host);
    // Two runs of deviation √2 have the interval 406.5 ± 12.706·√2/√2. Only seed 2 is in both rows: 405.5 − 404.
    let b = "| 406.5 ± 1.4 (393.8–419.2) | **1.00** ± 0.00 | 2 | +1.5 (over 1) |  |\n";
    assert!(markdown.contains(b), "{markdown}");
    assert!(markdown.contains("| **500.0** | **1.00** | 1 |  |  |\n"), "{markdown}");
}

#[test]
fn methods_are_rows_of_their_own_and_protocols_have_sections() {
    let run = |rsum: f64| {
        vec![
            result("made-1k", "nns", 40.0, 1.0, rsum, 1.0),
            result("made-1k", "csls, k = 10", 42.0, 1.0, rsum + 7.0, 1.0),
            result("made-5k", "nns", 20.0, 1.0, rsum - 99.0, 1.0),
        ]
    };
    let mut host = host_of(&[run(400.0), run(410.0)]);
    let settings = ReportSweep { baseline: Some("a".to_owned()), ..sweep(&["t@row=a.summary", "t@row=b.summary"]) };
    host.run(&report_of(settings)).unwrap();
    let (markdown, _, latex) = files(&host);
    assert!(markdown.contains("\n## made-1k\n") && markdown.contains("\n## made-5k\n"), "{markdown}");
    assert!(markdown.contains("| row | method | i→t R@1 |"), "{markdown}");
    // Each method is compared with the same method of the baseline.
    assert!(
        markdown.contains("| b | csls, k \\= 10 | **42.0** |")
            && markdown.contains("| **417.0** | **1.00** | +10.0 |  |"),
        "{markdown}"
    );
    assert!(markdown.contains("| **311.0** | **1.00** | +10.0 |  |"), "{markdown}");
    assert_eq!(latex.matches("\\begin{table}").count(), 2);
    assert!(latex.contains("b & \\raggedright csls, k = 10 & \\textbf{42.0} & "), "{latex}");
}

#[test]
fn runs_that_chose_other_parameters_are_one_row() {
    let run = |rsum: f64, parameters: &[&str]| {
        let nns = result("made-1k", "nns", 40.0, 1.0, rsum, 1.0);
        let chosen = parameters.iter().zip([10.0, 20.0]).map(|(parameters, more)| {
            result("made-1k", &format!("relaxed_greedy, {parameters}, chosen on val"), 42.0, 1.0, rsum + more, 1.0)
        });
        std::iter::once(nns).chain(chosen).collect()
    };
    let names = ["t@row=a,seed=1.summary", "t@row=a,seed=2.summary"];
    let mut host = host_of(&[run(400.0, &["lambda = 1.5, slices"]), run(404.0, &["lambda = 2, slices"])]);
    host.run(&report_of(sweep(&names))).unwrap();
    let (markdown, _, _) = files(&host);
    // 410 and 414 have mean 412, deviation √8 = 2.83, and with t = 12.706 of one degree of freedom the interval
    // 412 ± 12.706·√8/√2 = 412 ± 25.4.
    assert!(markdown.contains("| a | relaxed\\_greedy, slices, chosen on val | **42.0** ± 0.0 |"), "{markdown}");
    assert!(markdown.contains("| **412.0** ± 2.8 (386.6–437.4) | **1.00** ± 0.00 | 2 |\n"), "{markdown}");
    assert_eq!(markdown.matches("| a | ").count(), 4, "a row for each method, of measures and of ranks: {markdown}");
    // Two choices of one run are two rows.
    let two = ["lambda = 1.5", "lambda = 2"];
    let mut host = host_of(&[run(400.0, &two), run(404.0, &two)]);
    host.run(&report_of(sweep(&names))).unwrap();
    let (markdown, _, _) = files(&host);
    assert!(markdown.contains("| 412.0 ± 2.8 (386.6–437.4) | **1.00** ± 0.00 | 2 |\n"), "{markdown}");
    assert!(markdown.contains("| **422.0** ± 2.8 (396.6–447.4) | **1.00** ± 0.00 | 2 |\n"), "{markdown}");
}

#[test]
fn the_best_hs_sum_is_the_one_nearest_to_0() {
    let mut host = host_of(&[-18.7, 1.5, -1.5].map(|hs_sum| nns(40.0, 1.0, 400.0, hs_sum)));
    host.run(&report_of(sweep(&["a.summary", "b.summary", "c.summary"]))).unwrap();
    let (markdown, _, _) = files(&host);
    for row in ["| **400.0** | -18.70 |\n", "| **400.0** | **1.50** |\n", "| **400.0** | **-1.50** |\n"] {
        assert!(markdown.contains(row), "{row}{markdown}");
    }
}

#[test]
fn a_table_without_the_baseline_has_no_columns_of_it() {
    let run = |protocol: &str, rsum: f64| vec![result(protocol, "nns", 40.0, 1.0, rsum, 1.0)];
    let names: Vec<String> = ["a", "b", "c"]
        .into_iter()
        .flat_map(|row| [1, 2].map(|seed| format!("t@row={row},seed={seed}.summary")))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let protocols = ["made-1k", "made-1k", "made-1k", "made-1k", "made-5k", "made-5k"];
    let mut host = host_of(&protocols.map(|protocol| run(protocol, 400.0)));
    host.run(&report_of(ReportSweep { baseline: Some("a".to_owned()), ..sweep(&names) })).unwrap();
    let (markdown, html, latex) = files(&host);
    assert!(
        markdown.contains("| hs-sum | runs | to a | p |\n") && markdown.contains("| hs-sum | runs |\n"),
        "{markdown}"
    );
    assert_eq!(markdown.matches("to a: difference in rsum").count(), 1, "{markdown}");
    assert_eq!(html.matches("to a: difference in rsum").count(), 1, "{html}");
    assert_eq!(latex.matches(" & runs & to a & $p$ \\\\").count(), 1, "{latex}");
    assert_eq!(latex.matches("against row a").count(), 1, "{latex}");
    assert!(latex.contains(" & hs-sum & runs \\\\\n") && latex.contains(" & $2$ \\\\\n"), "{latex}");
}

/// Two data sets, each with a baseline of its own.
#[test]
fn rows_can_have_baselines_of_their_own() {
    let names = ["sum, coco", "max, coco", "sum, f30k", "max, f30k"];
    let references: Vec<String> = ["coco", "f30k"]
        .into_iter()
        .flat_map(|data| ["sum", "max"].map(|row| format!("test@row={row},data={data}.summary")))
        .collect();
    let references: Vec<&str> = references.iter().map(String::as_str).collect();
    let mut host = host_of(&[400.0, 410.0, 300.0, 290.0].map(|rsum| nns(40.0, 1.0, rsum, 1.0)));
    let baselines = [("*, f30k".to_owned(), names[2].to_owned())].into();
    let settings = ReportSweep { baseline: Some(names[0].to_owned()), baselines, ..sweep(&references) };
    assert_eq!(report_of(settings.clone()).check(), []);
    host.run(&report_of(settings.clone())).unwrap();
    let (markdown, html, latex) = files(&host);
    assert!(markdown.contains("| hs-sum | to baseline | p |\n"), "{markdown}");
    assert!(markdown.contains("+10.0 (sum, coco)") && markdown.contains("-10.0 (sum, f30k)"), "{markdown}");
    assert!(markdown.contains("difference in rsum to the row in small print or brackets"), "{markdown}");
    assert_eq!(markdown.matches(" (sum, f30k)").count(), 1, "a baseline is not compared: {markdown}");
    assert!(html.contains("sum, f30k"), "{html}");
    assert!(latex.contains(" & to baseline & $p$ \\\\"), "{latex}");
    assert!(latex.contains("$-10.0$ {\\scriptsize sum, f30k} & "), "{latex}");
    // Names that are no rows.
    let baselines = [("*, cxc".to_owned(), "a".to_owned()), ("max*".to_owned(), "b".to_owned())].into();
    let problems = report_of(ReportSweep { baselines, ..settings }).check();
    let found: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect();
    assert_eq!(
        found,
        [
            "sweep.baselines: no row of the sweep matches `*, cxc`",
            "sweep.baselines: got `b`, which is no row of the sweep",
        ]
    );
    assert!(problems.iter().all(Problem::is_warning), "{problems:?}");
}

#[test]
fn latex_has_rules_bold_and_escaped_texts() {
    let mut host = host_of(&two_rows());
    host.run(&report_of(sweep(&TWO_ROWS))).unwrap();
    let (_, _, latex) = files(&host);
    let equal = "\\textbf{75.0}${} \\pm 0.0$ & \\textbf{85.0}${} \\pm 0.0$";
    let expected = format!(
        "\\begin{{tabular}}{{lrrrrrrrrr}}\n\\toprule\n \
         & \\multicolumn{{3}}{{c}}{{image $\\to$ text}} & \\multicolumn{{3}}{{c}}{{text $\\to$ image}} &  &  &  \\\\\n\
         \\cmidrule(lr){{2-4}}\\cmidrule(lr){{5-7}}\n\
         row & R@1 & R@5 & R@10 & R@1 & R@5 & R@10 & rsum & hs-sum & runs \\\\\n\\midrule\n\
         a & \\textbf{{46.0}}${{}} \\pm 1.0$ & {equal} & \\textbf{{40.0}}${{}} \\pm 0.0$ & {equal} & $404.0 \\pm 4.0$ & \
         $6.50 \\pm 0.50$ & $3$ \\\\\n\
         b & $44.0 \\pm 0.0$ & {equal} & \\textbf{{40.0}}${{}} \\pm 0.0$ & {equal} & \\textbf{{414.0}}${{}} \\pm 5.3$ & \
         \\textbf{{4.00}}${{}} \\pm 0.00$ & $3$ \\\\\n\\bottomrule\n"
    );
    assert!(latex.contains(&expected), "{latex}\n{expected}");
    assert!(
        latex.contains("\\caption{Sweep \\& co: made-1k. Mean $\\pm$ sample standard deviation over seed."),
        "{latex}"
    );
    assert!(latex.contains("\\label{tab:made-1k}"), "{latex}");
    assert!(latex.contains("% Needs \\usepackage{booktabs,graphicx}.\n") && !latex.contains("Part 1"), "{latex}");
}

/// A page has room for about fifty lines in small print.
#[test]
fn a_table_longer_than_a_page_has_parts() {
    let names: Vec<String> = (0..50).map(|row| format!("test@row={row}.summary")).collect();
    let mut host = host_of(&vec![nns(46.0, 3.0, 404.0, 6.5); names.len()]);
    host.run(&report_of(sweep(&names.iter().map(String::as_str).collect::<Vec<_>>()))).unwrap();
    let (_, _, latex) = files(&host);
    assert_eq!(latex.matches("row & R@1 & R@5").count(), 2, "{latex}");
    assert!(latex.contains("Best mean in bold. Part 1 of 2.}\n\\label{tab:made-1k}\n"), "{latex}");
    assert!(latex.contains("\\caption{Sweep \\& co: made-1k. Part 2 of 2.}\n\\label{tab:made-1k-2}\n"), "{latex}");
    assert!(latex.contains("\n41 & ") && latex.contains("\\midrule\n42 & "), "{latex}");
}

#[test]
fn curves_of_all_rows_are_in_one_picture() {
    let mut host = host_of(&two_rows());
    let validations = ["fit@row=a,seed=1.validation", "fit@row=a,seed=2.validation", "fit@row=b,seed=1.validation"];
    let curves: [&[f64]; 3] = [&[100.0, 200.0, 300.0], &[140.0, 220.0], &[50.0, 60.0, 70.0]];
    for (number, rsums) in curves.iter().enumerate() {
        host.input_tables.insert(ReportSweep::validation_input(number), vec![validation(rsums)]);
    }
    let settings = ReportSweep { validations: references(&validations), ..sweep(&TWO_ROWS) };
    host.run(&report_of(settings)).unwrap();
    let (markdown, html, _) = files(&host);
    assert!(!markdown.contains("Curves"), "{markdown}");
    let figure = html.split("<figure").find(|part| part.contains("Validation rsum by epoch, mean over seed")).unwrap();
    let points = |colour: &str| {
        let line =
            figure.split("<polyline").skip(1).find(|line| line.contains(&format!("stroke=\"{colour}\""))).unwrap();
        line.split("points=\"").nth(1).unwrap().split('"').next().unwrap().split_whitespace().count()
    };
    // Row a has two epochs in both runs.
    assert_eq!((points("#010101"), points("#010102")), (2, 3));
    assert!(figure.contains("stroke=\"#010102\"></line></svg>b</span>"), "{figure}");
}

#[test]
fn names_of_rows_and_repetitions_are_part_of_the_key() {
    let settings_of = |name: &str| report_of(sweep(&[name])).settings();
    let seed = settings_of("test@row=a,seed=1.summary");
    assert_ne!(seed, settings_of("test@row=a,seed=2.summary"));
    assert_ne!(seed, settings_of("test@row=b,seed=1.summary"));
    assert_eq!(seed, settings_of("other@row=a,seed=1.summary"));
    assert_eq!(seed.pointer("/sweep/summaries/0"), Some(&"a, seed=1".into()));
}

#[test]
fn mistakes_in_the_settings_are_all_found() {
    let found = |sweep: ReportSweep| -> Vec<String> {
        let problems = report_of(sweep).check();
        problems
            .iter()
            .map(|problem| {
                format!("{}: {} / {}", problem.setting, problem.message, problem.hint.as_deref().unwrap_or_default())
            })
            .collect()
    };
    assert_eq!(
        found(sweep(&[])),
        ["sweep.summaries: got no table / name the results of all runs: `[\"test@*.summary\"]`"]
    );
    let text = |text: &str| Some(text.to_owned());
    let twice = [TWO_ROWS[0], TWO_ROWS[0]];
    assert_eq!(
        found(ReportSweep {
            baseline: text("c"),
            paper: text("hal-2020"),
            table: vec!["2".to_owned()],
            ..sweep(&twice)
        }),
        [
            "sweep.summaries: `test@row=a,seed=1.summary` and `test@row=a,seed=1.summary` are the same run / name each \
             table once; `repeats` names the axis of repetitions",
            "sweep.baseline: got `c`, which is no row of the sweep / its rows are `a`",
            "sweep.paper: needs `published`, the table of the printed rows / `ingest` reads one: `published = \
             \"data/published/hal-2020.tsv\"`",
            "sweep.table: needs `published`, the table of the printed rows / `ingest` reads one: `published = \
             \"data/published/hal-2020.tsv\"`",
        ]
    );
    let published = references(&["printed.published"]).pop();
    let paper = text("hal-2020");
    let table = ["1", "2", "1"].map(str::to_owned).to_vec();
    assert_eq!(
        found(ReportSweep { published: published.clone(), paper, table, ..sweep(&["a.summary"]) }),
        ["sweep.table.2: got `1` twice / leave out one of the two"]
    );
    assert_eq!(
        found(ReportSweep { published, repeats: text("fold"), ..sweep(&["test@row=a,seed=1.summary", "b.summary"]) }),
        [
            "sweep.repeats: got `fold`, but `test@row=a,seed=1.summary` of `sweep.summaries` has row, seed / name an axis of \
             the matrix, or leave it out if each row is one run",
            "sweep.paper: `published` needs the paper whose rows are shown / for example `paper = \"hal-2020\"`",
            "sweep.table: `published` needs the tables of the paper / for example `table = [\"2\"]`",
        ]
    );
}

#[test]
fn summaries_that_do_not_fit_are_errors() {
    let mut host = host_of(&[nns(1.0, 1.0, 400.0, 1.0), vec![]]);
    let report = report_of(sweep(&["a.summary", "b.summary"]));
    let error = host.run(&report).unwrap_err();
    assert!(error.to_string().contains("`b.summary` has no rows"), "{error}");
    let mut rows = nns(1.0, 1.0, 400.0, 1.0);
    rows[0].i2t.recalls.pop();
    rows[0].t2i.recalls.pop();
    let mut host = host_of(&[nns(1.0, 1.0, 400.0, 1.0), vec![]]);
    host.input_tables.insert(ReportSweep::summary_input(1), vec![summary::batch(&[1, 5], &rows).unwrap()]);
    let error = host.run(&report).unwrap_err();
    let expected = "`a.summary` has cut-offs [1, 5, 10], `b.summary` has [1, 5]";
    assert!(error.to_string().contains(expected) && error.hint_text().is_some(), "{error}");
}

/// NCS of two runs of row `a`, with the sums that the fixture gives; other variants and relevances are left out.
#[test]
fn ncs_and_its_sum_are_beside_the_recalls() {
    let ncs = |first: f64, sum: f64| -> RecordBatch {
        let ncs = |direction, k, value| ("ncs", direction, Some("official"), Some(true), Some(k), value);
        let values = [
            ncs("i2t", 1, first),
            ncs("i2t", 10, 58.0),
            ncs("t2i", 5, 61.0),
            ("nsum", "both", Some("official"), Some(true), None, sum),
            ("nsum", "both", Some("official"), Some(false), None, 300.0),
            ("nsum", "both", Some("official_whole_split"), Some(true), None, 1.0),
            ("ncs", "i2t", Some("official"), Some(false), Some(1), 2.0),
            ("recall", "i2t", None, None, Some(1), 3.0),
        ];
        let rows = values.map(|(measure, direction, variant, own, k, value)| {
            (direction, measure, variant.map(|_| "spice"), variant, own, [None, k], value)
        });
        metrics_of("made-1k", &rows)
    };
    let names = ["test@row=a,seed=1.summary", "test@row=a,seed=2.summary"];
    let metrics = references(&["test@row=a,seed=1.metrics", "test@row=a,seed=2.metrics"]);
    let sweep = ReportSweep { metrics, ..sweep(&names) };
    let mut host = host_of(&[nns(47.0, 3.0, 400.0, 6.0), nns(46.0, 3.0, 404.0, 6.5)]);
    host.input_tables.insert(ReportSweep::metrics_input(0), vec![ncs(50.0, 300.0)]);
    host.input_tables.insert(ReportSweep::metrics_input(1), vec![ncs(52.0, 306.0)]);
    assert_eq!(report_of(sweep.clone()).check(), []);
    host.run(&report_of(sweep.clone())).unwrap();
    let (markdown, _, latex) = files(&host);
    // Sample deviations: of 50 and 52 √2, of 300 and 306 3√2.
    assert!(markdown.contains("51.0 ± 1.4") && markdown.contains("303.0 ± 4.2"), "{markdown}");
    assert!(markdown.contains("NCS by the relevance spice"), "{markdown}");
    assert!(latex.contains("\\label{tab:made-1k-ncs}") && latex.contains("Nsum(N)"), "{latex}");
    // The metrics must be those of the summaries.
    let mut other = sweep.clone();
    other.metrics.reverse();
    let found = report_of(other).check();
    assert!(found.len() == 1 && found[0].message.contains("expected the same stage"), "{found:?}");
    let fewer = ReportSweep { metrics: references(&["test@row=a,seed=1.metrics"]), ..sweep };
    assert_eq!(report_of(fewer).check()[0].message, "got 1 tables for 2 summaries");
}
