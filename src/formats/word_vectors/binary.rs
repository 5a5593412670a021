//! Word vectors in the binary format of word2vec.

use std::io::{BufRead, Read};

use super::collector::WordVectorCollector;
use super::reader::{MAX_WORD_BYTES, WordVectorReader};
use pairloom_base::error::{Error, Result, ValidationErrors};

/// Reads `count` entries from byte `start` on: a word, a space, the values, an optional line feed.
///
/// # Errors
/// The file ends before the last entry or continues after it: the error names the byte. Or values of wanted words are
/// not finite: the error lists all of them.
pub(super) fn read(
    reader: &mut WordVectorReader<'_>,
    collector: &mut WordVectorCollector<'_>,
    count: u64,
    start: u64,
) -> Result<()> {
    let mut at = start;
    let header = reader.content.by_ref().take(start).read_until(b'\n', &mut Vec::new());
    header.map_err(|error| reader.io_error(&error))?;
    let mut mistakes = ValidationErrors::in_file(reader.path);
    let (mut word, mut bytes) = (Vec::new(), vec![0; collector.width() * size_of::<f32>()]);
    for entry in 0..count {
        reader.check_cancelled(entry)?;
        let place = |at: u64| format!("`{}` vector {} of {count}, byte {at}", reader.path.display(), entry + 1);
        word.clear();
        let read = reader.content.by_ref().take(MAX_WORD_BYTES as u64).read_until(b' ', &mut word);
        let read = read.map_err(|error| reader.io_error(&error))?;
        if word.last() != Some(&b' ') {
            let long = read == MAX_WORD_BYTES;
            return Err(if long { word_too_long(&place(at)) } else { truncated_error(&place(at + read as u64)) });
        }
        at += read as u64;
        let got = fill(reader, &mut bytes)?;
        if got < bytes.len() {
            return Err(truncated_error(&place(at + got as u64)));
        }
        at += got as u64;
        // Skips the line feed after the previous entry.
        let name = word[..word.len() - 1].trim_ascii_start();
        let Some(slot) = collector.wanted_word(name) else { continue };
        let (numbers, _) = bytes.as_chunks();
        let values: Vec<f32> = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        match values.iter().find(|value| !value.is_finite()) {
            None => collector.store(slot, &values),
            Some(wrong) => {
                let name = String::from_utf8_lossy(name);
                mistakes.add(
                    format_args!("vector {}", entry + 1),
                    format_args!("{wrong} in the vector of `{name}`, wanted a finite number"),
                );
            }
        }
    }
    mistakes.into_result()?;
    let mut rest = Vec::new();
    reader.content.by_ref().take(16).read_to_end(&mut rest).map_err(|error| reader.io_error(&error))?;
    if rest.trim_ascii().is_empty() {
        return Ok(());
    }
    Err(Error::data(format!(
        "`{}` announces {count} vectors and continues after them, at byte {at}",
        reader.path.display()
    ))
    .hint("the file is damaged, or its first line is wrong: copy it or create it again"))
}

/// Reads until `bytes` is full or the file ends. Returns the number of bytes read.
fn fill(reader: &mut WordVectorReader<'_>, bytes: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match reader.content.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(reader.io_error(&error)),
        }
    }
    Ok(filled)
}

fn truncated_error(place: &str) -> Error {
    Error::data(format!("{place}: the file ends here")).hint("it is cut short: copy or download it again")
}

fn word_too_long(place: &str) -> Error {
    Error::data(format!("{place}: wanted a word of less than {MAX_WORD_BYTES} bytes with a space after it"))
        .hint("the file is damaged, or the width in its first line is wrong")
}
