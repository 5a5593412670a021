//! `pairloom schema`.

use super::output::Output;
use super::schemas;
use crate::error::Result;

/// Prints the JSON Schema of pipeline files.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn schema(output: Output) -> Result<()> {
    output.data(&schemas::pipeline())
}
