//! Processes of a benchmark: its own, and those of its peers.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Variables that `pairloom` sets for its programs.
fn variables(threads: usize) -> [(&'static str, String); 3] {
    [
        ("OMP_WAIT_POLICY", "PASSIVE".to_owned()),
        ("MALLOC_ARENA_MAX", threads.to_string()),
        ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1".to_owned()),
    ]
}

/// Starts this program again with the variables that `pairloom` sets for its programs. They must be there before
/// libraries load. Variables that are set already stay.
pub fn run_as_the_program(threads: usize) {
    let missing: Vec<_> = variables(threads).into_iter().filter(|(name, _)| std::env::var_os(name).is_none()).collect();
    if missing.is_empty() {
        return;
    }
    let mut own = Command::new(std::env::current_exe().expect("a path"));
    let error = own.args(std::env::args_os().skip(1)).envs(missing).exec();
    panic!("the program cannot start again: {error}");
}

/// Command of a peer, which has none of these variables. A variable whose name begins with `PEER_`, such as
/// `PEER_GLIBC_TUNABLES`, sets one of the peer.
pub fn peer(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in variables(1) {
        match std::env::var_os(format!("PEER_{name}")) {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}
