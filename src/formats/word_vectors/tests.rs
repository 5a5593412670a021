//! Tests of word vectors: files of gensim, invalid files.

use std::io::Write as _;

use proptest::prelude::*;

use super::{PretrainedWordVectors, read};
use pairloom_base::error::{Error, Result};

/// Words of the golden files (`tests/golden/word_vectors.py`).
const WORDS: [&str; 10] = ["the", ",", "Dog", "dog", "new_york", "1", "café", "b'a", "Zebra", "zEBRA"];
const WIDTH: usize = 5;

/// Vector of word `i` in the golden files.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "small numbers, written as f32")]
fn golden(i: usize) -> Vec<f32> {
    (0..WIDTH).map(|j| ((17.0 * i as f64 + 3.0 * j as f64 - 40.0) / 7.0) as f32).collect()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn read_named(name: &str, content: &[u8], wanted: &[&str], width: usize) -> Result<PretrainedWordVectors> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    read(&path, &words(wanted), width, &mut || Ok(()))
}

fn read_bytes(content: &[u8], wanted: &[&str], width: usize) -> Result<PretrainedWordVectors> {
    read_named("vectors", content, wanted, width)
}

/// Error message of reading vectors of width 2 of the words `a`, `b` and `c`.
fn refused(content: &[u8]) -> String {
    read_bytes(content, &["a", "b", "c"], 2).unwrap_err().to_string()
}

/// Files written by gensim (`tests/golden/word_vectors.py`).
#[test]
fn the_three_formats_of_gensim_are_read_exactly() {
    let text = include_bytes!("../../../tests/golden/word_vectors.txt").as_slice();
    let with_header = include_bytes!("../../../tests/golden/word_vectors.vec");
    let binary = include_bytes!("../../../tests/golden/word_vectors.bin");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(binary).unwrap();
    let packed = packed.finish().unwrap();
    let wanted = ["<pad>", "café", "zebra", "dog", "york", "the", "1", "new_york", ",", "b'a"];
    let expected = [None, Some(6), Some(8), Some(3), None, Some(0), Some(5), Some(4), Some(1), Some(7)];
    for (name, content) in [("a.txt", text), ("a.vec", with_header), ("a.bin", binary), ("a.bin.gz", &packed)] {
        let read = read_named(name, content, &wanted, WIDTH).unwrap();
        for (word, place) in expected.iter().enumerate() {
            assert_eq!(read.get(word), place.map(golden).as_deref(), "{name} {}", wanted[word]);
        }
        assert_eq!(read.n_found(), 8, "{name}");
    }
    let cased = read_bytes(text, &WORDS, WIDTH).unwrap();
    assert!((0..WORDS.len()).all(|i| cased.get(i) == Some(&golden(i))));
}

/// The word2vec program writes a line feed after every vector, and spaces at the ends of lines.
#[test]
fn files_of_the_word2vec_program_are_read() {
    let binary = b"2 2\na \0\0\x80\x3f\0\0\0\x40\nb \0\0\x20\xc0\x0a\x0a\x0a\x0a\n";
    let read = read_bytes(binary, &["a", "b"], 2).unwrap();
    assert_eq!(read.get(0), Some([1.0, 2.0].as_slice()));
    assert_eq!(read.get(1).map(|vector| vector[0]), Some(-2.5));
    let read = read_bytes(b"2 2\r\na 1 2 \r\nb -2.5 1e-3 \r\n\r\n", &["a", "b"], 2).unwrap();
    assert_eq!(read.get(1), Some([-2.5, 1e-3].as_slice()));
}

#[test]
fn words_may_contain_spaces_and_invalid_utf8() {
    let content = b"a 1 2\n. . . 3 4\nat name@domain.com 5 6\n\xff\xfe 7 8\nb 9 10";
    let read = read_bytes(content, &["b", ". . .", "name@domain.com", "at name@domain.com"], 2).unwrap();
    assert_eq!(read.get(0), Some([9.0, 10.0].as_slice()));
    assert_eq!(read.get(1), Some([3.0, 4.0].as_slice()));
    assert_eq!((read.get(2), read.get(3)), (None, Some([5.0, 6.0].as_slice())));
}

