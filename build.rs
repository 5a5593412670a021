//! Writes where libtorch lies into the binaries, so that they start without `LD_LIBRARY_PATH`.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    name_build();
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

/// Gives the programs a hash of the sources that they are built from: `pairloom` hands over to `pairloom-torch`, and the
/// two must be of one build.
fn name_build() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=Cargo.lock");
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
    println!("cargo:rustc-env=PAIRLOOM_BUILD={:016x}", hasher.finish());
}
