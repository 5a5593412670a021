//! Folders of the cache that set-up fills: atomic publication, and detection of damage.
//!
//! ```text
//! ~/.cache/pairloom/
//!   libtorch-2.11.0-cpu/            complete; created by one rename
//!     build-version include/ lib/
//!     complete                      marker: recipe and the size of every file
//!   libtorch-2.11.0-cpu.lock        lock of the set-up process at work
//!   libtorch-2.11.0-cpu.new.PID/    incomplete download; the holder of the lock removes those of others
//! ```

use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::shell::{TaskError, TaskResult, print_message};

/// Name of the marker file of a complete folder.
const MARKER: &str = "complete";

/// Last line of the marker.
const END: &str = "end\n";

/// Folder of the cache. It need not exist.
pub(crate) fn cache() -> TaskResult<PathBuf> {
    // The XDG base directory specification demands that an empty or relative XDG_CACHE_HOME is ignored.
    let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = xdg.or_else(home).ok_or_else(|| TaskError::new("neither XDG_CACHE_HOME nor HOME is set"))?;
    Ok(cache.join("pairloom"))
}

/// Ensures that `folder` has all files of `recipe`, calling `fetch` if necessary.
pub(crate) fn provide_with(folder: &Path, recipe: &str, fetch: impl FnOnce(&Path) -> TaskResult) -> TaskResult {
    if damage(folder, recipe).is_none() {
        return Ok(());
    }
    let cache = folder.parent().ok_or_else(|| TaskError::new("the cache folder has no parent"))?;
    fs::create_dir_all(cache).map_err(TaskError::io("create", cache))?;
    let _lock = lock(&folder.with_added_extension("lock"))?;
    // Another process may have installed it while this one waited for the lock.
    let Some(damage) = damage(folder, recipe) else { return Ok(()) };
    if folder.exists() {
        print_message(format!("`{}` is unusable and will be replaced: {damage}", folder.display()));
    }
    remove_leftovers(folder, cache);

    let new = folder.with_added_extension(format!("new.{}", std::process::id()));
    let done = fetch(&new).and_then(|()| write_marker(&new, recipe)).and_then(|()| publish(&new, folder));
    if done.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    done
}

/// Returns the reason why `folder` is unusable; `None` if it is complete.
fn damage(folder: &Path, recipe: &str) -> Option<String> {
    let Ok(marker) = fs::read_to_string(folder.join(MARKER)) else {
        return Some(if folder.exists() { "it is incomplete" } else { "it does not exist" }.to_owned());
    };
    let Some(files) = marker.strip_prefix(recipe) else {
        return Some("another version of this set-up created it".to_owned());
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

/// Waits for the exclusive lock of a folder. The operating system releases it when the process ends.
fn lock(path: &Path) -> TaskResult<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(TaskError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            print_message("another set-up is at work; waiting for it");
            file.lock().map_err(TaskError::io("lock", path))?;
        }
        Err(TryLockError::Error(error)) => return Err(TaskError::io("lock", path)(error)),
    }
    Ok(file)
}

