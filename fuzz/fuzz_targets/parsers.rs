//! Parsers of bytes from outside. The first byte chooses one, unless `PAIRLOOM_FUZZ_TARGET` names one.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pairloom::fuzzing::TARGETS;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder can be made"));
static CHOSEN: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("PAIRLOOM_FUZZ_TARGET").ok());

fuzz_target!(|data: &[u8]| {
    let chosen = match &*CHOSEN {
        Some(name) => TARGETS.iter().find(|target| target.name == name).map(|target| (target, data)),
        None => data.split_first().map(|(&first, data)| (&TARGETS[usize::from(first) % TARGETS.len()], data)),
    };
    if let Some((target, data)) = chosen {
        (target.run)(FOLDER.path(), data);
    }
});
