//! `extract`: `images` → `features`; of a grid `regions` and `region_boxes`; of CLIP with captions `image_embeddings` and
//! `caption_embeddings`.
//!
//! ```text
//! path or bytes ─► read ─► decode ─► resize, crop ─► normalise ─► network ─► feature
//!                  └──────── as the published code does ────────────────────────┘
//! ```

mod run;
mod earlier;
mod shared_decoding;
mod batches;
mod captions;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod storage_tests;
#[cfg(test)]
mod torchscript_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod networks_golden_tests;

pub use run::run;
