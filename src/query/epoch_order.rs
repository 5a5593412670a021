//! `epoch_order('stage', epoch [, ranks])`: table of the samples of an epoch of a training, in their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use az::SaturatingAs;
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, ScalarValue, TableReference, plan_err};
use datafusion::logical_expr::Expr;

use crate::catalog::StoreCatalog;
use crate::names;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::{DataOrder, DataSet, Shuffle, rank_share};
use pairloom_storage::parquet;
use pairloom_store::Artefact;
use pairloom_tables as tables;

/// Name of the function.
pub(super) const NAME: &str = "epoch_order";

/// Table function over a store. Without a store (where only its columns are needed) it returns no rows.
#[derive(Debug)]
pub(super) struct EpochOrderFunction {
    pub catalog: Arc<StoreCatalog>,
}

impl TableFunctionImpl for EpochOrderFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let expected = "expected `epoch_order('stage', epoch)` or `epoch_order('stage', epoch, ranks)`";
        let (stage, numbers) = match args.exprs() {
            [stage, numbers @ ..] if (1..=2).contains(&numbers.len()) => (stage, numbers),
            others => return plan_err!("`epoch_order` has {} arguments, {expected}", others.len()),
        };
        let Expr::Literal(ScalarValue::Utf8(Some(stage)), _) = stage else {
            return plan_err!("the stage of `epoch_order` is `{stage}`, {expected}, with the stage in single quotes");
        };
        let mut values = Vec::new();
        for number in numbers {
            match number {
                Expr::Literal(ScalarValue::Int64(Some(value)), _) if *value >= 0 => values.push(value.unsigned_abs()),
                Expr::Literal(value, _) => return plan_err!("`{value}` is not a whole number from 0, {expected}"),
                other => return plan_err!("`{other}` is not a whole number from 0, {expected}"),
            }
        }
        let (epoch, ranks) = (values[0], values.get(1).copied().unwrap_or(1));
        if u32::try_from(epoch).is_err() {
            return plan_err!("epoch {epoch}, expected one below 2^32");
        }
        let batch = self.rows(stage, epoch, ranks).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

/// Columns copied from the table `samples`.
const OF_SAMPLES: [&str; 6] = ["data_set", "sample", "caption_id", "image_id", "shard", "row"];

/// Columns of the result.
fn schema() -> SchemaRef {
    let columns = ["epoch", "position", "batch", "rank"].into_iter().chain(OF_SAMPLES);
    Arc::new(Schema::new(columns.map(|name| Field::new(name, DataType::Int64, false)).collect::<Vec<_>>()))
}

impl EpochOrderFunction {
    fn rows(&self, stage: &str, epoch: u64, ranks: u64) -> Result<RecordBatch> {
        let catalog = &self.catalog;
        if catalog.store().is_none() {
            return Ok(RecordBatch::new_empty(schema()));
        }
        let read = |table: &str| -> Result<RecordBatch> {
            let Some((artefact, manifest)) = catalog.artefact_of(stage)? else {
                return Err(names::error(catalog, &TableReference::partial(stage, table))?);
            };
            let Some(parts) = manifest.tables.get(table) else {
                return Err(
                    Error::usage(format!("stage `{stage}` has no table `{table}`")).hint("name a stage that trains")
                );
            };
            let batches: Result<Vec<_>> = parts
                .iter()
                .map(|part| {
                    let name = Artefact::part_name(table, part.index);
                    parquet::decode_whole(artefact.read(&name, part.bytes, &part.digest)?)
                })
                .collect();
            let batches = batches?;
            let schema = batches.first().map(RecordBatch::schema);
            let schema = schema.ok_or_else(|| Error::data(format!("`{stage}.{table}` has no parts")))?;
            Ok(concat_batches(&schema, &batches)?)
        };
        let (sets, samples) = (read("data_order")?, read("samples")?);
        let order = data_order(&sets, &samples)?;
        epoch_rows(&order, &samples, epoch, ranks)
    }
}

