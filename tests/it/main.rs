//! The integration tests, as one program so that libtorch and DataFusion are linked once.

#![expect(clippy::unwrap_used, reason = "clippy takes helpers of tests for ordinary functions")]

mod cli; // The command line, as people and scripts meet it.
mod contract; // What every stage promises the engine.
mod pipelines; // The pipelines that people start from, run for real.
mod embeddings; // Vectors of other programs, from files to recalls.
mod recovery; // Real runs that are killed, interrupted, or run out of disk.
mod streaming; // Ranks as real processes that are killed.
mod tensorboard; // What TensorBoard is given of trainings.
mod ranks; // Trainings of several ranks, as real processes that are killed.
mod remote; // Stores at URLs, on a real S3 server.
mod s3; // That server, and a proxy that makes trouble.
mod layers; // Which module may use which.
mod cycles; // No files of a module need each other.
mod identities; // No name of kept results is made of `Debug`.
mod docs; // Every file says what it is; every file that a document names is there.
mod source; // Reading the checkout and its Rust code, for the four above.
mod support; // What several of these share.
