//! The contract between stages and the engine. They share nothing else.
//!
//! A stage is its settings: plain data from a pipeline file ([`Stage`]). Running it is a function ([`RunStage`]) that the
//! program passes to the engine, so that planning, checking and querying need not link what running needs (libtorch). A
//! stage without tensors has its function beside its settings ([`RunnableStage`]). A running stage sees its
//! [`StageContext`] and nothing else.
//!
//! # Obligations of a stage
//! - The same settings and inputs give the same rows, in the same order, in every run. After a crash the engine may
//!   call `run` again; it then drops the rows that are already committed.
//! - A stage reads and writes through its [`StageContext`] only and has no other side effects.
//! - A stage calls its [`StageContext`] often enough to be cancelled. After a cancellation every call fails with
//!   [`ErrorCategory::Interrupted`](pairloom_base::error::ErrorCategory), and the stage returns that error.

mod facts;
pub mod flat_settings;
mod instance;
mod lineage;
mod reference;
mod row_keys;
mod traits;
mod context;
pub mod plan;

pub use context::{
    MapBlock, MapFn, MapInput, MapOutput, MapSummary, MappedRows, Progress, StageContext, StageEvent, StageHost,
    TrainedStep, ValidationScores, Warning,
};
pub use facts::{KnownFacts, OutputFact};
pub use instance::{
    Coordinate, INSTANCE_SIGN, coordinate_texts, has_coordinates, has_same_coordinates, instance_name,
    is_instance_character, matches_glob, names_of_instances, stage_of_instance, value_text,
};
pub use lineage::{AncestorArtefact, AncestorInput, StageLineage};
pub use pairloom_base::error::Problem;
pub use reference::{SourceOrUrl, SourceRef, TableRef, bucket_url, is_url};
pub use row_keys::{
    CopiedRows, EarlierPart, EarlierRows, FileKeys, FoundRows, PartKey, RowKey, RowKeys, SharedEarlierRows, object_key,
};
pub use traits::{
    InputOrigin, OutputKind, RequiredValues, RunStage, RunnableStage, Stage, StageInput, StageOutput, input,
    missing_columns,
};
