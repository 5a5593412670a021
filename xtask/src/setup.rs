//! `cargo xtask setup`: makes the link `.libtorch` of the checkout point to a libtorch for the build.
//!
//! `.cargo/config.toml` sets LIBTORCH to that link unless the environment sets it, so plain `cargo build` and editors
//! use the same libtorch without further settings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libtorch::{self, VERSION};
use crate::shell::{self, TaskError, TaskResult, print_message};

/// Environment variables that make the build of `tch` ignore LIBTORCH.
const CONFLICTING_VARIABLES: [&str; 4] =
    ["LIBTORCH_USE_PYTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_STATIC"];

/// Checks the requirements of the build and installs libtorch if necessary. Takes milliseconds if everything is
/// installed.
pub(crate) fn setup() -> TaskResult {
    check_compiler()?;
    if let Some(name) = CONFLICTING_VARIABLES.iter().find(|name| std::env::var_os(name).is_some()) {
        return Err(TaskError::new(format!("{name} is set and would make the build use another libtorch"))
            .hint(format!("unset {name}; to use another libtorch, set LIBTORCH")));
    }
    let link = shell::root()?.join(".libtorch");
    // Cargo sets LIBTORCH to the link when the environment does not.
    match std::env::var_os("LIBTORCH").map(PathBuf::from).filter(|path| !is_same_entry(path, &link)) {
        Some(own) => {
            check_libtorch(&own).map_err(|problem| {
                TaskError::new(format!("LIBTORCH is not a usable libtorch: {problem}"))
                    .hint("unset LIBTORCH to have one fetched, or correct it")
            })?;
            set_link(&link, &own)
        }
        None => provide(&link),
    }
}

/// Returns true if two paths name the same entry of the same folder. A link at the end of a path is not followed.
fn is_same_entry(one: &Path, other: &Path) -> bool {
    let folder = |path: &Path| path.parent().and_then(|folder| folder.canonicalize().ok());
    one == other || (one.file_name() == other.file_name() && folder(one).is_some() && folder(one) == folder(other))
}

/// Makes the link point to a usable libtorch: its current target, or the one in the cache.
fn provide(link: &Path) -> TaskResult {
    let cached = libtorch::folder()?;
    if let Ok(there) = link.canonicalize()
        && cached.canonicalize().ok().as_ref() != Some(&there)
    {
        let Err(problem) = check_libtorch(link) else { return Ok(()) };
        if !link.is_symlink() {
            return Err(TaskError::new(format!("`.libtorch` is not a usable libtorch: {problem}")).hint("remove it"));
        }
        print_message(format!("`.libtorch` pointed to {}: {problem}", there.display()));
    }
    libtorch::provide(&cached)?;
    set_link(link, &cached)
}

/// Checks that the build can use the libtorch in `folder`.
///
/// # Errors
/// The problem, as text.
fn check_libtorch(folder: &Path) -> Result<(), String> {
    if !folder.is_absolute() {
        return Err(format!("`{}` is not an absolute path", folder.display()));
    }
    let library = |name: &str| format!("lib/{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    for expected in [library("torch_cpu"), library("c10"), "include/torch/csrc/api/include/torch/torch.h".to_owned()] {
        if !folder.join(&expected).is_file() {
            return Err(format!("no `{expected}` in `{}`", folder.display()));
        }
    }
    match version(folder) {
        Some(found) if found == VERSION => Ok(()),
        // The build of tch accepts any version if this variable is set.
        _ if std::env::var_os("LIBTORCH_BYPASS_VERSION_CHECK").is_some() => Ok(()),
        Some(found) => Err(format!("version {found} in `{}`, expected {VERSION}", folder.display())),
        None => Err(format!("neither `build-version` nor `version.py` in `{}`, expected {VERSION}", folder.display())),
    }
}

/// Version of a libtorch archive or of an installed Python package, without the local part after `+`.
fn version(folder: &Path) -> Option<String> {
    let archive = fs::read_to_string(folder.join("build-version")).ok();
    let package = || {
        let text = fs::read_to_string(folder.join("version.py")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
        Some(line.trim_matches(['\'', '"']).to_owned())
    };
    let text = archive.or_else(package)?;
    Some(text.trim().split('+').next()?.to_owned())
}

/// Makes `link` point to `target`, atomically.
fn set_link(link: &Path, target: &Path) -> TaskResult {
    if fs::read_link(link).is_ok_and(|found| found == target) {
        return Ok(());
    }
    if link.exists() && !link.is_symlink() {
        return Err(TaskError::new("`.libtorch` is a file or folder, expected a link").hint("remove it"));
    }
    let new = link.with_extension(std::process::id().to_string());
    std::os::unix::fs::symlink(target, &new).map_err(TaskError::io("create", &new))?;
    fs::rename(&new, link).map_err(TaskError::io("replace", link))?;
    print_message(format!("`.libtorch` points to {}", target.display()));
    Ok(())
}

/// Checks that there is a C++ compiler, found as in the build.
fn check_compiler() -> TaskResult {
    let named = std::env::var("CXX").unwrap_or_default();
    let mut words = named.split_whitespace();
    let program = words.next().unwrap_or("c++");
    if shell::succeeds(Command::new(program).args(words).arg("--version")) {
        return Ok(());
    }
    Err(TaskError::new(format!("no C++ compiler: `{program}` cannot be started"))
        .hint("install one (Debian, Ubuntu: g++; Fedora: gcc-c++), or name one in CXX"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_libtorch_archives_and_python_packages_are_read() {
        let folder = std::env::temp_dir().join(format!("xtask-version-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        assert_eq!(version(&folder), None);
        fs::write(folder.join("version.py"), "from x import y\n__version__ = '2.11.0+cu130'\ndebug = False\n")
            .expect("it can be written");
        assert_eq!(version(&folder).as_deref(), Some("2.11.0"));
        fs::write(folder.join("build-version"), "2.10.0+cpu\n").expect("it can be written");
        assert_eq!(version(&folder).as_deref(), Some("2.10.0"));

        assert!(check_libtorch(&folder).expect_err("it has no library").starts_with("no `lib/"));
        for expected in ["lib/libtorch_cpu.so", "lib/libc10.so", "include/torch/csrc/api/include/torch/torch.h"] {
            let path = folder.join(expected);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be created");
            fs::write(path, "").expect("it can be written");
        }
        assert!(check_libtorch(&folder).expect_err("it is too old").starts_with("version 2.10.0 in `"));
        fs::write(folder.join("build-version"), "2.11.0\n").expect("it can be written");
        assert_eq!(check_libtorch(&folder), Ok(()));
        fs::remove_dir_all(&folder).expect("it can be removed");
    }

    #[test]
    fn a_link_is_replaced_but_a_folder_is_not() {
        let folder = std::env::temp_dir().join(format!("xtask-point-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).expect("the temporary folder can be written");
        let link = folder.join("link");
        set_link(&link, &folder.join("gone")).expect("a dangling link may be made");
        set_link(&link, &folder.join("a")).expect("a link is replaced");
        assert_eq!(fs::read_link(&link).expect("it is a link"), folder.join("a"));
        assert!(is_same_entry(&link, &folder.join("a/../link")));
        assert!(!is_same_entry(&link, &folder.join("a")) && !is_same_entry(&link, &folder.join("gone/link")));
        set_link(&folder.join("a"), &link).expect_err("a folder is kept");
        fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
