//! Writes where libtorch lies into the binaries, so that they start without `LD_LIBRARY_PATH`.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    println!("cargo:rerun-if-changed=build.rs");
    let Some(libtorch) = std::env::var_os("LIBTORCH") else { return };
    match Path::new(&libtorch).join("lib").canonicalize() {
        Ok(lib) => println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display()),
        Err(error) => println!(
            "cargo:warning=no libtorch at {}: {error}; run `cargo xtask setup`",
            Path::new(&libtorch).display()
        ),
    }
}
