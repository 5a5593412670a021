//! `cargo xtask book`: the book of `docs/` as pages for a browser, by mdBook. `docs/book.toml` has its settings.

use std::process::Command;

use crate::programs;
use crate::shell::{self, TaskResult};

/// Version of mdBook to build.
const VERSION: &str = "0.5.3";

/// Builds the pages into `target/book/`.
pub(crate) fn build() -> TaskResult {
    let program = programs::provide("mdbook", VERSION, &["--no-default-features", "--features", "search"])?;
    shell::execute(Command::new(program).args(["build", "docs"]).current_dir(shell::root()?))
}
