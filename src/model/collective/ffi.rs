//! The functions of `shim.cpp`, and how their errors become ours.

#![expect(unsafe_code, reason = "c10d is C++")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use tch::Tensor;

use crate::error::{Error, Result};

unsafe extern "C" {
    fn pairloom_text_free(text: *mut c_char);
    fn pairloom_bytes_free(bytes: *mut u8);
    fn pairloom_store_open(
        host: *const c_char,
        port: u16,
        listening: c_int,
        timeout_ms: i64,
        store: *mut *mut c_void,
    ) -> *mut c_char;
    fn pairloom_store_close(store: *mut c_void);
    fn pairloom_store_set(store: *mut c_void, key: *const c_char, bytes: *const u8, length: usize) -> *mut c_char;
    fn pairloom_store_get(
        store: *mut c_void,
        key: *const c_char,
        bytes: *mut *mut u8,
        length: *mut usize,
    ) -> *mut c_char;
    fn pairloom_group_join(
        store: *mut c_void,
        name: *const c_char,
        address: *const c_char,
        rank: c_int,
        ranks: c_int,
        timeout_ms: i64,
        group: *mut *mut c_void,
    ) -> *mut c_char;
    fn pairloom_group_patience(group: *mut c_void, timeout_ms: i64) -> *mut c_char;
    fn pairloom_group_leave(group: *mut c_void);
    fn pairloom_group_all_gather(group: *mut c_void, rows: *const c_void, all: *const c_void) -> *mut c_char;
    fn pairloom_group_sum(group: *mut c_void, content: *const c_void, work: *mut *mut c_void) -> *mut c_char;
    fn pairloom_work_wait(group: *mut c_void, work: *mut c_void) -> *mut c_char;
}

/// A client of a store of keys, and perhaps its server. Calls of several threads take turns.
#[derive(Debug)]
pub(super) struct Store(*mut c_void);

// SAFETY: `TCPStore` guards its connection with a mutex.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// Connects to host:port, as the server's host if there is a socket that listens.
    pub fn open(host: &str, port: u16, listening: Option<c_int>, timeout_ms: i64) -> Result<Self> {
        let host = name(host)?;
        let mut store = std::ptr::null_mut();
        // SAFETY: the pointers are valid for the call; the socket is given away.
        told(unsafe { pairloom_store_open(host.as_ptr(), port, listening.unwrap_or(-1), timeout_ms, &raw mut store) })?;
        Ok(Self(store))
    }

    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let key = name(key)?;
        // SAFETY: the store is open, and the bytes are valid for the call.
        told(unsafe { pairloom_store_set(self.0, key.as_ptr(), value.as_ptr(), value.len()) })
    }

    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let key = name(key)?;
        let (mut bytes, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: the store is open, and the pointers are valid for the call.
        told(unsafe { pairloom_store_get(self.0, key.as_ptr(), &raw mut bytes, &raw mut length) })?;
        if bytes.is_null() {
            return Ok(None);
        }
        // SAFETY: the function has given so many bytes.
        let value = unsafe { std::slice::from_raw_parts(bytes, length) }.to_vec();
        // SAFETY: they are ours, and used no more.
        unsafe { pairloom_bytes_free(bytes) };
        Ok(Some(value))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: it is open, and used no more. A group keeps the store alive by itself.
        unsafe { pairloom_store_close(self.0) }
    }
}

/// Connections to all other ranks.
#[derive(Debug)]
pub(super) struct Gloo(*mut c_void);

// SAFETY: `ProcessGroupGloo` is not bound to a thread; it is not `Sync`, so calls come one after another.
unsafe impl Send for Gloo {}

/// An addition that is under way.
pub(super) struct Work(*mut c_void);

impl Gloo {
    pub fn join(store: &Store, meeting: &str, address: &str, rank: c_int, of: c_int, timeout_ms: i64) -> Result<Self> {
        let (meeting, address) = (name(meeting)?, name(address)?);
        let mut group = std::ptr::null_mut();
        let (meeting, address) = (meeting.as_ptr(), address.as_ptr());
        // SAFETY: the store is open, and the pointers are valid for the call.
        told(unsafe { pairloom_group_join(store.0, meeting, address, rank, of, timeout_ms, &raw mut group) })?;
        Ok(Self(group))
    }

    /// How long a collective may take from now on.
    pub fn patience(&mut self, timeout_ms: i64) -> Result<()> {
        // SAFETY: the group is open.
        told(unsafe { pairloom_group_patience(self.0, timeout_ms) })
    }

    pub fn all_gather(&self, rows: &Tensor, all: &Tensor) -> Result<()> {
        // SAFETY: the group is open, and tch's tensors are pointers to libtorch's.
        told(unsafe { pairloom_group_all_gather(self.0, rows.as_ptr().cast(), all.as_ptr().cast()) })
    }

    /// Begins; libtorch keeps the tensor until it is done.
    pub fn sum(&self, content: &Tensor) -> Result<Work> {
        let mut work = std::ptr::null_mut();
        // SAFETY: as above.
        told(unsafe { pairloom_group_sum(self.0, content.as_ptr().cast(), &raw mut work) })?;
        Ok(Work(work))
    }

    pub fn wait(&self, work: Work) -> Result<()> {
        // SAFETY: the work is one of this group, and used no more.
        told(unsafe { pairloom_work_wait(self.0, work.0) })
    }
}

impl Drop for Gloo {
    fn drop(&mut self) {
        // SAFETY: it is open, and used no more.
        unsafe { pairloom_group_leave(self.0) }
    }
}

fn name(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::usage(format!("`{}` holds a zero byte", text.escape_default())))
}

/// An error of the other side, if the call gave a text. Only its first line: the rest is where in libtorch it happened.
fn told(text: *mut c_char) -> Result<()> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: a text of `shim.cpp` ends with a zero byte.
    let message = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: it is ours, and used no more.
    unsafe { pairloom_text_free(text) };
    let line = message.lines().next().unwrap_or_default().trim_end_matches('.');
    Err(Error::peer(crate::error::visible(line)))
}
