//! The CPU libtorch in the cache: downloading it, publishing it whole, noticing that it is damaged.
//!
//! The wheel `torch` of the Python package index is a CUDA build. Work on the CPU needs three libraries of it and one
//! each of two small wheels; they are fetched with pip and used without Python.
//!
//! ```text
//! ~/.cache/pairloom/
//!   libtorch-2.11.0-cpu/            appears by one rename, never half-finished
//!     build-version include/ lib/
//!     complete                      what was fetched and the size of every file
//!   libtorch-2.11.0-cpu.lock        held while one set-up works, so that two do not work at once
//!   libtorch-2.11.0-cpu.new.PID/    being fetched; whoever holds the lock removes what others left
//! ```

use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::shell::{self, Failure, Outcome, say};

/// The version that the crate `tch` is made for.
pub(crate) const VERSION: &str = "2.11.0";

/// What is fetched: a requirement with its hash, the platform of the wheel, and the files to keep.
const WHEELS: [[&str; 3]; 3] = [
    [
        "torch==2.11.0 --hash=sha256:7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
        "manylinux_2_28_x86_64",
        "torch/include/,torch/lib/libc10.so,torch/lib/libtorch_cpu.so,torch/lib/libgomp.so.1",
    ],
    [
        "nvidia-cuda-runtime==13.0.96 --hash=sha256:7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        "manylinux_2_17_x86_64",
        "nvidia/cu13/lib/libcudart.so.13",
    ],
    [
        "nvidia-cuda-cupti==13.0.85 --hash=sha256:4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
        "manylinux_2_25_x86_64",
        "nvidia/cu13/lib/libcupti.so.13",
    ],
];

/// Name of the file that says that a folder is whole.
const MARKER: &str = "complete";

/// Its last line.
const END: &str = "end\n";

/// Where the libtorch of this version is kept, whether it is there or not.
pub(crate) fn folder() -> Outcome<PathBuf> {
    // An empty or relative XDG_CACHE_HOME is to be ignored, says the XDG base directory specification.
    let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = xdg.or_else(home).ok_or_else(|| Failure::new("neither XDG_CACHE_HOME nor HOME is set"))?;
    Ok(cache.join(format!("pairloom/libtorch-{VERSION}-cpu")))
}

/// Makes sure that `folder` holds a whole libtorch, fetching it if need be.
pub(crate) fn provide(folder: &Path) -> Outcome {
    provide_with(folder, &recipe(), fetch)
}

/// What the marker begins with: another recipe makes another libtorch.
fn recipe() -> String {
    WHEELS.iter().fold(String::new(), |mut text, [requirement, _, members]| {
        let _ = writeln!(text, "{requirement} {members}");
        text
    })
}

/// Makes sure that `folder` holds all that `fetch` brought when it was called with this recipe, calling it if need be.
pub(crate) fn provide_with(folder: &Path, recipe: &str, fetch: impl FnOnce(&Path) -> Outcome) -> Outcome {
    if damage(folder, recipe).is_none() {
        return Ok(());
    }
    let cache = folder.parent().ok_or_else(|| Failure::new("the cache folder has no parent"))?;
    fs::create_dir_all(cache).map_err(Failure::io("create", cache))?;
    let _lock = lock(&folder.with_added_extension("lock"))?;
    // Whoever held the lock may have done the work.
    let Some(damage) = damage(folder, recipe) else { return Ok(()) };
    if folder.exists() {
        say(format!("`{}` is of no use and will be replaced: {damage}", folder.display()));
    }
    remove_leftovers(folder, cache);

    let new = folder.with_added_extension(format!("new.{}", std::process::id()));
    let done = fetch(&new).and_then(|()| seal(&new, recipe)).and_then(|()| publish(&new, folder));
    if done.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    done
}

/// Why `folder` is not whole; `None` if it is.
fn damage(folder: &Path, recipe: &str) -> Option<String> {
    let Ok(marker) = fs::read_to_string(folder.join(MARKER)) else {
        return Some(if folder.exists() { "it is half-finished" } else { "it is not there" }.to_owned());
    };
    let Some(files) = marker.strip_prefix(recipe) else {
        return Some("it was made by another version of this set-up".to_owned());
    };
    let Some(files) = files.strip_suffix(END) else { return Some(format!("`{MARKER}` is cut short")) };
    files.lines().find_map(|line| {
        let (size, name) = line.split_once(' ')?;
        match fs::metadata(folder.join(name)) {
            Ok(found) if found.len().to_string() == size => None,
            Ok(found) => Some(format!("`{name}` has {} bytes instead of {size}", found.len())),
            Err(_) => Some(format!("`{name}` is missing")),
        }
    })
}

