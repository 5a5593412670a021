//! Binary relevance from judgements (qrels), in the order of the pool.

use super::pool::{SplitPool, positions_by_id};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_retrieval::BinaryRelevance;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Number of judgements of unknown queries or items that a message shows, and of identifiers of the split.
const SHOWN: usize = 5;

/// Reads the judgements of the pool with a grade of at least `at_least`. Pairs without a judgement are not relevant.
///
/// Judgements whose query or item is not in the pool are left out with a warning, since they change the number of
/// relevant items.
///
/// # Errors
/// No judgement of the pool has a grade of `at_least`.
pub(super) fn read_judged_items(
    cx: &mut StageContext<'_>,
    input: &str,
    name: &str,
    at_least: f64,
    pool: &SplitPool,
) -> Result<BinaryRelevance> {
    let (images, captions) = (positions_by_id(&pool.images), positions_by_id(&pool.captions));
    let mut relevance = BinaryRelevance::without_pairs(name, images.len(), captions.len());
    let mut unknown = TruncatedList::new(SHOWN);
    let (mut judged, mut relevant, mut highest) = (0usize, 0usize, f64::NEG_INFINITY);
    while let Some(batch) = cx.read_next(input)? {
        let directions = tables::text_column(&batch, "direction")?;
        let (queries, items) = (tables::int_column(&batch, "query_id")?, tables::int_column(&batch, "item_id")?);
        let grades = tables::float_column(&batch, "grade")?;
        for row in 0..batch.num_rows() {
            judged += 1;
            let (query, item, grade) = (queries.value(row), items.value(row), grades.value(row));
            let (query_positions, item_positions, lists) = match directions.value(row) {
                "i2t" => (&images, &captions, &mut relevance.captions_of),
                _ => (&captions, &images, &mut relevance.images_of),
            };
            let (Some(&query), Some(&item)) = (query_positions.get(&query), item_positions.get(&item)) else {
                unknown.push(format_args!("{} query {query} with item {item}", directions.value(row)));
                continue;
            };
            highest = highest.max(grade);
            if grade >= at_least {
                lists[query].push(item);
                relevant += 1;
            }
        }
    }
    if relevant == 0 {
        return Err(if unknown.len() == judged {
            no_known_pair(input, judged, &unknown, pool)
        } else {
            let message = format!("`{input}` has no judgement of the split with a grade of {at_least} or higher");
            Error::data(message)
                .hint(format!("the highest grade is {highest}; `at_least` is the lowest of relevant items"))
        });
    }
    if !unknown.is_empty() {
        let message = format!(
            "{} of {judged} judgements are left out, since the split lacks their query or item: {}",
            unknown.len(),
            unknown.join(", ")
        );
        cx.warn(input, message);
    }
    Ok(relevance)
}

/// Error for judgements of other identifiers than those of the split.
fn no_known_pair(input: &str, judged: usize, unknown: &TruncatedList, pool: &SplitPool) -> Error {
    let first = |ids: &[i64]| TruncatedList::from_iter(ids.iter().take(SHOWN)).join(", ");
    Error::data(format!(
        "the split lacks the query or the item of all {judged} judgements of `{input}`: {}; wanted identifiers of its \
         images, such as {}, and of its captions, such as {}",
        unknown.join(", "),
        first(&pool.images),
        first(&pool.captions)
    ))
    .hint(
        "`ingest` takes the identifiers of a data set from lists: `image_ids` and `caption_ids` of `embeddings`, \
         `test_caption_ids` of `precomp`",
    )
}
