//! A run as one of several processes: which one the environment says, how they reach each other, and what all but the first
//! do.

use std::time::Duration;

use super::args::{Common, Pipeline as Arguments};
use super::open;
use super::output::Output;
use super::torch::Torch;
use super::{handover, interrupt};
use crate::engine::ranks::{Board, Boards, Place, RankOptions, decline};
use crate::error::{Error, Result};
use crate::model::collective::KeyStore;
use crate::pipeline::Faults;
use crate::runtime::Cancel;

/// libtorch's stores of keys, for the engine. Only a program that links libtorch may name it.
#[derive(Debug)]
pub struct TorchBoards;

impl Boards for TorchBoards {
    fn serve(&self, host: &str, port: u16, patience: Duration) -> Result<(Box<dyn Board>, u16)> {
        let store = KeyStore::serve(host, port, patience)?;
        let port = store.port();
        Ok((Box::new(store), port))
    }

    fn connect(&self, host: &str, port: u16, patience: Duration) -> Result<Box<dyn Board>> {
        Ok(Box::new(KeyStore::connect(host, port, patience)?))
    }
}

impl Board for KeyStore {
    fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.set(key, value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        KeyStore::get(self, key)
    }
}

/// Which of several processes this is, if it is one of several.
///
/// # Errors
/// The environment contradicts itself.
pub(super) fn place() -> Result<Option<Place>> {
    Place::of(&|name| std::env::var(name).ok())
}

/// How a run may use several processes.
pub(super) fn options(common: &Common, torch: Option<Torch>, place: Option<&Place>) -> RankOptions {
    let program = std::env::current_exe().ok().map(std::path::PathBuf::into_os_string);
    RankOptions {
        boards: torch.map(|torch| torch.boards),
        place: place.cloned(),
        command: program.into_iter().chain(std::env::args_os().skip(1)).collect(),
        patience: Duration::from_secs(common.rank_timeout),
        give_up: Some(interrupt::give_up),
    }
}

/// Works for rank 0 until the run has ended.
///
/// # Errors
/// What ended the run. A process that rank 0 started says nothing more of it: rank 0 does.
pub(super) fn follow(
    common: &Common,
    arguments: &Arguments,
    torch: Option<Torch>,
    place: &Place,
    output: Output,
) -> Result<()> {
    let Some(torch) = torch else { return Err(handover::hand_over()) };
    let cancel = Cancel::new();
    interrupt::watch(&cancel)?;
    let options = open::options(common, &arguments.file, options(common, Some(torch), Some(place)));
    let work = || {
        let pipeline = match open::pipeline(&arguments.file, &arguments.set, true) {
            Ok(pipeline) => pipeline,
            Err(faults) => {
                let _ = open::show(&faults, output);
                return Err(decline(&options, place, mistakes(&faults, arguments), &cancel));
            }
        };
        let store = match open::store(common) {
            Ok(store) => store,
            Err(error) => return Err(decline(&options, place, error, &cancel)),
        };
        (torch.follow)(&pipeline.plan, &store, &options, place, &cancel)
    };
    work().map_err(|error| match place.token {
        Some(_) => Error::new(error.kind(), ""),
        None => error.context(format!("rank {}", place.rank)),
    })
}

/// Mistakes of a pipeline file that were shown here, in short for the other ranks.
pub(super) fn mistakes(faults: &Faults, arguments: &Arguments) -> Error {
    let (number, file) = (faults.faults().len(), arguments.file.display());
    Error::usage(format!("its pipeline file `{file}` has {number} mistakes"))
}
