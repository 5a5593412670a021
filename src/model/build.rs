//! Build script: checks that libtorch is set up, and compiles the C++ shims that call what tch does not offer.

use std::path::{Path, PathBuf};

fn main() {
    if let Some(libtorch) = pairloom_build::link_libtorch() {
        compile_shims(&libtorch);
    }
}

/// Compiles the C++ sources of this package against the headers of libtorch. This takes ten seconds, so the archive is
/// reused while its sources are unchanged.
fn compile_shims(libtorch: &Path) {
    let folder = Path::new(".");
    let files = pairloom_build::files_below(folder);
    let files: Vec<PathBuf> = files
        .into_iter()
        .filter(|file| file.file_name().is_some_and(|name| name == "build.rs") || is_cpp(file))
        .inspect(|file| println!("cargo::rerun-if-changed={}", file.display()))
        .collect();
    let include = libtorch.join("include");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let (archive, stamp) = (out.join("libpairloom_shims.a"), out.join("shims"));
    // A build with AddressSanitizer, as of `cargo fuzz`, has it in the shims too.
    let sanitizers = std::env::var("CARGO_CFG_SANITIZE").unwrap_or_default();
    let hash = pairloom_build::hash(folder, files.into_iter());
    let sources = format!("{} {hash:016x} {sanitizers}", include.display());
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
        .file("shims.cpp")
        .compile("pairloom_shims");
    std::fs::write(stamp, sources).expect("the output folder can be written");
}

fn is_cpp(file: &Path) -> bool {
    file.extension().is_some_and(|name| name == "cpp" || name == "h" || name == "hpp")
}
