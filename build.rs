//! Says what to do when libtorch is not set up, and writes where it lies into the binaries, so that they start without
//! `LD_LIBRARY_PATH`.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-changed=build.rs");
    // Unset only where `.cargo/config.toml` is not read: the build of tch then says what it looks for.
    let Some(libtorch) = std::env::var_os("LIBTORCH") else { return };
    let libtorch = Path::new(&libtorch);
    println!("cargo::rerun-if-changed={}", libtorch.join("lib").display());
    match libtorch.join("lib").canonicalize() {
        Ok(lib) => println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display()),
        Err(_) => println!("cargo::error=no libtorch at `{}`: run `cargo xtask setup` once", libtorch.display()),
    }
}
