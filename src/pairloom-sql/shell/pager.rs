//! Pager of the shell: results that are longer than the screen go through `less`, or the program that a variable names.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Variables that name the pager, the first one that is set. An empty one or `cat` turns it off.
const VARIABLES: [&str; 2] = ["PAIRLOOM_PAGER", "PAGER"];
/// Options of `less` unless the variable `LESS` has others: keep colours and the screen.
const LESS_OPTIONS: &str = "FRX";
/// Lines of the screen below a result: the number of rows, and the prompt.
const LINES_BELOW: usize = 2;

/// True while a pager owns the terminal and handles Ctrl-C.
static IS_PAGING: AtomicBool = AtomicBool::new(false);

/// Returns true while a pager owns the terminal.
pub(super) fn is_paging() -> bool {
    IS_PAGING.load(Ordering::SeqCst)
}

/// Command of the pager; `None` if results are printed directly.
pub(super) fn pager_command(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<OsString> {
    let named = VARIABLES.iter().find_map(|name| variable(name));
    let command = named.unwrap_or_else(|| "less".into());
    let text = command.to_string_lossy();
    let is_off = matches!(text.trim(), "" | "cat");
    (!is_off).then_some(command)
}

/// Writer of a result to the screen, or to the pager once it is longer than `height` lines.
pub(super) struct PagedOutput<'c> {
    command: Option<&'c OsString>,
    height: usize,
    /// Output so far; empty once the pager has started or was refused.
    held: Vec<u8>,
    lines: usize,
    pager: Option<(Child, Option<ChildStdin>)>,
}

impl<'c> PagedOutput<'c> {
    /// Output for a screen of `height` lines; without a command, directly to stdout.
    pub(super) fn new(command: Option<&'c OsString>, height: usize) -> Self {
        Self { command, height: height.saturating_sub(LINES_BELOW), held: Vec::new(), lines: 0, pager: None }
    }

    /// Writes what is left, and waits until the person quits the pager.
    pub(super) fn finish(self) -> std::io::Result<()> {
        if self.pager.is_none() {
            let mut stdout = std::io::stdout().lock();
            return stdout.write_all(&self.held).and_then(|()| stdout.flush());
        }
        Ok(())
    }

    fn start(&mut self) {
        let Some(command) = self.command.take() else { return };
        let mut program = if command == "less" {
            Command::new(command)
        } else {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(command);
            shell
        };
        if std::env::var_os("LESS").is_none() {
            program.env("LESS", LESS_OPTIONS);
        }
        IS_PAGING.store(true, Ordering::SeqCst);
        match program.stdin(Stdio::piped()).spawn() {
            Ok(mut child) => {
                let stdin = child.stdin.take();
                self.pager = Some((child, stdin));
            }
            // Without a pager, the result is printed.
            Err(_) => IS_PAGING.store(false, Ordering::SeqCst),
        }
    }
}

impl Write for PagedOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.command.is_some() {
            self.lines += bytes.split(|byte| *byte == b'\n').count() - 1;
            self.held.extend_from_slice(bytes);
            if self.lines > self.height {
                self.start();
                let held = std::mem::take(&mut self.held);
                self.write_all(&held)?;
            }
            return Ok(bytes.len());
        }
        match &mut self.pager {
            Some((_, Some(stdin))) => stdin.write(bytes),
            Some((_, None)) => Err(ErrorKind::BrokenPipe.into()),
            None => std::io::stdout().write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        // Output that is held is written at the end.
        match &mut self.pager {
            Some((_, Some(stdin))) => stdin.flush(),
            _ => Ok(()),
        }
    }
}

impl Drop for PagedOutput<'_> {
    fn drop(&mut self) {
        if let Some((mut child, stdin)) = self.pager.take() {
            drop(stdin);
            // The pager of a person who has gone needs no answer.
            let _ = child.wait();
            IS_PAGING.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pager_is_the_first_variable_and_can_be_turned_off() {
        let command = |variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            pager_command(&find).map(|command| command.to_string_lossy().into_owned())
        };
        assert_eq!(command(&[]).as_deref(), Some("less"));
        assert_eq!(command(&[("PAGER", "more -s")]).as_deref(), Some("more -s"));
        assert_eq!(command(&[("PAGER", "more"), ("PAIRLOOM_PAGER", "less -S")]).as_deref(), Some("less -S"));
        assert_eq!(command(&[("PAGER", "more"), ("PAIRLOOM_PAGER", "")]), None);
        assert_eq!(command(&[("PAGER", "cat")]), None);
    }

    #[test]
    fn a_result_longer_than_the_screen_goes_through_the_pager() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("paged");
        let command: OsString = format!("cat > '{}'", file.display()).into();
        let mut short = PagedOutput::new(Some(&command), 5);
        short.write_all(b"\n\n\n").unwrap();
        assert!(short.pager.is_none());
        short.finish().unwrap();
        assert!(!file.exists());
        let mut long = PagedOutput::new(Some(&command), 5);
        long.write_all(b"1\n2\n3\n4\n").unwrap();
        long.write_all(b"5\n").unwrap();
        long.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "1\n2\n3\n4\n5\n");
        // A pager that is quit early closes its pipe.
        let quit: OsString = "exit 0".into();
        let mut closed = PagedOutput::new(Some(&quit), 2);
        let error = (0..100_000).find_map(|_| closed.write_all(b"some text\n").err()).unwrap();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
