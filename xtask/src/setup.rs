//! `cargo xtask setup`: makes `.libtorch` of the checkout lead to a libtorch that the build can use.
//!
//! `.cargo/config.toml` sets LIBTORCH to that link unless the environment sets it, so plain `cargo build` and editors
//! find the same libtorch and nobody has to remember a variable.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libtorch::{self, VERSION};
use crate::shell::{self, Failure, Outcome, say};

/// Variables that make the build of `tch` look elsewhere than in LIBTORCH.
const ELSEWHERE: [&str; 4] = ["LIBTORCH_USE_PYTORCH", "LIBTORCH_INCLUDE", "LIBTORCH_LIB", "LIBTORCH_STATIC"];

/// Checks what the build needs and provides libtorch. Takes milliseconds when all is there.
pub(crate) fn setup() -> Outcome {
    compiler()?;
    if let Some(name) = ELSEWHERE.iter().find(|name| std::env::var_os(name).is_some()) {
        return Err(Failure::new(format!("{name} is set and would make the build use another libtorch"))
            .hint(format!("unset {name}; LIBTORCH alone says where a libtorch of your own is")));
    }
    let link = shell::root()?.join(".libtorch");
    // Cargo sets LIBTORCH to the link when the environment does not.
    match std::env::var_os("LIBTORCH").map(PathBuf::from).filter(|path| *path != link) {
        Some(own) => {
            check(&own).map_err(|problem| {
                Failure::new(format!("LIBTORCH does not lead to a usable libtorch: {problem}"))
                    .hint("unset LIBTORCH to have one fetched, or correct it")
            })?;
            point(&link, &own)
        }
        None => provide(&link),
    }
}

/// Makes the link lead to a usable libtorch: the one it leads to already, or that of the cache.
fn provide(link: &Path) -> Outcome {
    let cached = libtorch::folder()?;
    if let Ok(there) = link.canonicalize()
        && cached.canonicalize().ok().as_ref() != Some(&there)
    {
        let Err(problem) = check(link) else { return Ok(()) };
        if !link.is_symlink() {
            return Err(Failure::new(format!("`.libtorch` is not a usable libtorch: {problem}")).hint("remove it"));
        }
        say(format!("`.libtorch` led to {}: {problem}", there.display()));
    }
    libtorch::provide(&cached)?;
    point(link, &cached)
}

/// Says what keeps `folder` from being a libtorch that the build can use.
fn check(folder: &Path) -> Result<(), String> {
    if !folder.is_absolute() {
        return Err(format!("`{}` is not an absolute path", folder.display()));
    }
    let library = |name: &str| format!("lib/{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    for wanted in [library("torch_cpu"), library("c10"), "include/torch/csrc/api/include/torch/torch.h".to_owned()] {
        if !folder.join(&wanted).is_file() {
            return Err(format!("no `{wanted}` in `{}`", folder.display()));
        }
    }
    match version(folder) {
        Some(found) if found == VERSION => Ok(()),
        // What tch's own build honours, honoured here too.
        _ if std::env::var_os("LIBTORCH_BYPASS_VERSION_CHECK").is_some() => Ok(()),
        Some(found) => Err(format!("version {found} in `{}`, wanted {VERSION}", folder.display())),
        None => Err(format!("neither `build-version` nor `version.py` in `{}`, wanted {VERSION}", folder.display())),
    }
}

/// The version of a libtorch archive or of an installed Python package, without what follows a plus sign.
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

/// Makes `link` lead to `target`, in one step.
fn point(link: &Path, target: &Path) -> Outcome {
    if fs::read_link(link).is_ok_and(|found| found == target) {
        return Ok(());
    }
    if link.exists() && !link.is_symlink() {
        return Err(Failure::new("`.libtorch` is a file or folder, wanted a link").hint("remove it"));
    }
    let new = link.with_extension(std::process::id().to_string());
    std::os::unix::fs::symlink(target, &new).map_err(Failure::io("create", &new))?;
    fs::rename(&new, link).map_err(Failure::io("replace", link))?;
    say(format!("`.libtorch` leads to {}", target.display()));
    Ok(())
}

/// A C++ compiler, found as the build finds it.
fn compiler() -> Outcome {
    let named = std::env::var("CXX").unwrap_or_default();
    let mut words = named.split_whitespace();
    let program = words.next().unwrap_or("c++");
    if shell::works(Command::new(program).args(words).arg("--version")) {
        return Ok(());
    }
    Err(Failure::new(format!("no C++ compiler: `{program}` cannot be started"))
        .hint("install one (Debian, Ubuntu: g++; Fedora: gcc-c++), or name one in CXX"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_libtorch_and_as_python_write_them() {
        let folder = std::env::temp_dir().join(format!("xtask-version-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder can be written");
        assert_eq!(version(&folder), None);
        fs::write(folder.join("version.py"), "from x import y\n__version__ = '2.11.0+cu130'\ndebug = False\n")
            .expect("it can be written");
        assert_eq!(version(&folder).as_deref(), Some("2.11.0"));
        fs::write(folder.join("build-version"), "2.10.0+cpu\n").expect("it can be written");
        assert_eq!(version(&folder).as_deref(), Some("2.10.0"));

        assert!(check(&folder).expect_err("it has no library").starts_with("no `lib/"));
        for wanted in ["lib/libtorch_cpu.so", "lib/libc10.so", "include/torch/csrc/api/include/torch/torch.h"] {
            let path = folder.join(wanted);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be created");
            fs::write(path, "").expect("it can be written");
        }
        assert!(check(&folder).expect_err("it is too old").starts_with("version 2.10.0 in `"));
        fs::write(folder.join("build-version"), "2.11.0\n").expect("it can be written");
        assert_eq!(check(&folder), Ok(()));
        fs::remove_dir_all(&folder).expect("it can be removed");
    }

    #[test]
    fn a_link_is_replaced_and_a_folder_is_not() {
        let folder = std::env::temp_dir().join(format!("xtask-point-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).expect("the temporary folder can be written");
        let link = folder.join("link");
        point(&link, &folder.join("gone")).expect("a dangling link may be made");
        point(&link, &folder.join("a")).expect("a link is replaced");
        assert_eq!(fs::read_link(&link).expect("it is a link"), folder.join("a"));
        point(&folder.join("a"), &link).expect_err("a folder is kept");
        fs::remove_dir_all(&folder).expect("it can be removed");
    }
}
