//! Build script: sets the build id, and the folder in which the program finds libtorch.

fn main() {
    pairloom_build::set_build_id("../..".as_ref());
    pairloom_build::link_libtorch();
}
