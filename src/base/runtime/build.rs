//! Identity of the build of this program.

use std::sync::OnceLock;

/// Build of the program; unset in tests.
static BUILD: OnceLock<&str> = OnceLock::new();

/// Sets the build of this process: a hash of the sources, which the build script of the program computes. The first call
/// counts.
pub fn set_build(build: &'static str) {
    let _ = BUILD.set(build);
}

/// Hash of the sources of this program; `unknown` in a process that set none. Processes that compute parts of one result
/// must have the same.
pub fn build() -> &'static str {
    BUILD.get().copied().unwrap_or("unknown")
}

/// Version and build of this program, for people.
pub fn version_and_build() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{} (build {})", env!("CARGO_PKG_VERSION"), build()))
}