/// Waits until no other set-up works on this folder. The lock ends with the process, however it ends.
fn lock(path: &Path) -> Outcome<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(Failure::io("open", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            say("another set-up is at work; waiting for it");
            file.lock().map_err(Failure::io("lock", path))?;
        }
        Err(TryLockError::Error(error)) => return Err(Failure::io("lock", path)(error)),
    }
    Ok(file)
}

/// Removes what killed set-ups left. Failing to is no reason to stop: a program that outlived its set-up may still write.
fn remove_leftovers(folder: &Path, cache: &Path) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let found = entry.file_name();
        if found.to_string_lossy().strip_prefix(&name).is_some_and(|rest| rest.starts_with(".new.")) {
            say(format!("removing what an interrupted set-up left: {}", entry.path().display()));
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn fetch(into: &Path) -> Outcome {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Err(Failure::new("there is no libtorch to fetch for this machine, only for Linux x86-64 with glibc")
            .hint(format!("set LIBTORCH to the folder of a libtorch {VERSION}")));
    }
    if !shell::works(Command::new("python3").arg("--version")) {
        return Err(Failure::new("no `python3`; libtorch is fetched with pip")
            .hint("install Python 3 with pip (Debian, Ubuntu: python3-pip; Fedora: python3-pip), or set LIBTORCH"));
    }
    if !shell::works(Command::new("python3").args(["-m", "pip", "--version"])) {
        return Err(Failure::new("`python3` has no pip; libtorch is fetched with it").hint(
            "install it (Debian, Ubuntu, Fedora: python3-pip), or `python3 -m ensurepip --user`, or set LIBTORCH",
        ));
    }
    say(format!("fetching libtorch {VERSION}: 544 MB to download once, 1.2 GB while unpacking, 0.5 GB to stay"));
    let start = Instant::now();
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("fetch.py")]).arg(into).args(WHEELS.iter().flatten());
    match python.status().map(|status| status.code()) {
        Ok(Some(0)) => {}
        Ok(Some(3)) => {
            return Err(Failure::new("pip could not download libtorch; its own words are above").hint(format!(
                "pip must reach its package index; where there is no network, set LIBTORCH to a libtorch {VERSION}"
            )));
        }
        Ok(Some(130)) => return Err(Failure::new("interrupted; nothing was left behind")),
        Ok(_) => return Err(Failure::new("libtorch could not be fetched; the reason is above")),
        Err(error) => return Err(Failure::new(format!("cannot start python3: {error}"))),
    }
    // The build links against `libtorch.so`, which in the wheel also drags in CUDA.
    let library = into.join("lib/libtorch.so");
    std::os::unix::fs::symlink("libtorch_cpu.so", &library).map_err(Failure::io("link", &library))?;
    let version = into.join("build-version");
    fs::write(&version, format!("{VERSION}\n")).map_err(Failure::io("write", &version))?;
    say(format!("fetched in {:.0} s", start.elapsed().as_secs_f64()));
    Ok(())
}

/// Writes the marker: the recipe, then size and name of every file. A file that a power cut robs of its content also
/// loses its size.
fn seal(folder: &Path, recipe: &str) -> Outcome {
    let mut marker = recipe.to_owned();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).map_err(Failure::io("read", &at))? {
            let path = entry.map_err(Failure::io("read", &at))?.path();
            let found = fs::metadata(&path).map_err(Failure::io("read", &path))?;
            if found.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path);
            let _ = writeln!(marker, "{} {}", found.len(), name.display());
        }
    }
    marker.push_str(END);
    let path = folder.join(MARKER);
    fs::write(&path, marker).map_err(Failure::io("write", &path))
}

