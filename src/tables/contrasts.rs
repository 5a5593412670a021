//! `contrasts`: whether two results differ by more than chance.

use arrow::datatypes::DataType;

use super::metrics::parameters;
use super::{Column, Table};

/// One row a protocol, method and measure.
#[must_use]
pub fn table() -> Table {
    let text = |name, about| Column::new(name, DataType::Utf8, about);
    let number = |name, about| Column::new(name, DataType::Float64, about);
    let count = |name, about| Column::new(name, DataType::Int64, about);
    Table {
        name: "contrasts",
        about: "One row a protocol, method and measure: how far it is from another result of the same queries, and whether that \
                could be chance.",
        columns: vec![
            text("protocol", "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`."),
            text("method", "How items were ranked."),
            parameters(),
            text("baseline", "The method that it is compared with."),
            Column::optional("baseline_parameters", DataType::Utf8, "Its parameters."),
            text("measure", "`rsum`, or the recall `i2t_r1`, `i2t_r5`, `i2t_r10`, `t2i_r1`, `t2i_r5`, `t2i_r10`."),
            number("value", "The measure, in percent."),
            number("baseline_value", "That of the baseline."),
            number("difference", "The first less the second."),
            number("ci95_low", "Lower end of the 95 % interval of the difference: the paired bootstrap over images."),
            number("ci95_high", "Upper end."),
            number(
                "p_value",
                "How often results would differ at least as much by chance: the randomisation test, two-sided, which swaps the \
                 two results of an image and its captions, 9,999 times. Not corrected for the number of rows.",
            ),
            count("won", "Queries that hit and did not with the baseline; for `rsum`, of all recalls."),
            count("lost", "Queries that did not hit and did with the baseline."),
            count("n_queries", "Queries of the measure, of all folds; for `rsum`, of both directions."),
            count("n_images", "Images that were drawn, or swapped."),
        ],
    }
}
