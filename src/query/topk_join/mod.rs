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
mod corrected_lists;
mod exec;
mod top_k_rows;
mod lateral;
mod message;
mod method;
mod named_tables;
mod named_vectors;
mod nearest_lists;
mod node;
mod pair_condition;
mod planner;
mod tie_keys;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod lateral_tests;

pub(super) use lateral::LateralTopK;
pub(super) use message::{decode_join, encode_join};
pub(super) use method::join_method;
pub(super) use named_tables::{TOPK_JOIN, named_tables, table_and_condition};
pub(super) use node::{MEASURE, RANK, TopKJoin, join_k};
pub(super) use planner::SessionPlanner;
