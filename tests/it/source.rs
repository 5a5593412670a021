//! Files of the checkout, for tests about the code itself.

use std::fs;
use std::path::{Path, PathBuf};

/// Lists all files of the project below `root`, sorted, as (relative path with `/`, path). Build outputs, the store,
/// libtorch and hidden folders other than those of the project are excluded.
pub(crate) fn files(root: &Path) -> Vec<(String, PathBuf)> {
    let mut files = Vec::new();
    let walk = walkdir::WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(|entry| {
        let name = entry.file_name().to_string_lossy();
        let hidden = name.starts_with('.') && !matches!(&*name, ".ci" | ".cargo" | ".gitignore");
        entry.depth() == 0 || !(hidden || entry.depth() == 1 && matches!(&*name, "target" | "store"))
    });
    for entry in walk {
        let entry = entry.expect("the checkout is readable");
        if entry.file_type().is_file() {
            let relative = entry.path().strip_prefix(root).expect("it is below the root");
            files.push((relative.to_string_lossy().replace('\\', "/"), entry.into_path()));
        }
    }
    files
}

/// Writes a file of a made-up checkout, with its folders.
pub(crate) fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("it has one")).expect("it can be created");
    fs::write(path, text).expect("it can be written");
}
