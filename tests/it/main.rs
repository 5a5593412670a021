//! Integration tests, in one program so that libtorch and DataFusion are linked once.

#![expect(clippy::unwrap_used, reason = "clippy does not recognise helper functions of tests")]

mod cli; // The command line.
mod hostile_queries; // Queries and expectations that would end the process, or be run in part.
mod hostile_files; // Tables that would end the process that reads them.
mod stored_results; // Results that are damaged or removed, their provenance, and names that control a terminal.
mod store_versions; // Stores of other builds, and changed records.
mod contract; // The contract between stages and engine.
mod pipelines; // The pipelines in `pipelines/`.
mod region_pipelines; // Those of models over regions.
mod papers; // The tables of the papers beside the printed rows.
mod earlier_images; // Features that are copied from earlier results.
mod bucket_images; // Images that are read from a bucket.
mod embeddings; // Evaluation of embeddings from files.
mod qrels; // Relevance judgements and TREC runs.
mod recovery; // Runs that are interrupted, damaged, or out of disk space.
mod kills; // Runs and trainings that are killed at random times.
mod faults; // Runs whose calls of the file system fail.
mod streaming; // Data loading by several processes that are killed; the order of epochs in SQL.
mod export; // Files for other programs.
mod tensorboard; // TensorBoard event files of trainings.
mod ranks; // Distributed trainings, with processes that are killed.
mod remote; // Stores at URLs, on an S3 server.
mod flight; // The Flight SQL server, with a client in Python.
mod cluster; // Clusters, with executors that are killed.
mod cluster_queries; // Queries on a cluster whose executors are killed, and limits of queries.
mod sql_answers; // Queries of `tests/sql/`, with DuckDB.
mod s3; // The S3 server, and a proxy that injects faults.
mod identities; // No identity of a cached result is made of `Debug` output.
mod notice; // Code of other languages in the program, and the file that names it.
mod docs; // Every file says what it is; every link and every file that a document names is there.
mod book; // Blocks of code of the README and the book.
mod markdown; // Documents, for the two above.
mod source; // Files of the checkout, for the rules above.
mod support; // Helpers of several of these.
