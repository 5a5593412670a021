//! Tables of the schema `store`: the store's own records, as rows.
//!
//! | table | row |
//! |---|---|
//! | `runs` | a run, with its command, labels and best score |
//! | `stages` | a stage of a run, with version and settings |
//! | `settings` | a setting of a stage of a run |
//! | `artefacts` | a complete artefact |
//! | `inputs` | an input of an artefact: a table of another artefact, or a source |
//! | `lineage` | an artefact or source that an artefact follows from, at any distance |
//! | `parts` | a part of a table of a complete artefact |
//! | `warnings` | a warning of a complete artefact, or about the settings of a stage |
//! | `expectations` | an expectation of a run |

mod artefacts;
mod columns;
mod lineage;
mod runs;
mod table;

pub(super) use table::{names, table};
