//! Samples of WebDataset archives: tar files in which adjacent files of one name, up to its first point, belong together.

use std::cell::RefCell;
use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, ErrorKind, Read};
use std::path::{Component, Path};

use az::SaturatingAs;
use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_storage::bounded;
use pairloom_storage::image_names::shown_name;

/// Maximum size of a file of a sample in bytes.
pub const MAX_MEMBER_BYTES: u64 = 16 << 20;

/// First bytes of a file that is compressed with gzip.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";
/// Bytes of a block of an archive.
const BLOCK_BYTES: u64 = 512;

/// Bytes between two checks for the end of a run.
const CHECKED_BYTES: u64 = 16 << 20;

/// Sample: the files of one name.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TarSample {
    /// Path in the archive up to the first point of the name of the file.
    pub key: String,
    /// Extension in lower case, without the point, and content of each file.
    pub members: Vec<(String, Vec<u8>)>,
    /// True if an earlier sample of the archive has this key: files of a sample are not side by side.
    pub is_repeated: bool,
}

impl TarSample {
    /// Content of the file with this extension.
    #[must_use]
    pub fn member(&self, extension: &str) -> Option<&[u8]> {
        self.members.iter().find(|(known, _)| known == extension).map(|(_, content)| content.as_slice())
    }
}

/// Part of an archive.
#[derive(Debug)]
pub enum TarPart {
    /// A sample.
    Sample(TarSample),
    /// A file that is part of no sample: a link, a device, a sparse file, one whose path leads out of the archive, or one
    /// of more than [`MAX_MEMBER_BYTES`].
    RefusedFile {
        /// Path in the archive, fit for messages.
        path: String,
        /// Key of the sample of which it would be part, and its extension in lower case.
        member: Option<(String, String)>,
        /// Reason, such as `is a link, wanted a file`.
        reason: String,
    },
}