#[test]
fn the_first_exact_match_wins_over_another_case() {
    let content = b"Paris 1 1\nPARIS 2 2\nparis 3 3\nparis 4 4\nRome 5 5\nROME 6 6\n";
    let read = read_bytes(content, &["paris", "rome"], 2).unwrap();
    assert_eq!((read.get(0), read.get(1)), (Some([3.0, 3.0].as_slice()), Some([5.0, 5.0].as_slice())));
}

#[test]
fn an_unexpected_width_is_an_error() {
    for content in [&b"a 1 2 3\nb 4 5 6\n"[..], b"2 3\na 1 2 3\nb 4 5 6\n", b"1 3\na \0\0\0\0\0\0\0\0\0\0\0\0"] {
        let error = read_bytes(content, &["a"], 2).unwrap_err();
        assert!(error.to_string().ends_with("`: vectors have width 3, expected 2"), "{error}");
        assert!(error.hint_text().unwrap().contains("`word_dim`"));
    }
    let message = refused(b"a 1 2\nb 3 4\nc 5\n");
    assert!(message.contains("width 1"), "{message}");
}

#[test]
fn all_invalid_lines_are_reported() {
    let mut content = "the 0 0\n".repeat(70);
    content += "a 1 nan\nlonely\nb x 2\nother nan nan\nc 1 1e99\n";
    let message = refused(content.as_bytes());
    for part in [
        "4 mistakes",
        "line 71: `nan` in the vector of `a`, expected a finite number",
        "line 72: 0 values after a word, expected 2",
        "line 73: `x` in the vector of `b`",
        "line 75: `1e99` in the vector of `c`",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let message = refused(b"4 2\na 1 2\nb 3 4\n");
    assert!(message.contains("line 1: announces 4 words, and 2 follow"), "{message}");
    let message = refused(b"1 2\na 1 2\nb 3 4\n");
    assert!(message.contains("announces 1 words, and 2 follow"), "{message}");
    let endless = [b"a 1 2\nb ".as_slice(), &vec![b'1'; 5000]].concat();
    assert!(refused(&endless).contains("line 2 has more than 4224 bytes"), "{}", refused(&endless));
}

#[test]
fn truncated_and_inconsistent_binary_files_are_errors_with_the_byte() {
    let vector = |word: &str, values: [f32; 2]| {
        [word.as_bytes(), b" ", &values[0].to_le_bytes(), &values[1].to_le_bytes()].concat()
    };
    let whole = [b"2 2\n".to_vec(), vector("a", [1.0, 2.5]), vector("b", [-1.0, 0.3])].concat();
    assert!(read_bytes(&whole, &["a"], 2).is_ok());
    for end in 6..whole.len() {
        let message = refused(&whole[..end]);
        assert!(message.contains(&format!("byte {end}: the file ends here")), "{end}: {message}");
    }
    let lie = |count: &str| [format!("{count} 2\n").into_bytes(), whole[4..].to_vec()].concat();
    assert!(refused(&lie("1")).contains("announces 1 vectors and continues after them, at byte 14"));
    assert!(refused(&lie("18446744073709551615")).contains("the file ends here"));
    assert!(refused(&lie("99999999999999999999")).contains("expected"));
    let wide = [b"2 18446744073709551615\n".to_vec(), vector("a", [1.0, 2.0])].concat();
    assert!(refused(&wide).contains("width 18446744073709551615, expected 2"));
    let wrong = [b"2 2\n".to_vec(), vector("a", [f32::NAN, 2.5]), vector("b", [f32::INFINITY, 0.0])].concat();
    let message = refused(&wrong);
    assert!(message.contains("vector 1: NaN in the vector of `a`"), "{message}");
    assert!(message.contains("vector 2: inf in the vector of `b`"), "{message}");
    let spaceless = [b"1 2\na \0\0\0\0\0\0\0\0".to_vec(), vec![b'x'; 5000]].concat();
    assert!(refused(&spaceless).contains("continues"), "{}", refused(&spaceless));
    let spaceless = [b"2 2\na \0\0\0\0\0\0\0\0".to_vec(), vec![b'x'; 5000]].concat();
    assert!(refused(&spaceless).contains("expected a word of less than"), "{}", refused(&spaceless));
}

#[test]
fn other_files_are_refused() {
    assert!(refused(b"").contains("empty"));
    assert!(refused(b"hello\nworld\n").contains("no word vectors"));
    assert!(refused(b"\n\n").contains("no word vectors"));
    let hint = |content: &[u8]| read_bytes(content, &[], 2).unwrap_err().hint_text().unwrap().to_owned();
    assert!(hint(b"PK\x03\x04").contains("unpack"));
    assert!(hint(b"\x80\x04\x95").contains("save_word2vec_format"));
    assert!(read_named("a.gz", b"not packed at all", &[], 2).is_err());
}

#[test]
fn reading_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "a 1\n".repeat(20_000)).unwrap();
    let mut left = 3;
    let mut proceed = || {
        left -= 1;
        if left == 0 { Err(Error::interrupted()) } else { Ok(()) }
    };
    assert!(read(&path, &words(&["a"]), 1, &mut proceed).unwrap_err().to_string().contains("interrupted"));
}

