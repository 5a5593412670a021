//! Power cuts for tests: records the calls of a store, and makes what a disk may hold after a cut at any of them.
//!
//! POSIX promises only what was synced. Of the rest each name may have any state since its folder was last synced, and a
//! file that was not synced may have its content, none, a part, or zeros. A folder whose name was not synced may be gone
//! with all that is in it.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::durable_folder::{FolderCalls, SystemCalls};

/// Call that changed a folder.
#[derive(Debug, Clone)]
enum Call {
    Create(PathBuf),
    Write(PathBuf, Vec<u8>),
    SyncFile(PathBuf),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Call {
    /// Path of the file or folder. Of two names, the new one.
    fn path(&self) -> &Path {
        match self {
            Self::Create(path)
            | Self::Write(path, _)
            | Self::SyncFile(path)
            | Self::SyncFolder(path)
            | Self::Rename(_, path)
            | Self::Link(_, path)
            | Self::Remove(path) => path,
        }
    }
}

/// Choice of what survives of that which was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Nothing,
    /// All names, but no content.
    Names,
    /// A choice for each name and file, drawn with this seed.
    Drawn(u64),
}

/// Calls of the operating system, recorded.
#[derive(Debug)]
pub struct RecordedCalls {
    root: PathBuf,
    calls: Mutex<Vec<Call>>,
}

/// File of a disk: its content, and the length that was synced.
#[derive(Debug, Default)]
struct DiskFile {
    content: Vec<u8>,
    synced: Option<usize>,
}

/// States of a name, the first of which is "absent", and the number of the one that was last synced.
#[derive(Debug)]
struct NameStates {
    files: Vec<Option<usize>>,
    synced: usize,
}

/// Disk with all states that a cut may leave.
#[derive(Debug, Default)]
struct Disk {
    files: Vec<DiskFile>,
    names: BTreeMap<PathBuf, NameStates>,
    /// True for folders whose names were synced.
    folders: BTreeMap<PathBuf, bool>,
}

impl RecordedCalls {
    /// Recorder of the calls below `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), calls: Mutex::default() }
    }

    /// Number of calls so far.
    pub fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    /// Path of the file or folder of each call so far; of a rename or link, the new name.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.calls.lock().unwrap().iter().map(|call| call.path().to_owned()).collect()
    }

    /// Writes into the folder `into` what the disk may hold if the power fails after the first `cut` calls.
    pub fn write_disk(&self, cut: usize, survival: Survival, into: &Path) {
        let mut disk = Disk::default();
        self.calls.lock().unwrap()[..cut].iter().for_each(|call| disk.apply(call, &self.root));
        disk.write(survival, &self.root, into);
    }

    fn record(&self, result: &io::Result<impl Sized>, call: Call) {
        if result.is_ok() {
            self.calls.lock().unwrap().push(call);
        }
    }
}

impl Disk {
    fn apply(&mut self, call: &Call, root: &Path) {
        match call {
            Call::Create(path) => {
                self.files.push(DiskFile::default());
                let file = Some(self.files.len() - 1);
                self.name(path, root, file);
            }
            Call::Write(path, bytes) => self.file(path).content.extend(bytes),
            Call::SyncFile(path) => {
                let file = self.file(path);
                file.synced = Some(file.content.len());
            }
            Call::SyncFolder(folder) => {
                let below = |path: &Path| path.parent() == Some(folder);
                for (_, states) in self.names.iter_mut().filter(|(path, _)| below(path)) {
                    states.synced = states.files.len() - 1;
                }
                self.folders.iter_mut().filter(|(path, _)| below(path)).for_each(|(_, synced)| *synced = true);
            }
            Call::Rename(from, to) => {
                let file = self.current(from);
                self.name(from, root, None);
                self.name(to, root, file);
            }
            Call::Link(from, to) => {
                let file = self.current(from);
                self.name(to, root, file);
            }
            Call::Remove(path) => self.name(path, root, None),
        }
    }

    fn current(&self, path: &Path) -> Option<usize> {
        *self.names[path].files.last().unwrap()
    }

    fn file(&mut self, path: &Path) -> &mut DiskFile {
        let file = self.current(path).unwrap();
        &mut self.files[file]
    }

    fn name(&mut self, path: &Path, root: &Path, file: Option<usize>) {
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != root) {
            self.folders.entry(folder.to_owned()).or_insert(false);
        }
        let states = self.names.entry(path.to_owned()).or_insert(NameStates { files: vec![None], synced: 0 });
        states.files.push(file);
    }

    fn write(&self, survival: Survival, root: &Path, into: &Path) {
        let mut draws = 0;
        let mut draw = |below: usize| match survival {
            Survival::Nothing => 0,
            Survival::Names => below - 1,
            Survival::Drawn(seed) => {
                draws += 1;
                let hash = blake3::hash(format!("{seed} {draws}").as_bytes());
                usize::from(hash.as_bytes()[0]) % below
            }
        };
        let mut lost = Vec::new();
        for (folder, synced) in &self.folders {
            if !synced && draw(2) == 0 {
                lost.push(folder);
            }
        }
        for (path, states) in &self.names {
            let file = states.files[states.synced + draw(states.files.len() - states.synced)];
            let Some(file) = file.filter(|_| !lost.iter().any(|folder| path.starts_with(folder))) else { continue };
            let DiskFile { content, synced } = &self.files[file];
            let mut content = content.clone();
            if *synced != Some(content.len()) {
                match if survival == Survival::Names { 1 } else { draw(4) } {
                    0 => {}
                    1 => content.clear(),
                    2 => content.truncate(content.len() / 2),
                    _ => content.fill(0),
                }
            }
            let target = into.join(path.strip_prefix(root).unwrap());
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, content).unwrap();
        }
    }
}

impl FolderCalls for RecordedCalls {
    fn create(&self, path: &Path) -> io::Result<File> {
        let result = SystemCalls.create(path);
        self.record(&result, Call::Create(path.to_owned()));
        result
    }

    fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let result = SystemCalls.write(file, path, bytes);
        self.record(&result, Call::Write(path.to_owned(), bytes.to_vec()));
        result
    }

    /// Records the call only: no test cuts the power of this machine.
    fn sync_file(&self, _file: &File, path: &Path) -> io::Result<()> {
        self.record(&Ok(()), Call::SyncFile(path.to_owned()));
        Ok(())
    }

    /// Records the call only.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.record(&Ok(()), Call::SyncFolder(folder.to_owned()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let result = SystemCalls.rename(from, to);
        self.record(&result, Call::Rename(from.to_owned(), to.to_owned()));
        result
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let result = SystemCalls.link(from, to);
        self.record(&result, Call::Link(from.to_owned(), to.to_owned()));
        result
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let result = SystemCalls.remove(path);
        self.record(&result, Call::Remove(path.to_owned()));
        result
    }
}
