//! Tests of the ends of archives, and of sparse files.

use std::io::Write as _;

use tar::{Builder, EntryType, Header};

use crate::tar_samples::{self, TarPart};
use pairloom_base::error::Result;

/// Archive of files, with zeros at its end.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Keys of the samples of an archive, and the reasons for which files are refused.
fn read(name: &str, content: &[u8]) -> Result<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    let mut read = Vec::new();
    tar_samples::for_each(
        &path,
        || Ok(()),
        |part| {
            read.push(match part {
                TarPart::Sample(sample) => sample.key,
                TarPart::RefusedFile { reason, .. } => reason,
            });
            Ok(Ok(()))
        },
    )?;
    Ok(read)
}

fn message(content: &[u8]) -> String {
    read("a.tar", content).unwrap_err().to_string()
}

/// A block of zeros in the place of a header is the end of an archive.
#[test]
fn archives_with_other_bytes_after_their_end_are_refused() {
    let whole = archive(&[("a.jpg", b"1"), ("b.jpg", b"2"), ("c.jpg", b"3")]);
    assert_eq!(read("a.tar", &whole).unwrap(), ["a", "b", "c"]);
    // The header of the second file is its third block.
    let mut damaged = whole.clone();
    damaged[1024..1536].fill(0);
    for (content, end) in
        [(damaged, 1536), ([&whole[..], &whole].concat(), 3072 + 512), ([&whole[..], b"x"].concat(), 3072 + 512)]
    {
        let got = message(&content);
        assert!(got.ends_with(&format!("a.tar` has other bytes than zeros after its end at byte {end}")), "{got}");
    }
    // Programs fill the last record. One lone block of zeros may be damage before a cut.
    assert_eq!(read("a.tar", &[&whole[..], &vec![0; 20_000]].concat()).unwrap().len(), 3);
    assert_eq!(read("a.tar", &whole[..3072 + 1024]).unwrap().len(), 3);
    assert!(message(&whole[..3072 + 512]).contains("is damaged or cut short"));
}

#[test]
fn zeros_at_the_end_of_a_file_are_no_end_of_its_archive() {
    let picture = [vec![7; 100], vec![0; 4000]].concat();
    let whole = archive(&[("a.jpg", &picture), ("b.jpg", &picture)]);
    let first = 512 + 4100_usize.next_multiple_of(512);
    assert_eq!(read("a.tar", &whole).unwrap(), ["a", "b"]);
    for cut in [first, 2 * first] {
        let got = message(&whole[..cut]);
        assert!(got.contains("is damaged or cut short"), "{cut}: {got}");
    }
}

#[test]
fn sparse_files_are_refused() {
    // In the form of GNU, 16 MiB without data; and two forms of PAX, with the map in the attributes or in the content.
    let mut holes = Header::new_gnu();
    holes.set_path("a.jpg").unwrap();
    holes.set_entry_type(EntryType::GNUSparse);
    holes.set_size(0);
    holes.as_gnu_mut().unwrap().set_real_size(16 << 20);
    holes.as_gnu_mut().unwrap().sparse[0].set_offset(16 << 20);
    holes.as_gnu_mut().unwrap().sparse[0].set_length(0);
    holes.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&holes, &b""[..]).unwrap();
    for attribute in [("GNU.sparse.size", "1048576"), ("GNU.sparse.major", "1")] {
        builder.append_pax_extensions([(attribute.0, attribute.1.as_bytes())]).unwrap();
        let mut header = Header::new_ustar();
        header.set_size(4);
        builder.append_data(&mut header, "b.jpg", &b"8192"[..]).unwrap();
    }
    let content = builder.into_inner().unwrap();
    assert_eq!(read("a.tar", &content).unwrap(), ["is a sparse file, expected a file without holes"; 3]);
}

#[test]
fn archives_are_decompressed_whatever_their_names() {
    let whole = archive(&[("a.jpg", b"1")]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&whole).unwrap();
    let packed = packed.finish().unwrap();
    for name in ["a.tar", "a.tar.gz"] {
        assert_eq!(read(name, &packed).unwrap(), ["a"]);
        assert_eq!(read(name, &whole).unwrap(), ["a"]);
    }
}
