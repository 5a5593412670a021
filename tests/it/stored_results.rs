//! Tests of commands on the results of a store: damaged pages, a removal beside an unchanged run, provenance, and names and
//! texts that control a terminal.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::cli::{SYNTHETIC, assert_code, command, folder, json_lines, program, run, stderr, stdout};

/// Stage that writes `report.html` and `report.md`.
const REPORT: &str = "\n[stage.page.report]\ntitle = \"Pictures\"\nimages = \"pairs.images\"\n";

/// Sorted names of what is in a folder; empty if there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn nothing_is_copied_of_a_report_with_a_damaged_page() {
    let folder = folder(&format!("{SYNTHETIC}{REPORT}"));
    let copy = || run(folder.path(), &["report", "--output", "copied"]);
    let copied = || names(&folder.path().join("copied"));
    for page in ["report.html", "report.md"] {
        // The second run makes the page that was damaged before again.
        assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
        let mut files = walkdir::WalkDir::new(folder.path().join("store")).into_iter().map(Result::unwrap);
        let path = files.find(|file| file.file_name() == page).expect("the page").into_path();
        let mut content = fs::read(&path).expect("the page");
        content[100] ^= 4;
        fs::write(&path, content).expect("the page");
        let refused = copy();
        assert_code(&refused, 3);
        let message = stderr(&refused);
        assert!(message.contains(&format!("{page}` is damaged: its digest differs")), "{message}");
        assert_eq!(copied(), Vec::<String>::new(), "the other page is sound, and not copied alone");
    }
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    assert_code(&copy(), 0);
    assert_eq!(copied(), ["report.html", "report.md"]);
}

/// Flag of a file whose writes fail where others would wait, on Linux.
const O_NONBLOCK: i32 = 0o4000;

/// Pipe that is full: the next write to it waits until something has been read.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // Opened anew, because the flag belongs to an open file and others would share it.
    let place = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut filler = File::options().write(true).custom_flags(O_NONBLOCK).open(place).expect("the pipe");
    let mut bytes = 0;
    loop {
        match filler.write(&[b'\n'; 4096]) {
            Ok(written) => bytes += written,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "after {bytes} bytes: {error}");
                return (reader, writer);
            }
        }
    }
}

/// True if the process has a shared lock. The list of the kernel is read, since a lock of ours would disturb it.
fn has_shared_lock(process: u32) -> bool {
    let locks = fs::read_to_string("/proc/locks").expect("the locks");
    let process = process.to_string();
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], [_, "FLOCK", _, "READ", holder, ..] if holder == process)
    })
}

/// The first event of the run waits for space in a pipe: after the look at the results, and before the record of their use.
#[test]
fn gc_removes_nothing_while_an_unchanged_run_takes_up_its_results() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let (mut reader, writer) = full_pipe();
    let mut unchanged = {
        // The command has the other end of the pipe as long as it lives.
        let mut command = command(&program(), folder.path(), &["run", "p.toml", "--json"]);
        command.stdout(writer).stderr(Stdio::null()).spawn().expect("the program starts")
    };
    let process = unchanged.id();
    let is_held = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        has_shared_lock(process)
    });
    assert!(is_held, "the run holds the results");
    let refused = run(folder.path(), &["gc", "--delete"]);
    assert_code(&refused, 2);
    assert!(stderr(&refused).contains("a run or a query uses this store"), "{}", stderr(&refused));
    let mut events = String::new();
    reader.read_to_string(&mut events).expect("the events");
    assert!(unchanged.wait().expect("it ends").success(), "{events}");
    assert!(events.contains("\"stage_reused\"") && events.contains("\"run_finished\""), "{events}");
    assert_code(&run(folder.path(), &["gc", "--delete"]), 0);
}

#[test]
fn an_unchanged_run_waits_while_results_are_removed_and_then_looks_at_what_is_left() {
    let folder = folder(SYNTHETIC);
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let store = folder.path().join("store/v1");
    // As `gc --delete` does.
    let removal = File::open(store.join("lock")).expect("the lock");
    removal.lock().expect("nobody else has it");
    let mut waiting = command(&program(), folder.path(), &["run", "p.toml"]);
    let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let stderr = BufReader::new(waiting.stderr.take().expect("stderr"));
    let mut lines = stderr.lines().map(|line| line.expect("a line"));
    let waits = |line: String| line.starts_with("store: waiting for ") && line.contains("which removes results");
    assert!(lines.any(waits), "it waits");
    fs::remove_dir_all(store.join("ingest")).expect("the results");
    drop(removal);
    let rest: Vec<String> = lines.collect();
    assert!(waiting.wait().expect("it ends").success(), "{rest:?}");
    assert!(rest.iter().any(|line| line.starts_with("1 of 1 stage ran")), "{rest:?}");
    assert!(store.join("ingest").is_dir());
}

#[test]
fn the_provenance_of_a_result_names_the_build() {
    let folder = folder(&format!("{SYNTHETIC}{REPORT}"));
    assert_code(&run(folder.path(), &["run", "p.toml"]), 0);
    let printed = stdout(&run(folder.path(), &["--version"]));
    let version = printed.trim_end().strip_prefix("pairloom ").expect("the name of the program");
    let build = version.strip_prefix(concat!(env!("CARGO_PKG_VERSION"), " (build "));
    let build = build.and_then(|rest| rest.strip_suffix(')')).expect("the version and the build");
    // A hash of 64 bits.
    assert!(build.len() == 16 && build.bytes().all(|digit| digit.is_ascii_hexdigit()), "{build}");
    let result = json_lines(&run(folder.path(), &["show", "latest", "pairs", "--json"])).remove(0);
    assert_eq!(result["manifest"]["pairloom"], version);
    let record = json_lines(&run(folder.path(), &["runs", "--json"])).remove(0);
    assert_eq!(record["pairloom"], version);
    let page = stdout(&run(folder.path(), &["report"]));
    assert!(page.contains(&format!("- Pairloom: {} \\(build {build}\\)\n", env!("CARGO_PKG_VERSION"))), "{page}");
}

#[test]
fn names_and_notes_that_control_a_terminal_are_shown_escaped() {
    let folder = folder(SYNTHETIC);
    // The title of the window, and a control of one character (C1) that clears the screen.
    let file = "p\u{1b}]0;title\u{7}\u{9b}2J.toml";
    fs::rename(folder.path().join("p.toml"), folder.path().join(file)).expect("a file");
    assert_code(&run(folder.path(), &["run", file]), 0);
    let store = folder.path().join("store/v1");
    let record = names(&store.join("runs")).remove(0);
    let name = record.strip_suffix(".json").expect("a record");
    // `pairloom note` refuses such a text. A store can be somebody else's.
    fs::create_dir_all(store.join("notes")).expect("a folder");
    fs::write(store.join("notes").join(name), "seen\u{1b}[2J\u{7f}").expect("a note");
    let shown_file = r"p\u{1b}]0;title\u{7}\u{9b}2J.toml";
    let shown_note = r"seen\u{1b}[2J\u{7f}";
    for (arguments, shown) in [
        (&["runs"][..], &[shown_file, shown_note][..]),
        (&["show", name], &[shown_file]),
        (&["note", name], &[shown_note]),
        (&["gc"], &[name]),
        (&["run", file], &[]),
    ] {
        let output = run(folder.path(), arguments);
        assert_code(&output, 0);
        let text = stdout(&output) + &stderr(&output);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{arguments:?}: {text:?}");
        assert!(shown.iter().all(|shown| text.contains(shown)), "{arguments:?}: {text:?}");
    }
}
