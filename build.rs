//! Says what to do when libtorch is not set up, writes where it lies into the binaries, so that they start without
//! `LD_LIBRARY_PATH`, and names the build.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    name_build();
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

/// Gives the programs a hash of the sources that they are built from: `pairloom` hands over to `pairloom-torch`, and the
/// two must be of one build.
fn name_build() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let mut files = vec![PathBuf::from("Cargo.lock")];
    let mut folders = vec![PathBuf::from("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(file.as_os_str().as_encoded_bytes());
        hasher.write(&std::fs::read(&file).unwrap_or_default());
    }
    println!("cargo::rustc-env=PAIRLOOM_BUILD={:016x}", hasher.finish());
}
