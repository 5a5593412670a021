//! Build script: sets the folder in which the tests of ranks and of power cuts find libtorch.

fn main() {
    pairloom_build::link_libtorch_for_tests();
}
