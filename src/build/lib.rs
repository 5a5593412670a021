//! What build scripts share: the id of a build, and the place of libtorch.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

/// What a build depends on, below the root of the checkout.
const SOURCES: [&str; 4] = ["src", "data", "Cargo.lock", "Cargo.toml"];

/// Sets `PAIRLOOM_BUILD` for the program that is built: a hash of all sources. Programs that hand over to each other must
/// have the same, as must all processes of a cluster. `root` is the root of the checkout.
#[expect(clippy::print_stdout, reason = "build scripts talk to cargo through it")]
pub fn set_build_id(root: &Path) {
    let files = SOURCES.into_iter().flat_map(|name| {
        let path = root.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        if path.is_dir() { files_below(&path) } else { vec![path] }
    });
    println!("cargo::rustc-env=PAIRLOOM_BUILD={:016x}", hash(root, files));
}

/// Adds the folder of libtorch's libraries to the RPATH of the programs and tests of a package. Returns libtorch's folder,
/// or `None` after an error of the build.
#[expect(clippy::print_stdout, reason = "build scripts talk to cargo through it")]
pub fn link_libtorch() -> Option<PathBuf> {
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    // Unset only if `.cargo/config.toml` is not read. The build script of tch reports the error then.
    let libtorch = PathBuf::from(std::env::var_os("LIBTORCH")?);
    println!("cargo::rerun-if-changed={}", libtorch.join("lib").display());
    if let Ok(lib) = libtorch.join("lib").canonicalize() {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
        Some(libtorch)
    } else {
        println!("cargo::error=no libtorch at `{}`: run `cargo xtask setup` once", libtorch.display());
        None
    }
}

/// As [`link_libtorch`], for a crate of which only tests use libtorch: it builds without libtorch.
pub fn link_libtorch_for_tests() {
    if std::env::var_os("LIBTORCH").is_some_and(|folder| Path::new(&folder).join("lib").is_dir()) {
        link_libtorch();
    }
}

/// Lists all files below a folder.
#[must_use]
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files
}

/// Hash of the contents of files, and of their names below `root`.
#[must_use]
pub fn hash(root: &Path, files: impl Iterator<Item = PathBuf>) -> u64 {
    let mut files: Vec<_> = files.collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(file.strip_prefix(root).unwrap_or(&file).as_os_str().as_encoded_bytes());
        hasher.write(&std::fs::read(&file).unwrap_or_default());
    }
    hasher.finish()
}
