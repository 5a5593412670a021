//! Helpers of the tests of sweeps: summaries of runs, validations and printed rows.

use std::collections::BTreeMap;

use arrow::array::{BooleanArray, Float64Array, Int64Array, RecordBatch};

use super::settings::ReportSweep;
use crate::Report;
use crate::testing::{pages, report};
use pairloom_stage::TableRef;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables::published::{self, COLUMNS, PublishedCells, PublishedValue};
use pairloom_tables::summary::{self, DirectionSummary, SummaryRow};
use pairloom_tables::{self as tables, DEFAULT_CUTOFFS};

/// Result of a protocol and method whose i→t R@1, median rank i→t, rsum and hs-sum are given.
pub(super) fn result(protocol: &str, method: &str, r1: f64, medr: f64, rsum: f64, hs_sum: f64) -> SummaryRow {
    let direction = |r1: f64, medr| DirectionSummary { recalls: vec![r1, 75.0, 85.0], medr, meanr: None };
    let (method, parameters) = match method.split_once(", ") {
        Some((method, parameters)) => (method, Some(parameters.to_owned())),
        None => (method, None),
    };
    SummaryRow {
        protocol: protocol.to_owned(),
        method: method.to_owned(),
        parameters,
        transductive: false,
        n_images: 100,
        n_captions: 500,
        i2t: direction(r1, Some(medr)),
        t2i: direction(40.0, None),
        rsum,
        hs_sum,
    }
}

/// Result of `nns` under the protocol `made-1k`.
pub(super) fn nns(r1: f64, medr: f64, rsum: f64, hs_sum: f64) -> Vec<SummaryRow> {
    vec![result("made-1k", "nns", r1, medr, rsum, hs_sum)]
}

pub(super) fn references(names: &[&str]) -> Vec<TableRef> {
    names.iter().map(|name| TableRef::try_from((*name).to_owned()).unwrap()).collect()
}

/// Settings of a sweep of these summaries.
pub(super) fn sweep(summaries: &[&str]) -> ReportSweep {
    ReportSweep {
        summaries: references(summaries),
        validations: vec![],
        metrics: vec![],
        relevance: None,
        repeats: None,
        baseline: None,
        baselines: BTreeMap::new(),
        published: None,
        paper: None,
        table: vec![],
    }
}

/// Settings of a report of a sweep only.
pub(super) fn report_of(sweep: ReportSweep) -> Report {
    Report { title: "Sweep & co".to_owned(), summary: None, sweep: Some(sweep), ..report(false) }
}

/// Host with these summaries, in order.
pub(super) fn host_of(runs: &[Vec<SummaryRow>]) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    for (number, rows) in runs.iter().enumerate() {
        let batch = summary::batch(&DEFAULT_CUTOFFS, rows).unwrap();
        host.input_tables.insert(ReportSweep::summary_input(number), vec![batch]);
    }
    host
}

/// Two rows with the seeds 1, 2 and 3: rsum 400, 404, 408 of `a`, and 410, 412, 420 of `b`.
pub(super) const TWO_ROWS: [&str; 6] = [
    "test@row=a,seed=1.summary",
    "test@row=a,seed=2.summary",
    "test@row=a,seed=3.summary",
    "test@row=b,seed=1.summary",
    "test@row=b,seed=2.summary",
    "test@row=b,seed=3.summary",
];

pub(super) fn two_rows() -> Vec<Vec<SummaryRow>> {
    vec![
        nns(47.0, 3.0, 400.0, 6.0),
        nns(46.0, 3.0, 404.0, 6.5),
        nns(45.0, 3.0, 408.0, 7.0),
        nns(44.0, 2.0, 410.0, 4.0),
        nns(44.0, 2.0, 412.0, 4.0),
        nns(44.0, 2.0, 420.0, 4.0),
    ]
}

/// Table `validation` with these rsums, one for each epoch.
pub(super) fn validation(rsums: &[f64]) -> RecordBatch {
    let n = i64::try_from(rsums.len()).unwrap();
    let rsums = || Float64Array::from(rsums.to_vec());
    let recall = || Float64Array::from(vec![50.0; rsums().len()]);
    tables::validation::TableColumns {
        epoch: Int64Array::from_iter_values(0..n),
        step: Int64Array::from_iter_values(0..n),
        loss: recall(),
        i2t_r1: recall(),
        i2t_r5: recall(),
        i2t_r10: recall(),
        t2i_r1: recall(),
        t2i_r5: recall(),
        t2i_r10: recall(),
        rsum: rsums(),
        selection_score: rsums(),
        best: BooleanArray::from(vec![false; rsums().len()]),
    }
    .into_batch()
    .unwrap()
}

/// Table `published` of rows of columns and values; other columns are missing, and keys `-`.
pub(super) fn printed_rows(rows: &[&[(&str, &str)]]) -> RecordBatch {
    let value = |row: &[(&str, &str)], name: &str| {
        row.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
    };
    let cells = COLUMNS.iter().map(|(name, values, _)| {
        let row_values = rows.iter().map(|row| value(row, name));
        match values {
            PublishedValue::Key => {
                PublishedCells::Texts(row_values.map(|value| value.or(Some("-".to_owned()))).collect())
            }
            PublishedValue::Text => PublishedCells::Texts(row_values.collect()),
            PublishedValue::Percentage | PublishedValue::Number => {
                PublishedCells::Numbers(row_values.map(|value| value.map(|value| value.parse().unwrap())).collect())
            }
        }
    });
    published::batch(cells.collect()).unwrap()
}

/// Markdown page, HTML page, and tables in LaTeX.
pub(super) fn files(host: &InMemoryHost) -> (String, String, String) {
    let (markdown, html) = pages(host);
    let latex = host.output_files[&("page".to_owned(), "table.tex".to_owned())].to_vec();
    (markdown, html, String::from_utf8(latex).unwrap())
}
