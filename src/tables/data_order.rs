//! `data_order`: parameters that determine the order of training samples in every epoch.

use arrow::array::{Float64Array, Int64Array};

use super::Nullable;
use super::column::table;

table! {
    /// One row per data set: the parameters that determine the order of `samples` in every epoch. The SQL function
    /// `epoch_order('stage', epoch, ranks)` returns the order itself.
    "data_order" {
        /// Number of the data set, from 0.
        data_set: Int64Array,
        /// Number of training samples of the data set.
        samples: Int64Array,
        /// Number of shards that hold the samples.
        shards: Int64Array,
        /// Sampling weight. The data set's share of an epoch is its weight over the sum of all weights.
        weight: Float64Array,
        /// Number of shards that are shuffled together; missing if all samples are shuffled together.
        window: Nullable<Int64Array>,
        /// Number of samples of a batch, over all ranks.
        batch_size: Int64Array,
        /// Seed of the shuffling, as a signed 64-bit integer.
        seed: Int64Array,
    }
}
