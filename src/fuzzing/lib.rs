//! Parsers of bytes from outside, as functions of bytes, for fuzzing: `fuzz/` runs them under libFuzzer, and the tests here
//! run them on damaged files, the same ones each time.
//!
//! A parser must not panic, and an error must not be internal. Not a part of the program.

mod targets;
#[cfg(test)]
mod mutator;
#[cfg(test)]
mod tests;

pub use targets::{FuzzTarget, TARGETS, named};
