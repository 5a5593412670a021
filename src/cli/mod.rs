//! The command line: one file for each subcommand, and everything that people see.
//!
//! stdout carries data (tables, JSON, events), stderr everything else.

pub mod args;
pub mod start;
pub mod bytes;
pub mod schemas;
mod check;
mod completions;
mod expect;
mod gc;
mod handover;
mod interrupt;
mod open;
mod output;
mod plan;
mod progress;
mod ranks;
mod report;
mod run;
mod runs;
mod schema;
mod sql;
mod summary;
mod tensorboard;
mod torch;

pub use ranks::TorchBoards;
pub use start::main;
pub use torch::Torch;
