//! Words as the COCO evaluation cuts them: the Penn Treebank tokeniser of Stanford's `CoreNLP` 3.4.1, after which
//! punctuation is dropped (Chen et al., "Microsoft COCO Captions: Data Collection and Evaluation Server", 2015).
//!
//! Written from what that program does with text, not from its source. At every place the longest token wins, as in every
//! lexer. Two oddities of the evaluation are kept: brackets become `-lrb-` and the like, which the list of punctuation
//! holds in capitals, so in lower case they stay; and `!!` is no punctuation. Not followed are telephone numbers with
//! brackets, smileys like `^_^`, letters written as `&eacute;`, and that the program reads captions as the lines of one
//! file, so that it looks at the next caption to know whether a letter at the end of one keeps its period.

mod cut;
mod patterns;
mod found;
mod apostrophes;
mod abbreviations;
mod addresses;

pub use cut::words;
