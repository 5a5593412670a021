//! Order in which the rows of a query are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::UInt64Array;
use arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// Function without arguments whose value is larger in each row than in those that were read before.
///
/// It orders rows with equal measures as `topk` does. Queries cannot call it: it is not in the list of a session.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ReadOrder {
    signature: Signature,
}

/// Number of the next row. One for all queries, since only the order counts.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl ReadOrder {
    /// The function.
    #[must_use]
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { signature: Signature::nullary(Volatility::Volatile) }))
    }
}

impl ScalarUDFImpl for ReadOrder {
    fn name(&self) -> &'static str {
        "__read_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !args.args.is_empty() {
            return exec_err!("`{}` has {} arguments, wanted none", self.name(), args.args.len());
        }
        let rows = args.number_rows as u64;
        let first = NEXT.fetch_add(rows, Ordering::Relaxed);
        Ok(ColumnarValue::Array(Arc::new(UInt64Array::from_iter_values(first..first + rows))))
    }
}
