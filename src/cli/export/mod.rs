//! `pairloom export TABLE`: tables of the store as files of other programs.

mod command;
mod folder;
mod npy;
mod precomp;
mod source;
mod webdataset;

pub(super) use command::export;
