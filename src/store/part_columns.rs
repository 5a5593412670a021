//! Some columns of the parts of a table, read without the rest of the parts.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::{AsyncFileReader, ParquetRecordBatchStreamBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::artefact::{Artefact, Part};
use super::verified_store::VerifiedStore;
use pairloom_base::error::{Error, Result};

/// Bytes at the end of a part that are read first, which hold its footer.
const FOOTER_BYTES: usize = 64 << 10;
/// Number of parts that are read at the same time.
const CONCURRENT_PARTS: usize = 8;

impl Artefact {
    /// Reads the columns with these names of parts of a table, and hands their batches on in order. The bytes that are read
    /// are compared with the recorded digests of their blocks.
    ///
    /// Cost: the footers of the parts and the blocks of 256 KiB that have the columns.
    ///
    /// # Errors
    /// A part is missing or damaged, the store cannot be read, or `take` fails.
    pub fn read_columns(
        &self,
        (table, parts): (&str, &[Part]),
        columns: &[&str],
        mut take: impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let verified: Arc<dyn ObjectStore> = Arc::new(VerifiedStore::new(&self.objects));
        let reads = parts.iter().map(|part| {
            let location = Path::from(self.path(&Self::part_name(table, part.index)));
            read_part(PartReader { objects: Arc::clone(&verified), location, bytes: part.bytes }, columns)
        });
        self.objects.block_on(async {
            let mut read = stream::iter(reads).buffered(CONCURRENT_PARTS);
            while let Some(batches) = read.try_next().await? {
                batches.into_iter().try_for_each(&mut take)?;
            }
            Ok(())
        })?
    }
}

/// Reader of ranges of a part.
struct PartReader {
    objects: Arc<dyn ObjectStore>,
    location: Path,
    bytes: u64,
}

impl AsyncFileReader for PartReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        async move { Ok(self.get_byte_ranges(vec![range]).await?.pop().unwrap_or_default()) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        let read = async move { self.objects.get_ranges(&self.location, &ranges).await };
        read.map_err(|error| ParquetError::External(error.into())).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        let bytes = self.bytes;
        ParquetMetaDataReader::new()
            .with_prefetch_hint(Some(FOOTER_BYTES))
            .load_and_finish(self, bytes)
            .map_ok(Arc::new)
            .boxed()
    }
}

async fn read_part(reader: PartReader, columns: &[&str]) -> Result<Vec<RecordBatch>> {
    let builder = ParquetRecordBatchStreamBuilder::new(reader).await.map_err(of_store)?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
    builder.with_projection(mask).build().map_err(of_store)?.try_collect().await.map_err(of_store)
}

/// Error of the store inside of an error of the Parquet reader.
fn of_store(error: ParquetError) -> Error {
    let mut inner: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(at) = inner {
        if let Some(found) = at.downcast_ref::<Error>() {
            return found.clone();
        }
        if let Some(StoreError::NotFound { path, .. }) = at.downcast_ref() {
            return Error::data(format!("`{path}` was removed while it was needed")).hint("run the same command again");
        }
        inner = at.source();
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::BinaryArray;
    use serde_json::json;

    use super::*;
    use crate::Store;
    use crate::key::ArtefactIdentity;
    use crate::testing::put_artefact;
    use pairloom_base::error::ErrorCategory;
    use pairloom_storage::parquet;
    use pairloom_tables::{Nullable, images};

    #[test]
    fn damage_is_found_in_the_columns_that_are_read_and_the_rest_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        // Bytes of which zstd makes no less, so that the other columns lie in other blocks.
        let noise = |seed: u8| blake3::Hasher::new().update(&[seed]).finalize_xof();
        let pictures: Vec<Vec<u8>> = (0..4)
            .map(|seed| {
                let mut picture = vec![0; 1 << 20];
                noise(seed).fill(&mut picture);
                picture
            })
            .collect();
        let digests: Vec<String> = pictures.iter().map(|picture| blake3::hash(picture).to_hex().to_string()).collect();
        let part = |first: usize| {
            let bytes: BinaryArray =
                pictures[first..first + 2].iter().map(|picture| Some(picture.as_slice())).collect();
            let columns = images::TableColumns {
                image_id: vec![i64::try_from(first).unwrap(), i64::try_from(first).unwrap() + 1].into(),
                split: vec!["train", "test"].into(),
                file_name: vec!["a", "b"].into(),
                path: Nullable(vec![None::<&str>; 2].into()),
                digest: Nullable(digests[first..first + 2].to_vec().into()),
                bytes: Nullable(bytes),
            };
            let batch = columns.into_batch().unwrap();
            (parquet::encode(&batch.schema(), &[batch]).unwrap(), 2)
        };
        let inputs = BTreeMap::new();
        let identity = ArtefactIdentity { kind: "ingest".to_owned(), version: 1, settings: json!({}), inputs };
        let key = put_artefact(&store, &identity, &[("images", vec![part(0), part(2)])], vec![]);
        let artefact = store.artefact("ingest", &key);
        let parts = artefact.manifest().unwrap().unwrap().tables.remove("images").unwrap();
        let read = || {
            let mut read = Vec::new();
            let columns = &["split", "digest"];
            artefact.read_columns(("images", &parts), columns, |batch| {
                assert_eq!(batch.num_columns(), 2);
                let column = pairloom_tables::text_column(&batch, "digest")?;
                read.extend(column.iter().map(|digest| digest.unwrap().to_owned()));
                Ok(())
            })?;
            Ok::<_, Error>(read)
        };
        assert_eq!(read().unwrap(), digests);

        let file = artefact.folder().unwrap().join("images/part-00001.parquet");
        let sound = std::fs::read(&file).unwrap();
        let flip = |place: usize| {
            let mut damaged = sound.clone();
            damaged[place] ^= 1;
            std::fs::write(&file, damaged).unwrap();
        };
        flip(1 << 20);
        assert_eq!(read().unwrap(), digests, "a picture is damaged");
        flip(sound.len() - 9);
        let error = read().unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        assert!(
            error.to_string().contains("images/part-00001.parquet` is damaged: the digest of the block"),
            "{error}"
        );
        std::fs::remove_file(&file).unwrap();
        let error = read().unwrap_err();
        assert!(error.to_string().ends_with("images/part-00001.parquet` was removed while it was needed"), "{error}");
    }
}
