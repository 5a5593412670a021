//! Build script: sets the folder in which tests find libtorch.

fn main() {
    pairloom_build::link_libtorch();
}