/// Order of all epochs, rebuilt from the tables `data_order` and `samples`.
fn data_order(sets: &RecordBatch, samples: &RecordBatch) -> Result<DataOrder> {
    let (set_of, shard_of) = (tables::int_column(samples, "data_set")?, tables::int_column(samples, "shard")?);
    let weights = tables::float_column(sets, "weight")?;
    let mut data_sets: Vec<DataSet> =
        weights.values().iter().map(|&weight| DataSet { shards: vec![], weight }).collect();
    let mut last = None;
    for (&set, &shard) in set_of.values().iter().zip(shard_of.values()) {
        let data_set = usize::try_from(set).ok().and_then(|set| data_sets.get_mut(set));
        let shards = &mut data_set
            .ok_or_else(|| Error::data(format!("a sample of data set {set}, which is not in `data_order`")))?
            .shards;
        match shards.last_mut() {
            Some(count) if last == Some((set, shard)) => *count += 1,
            _ => shards.push(1),
        }
        last = Some((set, shard));
    }
    let window = sets.column_by_name("window").and_then(|column| column.as_primitive_opt::<Int64Type>().cloned());
    let shuffle = match window {
        Some(window) if !window.is_empty() && window.is_valid(0) => Shuffle::Windows(size(window.value(0))?),
        _ => Shuffle::Global,
    };
    let first = |name: &str| -> Result<i64> {
        let column = tables::int_column(sets, name)?;
        if column.is_empty() { Err(Error::data("`data_order` has no row")) } else { Ok(column.value(0)) }
    };
    let (batch, seed) = (size(first("batch_size")?)?, first("seed")?.cast_unsigned());
    DataOrder::new(&data_sets, shuffle, seed, batch).map_err(Error::data)
}

fn epoch_rows(data_order: &DataOrder, samples: &RecordBatch, epoch: u64, ranks: u64) -> Result<RecordBatch> {
    let ranks = usize::try_from(ranks).ok().filter(|ranks| (1..=data_order.batch_positions(0).len()).contains(ranks));
    let ranks = ranks.ok_or_else(|| {
        Error::usage(format!(
            "expected 1 to {} ranks, at most the samples of a batch",
            data_order.batch_positions(0).len()
        ))
    })?;
    let mut starts = vec![0];
    let sets = tables::int_column(samples, "data_set")?.values();
    starts.extend((1..sets.len()).filter(|&row| sets[row] != sets[row - 1]));
    let (mut positions, mut batches, mut of_rank) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = Vec::with_capacity(data_order.position_count());
    let order = data_order.epoch(epoch);
    for b in 0..data_order.batch_count() {
        let batch = data_order.batch_positions(b);
        for rank in 0..ranks {
            let share = rank_share(batch.len(), rank, ranks);
            for position in batch.start + share.start..batch.start + share.end {
                positions.push(position.saturating_as::<i64>());
                batches.push(b.saturating_as::<i64>());
                of_rank.push(rank.saturating_as::<i64>());
            }
        }
        rows.extend(order.samples(batch).map(|sample| starts[sample.data_set] + sample.index));
    }
    let epochs = vec![epoch.saturating_as::<i64>(); rows.len()];
    let mut columns =
        BTreeMap::from([("epoch", epochs), ("position", positions), ("batch", batches), ("rank", of_rank)]);
    for name in OF_SAMPLES {
        let column = tables::int_column(samples, name)?.values();
        columns.insert(name, rows.iter().map(|&row| column[row]).collect());
    }
    let schema = schema();
    let in_order = schema.fields().iter().map(|field| columns.remove(field.name().as_str()).unwrap_or_default());
    let in_order = in_order.map(|column| Arc::new(Int64Array::from(column)) as ArrayRef).collect();
    tables::batch(&schema, in_order)
}

fn size(number: i64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::data(format!("`data_order` holds {number}, expected a number from 0")))
}
