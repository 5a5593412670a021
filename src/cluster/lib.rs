//! Cluster: one scheduler and any number of executors that compute parts of queries and evaluations.
//!
//! ```text
//! pairloom sql --cluster ─► plan ───────────┐                    ┌─► executor ─┐
//!                                           ├─► scheduler: tasks ┼─► executor ─┼─► store
//! pairloom run --cluster ─► search sections ┘                    └─► executor ─┘
//! ```
//!
//! Ballista schedules the tasks and repeats those of an executor that died. All processes have the same functions and
//! operators, and read one store: a folder that all see, or a bucket. Executors read the store only; the results of
//! search sections are the exception, which they add below `searches/`.
//!
//! Ports have no authentication, so by default all processes listen on this machine only.

mod build_option;
mod store_id;
mod functions;
mod executor_error;
mod search_tasks;
mod plan_runner;
mod scheduler;
mod executor;

pub use executor::{ExecutorEvent, ExecutorOptions, run_executor};
pub use plan_runner::ClusterPlans;
pub use scheduler::{SchedulerOptions, check_address, run_scheduler};
pub use search_tasks::run_sections;