/// Calls `visit` for each sample and each refused file of an archive, which may be compressed with gzip. Calls
/// `check` before each file and every 16 MiB; its error ends the reading. Folders, and files without an extension, are no
/// samples.
///
/// Memory: one sample, and 8 bytes for the name of each. Files are never written.
///
/// # Errors
/// The archive is damaged or cut short, or has other bytes than zeros after its end. Or it has two files of one name, or
/// parts that `visit` refuses: the error lists all of them. Or an error of `check`.
pub fn for_each(
    path: &Path,
    check: impl Fn() -> Result<()>,
    mut visit: impl FnMut(TarPart) -> Result<Result<(), String>>,
) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let file = bounded::open(path)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut file = std::io::BufReader::with_capacity(1 << 20, file);
    let is_compressed = file.fill_buf().map_err(failed)?.starts_with(GZIP_MAGIC);
    let content: Box<dyn Read> =
        if is_compressed { Box::new(bounded::limited(MultiGzDecoder::new(file), bytes)) } else { Box::new(file) };
    let stop = RefCell::new(None);
    let damaged = |error: std::io::Error| {
        if let Some(stop) = stop.take() {
            return stop;
        }
        let error = Error::data(format!("the archive `{}` is damaged or cut short: {error}", path.display()));
        error.hint("copy it or create it again")
    };
    let counted = CountedContent { content, check: &check, stop: &stop, unchecked: 0, at: 0, zeros: 0 };
    let mut archive = Archive::new(counted);
    let mut mistakes = ValidationErrors::in_file(path);
    let mut sample = TarSample::default();
    // Digests of the keys, for messages alone.
    let (mut keys, digest) = (HashSet::new(), RandomState::new());
    // Where the last file ends, padded.
    let mut end = 0;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        check()?;
        // The content of a sparse file, which is refused, is shorter than the file, and its size stands in the header.
        // Otherwise a size in PAX attributes replaces that of the header.
        let stored = if entry.header().entry_type() == EntryType::GNUSparse {
            entry.header().entry_size().unwrap_or_default()
        } else {
            entry.size()
        };
        end = entry.raw_file_position().saturating_add(stored).next_multiple_of(BLOCK_BYTES);
        let shown = shown_name(&String::from_utf8_lossy(&entry.path_bytes())).into_owned();
        let place = format!("file `{shown}`");
        let kind =
            if is_sparse(&mut entry).map_err(damaged)? { EntryType::GNUSparse } else { entry.header().entry_type() };
        let (key, extension) = match member_name(&entry.path_bytes(), kind, entry.size()) {
            Ok(Some(name)) => name,
            Ok(None) => continue,
            Err(reason) => {
                let member = key_and_extension(&String::from_utf8_lossy(&entry.path_bytes()));
                if let Err(message) = visit(TarPart::RefusedFile { path: shown, member, reason })? {
                    mistakes.add(place, message);
                }
                continue;
            }
        };
        if key != sample.key {
            let is_repeated = !keys.insert(digest.hash_one(&key));
            if is_repeated {
                mistakes.hint("the files of a sample are expected side by side: `tar --sort=name` writes them so");
            }
            let complete = std::mem::replace(&mut sample, TarSample { key, members: Vec::new(), is_repeated });
            visit_sample(complete, &mut mistakes, &mut visit)?;
        }
        if sample.member(&extension).is_some() {
            mistakes.add(place, "its sample has two files of this extension");
            continue;
        }
        let mut bytes = Vec::with_capacity(entry.size().saturating_as::<usize>());
        entry.by_ref().take(MAX_MEMBER_BYTES).read_to_end(&mut bytes).map_err(damaged)?;
        sample.members.push((extension, bytes));
    }
    visit_sample(sample, &mut mistakes, &mut visit)?;
    let mut rest = archive.into_inner();
    // An archive ends with two blocks of zeros. One that is cut between two files would otherwise seem to be whole, also if the
    // last file ends with zeros.
    if rest.zeros.min(rest.at.saturating_sub(end)) < BLOCK_BYTES {
        return Err(damaged(ErrorKind::UnexpectedEof.into()));
    }
    // What follows is zeros too, unless the first ones are damage, or two archives are in one file. A compressed file has a
    // checksum at its end.
    let (first, zeros) = (rest.at, rest.zeros);
    let read = std::io::copy(&mut rest, &mut std::io::sink()).map_err(damaged)?;
    if rest.zeros != zeros + read {
        let message = format!("`{}` has other bytes than zeros after its end at byte {first}", path.display());
        return Err(Error::data(message)
            .hint("the archive is damaged, or several are in one file: copy it, or name them one by one"));
    }
    if rest.at.saturating_sub(end) < 2 * BLOCK_BYTES {
        return Err(damaged(ErrorKind::UnexpectedEof.into()));
    }
    mistakes.into_result()
}

/// True for a sparse file, whose content is not what stands in the archive.
fn is_sparse<R: Read>(entry: &mut Entry<'_, R>) -> std::io::Result<bool> {
    let mut is_sparse = entry.header().entry_type() == EntryType::GNUSparse;
    for attribute in entry.pax_extensions()?.into_iter().flatten() {
        is_sparse |= attribute?.key_bytes().starts_with(b"GNU.sparse.");
    }
    Ok(is_sparse)
}

/// Content of an archive. It counts the bytes that were read, and the zeros at their end.
struct CountedContent<'a, R> {
    content: R,
    check: &'a dyn Fn() -> Result<()>,
    /// Error of the check.
    stop: &'a RefCell<Option<Error>>,
    /// Number of bytes that were read since the last check.
    unchecked: u64,
    at: u64,
    zeros: u64,
}

impl<R: Read> Read for CountedContent<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.unchecked >= CHECKED_BYTES {
            self.unchecked = 0;
            if let Err(error) = (self.check)() {
                self.stop.replace(Some(error));
                return Err(std::io::Error::other("the reading was ended"));
            }
        }
        let read = self.content.read(buffer)?;
        self.unchecked += read as u64;
        self.at += read as u64;
        let zeros = buffer[..read].iter().rev().take_while(|&&byte| byte == 0).count();
        self.zeros = if zeros == read { self.zeros + zeros as u64 } else { zeros as u64 };
        Ok(read)
    }
}

