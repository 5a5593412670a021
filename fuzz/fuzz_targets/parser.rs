//! One parser of bytes from outside: the one with the name of the binary. A binary with all of them would have the counters of
//! all of them, and libFuzzer clears and reads them at every execution.
#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use pairloom_fuzzing::{FuzzTarget, named};

/// A constant, so that the linker drops the other parsers.
const TARGET: FuzzTarget = named(env!("CARGO_BIN_NAME"));

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder can be made"));
/// Text of the last panic. libFuzzer's hook ends the process at any panic, also at one of a library that the parser catches.
static PANIC: LazyLock<Mutex<String>> = LazyLock::new(|| {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        *PANIC.lock().expect("no panic holds it") = text;
    }));
    Mutex::default()
});

fuzz_target!(|data: &[u8]| {
    LazyLock::force(&PANIC);
    if catch_unwind(AssertUnwindSafe(|| (TARGET.run)(FOLDER.path(), data))).is_err() {
        eprintln!("{}", PANIC.lock().expect("no panic holds it"));
        std::process::abort();
    }
});
