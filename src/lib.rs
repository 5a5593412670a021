//! A streaming data-pipeline engine for image-text matching.
//!
//! ```text
//!            images, captions      features              model, history       embeddings           rankings, metrics
//! sources ─► ingest ─────────────► extract ────────────► train ─────────────► embed ─────────────► evaluate ────────► report
//!              │ captions                                  ▲                    ▲                    ▲                  ▲
//!              ├───────────────────────────────────────────┴────────────────────┘                    │                  │
//!              ├─────► compare ──────────────────────────────────────────────────────────────────────┤                  │
//!              │       caption_similarity, scene_graphs, caption_ngrams                              ▼                  │
//!              └─────► ratings of people ───────────────────────────────────────────────────────► correlate ────────────┘
//!                                                                                                 SQL over any table
//! ```
//!
//! Read in this order: [`stages`] (the flow), one stage file, [`stage`] (the contract). Nothing else is needed to write a
//! stage. `ARCHITECTURE.md` is the map.

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
