//! Says what to do when libtorch is not set up, writes where it lies into the binaries, so that they start without
//! `LD_LIBRARY_PATH`, compiles what calls its C++, and names the build.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    name_build();
    // Symbols that libtorch has as well would be exported from the program and so keep it linked, used or not. `pairloom`
    // uses none of it, and starts 0.2 s sooner without.
    println!("cargo::rustc-link-arg-bin=pairloom=-Wl,--exclude-libs=ALL");
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    println!("cargo::rerun-if-changed=build.rs");
    // Unset only where `.cargo/config.toml` is not read: the build of tch then says what it looks for.
    let Some(libtorch) = std::env::var_os("LIBTORCH") else { return };
    let libtorch = Path::new(&libtorch);
    println!("cargo::rerun-if-changed={}", libtorch.join("lib").display());
    match libtorch.join("lib").canonicalize() {
        Ok(lib) => {
            println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
            compile_shims(libtorch);
        }
        Err(_) => println!("cargo::error=no libtorch at `{}`: run `cargo xtask setup` once", libtorch.display()),
    }
}

/// Compiles the C++ of `src/model` against the headers of libtorch. That takes ten seconds, and this program runs after
/// every change of any source, so an archive of the same sources stays.
fn compile_shims(libtorch: &Path) {
    let folder = Path::new("src/model");
    let files = below(folder).into_iter().filter(|file| file.extension().is_some_and(|name| name != "rs"));
    let include = libtorch.join("include");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let (archive, stamp) = (out.join("libpairloom_shims.a"), out.join("shims"));
    let sources = format!("{} {:016x}", include.display(), hash(files.chain([PathBuf::from("build.rs")])));
    if archive.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|before| before == sources) {
        println!("cargo::rustc-link-search=native={}", out.display());
        println!("cargo::rustc-link-lib=static=pairloom_shims");
        println!("cargo::rustc-link-lib=stdc++");
        return;
    }
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .warnings(false)
        .define("USE_C10D_GLOO", None)
        .includes([&folder.join("collective"), &include, &include.join("torch/csrc/api/include")])
        .file(folder.join("collective/shim.cpp"))
        .file(folder.join("tf32.cpp"))
        .compile("pairloom_shims");
    std::fs::write(stamp, sources).expect("the output folder can be written");
}

/// Gives the programs a hash of the sources that they are built from: `pairloom` hands over to `pairloom-torch`, and the
/// two must be of one build.
fn name_build() {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=Cargo.lock");
    let files = below(Path::new("src")).into_iter().chain([PathBuf::from("Cargo.lock")]);
    println!("cargo::rustc-env=PAIRLOOM_BUILD={:016x}", hash(files));
}

/// All files below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
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

/// One number for the names and contents of files.
fn hash(files: impl Iterator<Item = PathBuf>) -> u64 {
    let mut files: Vec<_> = files.collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        hasher.write(file.as_os_str().as_encoded_bytes());
        hasher.write(&std::fs::read(&file).unwrap_or_default());
    }
    hasher.finish()
}
