//! Messages of the operator of a top-k join, for other processes.

use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion_proto::physical_plan::from_proto::parse_physical_sort_exprs;
use datafusion_proto::physical_plan::to_proto::serialize_physical_sort_exprs;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::{PhysicalExprNode, PhysicalSortExprNode};
use prost::Message;

use super::exec::TopKJoinExec;
use super::node::ListShape;
use crate::vectors::VectorMeasure;

/// Operator of a top-k join without its inputs.
#[derive(Clone, PartialEq, Message)]
struct TopKJoinMessage {
    #[prost(string, tag = "1")]
    measure: String,
    #[prost(uint64, tag = "2")]
    k: u64,
    /// Method as JSON; empty for none.
    #[prost(string, tag = "3")]
    method: String,
    #[prost(message, optional, tag = "4")]
    query_vector: Option<PhysicalExprNode>,
    #[prost(message, optional, tag = "5")]
    item_vector: Option<PhysicalExprNode>,
    #[prost(message, optional, tag = "6")]
    condition: Option<PhysicalExprNode>,
    /// Columns of the output among those of the inputs and the join, and their names.
    #[prost(uint64, repeated, tag = "7")]
    columns: Vec<u64>,
    #[prost(string, repeated, tag = "8")]
    names: Vec<String>,
    /// Vectors of the banks, which are inputs after the two others.
    #[prost(message, repeated, tag = "10")]
    bank_vectors: Vec<PhysicalExprNode>,
    #[prost(uint64, tag = "11")]
    skip: u64,
    #[prost(bool, tag = "12")]
    is_outer: bool,
    /// Order of items with equal measures.
    #[prost(message, repeated, tag = "13")]
    ties: Vec<PhysicalSortExprNode>,
    /// Names of the two vectors in messages.
    #[prost(string, repeated, tag = "14")]
    vector_names: Vec<String>,
}

/// Message of a top-k join; `None` for another operator.
///
/// # Errors
/// An expression has no message.
pub(crate) fn encode_join(
    operator: &Arc<dyn ExecutionPlan>,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Option<Vec<u8>>> {
    let Some(join) = operator.downcast_ref::<TopKJoinExec>() else { return Ok(None) };
    let encode = |expr: &Arc<dyn PhysicalExpr>| converter.physical_expr_to_proto(expr, codec);
    let external = |error: serde_json::Error| DataFusionError::External(Box::new(error));
    let message = TopKJoinMessage {
        measure: join.measure.name().to_owned(),
        k: join.shape.k as u64,
        method: join.method.as_ref().map(serde_json::to_string).transpose().map_err(external)?.unwrap_or_default(),
        query_vector: Some(encode(&join.query_vector)?),
        item_vector: Some(encode(&join.item_vector)?),
        condition: join.condition.as_ref().map(encode).transpose()?,
        columns: join.columns.iter().map(|&column| column as u64).collect(),
        names: join.schema.fields().iter().map(|field| field.name().clone()).collect(),
        bank_vectors: join.bank_vectors.iter().map(encode).collect::<Result<_>>()?,
        skip: join.shape.skip as u64,
        is_outer: join.shape.is_outer,
        ties: serialize_physical_sort_exprs(join.ties.clone(), codec, converter)?,
        vector_names: join.vector_names.iter().map(ToString::to_string).collect(),
    };
    Ok(Some(message.encode_to_vec()))
}

/// Top-k join of a message.
///
/// # Errors
/// The message is damaged, or of another version.
pub(crate) fn decode_join(
    message: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &TaskContext,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    let wrong = |what: &str| exec_err!("got a damaged message of a top-k join: {what}");
    let Ok(message) = TopKJoinMessage::decode(message) else { return wrong("it cannot be read") };
    let [queries, items, banks @ ..] = inputs else { return wrong("it has not two inputs") };
    if banks.len() != message.bank_vectors.len() {
        return wrong("a bank has no vectors");
    }
    let Some(measure) = VectorMeasure::from_name(&message.measure) else { return wrong("its measure is unknown") };
    let Ok(method) =
        Some(&message.method).filter(|text| !text.is_empty()).map(|text| serde_json::from_str(text)).transpose()
    else {
        return wrong("its method is unknown");
    };
    let (Ok(k), Ok(skip), Some(query_vector), Some(item_vector)) =
        (usize::try_from(message.k), usize::try_from(message.skip), &message.query_vector, &message.item_vector)
    else {
        return wrong("a field is missing");
    };
    let context = PhysicalPlanDecodeContext::new(context, codec);
    let query_vector = converter.proto_to_physical_expr(query_vector, &queries.schema(), &context)?;
    let item_vector = converter.proto_to_physical_expr(item_vector, &items.schema(), &context)?;
    let bank_vectors = message.bank_vectors.iter().zip(banks);
    let bank_vectors = bank_vectors
        .map(|(vector, bank)| converter.proto_to_physical_expr(vector, &bank.schema(), &context))
        .collect::<Result<_>>()?;
    let ties = parse_physical_sort_exprs(&message.ties, &context, &items.schema(), converter)?;
    let both = [Arc::clone(queries), Arc::clone(items)];
    let all = TopKJoinExec::new(both, measure, k, method, [query_vector, item_vector], None);
    let condition = message.condition.as_ref();
    let condition =
        condition.map(|condition| converter.proto_to_physical_expr(condition, &all.schema, &context)).transpose()?;
    let columns: Vec<usize> =
        message.columns.iter().map(|&column| usize::try_from(column).unwrap_or(usize::MAX)).collect();
    if columns.iter().any(|&column| column >= all.column_count()) || columns.len() != message.names.len() {
        return wrong("it has a column that is not there");
    }
    let [query_name, item_name] = &*message.vector_names else { return wrong("a vector has no name") };
    let all = all.with_banks(banks.to_vec(), bank_vectors).with_condition(condition);
    let all = all.with_vector_names([query_name, item_name].map(|name| Arc::from(name.as_str())));
    let all = all.with_ties(ties).with_shape(ListShape { k, skip, is_outer: message.is_outer });
    Ok(Arc::new(all.with_columns(columns, &message.names)))
}
