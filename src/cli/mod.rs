//! Command line: one file for each subcommand, and everything that is printed.
//!
//! stdout carries data (tables, JSON, events), stderr everything else.

pub mod args;
pub mod start;
pub mod units;
pub mod schemas;
mod check;
mod cluster;
mod cluster_args;
mod completions;
mod diff;
mod expectations;
mod export;
mod export_args;
mod gc;
mod handover;
mod instance_groups;
mod labels;
mod lineage_tree;
mod interrupt;
mod open;
mod console;
mod plan;
mod progress;
mod ranks;
mod report;
mod run;
mod run_choice;
mod run_choice_args;
mod run_scores;
mod run_texts;
mod runs;
mod query_output;
mod schema;
mod serve;
mod serve_args;
mod setting_filter;
mod shell;
mod show;
mod sql;
mod stored_table;
mod summary;
mod tensorboard;
mod torch;
mod training_settings;
mod trec;
mod usage;
mod verify;

pub use start::main;
pub use torch::TorchFunctions;
