//! Interactive shell of `pairloom sql`.

mod command;
mod line_helper;
mod pager;
mod read_eval;
mod session_opener;

pub(super) use command::{HELP, ShellCommand, is_command, parse, statement};
pub(super) use read_eval::run;
pub(super) use session_opener::SessionOpener;
