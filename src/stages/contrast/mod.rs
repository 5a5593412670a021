//! `contrast`: `rankings` of two evaluations, or of one → `contrasts`.

mod settings;
mod run;
mod hits;
mod paired;
#[cfg(test)]
mod tests;

pub use settings::Contrast;
