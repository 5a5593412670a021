//! Output files of commands.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use pairloom_base::error::{Error, Result};

/// Checks that an output file can be written, before the query runs.
///
/// # Errors
/// The file exists and `is_forced` is false, or it is a folder.
pub fn check_output(path: &Path, is_forced: bool) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(Error::usage(format!("the output `{}` is a folder, wanted a file", path.display())))
        }
        Ok(found) if found.is_file() && !is_stream(path) && !is_forced => {
            Err(Error::usage(format!("the output `{}` exists", path.display())).hint("`--force` replaces it"))
        }
        _ => Ok(()),
    }
}

/// Returns true for the name of an open stream of the program, such as `/dev/stdout`, which can lead to a file.
fn is_stream(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd"].iter().any(|stream| path.starts_with(stream))
}

/// Writes a file under another name, which is renamed when it is complete, so that a failure leaves no partial result
/// and an older file stays. A pipe or device is written directly.
///
/// # Errors
/// `write` fails, or the file cannot be created.
pub fn write_file(path: &Path, write: impl FnOnce(BufWriter<File>) -> Result<()>) -> Result<()> {
    // A person knows the file by the name of the result.
    let create = |file: &Path| File::create(file).map_err(|error| Error::io("write", path, &error));
    if is_stream(path) || std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return write(BufWriter::new(create(path)?));
    }
    let mut name = path.to_owned().into_os_string();
    // Two commands that write the same file do not mix their rows.
    name.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(name);
    let result = create(&part)
        .and_then(|file| write(BufWriter::new(file)))
        .and_then(|()| std::fs::rename(&part, path).map_err(|error| Error::io("write", path, &error)));
    if result.is_err() {
        // A leftover file does no harm.
        let _ = std::fs::remove_file(&part);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn an_existing_file_is_replaced_only_if_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answer.csv");
        check_output(&path, false).unwrap();
        std::fs::write(&path, "precious").unwrap();
        let error = check_output(&path, false).unwrap_err();
        assert_eq!((error.category(), error.hint_text()), (ErrorCategory::Usage, Some("`--force` replaces it")));
        check_output(&path, true).unwrap();
        assert!(check_output(folder.path(), true).is_err(), "a folder");
        check_output(Path::new("/dev/null"), false).unwrap();
        check_output(Path::new("/dev/stdout"), false).unwrap();
    }

    #[test]
    fn a_file_below_dev_is_a_file_and_open_streams_are_not() {
        for stream in ["/dev/stdout", "/dev/stderr", "/dev/fd/1"] {
            assert!(is_stream(Path::new(stream)), "{stream}");
        }
        for file in ["/dev/shm/x.csv", "/dev/stdout.csv", "sub/dev/stdout"] {
            assert!(!is_stream(Path::new(file)), "{file}");
        }
    }
}
