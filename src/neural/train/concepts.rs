//! Reads the table `concepts`.

use pairloom_base::error::{Error, Result};
use pairloom_model::family::concept_graph::Concept;
use pairloom_spec::stages::train::CONCEPTS;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Reads all concepts, in the order of their numbers.
///
/// # Errors
/// No concept; numbers that are not 0, 1, …; counts that cannot be those of captions.
pub(super) fn read_concepts(cx: &mut StageContext<'_>) -> Result<Vec<Concept>> {
    let mut concepts: Vec<Concept> = Vec::new();
    while let Some(batch) = cx.read_next(CONCEPTS)? {
        let (ids, captions) = (tables::int_column(&batch, "concept_id")?, tables::int_column(&batch, "n_captions")?);
        let (lemmas, words) = (tables::text_column(&batch, "lemma")?, tables::text_column(&batch, "words")?);
        let (together, width) = tables::vector_column(&batch, "co_occurrences")?;
        for row in 0..batch.num_rows() {
            let (id, count) = (ids.value(row), captions.value(row));
            let co_occurrences = together[row * width..(row + 1) * width].to_vec();
            if usize::try_from(id) != Ok(concepts.len()) {
                let message =
                    format!("got concept {id}, wanted {}: concepts are in the order of their numbers", concepts.len());
                return Err(Error::data(message).context(CONCEPTS));
            }
            if count < 1 || !co_occurrences.iter().all(|value| value.is_finite() && *value >= 0.0) {
                let message =
                    format!("concept {id} is in {count} captions, wanted at least 1, and finite counts of pairs");
                return Err(Error::data(message).context(CONCEPTS));
            }
            concepts.push(Concept {
                lemma: lemmas.value(row).to_owned(),
                words: words.value(row).split_whitespace().map(str::to_owned).collect(),
                n_captions: count,
                co_occurrences,
            });
        }
    }
    let count = concepts.len();
    if let Some(wrong) = concepts.iter().position(|concept| concept.co_occurrences.len() != count) {
        let got = concepts[wrong].co_occurrences.len();
        let message = format!("concept {wrong} has counts with {got} concepts, wanted {count}, the rows of the table");
        return Err(Error::data(message).context(CONCEPTS));
    }
    if concepts.is_empty() {
        return Err(Error::data("no concept, wanted at least one").context(CONCEPTS));
    }
    Ok(concepts)
}
