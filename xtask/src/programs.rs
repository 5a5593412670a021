//! Programs of the registry that checks use.

use std::fs;
use std::path::PathBuf;

use crate::cached_folder::{cache, provide_with};
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Builds a program in the cache if necessary, without optimisation: it runs for seconds. Returns its path.
pub(crate) fn provide(name: &str, version: &str, options: &[&str]) -> TaskResult<PathBuf> {
    let folder = cache()?.join(format!("{name}-{version}"));
    provide_with(&folder, &format!("{name} {version}\n"), |into| {
        print_message(format!("building {name}: some two minutes once"));
        let products = into.join("target");
        let mut cargo = shell::cargo(["install", name, "--version", version, "--locked", "--debug", "--quiet"])?;
        cargo.args(options).arg("--root").arg(into).arg("--target-dir").arg(&products);
        shell::execute(&mut cargo)?;
        fs::remove_dir_all(&products).map_err(TaskError::io("remove", &products))
    })?;
    Ok(folder.join("bin").join(name))
}