/// Calls `visit` for a sample, if it has files.
fn visit_sample(
    sample: TarSample,
    mistakes: &mut ValidationErrors,
    visit: &mut impl FnMut(TarPart) -> Result<Result<(), String>>,
) -> Result<()> {
    if sample.members.is_empty() {
        return Ok(());
    }
    let place = format!("sample `{}`", shown_name(&sample.key));
    if let Err(message) = visit(TarPart::Sample(sample))? {
        mistakes.add(place, message);
    }
    Ok(())
}

/// Key and extension of a file; `None` for what is no part of a sample. The error says why a file is refused.
fn member_name(path: &[u8], kind: EntryType, size: u64) -> Result<Option<(String, String)>, String> {
    match kind {
        EntryType::Regular | EntryType::Continuous => {}
        EntryType::GNUSparse => return Err("is a sparse file, expected a file without holes".to_owned()),
        EntryType::Directory | EntryType::XGlobalHeader => return Ok(None),
        // The label of a volume, of GNU tar.
        _ if kind.as_byte() == b'V' => return Ok(None),
        EntryType::Link | EntryType::Symlink => return Err("is a link, expected a file".to_owned()),
        _ => return Err("is neither a file nor a folder".to_owned()),
    }
    let text = std::str::from_utf8(path).map_err(|_| "its name is no UTF-8".to_owned())?;
    let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(text).components().all(is_inside) {
        return Err("its path leads out of the archive".to_owned());
    }
    let member = key_and_extension(text);
    if member.is_some() && size > MAX_MEMBER_BYTES {
        return Err(format!("has {size} bytes, expected at most {MAX_MEMBER_BYTES}"));
    }
    Ok(member)
}

