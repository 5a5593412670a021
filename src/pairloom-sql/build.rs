//! Build script: sets the build id.

fn main() {
    pairloom_build::set_build_id("../..".as_ref());
}
