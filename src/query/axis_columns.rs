//! Columns of the axes of a matrix, beside the columns of a table of a repeated stage.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use serde_json::Value;

use pairloom_base::error::Result;
use pairloom_stage::Coordinate;
use pairloom_tables as tables;

/// Prefix of the name of an axis, if the table has a column of that name.
const PREFIX: &str = "axis_";

/// Columns of a table, then those of the axes of its instances.
pub(super) fn with_axes<'c>(own: &Schema, instances: impl IntoIterator<Item = &'c Vec<Coordinate>>) -> SchemaRef {
    let instances: Vec<&[Coordinate]> = instances.into_iter().map(Vec::as_slice).collect();
    let axes = axis_fields(own, &instances);
    Arc::new(Schema::new(own.fields().iter().cloned().chain(axes).collect::<Vec<_>>()))
}

/// Columns of the axes beside the columns `own` of a table. An axis of whole numbers is an Int64, of numbers a Float64, of
/// booleans a Boolean, and any other a text.
pub(super) fn axis_fields(own: &Schema, instances: &[&[Coordinate]]) -> Vec<FieldRef> {
    let axes = instances.first().copied().unwrap_or_default();
    let field = |(i, axis): (usize, &Coordinate)| {
        let name = if own.index_of(&axis.axis).is_ok() { format!("{PREFIX}{}", axis.axis) } else { axis.axis.clone() };
        let values = instances.iter().map(|instance| &instance[i].value);
        Arc::new(Field::new(name, data_type(values), false)) as FieldRef
    };
    axes.iter().enumerate().map(field).collect()
}

/// Coordinates of instances, one row for each, with the columns `fields`.
///
/// # Errors
/// Internal errors only.
pub(super) fn axis_batch(fields: &[FieldRef], instances: &[&[Coordinate]]) -> Result<RecordBatch> {
    let column = |(i, field): (usize, &FieldRef)| -> ArrayRef {
        let values = || instances.iter().map(|instance| &instance[i]);
        match field.data_type() {
            DataType::Int64 => Arc::new(Int64Array::from_iter(values().map(|of| of.value.as_i64()))),
            DataType::Float64 => Arc::new(Float64Array::from_iter(values().map(|of| of.value.as_f64()))),
            DataType::Boolean => Arc::new(BooleanArray::from_iter(values().map(|of| of.value.as_bool()))),
            _ => Arc::new(StringArray::from_iter_values(values().map(Coordinate::value_text))),
        }
    };
    let columns = fields.iter().enumerate().map(column).collect();
    tables::batch_of_rows(&Arc::new(Schema::new(fields.to_vec())), columns, instances.len())
}

fn data_type<'v>(values: impl Iterator<Item = &'v Value> + Clone) -> DataType {
    if values.clone().all(Value::is_i64) {
        DataType::Int64
    } else if values.clone().all(Value::is_number) {
        DataType::Float64
    } else if values.clone().all(Value::is_boolean) {
        DataType::Boolean
    } else {
        DataType::Utf8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_the_types_of_their_values() {
        let at = |values: &[Value]| -> Vec<Coordinate> {
            let names = ["row", "seed", "margin", "loss"];
            let of = names.iter().zip(values);
            of.map(|(axis, value)| Coordinate { axis: (*axis).to_owned(), value: value.clone() }).collect()
        };
        let one = at(&["1.1".into(), 1.into(), 0.5.into(), true.into()]);
        let two = at(&[2.into(), 2.into(), 1.into(), false.into()]);
        let own = Schema::new(vec![Field::new("loss", DataType::Float64, true)]);
        let fields = axis_fields(&own, &[&one, &two]);
        let shown: Vec<_> = fields.iter().map(|field| (field.name().as_str(), field.data_type().clone())).collect();
        let wanted = [
            ("row", DataType::Utf8),
            ("seed", DataType::Int64),
            ("margin", DataType::Float64),
            ("axis_loss", DataType::Boolean),
        ];
        assert_eq!(shown, wanted);
        let batch = axis_batch(&fields, &[&one, &two]).unwrap();
        let rows: Vec<String> = (0..2)
            .map(|row| {
                let text = |column| arrow::util::display::array_value_to_string(batch.column(column), row).unwrap();
                (0..4).map(text).collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(rows, ["1.1 1 0.5 true", "2 2 1.0 false"]);
        assert_eq!(with_axes(&own, [&one, &two]).fields().len(), 5);
    }
}
