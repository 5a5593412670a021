//! Inputs that a join may read once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;

use crate::pass_through::{PassThroughExec, ReadInput};

/// Operator with the rows of its input, which refuses to give them twice.
pub(super) type ReadOnceExec = PassThroughExec<ReadOnce>;

/// Returns the operator over `input`.
pub(super) fn read_once(input: Arc<dyn ExecutionPlan>) -> ReadOnceExec {
    let reader = ReadOnce::new(&input);
    PassThroughExec::new(input, reader)
}

/// Record of the partitions that were read.
#[derive(Debug)]
pub(super) struct ReadOnce {
    is_read: Vec<AtomicBool>,
}

impl ReadOnce {
    fn new(input: &Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.properties().partitioning.partition_count();
        Self { is_read: (0..partitions).map(|_| AtomicBool::new(false)).collect() }
    }
}

impl ReadInput for ReadOnce {
    const NAME: &'static str = "ReadOnceExec";

    fn of_other(&self, input: &Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input)
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if self.is_read[partition].swap(true, Ordering::Relaxed) {
            return Err(DataFusionError::ResourcesExhausted(
                "the smaller side of a join without an equality does not fit into the memory of a query".to_owned(),
            ));
        }
        input.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;
    use futures::executor::block_on;

    use crate::{QueryOptions, Session};
    use pairloom_base::error::Result;

    use super::*;

    #[test]
    fn a_join_that_does_not_fit_into_its_memory_is_an_error() {
        let session = Arc::new(Session::of_empty_tables([]).unwrap());
        let count = |rows: u64| -> Result<i64> {
            let pairs = format!(
                "SELECT count(*) FROM range(0, {rows}) a JOIN range(0, {rows}) b ON a.value < b.value - {}",
                rows - 2
            );
            let options = QueryOptions { memory: Some(8 << 20), ..QueryOptions::default() };
            block_on(async {
                let mut stream = session.run(&pairs, options, ()).await?;
                let batch = stream.next().await.expect("a row")?;
                Ok(batch.column(0).as_primitive::<Int64Type>().value(0))
            })
        };
        assert_eq!(count(1_000).unwrap(), 1);
        // 16 MB a side.
        let message = count(2_000_000).unwrap_err().to_string();
        assert!(message.contains("join without an equality"), "{message}");
    }
}
