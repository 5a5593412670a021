//! Tasks that other processes run.

use std::fmt::Debug;

use crate::error::Result;

/// Runner of numbered tasks in other processes.
///
/// A job is an object that is named by the digest of its content. The result of a task is a function of the job and the
/// number of the task. So a result that exists is never computed again.
pub trait RemoteTasks: Debug + Send + Sync {
    /// Publishes an object that the processes read. Its name is the digest of its content.
    ///
    /// # Errors
    /// The object cannot be written.
    fn publish(&self, content: Vec<u8>) -> Result<String>;

    /// Runs the tasks `0..tasks` of a job that lack a result, and waits for them. Calls `report` often, with the number of
    /// tasks that have a result.
    ///
    /// # Errors
    /// The first error of `report`; a task failed; the processes cannot be reached.
    fn run(&self, job: &str, tasks: usize, report: &mut dyn FnMut(usize) -> Result<()>) -> Result<()>;

    /// Reads the result of a task; `None` if there is none.
    ///
    /// # Errors
    /// The result cannot be read.
    fn result(&self, job: &str, task: usize) -> Result<Option<Vec<u8>>>;

    /// Removes a result that is damaged.
    ///
    /// # Errors
    /// The result cannot be removed.
    fn remove_result(&self, job: &str, task: usize) -> Result<()>;

    /// Notes an operation that this process computes, because its parts depend on each other.
    fn note_computed_here(&self, operation: &str);

    /// Ends a job: removes it and the results of its tasks `0..tasks`.
    ///
    /// # Errors
    /// An object cannot be removed.
    fn finish(&self, job: &str, tasks: usize) -> Result<()>;
}
