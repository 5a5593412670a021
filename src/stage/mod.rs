//! The contract between stages and the engine. Nothing else is shared between them.
//!
//! A stage is its settings: plain data that came out of a pipeline file ([`Stage`]). What it does is a second trait
//! ([`Run`]), so that planning, checking and querying need not link what running needs (libtorch).
//! While it runs, a stage sees one thing of the world: its [`Cx`].
//!
//! # What a stage promises
//! - The same settings and inputs give the same rows, in the same order, on every run: the engine may start `run` again
//!   after a crash and then drops the rows that are already committed.
//! - It reads through [`Cx`], writes through [`Cx`], and does nothing else to the world.
//! - It calls [`Cx`] often enough to be cancelled: every call fails with [`Kind::Interrupted`](crate::error::Kind) after
//!   a cancellation, and the error is simply passed on.

mod columns;
mod event;
mod input;
mod map;
mod output;
mod reference;
mod traits;
mod world;

pub use crate::error::Problem;
pub use columns::missing_columns;
pub use event::{Progress, StageEvent, Warning};
pub use input::{Input, Origin, input};
pub use map::{Block, MapFn, Mapped, Over};
pub use output::{Form, Output};
pub use reference::{Source, TableRef};
pub use traits::{Run, Stage};
pub use world::{Cx, World};
