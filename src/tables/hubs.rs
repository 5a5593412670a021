//! `hubs`: how often every item is found.

use arrow::datatypes::DataType;

use super::metrics::parameters;
use super::{Column, Table};

/// One row an item.
#[must_use]
pub fn table() -> Table {
    let count = |name, about| Column::new(name, DataType::Int64, about);
    Table {
        name: "hubs",
        about: "One row an item of one protocol, method and direction: in how many rankings it is among the first, Nₖ.",
        columns: vec![
            Column::new("protocol", DataType::Utf8, "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`."),
            Column::new("fold", DataType::Int64, "Fold of the protocol, from 0."),
            Column::new("method", DataType::Utf8, "How items were ranked: `nns` is the nearest neighbour."),
            parameters(),
            Column::new("direction", DataType::Utf8, "`i2t`: captions are found; `t2i`: images are found."),
            Column::new("item_id", DataType::Int64, "`caption_id` (i2t) or `image_id` (t2i) of the item."),
            count("n1", "Queries whose best item it is."),
            count("n5", "Queries that have it among their five best."),
            count("n10", "Queries that have it among their ten best."),
            count("own", "Queries that it matches."),
        ],
    }
}
