//! Build script: sets the folder in which benchmarks find libtorch.

fn main() {
    pairloom_build::link_libtorch();
}
