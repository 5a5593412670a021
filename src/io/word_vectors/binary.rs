//! Word vectors in word2vec's binary form.

use std::io::{BufRead, Read};

use super::keep::Keep;
use super::source::{LONGEST_WORD, Source};
use crate::error::{Error, Mistakes, Result};

/// Reads the `count` entries that begin at byte `start`: a word, a space, the values, perhaps a line feed.
///
/// # Errors
/// The file ends before, or goes on after: the error names the byte. Values of wanted words that are not finite: all of
/// them at once.
pub(super) fn read(source: &mut Source<'_>, keep: &mut Keep<'_>, count: u64, start: u64) -> Result<()> {
    let mut at = start;
    let header = source.content.by_ref().take(start).read_until(b'\n', &mut Vec::new());
    header.map_err(|error| source.failed(&error))?;
    let mut mistakes = Mistakes::of(source.path);
    let (mut word, mut bytes) = (Vec::new(), vec![0; keep.width() * size_of::<f32>()]);
    for entry in 0..count {
        source.proceed(entry)?;
        let place = |at: u64| format!("`{}` vector {} of {count}, byte {at}", source.path.display(), entry + 1);
        word.clear();
        let read = source.content.by_ref().take(LONGEST_WORD as u64).read_until(b' ', &mut word);
        let read = read.map_err(|error| source.failed(&error))?;
        if word.last() != Some(&b' ') {
            let long = read == LONGEST_WORD;
            return Err(if long { endless(&place(at)) } else { cut_short(&place(at + read as u64)) });
        }
        at += read as u64;
        let got = fill(source, &mut bytes)?;
        if got < bytes.len() {
            return Err(cut_short(&place(at + got as u64)));
        }
        at += got as u64;
        // The line feed after the entry before.
        let name = word[..word.len() - 1].trim_ascii_start();
        let Some(slot) = keep.slot(name) else { continue };
        let (numbers, _) = bytes.as_chunks();
        let values: Vec<f32> = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        match values.iter().find(|value| !value.is_finite()) {
            None => keep.put(slot, &values),
            Some(wrong) => {
                let name = String::from_utf8_lossy(name);
                mistakes.add(
                    format_args!("vector {}", entry + 1),
                    format_args!("{wrong} in the vector of `{name}`, wanted a finite number"),
                );
            }
        }
    }
    mistakes.finish()?;
    let mut rest = Vec::new();
    source.content.by_ref().take(16).read_to_end(&mut rest).map_err(|error| source.failed(&error))?;
    if rest.trim_ascii().is_empty() {
        return Ok(());
    }
    Err(Error::data(format!(
        "`{}` announces {count} vectors and goes on after them, at byte {at}",
        source.path.display()
    ))
    .hint("the file is damaged, or its first line is not its own: copy or make it again"))
}

/// Reads until `bytes` are full or the file ends; says how many were read.
fn fill(source: &mut Source<'_>, bytes: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match source.content.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(source.failed(&error)),
        }
    }
    Ok(filled)
}

fn cut_short(place: &str) -> Error {
    Error::data(format!("{place}: the file ends here")).hint("it is cut short: copy or download it again")
}

fn endless(place: &str) -> Error {
    Error::data(format!("{place}: wanted a word of less than {LONGEST_WORD} bytes with a space after it"))
        .hint("the file is damaged, or its vectors have another width than its first line says")
}
