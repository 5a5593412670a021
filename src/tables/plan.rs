//! `plan`: what the order of the epochs of a training follows from, together with its `samples`.

use arrow::array::{Float64Array, Int64Array};

use super::Optional;
use super::values::table;

table! {
    /// One row a data set: what the order of every epoch follows from, together with `samples`. `epoch_plan('stage',
    /// epoch, ranks)` gives the order itself.
    "plan" {
        /// The data set, from 0.
        data_set: Int64Array,
        /// Its training samples.
        samples: Int64Array,
        /// Shards that hold them.
        shards: Int64Array,
        /// Its share of an epoch is this over the sum of all weights.
        weight: Float64Array,
        /// Shards that are shuffled together; missing where all samples are.
        window: Optional<Int64Array>,
        /// Samples of a batch, over all ranks.
        batch: Int64Array,
        /// The seed, as a signed number of 64 bits.
        seed: Int64Array,
    }
}
