//! `rankings`: what each query found.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};

use super::metrics::parameters;
use super::{Column, Table};

/// One row a query.
#[must_use]
pub fn table() -> Table {
    let hit = |name, about| Column::new(name, DataType::Boolean, about);
    let list = |item| DataType::List(Arc::new(Field::new("item", item, false)));
    Table {
        name: "rankings",
        about: "One row a query of one protocol and method.",
        columns: vec![
            Column::new("protocol", DataType::Utf8, "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`."),
            Column::new("fold", DataType::Int64, "Fold of the protocol, from 0."),
            Column::new("method", DataType::Utf8, "How items were ranked: `nns` is the nearest neighbour."),
            parameters(),
            Column::new(
                "direction",
                DataType::Utf8,
                "`i2t`: an image looks for captions; `t2i`: a caption looks for images.",
            ),
            Column::new("query_id", DataType::Int64, "`image_id` (i2t) or `caption_id` (t2i) of the query."),
            Column::new(
                "image_id",
                DataType::Int64,
                "The image of the query: itself (i2t), or that of the caption (t2i).",
            ),
            hit("hit_1", "Whether a match is the best item; of a matching, whether one is in its set for R@1."),
            hit("hit_5", "The same of the 5 best items."),
            hit("hit_10", "The same of the 10 best items."),
            Column::optional(
                "rank",
                DataType::Int64,
                "Place of the best matching item, from 0; of equal scores the lower index comes first. A matching gives sets, \
                 not places.",
            ),
            Column::optional("rank_optimistic", DataType::Int64, "The rank if every tie were won."),
            Column::optional("rank_pessimistic", DataType::Int64, "The rank if every tie were lost."),
            Column::new(
                "top_ids",
                list(DataType::Int64),
                "The ten best items, best first: `caption_id` (i2t) or `image_id` (t2i). Of a matching, those accepted.",
            ),
            Column::new("top_scores", list(DataType::Float32), "Their scores, as the method corrects them."),
        ],
    }
}
