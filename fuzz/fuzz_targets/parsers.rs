//! Parsers of bytes from outside. The first byte chooses one, unless `PAIRLOOM_FUZZ_TARGET` names one.
#![no_main]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use pairloom::fuzzing::TARGETS;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder can be made"));
/// Text of the last panic. libFuzzer's hook ends the process at any panic, also at one of a library that the parser catches.
static PANIC: LazyLock<Mutex<String>> = LazyLock::new(|| {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        *PANIC.lock().expect("no panic holds it") = text;
    }));
    Mutex::default()
});
static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("PAIRLOOM_FUZZ_TARGET").ok());

fuzz_target!(|data: &[u8]| {
    let chosen = match &*CHOSEN {
        Some(name) => TARGETS.iter().find(|target| target.name == name).map(|target| (target, data)),
        None => data.split_first().map(|(&first, data)| (&TARGETS[usize::from(first) % TARGETS.len()], data)),
    };
    LazyLock::force(&PANIC);
    if let Some((target, data)) = chosen
        && catch_unwind(AssertUnwindSafe(|| (target.run)(FOLDER.path(), data))).is_err()
    {
        eprintln!("{}", PANIC.lock().expect("no panic holds it"));
        std::process::abort();
    }
});
