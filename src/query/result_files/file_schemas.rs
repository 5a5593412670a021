//! Columns of the files of several results.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, stream};

use crate::errors::sql_error;
use pairloom_base::error::{Error, Result};
use pairloom_store::{Manifest, Store};

/// First file of each result, in groups of results of the same stage, version and settings, in the order of the results.
pub(crate) fn first_files<'f, 'm>(
    manifests: impl IntoIterator<Item = &'m Manifest>,
    files: &'f [Vec<PartitionedFile>],
) -> Vec<Vec<&'f PartitionedFile>> {
    let mut groups: Vec<Vec<&PartitionedFile>> = Vec::new();
    let mut places: HashMap<(&str, u32, String), usize> = HashMap::new();
    for (manifest, files) in manifests.into_iter().zip(files) {
        let identity = &manifest.identity;
        let place = places.entry((&identity.kind, identity.version, identity.settings.to_string()));
        let place = *place.or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].extend(files.first());
    }
    groups
}

/// Columns of the files of each group.
///
/// Files of a group have the same columns, up to the width of vectors, which depends on inputs too. So one file of a
/// group is read, or all of them if the table has vectors.
pub(crate) async fn file_schemas(
    store: &Store,
    groups: Vec<Vec<&PartitionedFile>>,
    context: &SessionContext,
) -> Result<Vec<SchemaRef>> {
    let first = groups.iter().filter_map(|group| group.first().copied());
    let mut schemas = infer_schemas(store, first, context).await?;
    let fields = schemas.iter().flat_map(|schema| schema.fields());
    if fields.into_iter().any(|field| matches!(field.data_type(), DataType::FixedSizeList(..))) {
        let others = groups.iter().flat_map(|group| group.iter().skip(1).copied());
        schemas.extend(infer_schemas(store, others, context).await?);
    }
    Ok(schemas)
}

/// Distinct columns of files.
async fn infer_schemas(
    store: &Store,
    files: impl Iterator<Item = &PartitionedFile>,
    context: &SessionContext,
) -> Result<Vec<SchemaRef>> {
    let format = ParquetFormat::default().with_force_view_types(false);
    let (state, objects) = (context.state(), store.verified_objects());
    let mut schemas: Vec<SchemaRef> = Vec::new();
    // Several at a time: at a URL, each file is a request.
    let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
    let infer = |file: &'_ PartitionedFile| {
        let file = file.object_meta.clone();
        let (format, state, objects) = (&format, &state, &objects);
        async move { format.infer_schema(state, objects, &[file]).await }
    };
    let mut inferred = stream::iter(files.map(infer)).buffered(concurrency);
    while let Some(schema) = inferred.next().await {
        let schema = schema.map_err(|error| sql_error(&error))?;
        if !schemas.contains(&schema) {
            schemas.push(schema);
        }
    }
    drop(inferred);
    Ok(schemas)
}

/// Columns of all schemas, each nullable; `None` without a schema. Vectors of several widths become lists.
pub(crate) fn merge_schemas(table: &str, schemas: &[SchemaRef]) -> Result<Option<SchemaRef>> {
    let mut fields: Vec<Field> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for field in schemas.iter().flat_map(|schema| schema.fields()) {
        let Some(&place) = places.get(field.name().as_str()) else {
            places.insert(field.name(), fields.len());
            fields.push(Field::new(field.name(), field.data_type().clone(), true));
            continue;
        };
        let merged = merge_types(fields[place].data_type(), field.data_type()).ok_or_else(|| {
            let (name, one, other) = (field.name(), fields[place].data_type(), field.data_type());
            Error::usage(format!("SQL: results with the table `{table}` have the column `{name}` as {one} and {other}"))
                .hint("query the runs one by one: `--run RUN`")
        })?;
        fields[place] = Field::new(field.name(), merged, true);
    }
    Ok((!schemas.is_empty()).then(|| Arc::new(Schema::new(fields)) as SchemaRef))
}

/// Type that holds the values of both types.
fn merge_types(one: &DataType, other: &DataType) -> Option<DataType> {
    let item = |of: &DataType| match of {
        DataType::FixedSizeList(item, _) | DataType::List(item) => Some(Arc::clone(item)),
        _ => None,
    };
    if one == other {
        return Some(one.clone());
    }
    match (item(one), item(other)) {
        (Some(a), Some(b)) if a.data_type() == b.data_type() => Some(DataType::List(a)),
        (None, None) if one.is_numeric() && other.is_numeric() => Some(DataType::Float64),
        _ => None,
    }
}
