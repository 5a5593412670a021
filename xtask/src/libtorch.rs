//! CPU libtorch in the cache.
//!
//! The wheel `torch` of the Python package index is a CUDA build. The CPU needs three of its libraries, and one library
//! each of two small wheels. They are downloaded with pip and used without Python.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::cached_folder::{cache, provide_with};
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Version of libtorch that the crate `tch` supports.
pub(crate) const VERSION: &str = "2.11.0";

/// Wheels to download: requirement with hash, platform, and files to keep.
const WHEELS: [[&str; 3]; 3] = [
    [
        "torch==2.11.0 --hash=sha256:7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
        "manylinux_2_28_x86_64",
        "torch/include/,torch/lib/libc10.so,torch/lib/libtorch_cpu.so,torch/lib/libgomp.so.1",
    ],
    [
        "nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        "manylinux_2_17_x86_64",
        "nvidia/cu13/lib/libcudart.so.13",
    ],
    [
        "nvidia-cuda-cupti==13.0.85 --hash=sha256:4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
        "manylinux_2_25_x86_64",
        "nvidia/cu13/lib/libcupti.so.13",
    ],
];

/// Folder of the libtorch of this version in the cache. It need not exist.
pub(crate) fn folder() -> TaskResult<PathBuf> {
    Ok(cache()?.join(format!("libtorch-{VERSION}-cpu")))
}

/// Ensures that `folder` has a complete libtorch, downloading it if necessary.
pub(crate) fn provide(folder: &Path) -> TaskResult {
    provide_with(folder, &recipe(), fetch)
}

/// First lines of the marker, which identify the downloaded wheels and files.
fn recipe() -> String {
    WHEELS.iter().fold(String::new(), |mut text, [requirement, _, members]| {
        let _ = writeln!(text, "{requirement} {members}");
        text
    })
}

fn fetch(into: &Path) -> TaskResult {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Err(TaskError::new("there is no libtorch to fetch for this machine, only for Linux x86-64 with glibc")
            .hint(format!("set LIBTORCH to the folder of a libtorch {VERSION}")));
    }
    if !shell::succeeds(Command::new("python3").arg("--version")) {
        return Err(TaskError::new("no `python3`; libtorch is fetched with pip")
            .hint("install Python 3 with pip (Debian, Ubuntu: python3-pip; Fedora: python3-pip), or set LIBTORCH"));
    }
    if !shell::succeeds(Command::new("python3").args(["-m", "pip", "--version"])) {
        return Err(TaskError::new("`python3` has no pip; libtorch is fetched with it").hint(
            "install it (Debian, Ubuntu, Fedora: python3-pip), or `python3 -m ensurepip --user`, or set LIBTORCH",
        ));
    }
    print_message(format!(
        "fetching libtorch {VERSION}: 544 MB to download once, 1.2 GB while unpacking, 0.5 GB to stay"
    ));
    let start = Instant::now();
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("fetch.py")]).arg(into).args(WHEELS.iter().flatten());
    match python.status().map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(3)) => {
            return Err(TaskError::new("pip could not download libtorch; its messages are above").hint(format!(
                "pip needs access to its package index; without a network, set LIBTORCH to a libtorch {VERSION}"
            )));
        }
        Ok(Some(130)) => return Err(TaskError::new("interrupted; nothing was left behind")),
        Ok(_) => return Err(TaskError::new("libtorch could not be fetched; the reason is above")),
        Err(error) => return Err(TaskError::new(format!("cannot start python3: {error}"))),
    }
    // The build links against `libtorch.so`; that of the wheel depends on CUDA.
    let library = into.join("lib/libtorch.so");
    std::os::unix::fs::symlink("libtorch_cpu.so", &library).map_err(TaskError::io("link", &library))?;
    let version = into.join("build-version");
    fs::write(&version, format!("{VERSION}\n")).map_err(TaskError::io("write", &version))?;
    print_message(format!("fetched in {:.0} s", start.elapsed().as_secs_f64()));
    Ok(())
}
