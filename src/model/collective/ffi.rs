//! Safe wrappers of the C functions of `shim.cpp`.

#![expect(unsafe_code, reason = "c10d is C++")]

use std::collections::TryReserveError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

use tch::Tensor;

use super::store::{RankSecret, keyed_hash};
use pairloom_base::error::{Error, Result};

unsafe extern "C" {
    fn pairloom_store_open(
        host: *const c_char,
        port: u16,
        listening: c_int,
        timeout_ms: i64,
        store: *mut *mut c_void,
    ) -> *const c_char;
    fn pairloom_store_close(store: *mut c_void);
    fn pairloom_store_set(store: *mut c_void, key: *const c_char, bytes: *const u8, length: usize) -> *const c_char;
    fn pairloom_store_get(store: *mut c_void, key: *const c_char, take: Take, copy: *mut c_void) -> *const c_char;
    fn pairloom_group_join(
        store: *mut c_void,
        name: *const c_char,
        address: *const c_char,
        rank: c_int,
        ranks: c_int,
        timeout_ms: i64,
        sign: Sign,
        secret: *const u8,
        group: *mut *mut c_void,
    ) -> *const c_char;
    fn pairloom_group_set_timeout(group: *mut c_void, timeout_ms: i64) -> *const c_char;
    fn pairloom_group_leave(group: *mut c_void);
    fn pairloom_group_all_gather(group: *mut c_void, rows: *const c_void, all: *const c_void) -> *const c_char;
    fn pairloom_group_sum(group: *mut c_void, content: *const c_void, work: *mut *mut c_void) -> *const c_char;
    fn pairloom_work_wait(group: *mut c_void, work: *mut c_void) -> *const c_char;
}

/// Function that writes the signature of a value of a key: secret, key, value, signature.
type Sign = extern "C" fn(*const u8, *const c_char, usize, *const u8, usize, *mut u8);

/// Signature of an address in the store.
extern "C" fn sign(
    secret: *const u8,
    key: *const c_char,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    signature: *mut u8,
) {
    // SAFETY: the caller passes a secret of 32 bytes.
    let secret = unsafe { &*secret.cast::<[u8; blake3::KEY_LEN]>() };
    // SAFETY: the caller passes a key of this length.
    let key = unsafe { std::slice::from_raw_parts(key.cast::<u8>(), key_length) };
    // SAFETY: the caller passes a value of this length, which may be empty but is not null.
    let value = unsafe { std::slice::from_raw_parts(value, value_length) };
    let signed = keyed_hash(secret, key, value);
    // SAFETY: the caller passes room for a signature.
    unsafe { *signature.cast::<[u8; blake3::OUT_LEN]>() = *signed.as_bytes() };
}

/// Copy of a value; `None` if the key is not set.
type Copied = std::result::Result<Option<Vec<u8>>, TryReserveError>;

/// Function that copies the value of a key: place of the copy, bytes, length.
type Take = extern "C" fn(*mut c_void, *const u8, usize);

/// Copies the value of a key, if there is memory for it.
extern "C" fn take(copy: *mut c_void, bytes: *const u8, length: usize) {
    let mut value = Vec::new();
    let copied = value.try_reserve_exact(length).map(|()| {
        // No bytes may have no address.
        if length > 0 {
            // SAFETY: the caller passes bytes of this length.
            value.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, length) });
        }
        Some(value)
    });
    // SAFETY: `RawStore::get` gives this place for a copy.
    unsafe { *copy.cast::<Copied>() = copied };
}

/// Client of a key-value store, and possibly its server. Calls of several threads are serialised.
#[derive(Debug)]
pub(super) struct RawStore(*mut c_void);

// SAFETY: `TCPStore` guards its connection with a mutex.
unsafe impl Send for RawStore {}
// SAFETY: as above.
unsafe impl Sync for RawStore {}

impl RawStore {
    /// Connects to `host:port`. With a listening socket, starts the server on it first.
    pub fn open(host: &str, port: u16, listening: Option<c_int>, timeout_ms: i64) -> Result<Self> {
        let host = c_string(host)?;
        let mut store = std::ptr::null_mut();
        // SAFETY: the pointers are valid for the call, and the store takes over the socket.
        check_error(unsafe {
            pairloom_store_open(host.as_ptr(), port, listening.unwrap_or(-1), timeout_ms, &raw mut store)
        })?;
        Ok(Self(store))
    }

    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let key = c_string(key)?;
        // SAFETY: the store is open, and the bytes are valid for the call.
        check_error(unsafe { pairloom_store_set(self.0, key.as_ptr(), value.as_ptr(), value.len()) })
    }

    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let key = c_string(key)?;
        let mut copy: Copied = Ok(None);
        // SAFETY: the store is open, and the pointers are valid for the call.
        check_error(unsafe { pairloom_store_get(self.0, key.as_ptr(), take, (&raw mut copy).cast()) })?;
        copy.map_err(|error| {
            Error::peer(format!("there is no memory for the value of `{}`: {error}", key.to_string_lossy()))
        })
    }
}