/// Path up to the first point of the name, and the rest of the name in lower case; `None` if one of them is empty.
fn key_and_extension(path: &str) -> Option<(String, String)> {
    let name_start = path.rfind('/').map_or(0, |slash| slash + 1);
    let (stem, extension) = path[name_start..].split_once('.')?;
    let are_there = !stem.is_empty() && !extension.is_empty();
    are_there.then(|| (path[..name_start + stem.len()].to_owned(), extension.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tar::{Builder, Header};

    use super::*;

    /// Archive of entries: path as it is in the header, type and content.
    fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (path, kind, content) in entries {
            let mut header = Header::new_gnu();
            // Unlike the builder's own functions, this writes any path.
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn read(name: &str, content: &[u8]) -> Result<Vec<TarSample>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), content).unwrap();
        let mut samples = Vec::new();
        for_each(
            &folder.path().join(name),
            || Ok(()),
            |part| match part {
                TarPart::Sample(sample) => {
                    samples.push(sample);
                    Ok(Ok(()))
                }
                TarPart::RefusedFile { reason, .. } => Ok(Err(reason)),
            },
        )?;
        Ok(samples)
    }

    #[test]
    fn adjacent_files_of_one_name_are_a_sample() {
        let file = EntryType::Regular;
        let content = archive(&[
            ("a/", EntryType::Directory, b""),
            ("label.txt", EntryType::new(b'V'), b""),
            ("a/x 1.JPG", file, b"picture"),
            ("a/x 1.txt", file, b"text"),
            ("./b.seg.png", file, b"mask"),
            ("README", file, b"no sample"),
            ("a/ä.txt", file, b""),
        ]);
        let sample = |key: &str, members: &[(&str, &str)]| TarSample {
            key: key.to_owned(),
            members: members.iter().map(|(end, text)| ((*end).to_owned(), text.as_bytes().to_vec())).collect(),
            is_repeated: false,
        };
        let expected = [
            sample("a/x 1", &[("jpg", "picture"), ("txt", "text")]),
            sample("./b", &[("seg.png", "mask")]),
            sample("a/ä", &[("txt", "")]),
        ];
        assert_eq!(read("one.tar", &content).unwrap(), expected);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packed, &content).unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(read("one.tar.gz", &packed).unwrap(), expected);
        for cut in [packed.len() / 2, packed.len() - 12] {
            let error = read("one.tgz", &packed[..cut]).unwrap_err().to_string();
            assert!(error.contains("damaged or cut short"), "{error}");
        }
        // The first block is a folder, the second one a label, and the third one the header of a file.
        for cut in [0, 512, 700, 1024, 1100, 1536] {
            let error = read("one.tar", &content[..cut]).unwrap_err().to_string();
            assert!(error.contains("damaged or cut short"), "{cut}: {error}");
        }
    }

    #[test]
    fn refused_files_are_listed_together() {
        let file = EntryType::Regular;
        let large = vec![0; (16 << 20) + 1];
        let content = archive(&[
            ("../a.jpg", file, b"1"),
            ("/etc/a.jpg", file, b"2"),
            ("b/../../a.jpg", file, b"3"),
            ("c.jpg", EntryType::Symlink, b""),
            ("d.jpg", EntryType::Fifo, b""),
            ("e.jpg", file, b"4"),
            ("e.JPG", file, b"5"),
            ("f.jpg", file, &large),
            ("https:/me:secret@h.org/\u{1b}'.jpg?secret", EntryType::Symlink, b""),
        ]);
        let error = read("bad.tar", &content).unwrap_err().to_string();
        for expected in [
            "file `../a.jpg`: its path leads out of the archive",
            "file `/etc/a.jpg`: its path leads out of the archive",
            "file `b/../../a.jpg`: its path leads out of the archive",
            "file `c.jpg`: is a link, expected a file",
            "file `d.jpg`: is neither a file nor a folder",
            "file `e.JPG`: its sample has two files of this extension",
            "file `f.jpg`: has 16777217 bytes, expected at most 16777216",
            "file `https:/h.org/\\u{1b}'.jpg`: is a link, expected a file",
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn long_names_are_read() {
        let name = [vec![b'a'; 300], b".jpg\0".to_vec()].concat();
        let content = archive(&[("././@LongLink", EntryType::GNULongName, &name), ("x", EntryType::Regular, b"1")]);
        assert_eq!(read("long.tar", &content).unwrap()[0].key, "a".repeat(300));
    }

    /// 80 MiB of zeros in 80 KB. A compressed archive may expand to 64 MiB and 200 times its size.
    #[test]
    fn a_compressed_archive_that_expands_without_limit_is_refused() {
        let part = vec![0; 16 << 20];
        let files = ["a.1", "b.1", "c.1", "d.1", "e.1"].map(|name| (name, EntryType::Regular, &part[..]));
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &archive(&files)).unwrap();
        let packed = encoder.finish().unwrap();
        let error = read("a.tar.gz", &packed).unwrap_err().to_string();
        let limit = (64 << 20) + 200 * packed.len();
        assert!(limit < 80 << 20, "{}", packed.len());
        assert!(error.contains(&format!("it expands to more than {limit} bytes")), "{error}");
    }

    #[test]
    fn the_reading_of_a_long_file_can_be_ended() {
        let large = vec![0; 40 << 20];
        let content = archive(&[("large", EntryType::Regular, &large), ("x.jpg", EntryType::Regular, b"1")]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tar");
        std::fs::write(&path, content).unwrap();
        // The first file is checked once, and twice more while it is skipped.
        let checks = Cell::new(0);
        let check = || {
            checks.set(checks.get() + 1);
            if checks.get() < 3 { Ok(()) } else { Err(Error::usage("enough")) }
        };
        let error = for_each(&path, check, |_| panic!("no sample was read")).unwrap_err();
        assert_eq!((error.to_string(), checks.get()), ("enough".to_owned(), 3));
    }

    #[test]
    fn changed_bytes_are_an_error_or_samples() {
        let content = archive(&[("a.jpg", EntryType::Regular, b"1"), ("a.txt", EntryType::Regular, b"2")]);
        for at in 0..content.len() {
            let mut bent = content.clone();
            bent[at] ^= 0x55;
            let _ = read("bent.tar", &bent);
        }
    }
}
