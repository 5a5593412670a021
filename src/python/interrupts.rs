//! Ctrl-C and progress, while the lock of the interpreter is released.
#![expect(clippy::disallowed_methods, reason = "the clock decides when to look for Ctrl-C, and nothing else")]

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use pairloom_base::error::{Error, Result};

/// Time between two looks for Ctrl-C.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks for Ctrl-C, and calls a progress function of Python.
pub(crate) struct Interrupts {
    progress: Option<Py<PyAny>>,
    looked: Cell<Instant>,
    raised: RefCell<Option<PyErr>>,
}

impl Interrupts {
    pub(crate) fn new(progress: Option<Py<PyAny>>) -> Self {
        Self { progress, looked: Cell::new(Instant::now()), raised: RefCell::new(None) }
    }

    /// The exception of Ctrl-C or of the progress function, once.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised.borrow_mut().take()
    }

    /// Returns an error after Ctrl-C, at most once an interval.
    pub(crate) fn check(&self) -> Result<()> {
        self.look(|_| Ok(()))
    }

    /// As [`Interrupts::check`], and reports progress.
    pub(crate) fn report(&self, done: u64, total: u64) -> Result<()> {
        self.look(|py| match &self.progress {
            Some(progress) => progress.call1(py, (done, total)).map(drop),
            None => Ok(()),
        })
    }

    fn look(&self, call: impl FnOnce(Python<'_>) -> PyResult<()>) -> Result<()> {
        if self.looked.get().elapsed() < INTERVAL {
            return Ok(());
        }
        self.looked.set(Instant::now());
        let outcome = Python::attach(|py| py.check_signals().and_then(|()| call(py)));
        outcome.map_err(|error| {
            *self.raised.borrow_mut() = Some(error);
            Error::interrupted()
        })
    }
}
