//! The integration tests, as one program so that libtorch and DataFusion are linked once.

mod layers; // Which module may use which.
mod docs; // Every file says what it is; every file that a document names is there.
mod source; // Reading the checkout and its Rust code, for the two above.
