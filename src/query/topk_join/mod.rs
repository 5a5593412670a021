//! Top-k join: for each row of a table, the k rows of another one whose vectors are nearest.
//!
//! ```text
//! LATERAL (… ORDER BY distance LIMIT k) ─► lateral ─┐
//!                                                   ├─► TopKJoin ─► planner ─► TopKJoinExec ─► NearestLists ─► search
//! topk_join('queries', 'items', k) ─────────────────┘
//! ```
//!
//! The full product of the two tables is never built: items are read block by block, and each block is searched by the
//! kernels that `evaluate` uses.

mod block_items;
mod exec;
mod top_k_rows;
mod lateral;
mod message;
mod nearest_lists;
mod node;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod lateral_tests;

pub(super) use exec::SessionPlanner;
pub(super) use lateral::LateralTopK;
pub(super) use message::{decode_join, encode_join};
pub(super) use node::{MEASURE, RANK, TopKJoin, join_k, join_method};
