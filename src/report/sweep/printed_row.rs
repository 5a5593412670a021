//! Row that a paper prints, and what is said about printed rows beside a sweep.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};

use super::measures::SweepMeasure;
use super::method_name::{method_name, parameters};
use pairloom_base::error::Result;
use pairloom_tables::{self as tables, DEFAULT_CUTOFFS};

/// Method of printed rows that name none.
pub(super) const DEFAULT_METHOD: &str = "nns";

/// Protocols of the same images: COCO's files `test_*` have the first 1,000 images of `testall_*`. One of the 5,000
/// captions differs.
const SAME_IMAGES: [&str; 2] = ["coco-1k-single", "coco-1k-first-fold"];

/// Printed row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PrintedRow {
    pub(super) table: String,
    pub(super) row: String,
    pub(super) dataset: String,
    pub(super) protocol: Option<String>,
    /// Row of the paper whose model is ranked.
    pub(super) model_row: Option<String>,
    pub(super) method: Option<String>,
    pub(super) model: Option<String>,
    pub(super) objective: Option<String>,
    pub(super) features: Option<String>,
    /// Name of the method in the paper.
    pub(super) printed_method: Option<String>,
    /// Numbers, by their columns in `published`.
    numbers: BTreeMap<String, f64>,
    /// True if sums are left out.
    is_without_sums: bool,
}

impl PrintedRow {
    /// Printed value of a measure. rsum is the sum of the printed recalls if the paper prints no rsum.
    pub(super) fn value(&self, measure: SweepMeasure) -> Option<f64> {
        let printed = self.numbers.get(&measure.published_column()).copied();
        if measure == SweepMeasure::Rsum { printed.or_else(|| self.sum_of_recalls()) } else { printed }
    }

    /// True if the value of rsum is a sum of the printed recalls.
    pub(super) fn is_computed_rsum(&self) -> bool {
        !self.numbers.contains_key(&SweepMeasure::Rsum.published_column())
    }

    /// Sum of the recalls at the usual cut-offs; `None` if one is not printed, or sums are left out.
    fn sum_of_recalls(&self) -> Option<f64> {
        let recalls = SweepMeasure::recalls(&DEFAULT_CUTOFFS).into_iter();
        let recalls = recalls.filter(|measure| matches!(measure, SweepMeasure::Recall { .. }));
        let printed = recalls.map(|measure| self.numbers.get(&measure.published_column()).copied());
        printed.sum::<Option<f64>>().filter(|_| !self.is_without_sums)
    }

    /// True if another row is the same one, printed in another table with other columns.
    pub(super) fn continues(&self, other: &Self) -> bool {
        let agrees = |(column, value): (&String, &f64)| other.numbers.get(column).is_none_or(|other| other == value);
        self.table != other.table && identity(self) == identity(other) && self.numbers.iter().all(agrees)
    }

    /// Data set, and protocol if one is printed.
    pub(super) fn pool(&self) -> (&str, Option<&str>) {
        (&self.dataset, self.protocol.as_deref())
    }

    /// True if the row is of results with this protocol. Without a printed protocol, it is of all results of its data set.
    pub(super) fn is_of_protocol(&self, protocol: &str) -> bool {
        match self.protocol.as_deref() {
            Some(printed) => printed == protocol || [printed, protocol].iter().all(|of| SAME_IMAGES.contains(of)),
            None => protocol.strip_prefix(&self.dataset).is_some_and(|rest| rest.starts_with('-')),
        }
    }

    /// True if the row is of this row of a sweep and of this method. `is_only` is true if the row of the sweep has no other
    /// method.
    pub(super) fn is_own(&self, row: &str, method: &str, is_only: bool) -> bool {
        let is_method = match &self.method {
            Some(_) => self.has_method(method),
            None => is_only || method == DEFAULT_METHOD,
        };
        is_named(row, &self.row, &self.dataset) && is_method
    }

    /// True if the row ranks the model of this row of a sweep by this method.
    pub(super) fn ranks_model(&self, row: &str, method: &str) -> bool {
        let is_model = |printed: &String| is_named(row, printed, &self.dataset);
        self.model_row.as_ref().is_some_and(is_model) && self.has_method(method)
    }

    /// True if the method is the printed one. It has all printed parameters, and can have others.
    fn has_method(&self, method: &str) -> bool {
        let has = |printed: &String| {
            method_name(printed) == method_name(method)
                && parameters(printed).all(|printed| parameters(method).any(|own| own == printed))
        };
        self.method.as_ref().is_some_and(has)
    }

