//! The command `serve`, in a program without Flight SQL: an error that says how to build it.

use pairloom_base::error::Result;
use pairloom_cli::args::{CommonArgs, ServeArgs};
use pairloom_cli::console::Console;
use pairloom_cli::not_built;

pub(super) fn serve(_: &CommonArgs, _: &ServeArgs, _: Console) -> Result<()> {
    Err(not_built("serve"))
}
