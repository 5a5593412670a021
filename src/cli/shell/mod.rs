//! Interactive shell of `pairloom sql`.

mod command;
mod line_helper;
mod read_eval;

pub(super) use read_eval::run;
