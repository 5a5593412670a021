//! `pairloom schema`: JSON Schema of pipeline files.

use super::console::Console;
use super::schemas;
use pairloom_base::error::Result;

/// Prints the JSON Schema of pipeline files.
///
/// # Errors
/// stdout cannot be written.
pub(super) fn schema(console: Console) -> Result<()> {
    console.print(&schemas::pipeline_schema())
}
