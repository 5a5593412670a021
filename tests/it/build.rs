//! Build script: sets the folder in which the tests find libtorch.

fn main() {
    pairloom_build::link_libtorch_for_tests();
}
