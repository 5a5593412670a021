//! `train`: `features`, `regions` or `images`, `captions`, `caption_ngrams`, `concepts` → `model`, `data_order`,
//! `samples`, `memory_bank`, `history`, `validation`.

mod run;
mod initial_model;
mod training_data;
mod images;
mod relevance;
mod memory_bank;
mod position;
mod history;
mod validate;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod objective_tests;
#[cfg(test)]
mod finetune_tests;
#[cfg(test)]
mod family_tests;
#[cfg(test)]
mod region_tests;
#[cfg(test)]
mod region_objective_tests;
#[cfg(test)]
mod caption_tests;

pub use run::run;