impl Drop for RawStore {
    fn drop(&mut self) {
        // SAFETY: the store is open and not used any more. A group has its own reference to the store.
        unsafe { pairloom_store_close(self.0) }
    }
}

/// Connections to all other ranks: c10d's `ProcessGroupGloo`.
#[derive(Debug)]
pub(super) struct GlooBackend(*mut c_void);

// SAFETY: `ProcessGroupGloo` is not bound to a thread. The wrapper is not `Sync`, so there are no concurrent calls.
unsafe impl Send for GlooBackend {}

/// A pending sum over all ranks: c10d's `Work`.
pub(super) struct PendingSum(*mut c_void);

impl GlooBackend {
    pub fn join(
        store: &RawStore,
        prefix: &str,
        address: &str,
        rank: c_int,
        world_size: c_int,
        timeout_ms: i64,
        secret: Option<&RankSecret>,
    ) -> Result<Self> {
        let (prefix, address) = (c_string(prefix)?, c_string(address)?);
        let mut group = std::ptr::null_mut();
        let (prefix, address) = (prefix.as_ptr(), address.as_ptr());
        let secret = secret.map_or(std::ptr::null(), |secret| secret.bytes().as_ptr());
        // SAFETY: the store is open, and the pointers are valid for the call, which copies the secret.
        check_error(unsafe {
            pairloom_group_join(store.0, prefix, address, rank, world_size, timeout_ms, sign, secret, &raw mut group)
        })?;
        Ok(Self(group))
    }

    /// Sets the timeout of later operations.
    pub fn set_timeout(&mut self, timeout_ms: i64) -> Result<()> {
        // SAFETY: the group is open.
        check_error(unsafe { pairloom_group_set_timeout(self.0, timeout_ms) })
    }

    pub fn all_gather(&self, rows: &Tensor, all: &Tensor) -> Result<()> {
        // SAFETY: the group is open, and tch's tensors are pointers to libtorch's.
        check_error(unsafe { pairloom_group_all_gather(self.0, rows.as_ptr().cast(), all.as_ptr().cast()) })
    }

    /// Starts a sum over all ranks, in place. libtorch keeps the tensor alive until it is done.
    pub fn start_sum(&self, content: &Tensor) -> Result<PendingSum> {
        let mut work = std::ptr::null_mut();
        // SAFETY: as above.
        check_error(unsafe { pairloom_group_sum(self.0, content.as_ptr().cast(), &raw mut work) })?;
        Ok(PendingSum(work))
    }

    pub fn wait(&self, work: PendingSum) -> Result<()> {
        // SAFETY: the pending sum belongs to this group and is not used any more.
        check_error(unsafe { pairloom_work_wait(self.0, work.0) })
    }
}

impl Drop for GlooBackend {
    fn drop(&mut self) {
        // SAFETY: the group is open and not used any more.
        unsafe { pairloom_group_leave(self.0) }
    }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::usage(format!("`{}` contains a zero byte", text.escape_default())))
}

/// Turns the error text of a C function into an error. Keeps only the first line; the rest is a stack trace of
/// libtorch.
fn check_error(text: *const c_char) -> Result<()> {
    if text.is_null() {
        return Ok(());
    }
    // SAFETY: messages of `shim.cpp` are null-terminated, and valid until the next call of this thread.
    let message = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    let line = message.lines().next().unwrap_or_default().trim_end_matches('.');
    Err(Error::peer(pairloom_base::error::escape_control(line)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::IntoRawFd as _;

    use super::*;

    #[test]
    fn memory_that_is_not_there_is_an_error_of_the_store() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let store = RawStore::open("127.0.0.1", port, Some(listener.into_raw_fd()), 10_000).unwrap();
        // The memory of the copy of 2^62 bytes is asked for before a byte is read.
        let (key, byte) = (c"key", 1);
        // SAFETY: the store is open, and nothing reads beyond the byte, as above.
        let error = check_error(unsafe { pairloom_store_set(store.0, key.as_ptr(), &raw const byte, 1 << 62) });
        let message = error.unwrap_err().to_string();
        assert!(message.contains("bad_alloc"), "{message}");
        assert_eq!(store.get("key").unwrap(), None);
        let mut copy: Copied = Ok(None);
        take((&raw mut copy).cast(), &raw const byte, usize::MAX / 2);
        assert!(copy.is_err());
        for value in [vec![], vec![7; 3 << 20]] {
            store.set("key", &value).unwrap();
            assert_eq!(store.get("key").unwrap(), Some(value));
        }
    }
}
