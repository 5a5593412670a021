//! Command line: one file for each subcommand, and everything that is printed.
//!
//! stdout carries data (tables, JSON, events), stderr everything else.

pub mod args;
pub mod start;
pub mod units;
pub mod schemas;
mod check;
mod completions;
mod expectations;
mod gc;
mod handover;
mod interrupt;
mod open;
mod console;
mod plan;
mod progress;
mod ranks;
mod report;
mod run;
mod runs;
mod query_output;
mod schema;
mod shell;
mod sql;
mod summary;
mod tensorboard;
mod torch;

pub use ranks::TorchRendezvous;
pub use start::main;
pub use torch::TorchFunctions;
