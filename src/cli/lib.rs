//! Command line: one file for each subcommand, and everything that is printed.
//!
//! stdout carries data (tables, JSON, events), stderr everything else.

pub mod args;
pub mod start;
pub mod units;
pub mod sql_requests;
pub mod run_choice;
pub mod open;
pub mod interrupt;
pub mod console;
mod schemas;
#[cfg(test)]
mod reference;
mod check;
mod diff;
mod expectations;
mod export;
mod gc;
mod init;
mod labels;
mod plan;
mod progress;
mod ranks;
mod report;
mod recall_table;
mod run;
mod run_texts;
mod runs;
mod show;
mod siblings;
mod tensorboard;
mod trec;
mod verify;

pub use siblings::{check_build, not_built};
pub use start::{Program, SqlFunctions, TorchFunctions, main};
