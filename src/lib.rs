//! A streaming data-pipeline engine for image-text retrieval.
//!
//! ```text
//!            images, captions      features              model, history       embeddings           rankings, metrics
//! sources ─► ingest ─────────────► extract ────────────► train ─────────────► embed ─────────────► evaluate ────────► report
//!              │ captions                                  ▲                    ▲                    ▲                  ▲
//!              ├───────────────────────────────────────────┴────────────────────┘                    │                  │
//!              ├─────► score_captions ───────────────────────────────────────────────────────────────┤                  │
//!              │       caption_similarity, scene_graphs, caption_ngrams                              ▼                  │
//!              └─────► human ratings ───────────────────────────────────────────────────────────► correlate ────────────┘
//!                                                                                                 SQL over any table
//! ```
//!
//! Start with [`stages`] (the flow), the file of one stage, and [`stage`] (the contract): that is all one needs to write a
//! stage. `ARCHITECTURE.md` describes the whole code.

pub mod error;
pub mod suggest;
pub mod runtime;
pub mod tables;
pub use pairloom_kernels as kernels;
pub mod language;
pub mod io;
pub mod loader;
pub mod stage;
pub mod store;
pub mod plan;
pub mod search;
pub mod retrieval;
pub mod model;
pub mod stages;
pub mod pipeline;
pub mod engine;
pub mod sql;
pub mod cli;
