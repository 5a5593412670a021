//! The part of the program that needs libtorch.

use crate::engine::event::Observer;
use crate::engine::ranks::{Boards, Place};
use crate::engine::run::{Options, Summary};
use crate::error::Result;
use crate::plan::Plan;
use crate::runtime::Cancel;
use crate::stages::AnyStage;
use crate::store::Store;

/// The stages as they run, which needs libtorch. A program that does not name it does not link libtorch.
#[derive(Debug, Clone, Copy)]
pub struct Torch {
    /// Runs stages: [`crate::engine::run::execute`].
    pub execute: Execute,
    /// Runs them for another process: [`crate::engine::ranks::follow`].
    pub follow: Follow,
    /// How processes reach each other: [`super::TorchBoards`].
    pub boards: &'static dyn Boards,
}

type Execute = fn(&Plan<AnyStage>, &Store, &Options, &Cancel, &Observer<'_>) -> Result<Summary>;
type Follow = fn(&Plan<AnyStage>, &Store, &Options, &Place, &Cancel) -> Result<()>;
