//! Text of a pipeline file, and messages if there is none.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::diagnostic::Diagnostic;
use super::source_map::SourceSpan;
use pairloom_base::suggest::{closest_name, quoted_list};

/// Maximum size of a pipeline file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Folder that is searched for pipeline files too, beside the one that was named.
const PIPELINE_FOLDER: &str = "pipelines";

/// Number of pipeline files that a message lists.
const LISTED_FILES: usize = 12;

/// Reads the text of the file. On failure returns the text that could be read and a diagnostic.
pub(super) fn read_text(path: &Path) -> Result<String, Box<(String, Diagnostic)>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Box::new((String::new(), unreadable(path, &error))))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message =
            format!("`{}` has more than {MAX_FILE_BYTES} bytes, the maximum size of a pipeline file", path.display());
        return Err(Box::new((String::new(), Diagnostic::new(SourceSpan::nowhere(), message))));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let message = format!("`{}` is UTF-16, wanted UTF-8", path.display());
        let diagnostic = Diagnostic::new(SourceSpan::nowhere(), message).hint("save the file as UTF-8");
        return Err(Box::new((String::new(), diagnostic)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let text = String::from_utf8_lossy(bytes).into_owned();
        let message = format!("the byte 0x{:02x} is not UTF-8", bytes.get(good).copied().unwrap_or_default());
        let diagnostic = Diagnostic::new(SourceSpan::in_file(good..good + '\u{fffd}'.len_utf8()), message);
        Box::new((text, diagnostic.hint("save the file as UTF-8")))
    })
}

/// Diagnostic of a file that cannot be read.
fn unreadable(path: &Path, error: &std::io::Error) -> Diagnostic {
    let at = SourceSpan::nowhere();
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound => {
            let diagnostic = Diagnostic::new(at, format!("there is no pipeline file `{shown}`"));
            suggest(diagnostic, path, path.parent().unwrap_or(Path::new("")))
        }
        ErrorKind::IsADirectory => {
            let diagnostic = Diagnostic::new(at, format!("`{shown}` is a folder, wanted a pipeline file"));
            suggest(diagnostic, path, path)
        }
        _ => Diagnostic::new(at, format!("cannot read the pipeline file `{shown}`: {error}")),
    }
}

/// Adds the pipeline files of `folder`, and the one that `path` is probably a misspelling of.
fn suggest(diagnostic: Diagnostic, path: &Path, folder: &Path) -> Diagnostic {
    let wanted = path.file_name().unwrap_or_default().to_string_lossy();
    let here = pipeline_files(folder);
    let mut all = [here, pipeline_files(&folder.join(PIPELINE_FOLDER))].concat();
    if all.is_empty() {
        all = pipeline_files(Path::new(PIPELINE_FOLDER));
    }
    let name = |file: &str| Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let names: Vec<String> = all.iter().map(|file| name(file)).collect();
    let similar = closest_name(&wanted, names.iter().map(String::as_str)).map(str::to_owned);
    let diagnostic = match similar.and_then(|similar| all.iter().find(|file| name(file) == similar)) {
        Some(file) => diagnostic.hint(format!("did you mean `{file}`?")),
        None => diagnostic,
    };
    if all.is_empty() {
        return diagnostic;
    }
    let more = if all.len() > LISTED_FILES { " …" } else { "" };
    let list = quoted_list(all.iter().take(LISTED_FILES).map(String::as_str));
    diagnostic.note(format!("there are {list}{more}"))
}

/// Files of a folder that end in `.toml`, sorted. Empty if the folder cannot be read.
fn pipeline_files(folder: &Path) -> Vec<String> {
    let read = std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let entries = read.into_iter().flatten().flatten().map(|entry| folder.join(entry.file_name()));
    let files = entries.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    // Rust's own files are no pipelines.
    let own = ["Cargo.toml", "clippy.toml", "rustfmt.toml", "pyproject.toml"];
    let files = files.filter(|path| !own.iter().any(|own| path.ends_with(own)));
    let mut files: Vec<String> = files.map(|path| path.display().to_string()).collect();
    files.sort_unstable();
    files
}