    /// Number of printed parameters of the method.
    pub(super) fn n_parameters(&self) -> usize {
        self.method.iter().flat_map(|method| parameters(method)).count()
    }

    /// Model, objective and features, as far as they are printed: `vse, sum, vgg19`.
    pub(super) fn about(&self) -> Option<String> {
        let printed: Vec<&str> =
            [&self.model, &self.objective, &self.features].into_iter().flatten().map(String::as_str).collect();
        (!printed.is_empty()).then(|| printed.join(", "))
    }

    /// Number of the row, with the printed name of its method.
    pub(super) fn name(&self) -> String {
        let method = self.printed_method.as_ref().map_or_else(String::new, |method| format!(" ({method})"));
        format!("{}{method}", self.row)
    }
}

/// True if `name` is that of the printed row, alone or beside that of its data set: `1`, `f30k, 1`. A sweep with an axis of
/// data sets and one of rows has such names.
pub(super) fn is_named(name: &str, row: &str, dataset: &str) -> bool {
    name == row || name.split_once(", ").is_some_and(|parts| parts == (dataset, row) || parts == (row, dataset))
}

/// Columns that are the same in all tables that print a row.
fn identity(of: &PrintedRow) -> [Option<&str>; 6] {
    [
        Some(&of.row),
        Some(&of.dataset),
        of.protocol.as_deref(),
        of.model_row.as_deref(),
        of.method.as_deref(),
        of.printed_method.as_deref(),
    ]
}

/// Printed rows that do not stand beside a row of a sweep, and rows without a printed one.
#[derive(Debug, Default)]
pub(super) struct PrintedRemarks {
    /// Protocols of the printed rows, if they are of other data than the results.
    pub(super) other_protocols: Vec<String>,
    /// Protocols of the printed rows, if they are others than that of the results, of the same images.
    pub(super) same_images: Vec<String>,
    /// Printed rows without a protocol.
    pub(super) without_protocol: Vec<String>,
    /// Rows without a printed one.
    pub(super) without: Vec<String>,
    /// Rows with several printed ones, which are listed.
    pub(super) ambiguous: Vec<String>,
    /// Printed rows of the protocol that no row belongs to.
    pub(super) left_over: Vec<String>,
}

impl PrintedRemarks {
    /// Adds what is to be said about a printed row beside results with this protocol.
    pub(super) fn add(&mut self, printed: &PrintedRow, protocol: &str, is_same_data: bool) {
        let (remarks, remark) = match printed.pool() {
            (dataset, None) if !is_same_data => (&mut self.other_protocols, format!("{dataset} without a protocol")),
            (_, Some(other)) if !is_same_data => (&mut self.other_protocols, other.to_owned()),
            (_, Some(other)) if other != protocol => (&mut self.same_images, other.to_owned()),
            (_, None) => (&mut self.without_protocol, printed.name()),
            _ => return,
        };
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
}

impl PrintedRow {
    /// Reads a row of `published`.
    pub(super) fn read(batch: &RecordBatch, row: usize) -> Result<Self> {
        let text = |name: &str| -> Result<Option<String>> {
            let column = tables::text_column(batch, name)?;
            Ok(column.is_valid(row).then(|| column.value(row).to_owned()))
        };
        let key = |name: &str| -> Result<String> { Ok(text(name)?.unwrap_or_default()) };
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        let numbers = columns.filter(|(field, column)| field.data_type() == &DataType::Float64 && column.is_valid(row));
        Ok(Self {
            table: key("table")?,
            row: key("row")?,
            dataset: key("dataset")?,
            protocol: text("protocol")?,
            model_row: text("model_row")?,
            method: text("method")?,
            model: text("model")?,
            objective: text("objective")?,
            features: text("features")?,
            printed_method: text("printed_method")?,
            numbers: numbers
                .map(|(field, column)| (field.name().clone(), column.as_primitive::<Float64Type>().value(row)))
                .collect(),
            is_without_sums: false,
        })
    }

    /// Leaves out sums.
    pub(super) fn remove_sums(&mut self) {
        self.is_without_sums = true;
        self.numbers.retain(|column, _| !column.contains("sum"));
    }

    /// Adds the numbers of the same row in another table.
    pub(super) fn add(&mut self, other: Self) {
        self.numbers.extend(other.numbers);
    }
}
