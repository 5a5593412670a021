//! Text of single values: in full for CSV, and shortened for the formats `table` and `vertical`.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use pairloom_base::error::{Result, escape_control};

/// Maximum length of a list that is shown in full.
const SHOWN_IN_FULL: usize = 10;
/// Number of values shown of a longer list.
const SHOWN_VALUES: usize = 3;
/// Significant digits of a float that is shown.
const SIGNIFICANT_DIGITS: i32 = 6;

/// Shortened text of all values of a batch, row by row.
///
/// Floats are rounded to six significant digits, lists of more than ten values are shortened, binary values are counted,
/// and control characters are escaped.
pub(super) fn display_rows(batch: &RecordBatch) -> Result<Vec<Vec<String>>> {
    let options = FormatOptions::default();
    let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let formatters = formatters.collect::<Result<Vec<_>, _>>()?;
    let row_texts = |row: usize| {
        let cells = batch.columns().iter().zip(&formatters);
        cells.map(|(column, plain)| Ok(escape_control(&display_text(column, row, plain)?))).collect()
    };
    (0..batch.num_rows()).map(row_texts).collect()
}

/// Shortened text of a value.
fn display_text(column: &ArrayRef, row: usize, plain: &ArrayFormatter<'_>) -> Result<String> {
    if column.is_null(row) || column.data_type().is_null() {
        return Ok("NULL".to_owned());
    }
    let values = match column.data_type() {
        DataType::Float16 => {
            return Ok(rounded_text(f64::from(f32::from(column.as_primitive::<Float16Type>().value(row)))));
        }
        DataType::Float32 => return Ok(rounded_text(f64::from(column.as_primitive::<Float32Type>().value(row)))),
        DataType::Float64 => return Ok(rounded_text(column.as_primitive::<Float64Type>().value(row))),
        DataType::Binary => return Ok(format!("{} bytes", column.as_binary::<i32>().value(row).len())),
        DataType::LargeBinary => return Ok(format!("{} bytes", column.as_binary::<i64>().value(row).len())),
        DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        _ => return full_text(plain, row),
    };
    let is_vectors = matches!(values.data_type(), DataType::FixedSizeList(..));
    let shown = match values.len() {
        len if len <= SHOWN_IN_FULL && !is_vectors => len,
        _ if is_vectors => 1,
        _ => SHOWN_VALUES,
    };
    let options = FormatOptions::default();
    let plain = ArrayFormatter::try_new(&values, &options)?;
    let mut texts: Vec<String> =
        (0..shown.min(values.len())).map(|value| display_text(&values, value, &plain)).collect::<Result<_>>()?;
    if shown < values.len() {
        texts.push(format!("… {} values", values.len()));
    }
    Ok(format!("[{}]", texts.join(", ")))
}

/// Text of a value in full.
pub(super) fn full_text(formatter: &ArrayFormatter<'_>, row: usize) -> Result<String> {
    Ok(formatter.value(row).try_to_string()?)
}

/// Number rounded to six significant digits. Digits before the decimal point are never dropped.
fn rounded_text(x: f64) -> String {
    if !x.is_finite() || x == 0.0 {
        return format!("{x:?}");
    }
    // The exponent of the rounded number in scientific notation, so that 999999.6 counts as 1e6.
    let scientific = format!("{x:.5e}");
    let exponent: i32 = scientific.rsplit('e').next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let decimals = SIGNIFICANT_DIGITS - 1 - exponent;
    match usize::try_from(decimals) {
        // Debug formatting of the shortest number keeps `.0`, and writes very small ones as `1.5e-7`.
        Ok(_) if exponent < 0 => scientific.parse().map_or(scientific, |rounded: f64| format!("{rounded:?}")),
        Ok(decimals) if decimals > 0 => {
            let text = format!("{x:.decimals$}");
            text.parse().map_or(text, |rounded: f64| format!("{rounded:?}"))
        }
        _ if x.fract() == 0.0 || x.abs() >= 1e15 => format!("{x:?}"),
        _ => format!("{x:.0}"),
    }
}

/// Returns true if the values of a type are aligned to the right.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_six_significant_digits_and_keep_their_size() {
        for (x, shown) in [
            (345.5, "345.5"),
            (100.0, "100.0"),
            (0.123_456_789, "0.123457"),
            (23.302_482_595_222, "23.3025"),
            (-1.0 / 3.0, "-0.333333"),
            (99_999.96, "100000"),
            (999_999.6, "1000000"),
            (123_456.7, "123457"),
            (123_456_789.12, "123456789"),
            (123_456_789.0, "123456789.0"),
            (1.0e-7 / 3.0, "3.33333e-8"),
            (0.000_01, "1e-5"),
            (1e300, "1e300"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::from(0.1_f32), "0.1"),
        ] {
            assert_eq!(rounded_text(x), shown, "{x}");
        }
    }
}
