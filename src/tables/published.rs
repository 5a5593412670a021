//! `published`: rows that papers print, to compare own results with.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Schema};

use super::{Column, Table};
use pairloom_base::error::Result;

/// Values that a column of the table can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishedValue {
    /// Text that every row has. These columns together identify a row, with `protocol`.
    Key,
    /// Text, missing if the paper does not print it.
    Text,
    /// Percentage, 0 to 100, missing if the paper does not print it.
    Percentage,
    /// Finite number, missing if the paper does not print it.
    Number,
}

/// Names of a printed row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintedName {
    /// Short name of the paper.
    pub paper: String,
    /// Number of the table.
    pub table: String,
    /// Number of the row.
    pub row: String,
    /// Data set; empty if the file has no such column.
    pub dataset: String,
    /// Row whose model is ranked, if it is another one.
    pub model_row: Option<String>,
}

/// Column of the table: name, values, and description.
pub type PublishedColumn = (&'static str, PublishedValue, &'static str);

use PublishedValue::{Key, Number, Percentage, Text};

/// Columns, in order.
pub const COLUMNS: [PublishedColumn; 49] = [
    ("paper", Key, "Short name of the paper that prints the row: `hal-2020`."),
    ("table", Key, "Number of its table."),
    ("row", Key, "Number of the row in the table: the printed one, or if none is printed, a running one."),
    ("dataset", Key, "Data set: `f30k`, `coco`, `cxc`."),
    (
        "protocol",
        Text,
        "Evaluation protocol, as in `summary`: `coco-1k-five-fold`. Missing if the paper does not define it.",
    ),
    (
        "printed_protocol",
        Text,
        "Name of the protocol in the paper: `c2`, `5k`. It means different pools in different papers.",
    ),
    (
        "model_row",
        Text,
        "Row of the same paper whose model is ranked, for rows that print only another method or another pool.",
    ),
    ("features", Text, "Image features: `vgg19`, `resnet152`, `inception_resnet_v2`, `bottom_up_36`."),
    (
        "model",
        Text,
        "Model: `vse` is a GRU and linear layers on features of images, `order` the same with order similarities.",
    ),
    (
        "objective",
        Text,
        "Training objective: `sum`, `max`, `knn_margin`, `local_scaling` (printed as HAL in `local-scaling-2019`), `hal`, or \
         one of these with an addition. In `sam-2022`, `max` is the model's own loss.",
    ),
    (
        "method",
        Text,
        "Ranking method, as in `summary`: `nns`, `csls`, `inverted_softmax`, `relaxed_greedy`. With the method that corrects \
         its scores: `relaxed_greedy over csls`. With a parameter, if the table has another row without it: `relaxed_greedy, \
         lambda = 1`.",
    ),
    (
        "printed_method",
        Text,
        "Name of the method in the paper: `IS+RGM` is relaxed greedy matching on inverted softmax.",
    ),
    ("score", Text, "Score that is correlated with human ratings."),
    ("i2t_r1", Percentage, "Image to text: recall at 1, in percent."),
    ("i2t_r5", Percentage, "Image to text: recall at 5, in percent."),
    ("i2t_r10", Percentage, "Image to text: recall at 10, in percent."),
    ("i2t_medr", Number, "Image to text: median rank, from 1. Over folds, the mean of their medians."),
    ("i2t_meanr", Number, "Image to text: mean rank, from 1."),
    ("t2i_r1", Percentage, "Text to image: recall at 1, in percent."),
    ("t2i_r5", Percentage, "Text to image: recall at 5, in percent."),
    ("t2i_r10", Percentage, "Text to image: recall at 10, in percent."),
    ("t2i_medr", Number, "Text to image: median rank, from 1. Over folds, the mean of their medians."),
    ("t2i_meanr", Number, "Text to image: mean rank, from 1."),
    ("rsum", Number, "Sum of the six recalls, as printed."),
    ("hs_sum", Number, "Sum of the skewness of the k-occurrences for k = 1, 5, 10 in both directions."),
    ("i2t_ncs1", Percentage, "Image to text: NCS at 1 by SPICE with the image's own captions, in percent."),
    ("i2t_ncs5", Percentage, "Image to text: NCS at 5."),
    ("i2t_ncs10", Percentage, "Image to text: NCS at 10."),
    ("t2i_ncs1", Percentage, "Text to image: NCS at 1."),
    ("t2i_ncs5", Percentage, "Text to image: NCS at 5."),
    ("t2i_ncs10", Percentage, "Text to image: NCS at 10."),
    ("nsum", Number, "Sum of the six NCS, as printed."),
    ("nsum_non_gt", Number, "The same sum without the query's own matches, printed as Nsum(N)."),
    ("pearson_all", Number, "Pearson's r of `score` with the human ratings of all pairs."),
    ("pearson_non_gt", Number, "Pearson's r without the pairs of an image and its own caption."),
    ("k_occurrence_count_0", Number, "Number of items that are the best item of no query."),
    ("k_occurrence_count_1", Number, "Number of items that are the best item of one query."),
    ("k_occurrence_count_2", Number, "Number of items that are the best item of at least 2 queries."),
    ("k_occurrence_count_5", Number, "Number of items that are the best item of at least 5 queries."),
    ("k_occurrence_count_10", Number, "Number of items that are the best item of at least 10 queries."),
    ("n_items", Number, "Number of items of these counts."),
    ("k_occurrence_rate_0", Percentage, "Items that are the best item of no query, in percent."),
    ("k_occurrence_rate_1", Percentage, "Items that are the best item of one query, in percent."),
    ("k_occurrence_rate_2", Percentage, "Items that are the best item of at least 2 queries, in percent."),
    ("k_occurrence_rate_5", Percentage, "Items that are the best item of at least 5 queries, in percent."),
    ("k_occurrence_rate_10", Percentage, "Items that are the best item of at least 10 queries, in percent."),
    ("printed_settings", Text, "Settings that the paper prints for the row: `margin = 0.2, epochs = 30`."),
    ("cited_from", Text, "Work from which the paper copied the row; missing for its own rows."),
    ("note", Text, "Doubts about the row, such as a misprint."),
];

