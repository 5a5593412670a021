//! Types to which a query may cast.

use arrow::array::timezone::Tz;
use arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

/// Largest size of a value of a type of fixed size to which a query casts: a gibibyte for a batch of 8,192 rows.
const MAX_FIXED_BYTES: u64 = 128 << 10;

/// Number of values of a list that are counted for a value of fixed size in it, as no type says how many there are.
const LISTED: u64 = 1_024;

/// Refuses an expression that is a cast to a type of fixed size whose batch of values would fill the memory, or to an unknown
/// time zone, at which the library panics.
///
/// # Errors
/// A value has more than 128 KiB, or the time zone is unknown.
pub(super) fn check_cast(expression: &Expr) -> Result<()> {
    let kind = match expression {
        Expr::Cast(cast) => cast.field.data_type().clone(),
        Expr::TryCast(cast) => cast.field.data_type().clone(),
        Expr::ScalarFunction(call) if matches!(call.name(), "arrow_cast" | "arrow_try_cast") => {
            let kind = call.args.get(1).and_then(Expr::as_literal).and_then(|literal| literal.try_as_str().flatten());
            let Some(kind) = kind.and_then(|kind| kind.parse().ok()) else { return Ok(()) };
            kind
        }
        _ => return Ok(()),
    };
    if let DataType::Timestamp(_, Some(zone)) = &kind
        && zone.parse::<Tz>().is_err()
    {
        return plan_err!("unknown time zone `{zone}` in a cast");
    }
    let size = fixed_size(&kind);
    if size <= MAX_FIXED_BYTES {
        return Ok(());
    }
    plan_err!("a value of the type of a cast has {size} bytes, wanted at most {MAX_FIXED_BYTES}")
}

/// Bytes of a value of a type that has the same number of values or bytes in each row.
fn fixed_size(kind: &DataType) -> u64 {
    match kind {
        DataType::FixedSizeList(field, length) => {
            u64::try_from(*length).unwrap_or(0).saturating_mul(fixed_size(field.data_type()))
        }
        DataType::FixedSizeBinary(bytes) => u64::try_from(*bytes).unwrap_or(0),
        DataType::Struct(fields) => {
            fields.iter().map(|field| fixed_size(field.data_type())).fold(0, u64::saturating_add)
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => match field.data_type() {
            kind if has_fixed(kind) => fixed_size(kind).saturating_mul(LISTED),
            _ => size_of::<u128>() as u64,
        },
        kind => kind.primitive_width().unwrap_or(size_of::<u128>()) as u64,
    }
}

/// True for a type with a part of fixed size that its file or query chooses.
fn has_fixed(kind: &DataType) -> bool {
    match kind {
        DataType::FixedSizeList(..) | DataType::FixedSizeBinary(_) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_fixed(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => has_fixed(field.data_type()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::text;
    use crate::{OutputFormat, Session};
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn casts_to_large_values_of_fixed_size_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let run = |sql: &str| text(&session, sql, OutputFormat::Csv);
        for sql in [
            "SELECT arrow_cast([1, 2], 'FixedSizeList(2147483647, Int64)')",
            "SELECT count(arrow_cast([value], 'FixedSizeList(1000000, Int64)')) FROM range(0, 9)",
            "SELECT [1, 2]::BIGINT[2147483647]",
            "SELECT TRY_CAST([1, 2] AS BIGINT[2147483647])",
            "SELECT arrow_cast('a', 'FixedSizeBinary(2147483647)')",
            "SELECT (SELECT arrow_cast([[1]], 'List(FixedSizeList(100000, Int64))'))",
            "SELECT 1 FROM range(0, 9) ORDER BY [value]::BIGINT[100000]",
            "SELECT arrow_cast([[1], [2]], 'List(FixedSizeList(16000, Int64))')",
            "SELECT arrow_try_cast([['a']], 'List(LargeList(FixedSizeBinary(5)))')",
        ] {
            let error = run(sql).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Usage, "{sql}: {error}");
            assert!(error.to_string().contains("bytes, wanted at most 131072"), "{sql}: {error}");
        }
        assert_eq!(run("SELECT arrow_cast([1, 2], 'FixedSizeList(2, Float32)') AS v").unwrap(), "v\n\"[1.0, 2.0]\"\n");
        run("SELECT array_length([1, 2]::BIGINT[2]), [['a']]::TEXT[][], arrow_cast([[1, 2]], 'List(FixedSizeList(2, Int8))')")
            .unwrap();
        let error = run("SELECT [arrow_cast(0, 'Timestamp(Millisecond, Some(\"Nix/Da\"))')]").unwrap_err();
        assert!(error.to_string().contains("unknown time zone `Nix/Da` in a cast"), "{error}");
    }
}
