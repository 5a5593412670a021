//! Build script: checks that libtorch is set up, adds its folder to the RPATH of the binaries, compiles the C++ shims
//! that call it, and computes the build id.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    set_build_id();
    // Symbols that libtorch defines too would be exported from programs without it, and the linker would keep libtorch
    // although it is unused. Without libtorch, a program starts 0.2 s faster.
    for program in ["pairloom", "pairloom-sql"] {
        println!("cargo::rustc-link-arg-bin={program}=-Wl,--exclude-libs=ALL");
    }
    println!("cargo::rerun-if-env-changed=LIBTORCH");
    // Unset only if `.cargo/config.toml` is not read. The build script of tch reports the error then.
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

/// Compiles the C++ sources in `src/model` against the headers of libtorch. This takes ten seconds and the build script
/// runs after every change of a source, so the archive is reused while its sources are unchanged.
fn compile_shims(libtorch: &Path) {
    let folder = Path::new("src/model");
    let files = files_below(folder).into_iter().filter(|file| file.extension().is_some_and(|name| name != "rs"));
    let include = libtorch.join("include");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let (archive, stamp) = (out.join("libpairloom_shims.a"), out.join("shims"));
    // A build with AddressSanitizer, as of `cargo fuzz`, has it in the shims too.
    let sanitizers = std::env::var("CARGO_CFG_SANITIZE").unwrap_or_default();
    let files = hash(files.chain([PathBuf::from("build.rs")]));
    let sources = format!("{} {files:016x} {sanitizers}", include.display());
    if archive.is_file() && std::fs::read_to_string(&stamp).is_ok_and(|before| before == sources) {
        println!("cargo::rustc-link-search=native={}", out.display());
        println!("cargo::rustc-link-lib=static=pairloom_shims");
        println!("cargo::rustc-link-lib=stdc++");
        return;
    }
    let mut build = cc::Build::new();
    if sanitizers.split(',').any(|name| name == "address") {
        build.flag("-fsanitize=address");
    }
    build
        .cpp(true)
        .std("c++20")
        .warnings(false)
        .define("USE_C10D_GLOO", None)
        .includes([&folder.join("collective"), &include, &include.join("torch/csrc/api/include")])
        .file(folder.join("collective/shim.cpp"))
        .file(folder.join("gpu_arithmetic.cpp"))
        .file(folder.join("pinned_memory.cpp"))
        .file(folder.join("autograd_node.cpp"))
        .file(folder.join("networks/torchscript_prints.cpp"))
        .compile("pairloom_shims");
    std::fs::write(stamp, sources).expect("the output folder can be written");
}

/// Sets the build id, a hash of the sources. `pairloom` hands over to the other programs, and all must have the same build
/// id, as must all processes of a cluster.
fn set_build_id() {
    let sources = ["src", "data", "Cargo.lock", "Cargo.toml", "build.rs"].map(Path::new);
    let files = sources.into_iter().flat_map(|path| {
        println!("cargo::rerun-if-changed={}", path.display());
        if path.is_dir() { files_below(path) } else { vec![path.to_owned()] }
    });
    println!("cargo::rustc-env=PAIRLOOM_BUILD={:016x}", hash(files));
}

/// Lists all files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
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

/// Hash of the names and contents of files.
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