proptest! {
    /// All three formats give the same vectors, exactly.
    #[test]
    fn text_and_binary_formats_agree(
        names in prop::collection::vec("[a-z]{1,6}|[A-Z][a-z]{0,3}|[0-9]{1,3}|[à-ž]{1,4}", 1..30),
        width in 2usize..9,
        seed in prop::collection::vec(prop::num::f32::NORMAL | prop::num::f32::ZERO | prop::num::f32::SUBNORMAL, 240),
    ) {
        let vectors: Vec<&[f32]> = seed.chunks_exact(width).take(names.len()).collect();
        let lines: String = names.iter().zip(&vectors)
            .map(|(name, vector)| format!("{name} {}\n", vector.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" ")))
            .collect();
        let header = format!("{} {width}\n", names.len());
        let mut binary = header.clone().into_bytes();
        for (name, vector) in names.iter().zip(&vectors) {
            binary.extend(name.as_bytes());
            binary.push(b' ');
            binary.extend(vector.iter().flat_map(|value| value.to_le_bytes()));
        }
        let wanted: Vec<&str> = names.iter().map(String::as_str).take(10).chain(["unheard"]).collect();
        let wanted: Vec<&str> = wanted.iter().enumerate().filter(|(i, w)| !wanted[..*i].contains(w)).map(|(_, w)| *w).collect();
        let with_header = read_bytes(format!("{header}{lines}").as_bytes(), &wanted, width).unwrap();
        let plain = read_bytes(lines.as_bytes(), &wanted, width).unwrap();
        let binary = read_bytes(&binary, &wanted, width).unwrap();
        for (i, word) in wanted.iter().enumerate() {
            let bits = |read: &PretrainedWordVectors| read.get(i).map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
            let first = names.iter().position(|name| name == word)
                .or_else(|| names.iter().position(|name| name.to_lowercase() == *word));
            let expected = first.map(|i| vectors[i].iter().map(|v| v.to_bits()).collect::<Vec<_>>());
            prop_assert_eq!(&bits(&plain), &expected);
            prop_assert_eq!(&bits(&with_header), &expected);
            prop_assert_eq!(&bits(&binary), &expected);
        }
    }
}

/// 90 MB of entries take 90 KB.
#[test]
fn a_gzip_file_of_vectors_that_expands_without_limit_is_refused() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(format!("{} 0 0\n", "c".repeat(4000)).repeat(256).as_bytes()).unwrap();
    let packed = packed.finish().unwrap().repeat(90);
    let limit = (64 << 20) + 200 * packed.len();
    let error = read_named("a.vec.gz", &packed, &["a", "b"], 2).unwrap_err();
    assert!(error.to_string().ends_with(&format!("it expands to more than {limit} bytes")), "{error}");
    assert!(error.hint_text().unwrap().contains("gunzip"), "{error}");
}