/// Removes the incomplete downloads of killed set-ups. Errors are ignored, as a download process may still be writing.
fn remove_leftovers(folder: &Path, cache: &Path) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        let found = entry.file_name();
        if found.to_string_lossy().strip_prefix(&name).is_some_and(|rest| rest.starts_with(".new.")) {
            print_message(format!("removing the files of an interrupted set-up: {}", entry.path().display()));
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes the marker: the recipe, then size and name of every file. A power failure that loses the content of a file
/// also changes its size.
fn write_marker(folder: &Path, recipe: &str) -> TaskResult {
    let mut marker = recipe.to_owned();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).map_err(TaskError::io("read", &at))? {
            let path = entry.map_err(TaskError::io("read", &at))?.path();
            let found = fs::metadata(&path).map_err(TaskError::io("read", &path))?;
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
    fs::write(&path, marker).map_err(TaskError::io("write", &path))
}

/// Moves `new` to `folder`, and removes the previous folder.
fn publish(new: &Path, folder: &Path) -> TaskResult {
    let old = new.with_added_extension("old");
    if folder.exists() {
        fs::rename(folder, &old).map_err(TaskError::io("move away", folder))?;
    }
    fs::rename(new, folder).map_err(TaskError::io("publish", folder))?;
    let _ = fs::remove_dir_all(&old);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Temporary cache folder, removed when dropped.
    struct ScratchCache(PathBuf);

    impl ScratchCache {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
        fn folder(&self) -> PathBuf {
            self.0.join("cache/libtorch-0-cpu")
        }
        /// Provides a folder of two files. Returns true if it was fetched.
        fn provide(&self, recipe: &str) -> bool {
            let mut fetched = false;
            let done = provide_with(&self.folder(), recipe, |into| {
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

    impl Drop for ScratchCache {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn two_files(into: &Path) -> TaskResult {
        fs::create_dir_all(into.join("lib")).map_err(TaskError::io("create", into))?;
        fs::write(into.join("lib/libc10.so"), "0123456789").map_err(TaskError::io("write", into))?;
        fs::write(into.join("build-version"), "0\n").map_err(TaskError::io("write", into))
    }

    #[test]
    fn a_complete_folder_is_fetched_once() {
        let scratch = ScratchCache::new("once");
        assert!(scratch.provide("recipe\n"));
        assert!(!scratch.provide("recipe\n"));
        assert!(scratch.provide("another recipe\n"));
        assert_eq!(scratch.names(), ["libtorch-0-cpu", "libtorch-0-cpu.lock"]);
    }

    #[test]
    fn damage_is_detected_and_repaired() {
        let scratch = ScratchCache::new("damage");
        scratch.provide("recipe\n");
        let library = scratch.folder().join("lib/libc10.so");

        fs::write(&library, "01234").expect("it can be cut short");
        let found = damage(&scratch.folder(), "recipe\n");
        assert_eq!(found.as_deref(), Some("`lib/libc10.so` has 5 bytes instead of 10"));
        assert!(scratch.provide("recipe\n"));

        fs::remove_file(&library).expect("it can be removed");
        assert_eq!(damage(&scratch.folder(), "recipe\n").as_deref(), Some("`lib/libc10.so` is missing"));
        assert!(scratch.provide("recipe\n"));

        let marker = scratch.folder().join(MARKER);
        fs::write(&marker, "recipe\n10 lib/libc").expect("it can be cut short");
        assert_eq!(damage(&scratch.folder(), "recipe\n").as_deref(), Some("`complete` is cut short"));
        assert!(scratch.provide("recipe\n"));

        fs::remove_file(marker).expect("it can be removed");
        assert_eq!(damage(&scratch.folder(), "recipe\n").as_deref(), Some("it is incomplete"));
        assert!(scratch.provide("recipe\n"));
        assert_eq!(fs::read_to_string(&library).expect("it is there"), "0123456789");
        assert_eq!(scratch.names(), ["libtorch-0-cpu", "libtorch-0-cpu.lock"]);
    }

    #[test]
    fn a_failed_or_killed_fetch_leaves_no_usable_folder() {
        let scratch = ScratchCache::new("failed");
        let failed = provide_with(&scratch.folder(), "recipe\n", |into| {
            two_files(into)?;
            Err(TaskError::new("the network is gone"))
        });
        assert_eq!(failed.expect_err("the fetch failed").to_string(), "the network is gone");
        assert_eq!(scratch.names(), ["libtorch-0-cpu.lock"]);

        // A killed process leaves its incomplete folder.
        two_files(&scratch.0.join("cache/libtorch-0-cpu.new.1")).expect("it can be written");
        assert!(scratch.provide("recipe\n"));
        assert_eq!(scratch.names(), ["libtorch-0-cpu", "libtorch-0-cpu.lock"]);
    }

    #[test]
    fn one_of_several_concurrent_set_ups_fetches() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let scratch = ScratchCache::new("two");
        let fetches = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let done = provide_with(&scratch.folder(), "recipe\n", |into| {
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
