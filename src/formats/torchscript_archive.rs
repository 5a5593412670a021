//! Archives of TorchScript: zip files with code, constants and weights, as `torch.jit.save` writes them.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use zip::ZipArchive;

use pairloom_base::error::{Error, Result, catch_panic, escape_line};
use pairloom_storage::bounded;

/// First bytes of a zip file.
const ZIP_MARK: &[u8] = b"PK\x03\x04";

/// Hint for files of other formats.
const HINT: &str = "write the file in Python: `torch.jit.trace(model.eval(), images).save(\"module.pt\")`";

/// Checks that a file is an archive of TorchScript, and that its records have their checksums, which libtorch does not
/// compare.
///
/// # Errors
/// The file is missing, not a regular file, of another format, which the error names, or damaged.
pub fn check(path: &Path) -> Result<()> {
    let name = path.display();
    let start = bounded::read_start(path, bounded::START_BYTES as u64)?;
    if !start.starts_with(ZIP_MARK) {
        let found = format_of_start(&start);
        return Err(Error::data(format!("`{name}` is {found}, expected an archive of TorchScript")).hint(HINT));
    }
    let file = bounded::open(path)?;
    catch_panic(|| check_records(file)).map_err(|error| error.context(format!("`{name}`")))
}

/// Format of a file that is no zip file.
fn format_of_start(start: &[u8]) -> &'static str {
    match start {
        [] => "empty (0 bytes)",
        [_, _, _, _, _, 0, 0, 0, b'{', ..] => "a safetensors file, which has weights without code",
        [0x80, 2..=5, ..] => "a pickle of an old `torch.save`",
        [0x08, 1..=31, 0x12, ..] => "an ONNX model",
        [0x7f, b'E', b'L', b'F', ..] => "a shared library, such as AOTInductor compiles",
        _ => match bounded::other_format(start) {
            Some((format, _)) => format,
            None if std::str::from_utf8(start).is_ok_and(|text| !text.chars().any(is_binary)) => "a text file",
            None => "no zip file",
        },
    }
}

fn is_binary(c: char) -> bool {
    c.is_control() && !c.is_whitespace()
}

/// Checks the names of the records, and reads all of them, which compares their checksums.
fn check_records(file: File) -> Result<()> {
    let damaged = |error: &dyn std::fmt::Display| {
        Error::data(format!("it is damaged or cut short: {error}")).hint("copy it or write it again")
    };
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| damaged(&error))?;
    if let Some(format) = format_of_records(archive.file_names().filter_map(|name| Some(name.split_once('/')?.1))) {
        return Err(Error::data(format!("it is {format}, expected an archive of TorchScript")).hint(HINT));
    }
    for number in 0..archive.len() {
        let mut record = archive.by_index(number).map_err(|error| damaged(&error))?;
        let name = escape_line(record.name());
        std::io::copy(&mut record, &mut std::io::sink())
            .map_err(|error| damaged(&format!("record `{name}`: {error}")))?;
    }
    Ok(())
}

/// Format of a zip file with these records, whose folder is left out; `None` for an archive of TorchScript.
fn format_of_records<'n>(records: impl Iterator<Item = &'n str>) -> Option<&'static str> {
    let records: Vec<&str> = records.collect();
    let has = |start: &str| records.iter().any(|name| name.starts_with(start));
    if has("data/aotinductor/") {
        Some("a package of AOTInductor, compiled for one machine")
    } else if has("models/") || has("serialized_exported_program.json") {
        Some("a program of `torch.export`")
    } else if has("code/") && has("constants.pkl") {
        None
    } else if has("data.pkl") {
        Some("a file of `torch.save`, with weights or objects without code")
    } else {
        Some("another zip file")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write as _};

    use super::*;

    /// Zip file of records with these names.
    fn zip_of(names: &[&str]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for name in names {
            let options = zip::write::FileOptions::default().compression_method(zip::CompressionMethod::Stored);
            writer.start_file(format!("m/{name}"), options).unwrap();
            writer.write_all(b"0123456789").unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    #[test]
    fn other_formats_and_damaged_archives_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("module.pt");
        let check_bytes = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            check(&path)
        };
        let whole = zip_of(&["data.pkl", "code/__torch__.py", "constants.pkl", "data/0"]);
        check_bytes(&whole).unwrap();
        let mut changed = whole.clone();
        let last = changed.windows(10).rposition(|bytes| bytes == b"0123456789").unwrap();
        changed[last] = b'1';
        for (bytes, expected) in [
            (&b""[..], "is empty (0 bytes), expected an archive of TorchScript"),
            (b"a dog on a beach\n", "is a text file"),
            (b"\x08\x08\x12\x07pytorch", "is an ONNX model"),
            (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "is a pickle of an old `torch.save`"),
            (b"\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":", "is a safetensors file"),
            (b"\x7fELF\x02\x01\x01\x00", "is a shared library"),
            (b"\x00\x01\x02\x03", "is no zip file"),
            (&zip_of(&["data.pkl", "data/0"]), "a file of `torch.save`, with weights or objects without code"),
            (&zip_of(&["data/aotinductor/model/x.so"]), "a package of AOTInductor, compiled for one machine"),
            (&zip_of(&["models/model.json"]), "a program of `torch.export`"),
            (&zip_of(&["sheet.xml"]), "another zip file"),
            (&changed, "it is damaged or cut short: record `m/data/0`: Invalid checksum"),
            (&whole[..whole.len() - 30], "it is damaged or cut short"),
        ] {
            let error = check_bytes(bytes).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}, expected {expected}");
            assert!(error.hint_text().is_some(), "{error}");
        }
        assert!(check(&path.with_extension("none")).is_err());
        // Bytes of the directory that are changed are an error or another archive, never a panic.
        for at in 0..whole.len() {
            let mut bent = whole.clone();
            bent[at] ^= 0x55;
            let _ = check_bytes(&bent);
        }
    }
}