impl PublishedValue {
    fn column(self, name: &'static str, description: &'static str) -> Column {
        match self {
            Key => Column::new(name, DataType::Utf8, description),
            Text => Column::nullable(name, DataType::Utf8, description),
            Percentage | Number => Column::nullable(name, DataType::Float64, description),
        }
    }
}

/// Describes the table.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "published",
        description: "One row per printed row of a paper's table and evaluation protocol, with the numbers as printed.",
        columns: COLUMNS.iter().map(|(name, values, description)| values.column(name, description)).collect(),
    }
}

/// Values of one column, missing where the paper prints nothing.
#[derive(Debug, Clone)]
pub enum PublishedCells {
    /// Texts.
    Texts(Vec<Option<String>>),
    /// Numbers.
    Numbers(Vec<Option<f64>>),
}

impl PublishedCells {
    /// Appends a missing value.
    pub fn push_missing(&mut self) {
        match self {
            Self::Texts(texts) => texts.push(None),
            Self::Numbers(numbers) => numbers.push(None),
        }
    }
}

/// Builds a batch of rows from the values of each column, in the order of [`COLUMNS`].
///
/// # Errors
/// A column has values of the wrong type or number, or a key is missing.
pub fn batch(columns: Vec<PublishedCells>) -> Result<RecordBatch> {
    let array = |cells| -> ArrayRef {
        match cells {
            PublishedCells::Texts(texts) => Arc::new(StringArray::from(texts)),
            PublishedCells::Numbers(numbers) => Arc::new(Float64Array::from(numbers)),
        }
    };
    let schema: Arc<Schema> = table().schema();
    super::batch(&schema, columns.into_iter().map(array).collect())
}
