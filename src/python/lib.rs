//! Python module `pairloom._pairloom`: the functions of the package `pairloom` (in `pairloom/`), which documents them.
//!
//! [`arrays`] takes matrices of numpy and Arrow without a copy, [`table`] gives tables as Arrow. Functions release the
//! interpreter's lock while they compute, and look for Ctrl-C. Errors are exceptions, and so are panics. Threads live as
//! long as a call, so a process may fork between calls.

mod arrays;
mod captions;
mod evaluation;
mod interrupts;
mod table;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use self::interrupts::Interrupts;
use pairloom_base::error::{Error, ErrorCategory, Result, catch_panic};

/// The functions and classes of the extension module.
#[pymodule]
mod _pairloom {
    #[pymodule_export]
    use super::captions::{caption_similarity, cider, scene_graphs, spice, tokenize};
    #[pymodule_export]
    use super::evaluation::{Evaluation, compare, evaluate, search};
    #[pymodule_export]
    use super::table::Table;
}

/// Exception of an error, with its hint.
fn exception(error: &Error) -> PyErr {
    let hint = error.hint_text().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let text = format!("{error}{hint}");
    match error.category() {
        ErrorCategory::Usage | ErrorCategory::Data => PyValueError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// Computes without the lock of the interpreter. Errors and panics are exceptions; `compute` gets what it looks for
/// Ctrl-C with, and `progress` is called with the finished and the total number of steps.
fn detached<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    compute: impl FnOnce(&mut Interrupts) -> Result<T> + Send,
) -> PyResult<T> {
    let mut interrupts = Interrupts::new(progress);
    let result = py.detach(|| catch_panic(|| compute(&mut interrupts)));
    result.map_err(|error| interrupts.raised().unwrap_or_else(|| exception(&error)))
}

/// Number of threads: those asked for, or those of the machine.
fn thread_count(threads: Option<usize>) -> usize {
    threads.filter(|&threads| threads > 0).unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into))
}
