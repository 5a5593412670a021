//! No code: the manifest of this crate sets features of dependencies for all others.
