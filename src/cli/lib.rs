//! Command line: one file for each subcommand, and everything that is printed.
//!
//! stdout carries data (tables, JSON, events), stderr everything else.

pub mod args;
pub mod start;
pub mod units;
pub mod sql_requests;
pub mod serve_args;
pub mod cluster_args;
pub mod run_choice_args;
pub mod run_choice;
pub mod output_file;
pub mod open;
pub mod interrupt;
pub mod console;
pub mod schemas;
mod check;
mod completions;
mod diff;
mod expectations;
mod export;
mod export_args;
mod gc;
mod instance_groups;
mod labels;
mod lineage_tree;
mod plan;
mod program;
mod progress;
mod ranks;
mod report;
mod run;
mod run_scores;
mod run_texts;
mod runs;
mod schema;
mod setting_filter;
mod show;
mod section_runner;
mod siblings;
mod sql_child;
mod stored_table;
mod table_value;
mod summary;
mod tensorboard;
mod torch;
mod training_settings;
mod trec;
mod usage;
mod verify;

pub use program::{Program, SqlFunctions};
pub use siblings::{check_build, not_built};
pub use start::main;
pub use torch::TorchFunctions;
