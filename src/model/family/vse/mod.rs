//! VSE++ (Faghri, Fleet, Kiros, Fidler, BMVC 2018) and its variants, with hand-written gradients.

pub mod config;
pub mod model;
pub mod published;
mod family;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod edge_tests;

pub use pairloom_spec::family::vse as settings;
