//! Tokeniser of the COCO evaluation: the Penn Treebank tokeniser of Stanford's `CoreNLP` 3.4.1, then punctuation is
//! dropped (Chen et al., "Microsoft COCO Captions: Data Collection and Evaluation Server", 2015).
//!
//! Written from the output of that program, not from its source. As in any lexer, the longest match wins at every
//! position. Two quirks of the evaluation are kept. In lower case, brackets stay as `-lrb-` and similar tokens,
//! because the list of punctuation has them in capitals. `!!` is not punctuation.
//!
//! Four things differ from the program: telephone numbers with brackets, smileys like `^_^`, letters written as
//! `&eacute;`, and a single letter and a period at the end of a caption. There the program reads the captions as the
//! lines of one file, and the next caption decides if the letter keeps its period.

mod tokenizer;
mod patterns;
mod pattern_match;
mod apostrophes;
mod abbreviations;
mod addresses;

pub use tokenizer::tokenize;
