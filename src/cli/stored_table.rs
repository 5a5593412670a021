//! Tables of a stage in the store, read part by part.

use arrow::array::RecordBatch;

use pairloom_base::error::Result;
use pairloom_storage::parquet;
use pairloom_store::record::StageRecord;
use pairloom_store::{Artefact, Store};

/// Batches of a table of a stage, one for each part; none if the result was removed.
///
/// # Errors
/// The store cannot be read, or a part is damaged.
pub(super) fn read_table(
    store: &Store,
    stage: &StageRecord,
    table: &str,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
    let artefact = store.artefact(&stage.kind, &stage.key);
    let parts = artefact.manifest()?.and_then(|mut manifest| manifest.tables.remove(table)).unwrap_or_default();
    let table = table.to_owned();
    Ok(parts.into_iter().map(move |part| {
        let content = artefact.read(&Artefact::part_name(&table, part.index), part.bytes, &part.digest)?;
        parquet::decode_whole(content)
    }))
}
