//! Documentation of the functions on vectors.

use datafusion::logical_expr::{DocSection, Documentation};

/// Section of the documentation.
const SECTION: DocSection = DocSection { include: true, label: "Vector Functions", description: None };

/// Documentation of a function, for `SHOW FUNCTIONS`.
pub(super) fn documentation(description: &str, syntax: &str) -> Documentation {
    Documentation::builder(SECTION, description, syntax).build()
}