/// Puts `new` where `folder` is or should be.
fn publish(new: &Path, folder: &Path) -> Outcome {
    let old = new.with_added_extension("old");
    if folder.exists() {
        fs::rename(folder, &old).map_err(Failure::io("move away", folder))?;
    }
    fs::rename(new, folder).map_err(Failure::io("publish", folder))?;
    let _ = fs::remove_dir_all(&old);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in the temporary folder of the system, removed at the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
        fn libtorch(&self) -> PathBuf {
            self.0.join("cache/libtorch-0-cpu")
        }
        /// Provides a libtorch of two files; says whether it had to be fetched.
        fn provide(&self, recipe: &str) -> bool {
            let mut fetched = false;
            let done = provide_with(&self.libtorch(), recipe, |into| {
                fetched = true;
                two_files(into)
            });
            done.expect("a scratch folder can be written");
            fetched
        }
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.0.join("cache")).expect("the cache is there");
            let mut names: Vec<_> = entries
                .map(|entry| entry.expect("it is readable").file_name().into_string().expect("it is text"))
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn two_files(into: &Path) -> Outcome {
        fs::create_dir_all(into.join("lib")).map_err(Failure::io("create", into))?;
        fs::write(into.join("lib/libc10.so"), "0123456789").map_err(Failure::io("write", into))?;
        fs::write(into.join("build-version"), "0\n").map_err(Failure::io("write", into))
    }

    #[test]
    fn a_whole_folder_is_fetched_once() {
        let scratch = Scratch::new("once");
        assert!(scratch.provide("recipe\n"));
        assert!(!scratch.provide("recipe\n"));
        assert!(scratch.provide("another recipe\n"));
        assert_eq!(scratch.names(), ["libtorch-0-cpu", "libtorch-0-cpu.lock"]);
    }

    #[test]
    fn damage_is_noticed_and_repaired() {
        let scratch = Scratch::new("damage");
        scratch.provide("recipe\n");
        let library = scratch.libtorch().join("lib/libc10.so");

        fs::write(&library, "01234").expect("it can be cut short");
        let found = damage(&scratch.libtorch(), "recipe\n");
        assert_eq!(found.as_deref(), Some("`lib/libc10.so` has 5 bytes instead of 10"));
        assert!(scratch.provide("recipe\n"));

        fs::remove_file(&library).expect("it can be removed");
        assert_eq!(damage(&scratch.libtorch(), "recipe\n").as_deref(), Some("`lib/libc10.so` is missing"));
        assert!(scratch.provide("recipe\n"));

        let marker = scratch.libtorch().join(MARKER);
        fs::write(&marker, "recipe\n10 lib/libc").expect("it can be cut short");
        assert_eq!(damage(&scratch.libtorch(), "recipe\n").as_deref(), Some("`complete` is cut short"));
        assert!(scratch.provide("recipe\n"));

        fs::remove_file(marker).expect("it can be removed");
        assert_eq!(damage(&scratch.libtorch(), "recipe\n").as_deref(), Some("it is half-finished"));
        assert!(scratch.provide("recipe\n"));
        assert_eq!(fs::read_to_string(&library).expect("it is there"), "0123456789");
        assert_eq!(scratch.names(), ["libtorch-0-cpu", "libtorch-0-cpu.lock"]);
    }

    #[test]
    fn a_failed_or_killed_fetch_leaves_nothing_that_counts() {
        let scratch = Scratch::new("failed");
        let failed = provide_with(&scratch.libtorch(), "recipe\n", |into| {
            two_files(into)?;
            Err(Failure::new("the network is gone"))
        });
        assert_eq!(failed.expect_err("the fetch failed").to_string(), "the network is gone");
        assert_eq!(scratch.names(), ["libtorch-0-cpu.lock"]);

        // A process that was killed leaves its folder.
        two_files(&scratch.0.join("cache/libtorch-0-cpu.new.1")).expect("it can be written");
        assert!(scratch.provide("recipe\n"));
        assert_eq!(scratch.names(), ["libtorch-0-cpu", "libtorch-0-cpu.lock"]);
    }

    #[test]
    fn of_two_set_ups_at_once_one_fetches() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let scratch = Scratch::new("two");
        let fetches = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let done = provide_with(&scratch.libtorch(), "recipe\n", |into| {
                        fetches.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(30));
                        two_files(into)
                    });
                    done.expect("a scratch folder can be written");
                });
            }
        });
        assert_eq!(fetches.into_inner(), 1);
    }
}
