//! Buffers that one step leaves for the next.

use std::sync::{Mutex, PoisonError};

/// Buffers of each kind that are kept: for several directions of a GRU and some threads.
const MAX_BUFFERS: usize = 32;

/// Buffers whose values are overwritten by whoever takes them. Clearing new ones would cost as much as writing them.
#[derive(Debug)]
pub(super) struct SpareBuffers<T>(Mutex<Vec<Vec<T>>>);

impl<T: Clone + Default> SpareBuffers<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Buffer of `len` values, which are any.
    pub fn take(&self, len: usize) -> Vec<T> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.resize(len, T::default());
        buffer
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Vec<T>) {
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < MAX_BUFFERS {
            buffers.push(buffer);
        }
    }
}
