//! Comparison of tokens with `open_clip`. `tests/golden/clip_tokens.py` wrote the golden values, and describes the merges.

use serde::Deserialize;

use super::ClipTokenizer;
use super::cleaning::clean;

#[derive(Deserialize)]
struct TokensGolden {
    merges: Vec<String>,
    captions: Vec<CaptionGolden>,
}

#[derive(Deserialize)]
struct CaptionGolden {
    text: String,
    tokens: Vec<i32>,
}

/// File with the merges of the golden file, and then merges of two bytes that no text has.
fn merges(learned: &[String]) -> String {
    let mut lines = vec!["#version".to_owned()];
    lines.extend_from_slice(learned);
    let mut symbols = vec!["À".to_owned(), "Á".to_owned()];
    let mut place = 0;
    while lines.len() < 48_895 {
        for letter in ["À", "Á"] {
            lines.push(format!("{} {letter}", symbols[place]));
            symbols.push(format!("{}{letter}", symbols[place]));
        }
        place += 1;
    }
    lines[..48_895].join("\n")
}

#[test]
fn tokens_equal_those_of_open_clip() {
    let golden: TokensGolden = serde_json::from_value(test_data::golden_json("clip_tokens.json")).unwrap();
    let tokenizer = ClipTokenizer::new(&merges(&golden.merges)).unwrap();
    for case in golden.captions {
        assert_eq!(tokenizer.encode(&case.text, 77), case.tokens, "{:?} cleaned to {:?}", case.text, clean(&case.text));
    }
}

/// Tokens of a file of captions, one a line, for the check of whole data sets: `CLIP_MERGES` and `CLIP_CAPTIONS` name the
/// files, and `CLIP_TOKENS` the file with the tokens of `open_clip`, a line of numbers for each caption.
#[test]
fn tokens_of_a_data_set_equal_those_of_open_clip() {
    let path = |name| std::env::var_os(name);
    let (Some(merges), Some(captions), Some(tokens)) =
        (path("CLIP_MERGES"), path("CLIP_CAPTIONS"), path("CLIP_TOKENS"))
    else {
        println!("skipped: needs CLIP_MERGES, CLIP_CAPTIONS and CLIP_TOKENS");
        return;
    };
    let read = |path| std::fs::read_to_string(path).unwrap();
    let tokenizer = ClipTokenizer::new(&read(merges)).unwrap();
    let (captions, tokens) = (read(captions), read(tokens));
    let mut differing = 0;
    let mut count = 0;
    for (caption, expected) in captions.lines().zip(tokens.lines()) {
        let got: Vec<String> = tokenizer.encode(caption, 77).iter().map(i32::to_string).collect();
        count += 1;
        if got.join(" ") != expected {
            differing += 1;
            println!("{caption:?}\n  {}\n  {expected}", got.join(" "));
        }
    }
    println!("{differing} of {count} captions differ");
    assert_eq!((differing, count), (0, tokens.lines().count()));
}
