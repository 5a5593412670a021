//! VSE++ (Faghri, Fleet, Kiros, Fidler, BMVC 2018) and its relatives, with gradients of our own.

pub mod config;
pub mod settings;
pub mod model;
pub mod published;
mod family;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod edge_tests;
