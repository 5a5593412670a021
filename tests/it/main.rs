//! The integration tests, as one program so that libtorch and DataFusion are linked once.

mod cli; // The command line, as people and scripts meet it.
mod recovery; // Runs that are killed, interrupted, or run out of disk.
mod support; // What these share.
