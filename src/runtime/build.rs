//! Identity of the build of this program.

/// Hash of the sources of this program, computed by the build script. Processes that compute parts of one result must have
/// the same.
pub const BUILD: &str = env!("PAIRLOOM_BUILD");
/// Version and build of this program, for people.
pub const VERSION_AND_BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " (build ", env!("PAIRLOOM_BUILD"), ")");
