"""Writes ptb.tsv: captions and their words as the COCO evaluation gives them.

The words are those of pycocoevalcap 1.2's `PTBTokenizer`, which runs Stanford CoreNLP 3.4.1 (Java) and drops punctuation.
The captions are those of ptb_captions.txt, written for this file, one a line, and those of tokens.tsv.

Left out, because the product cuts them otherwise: telephone numbers with brackets, smileys like `^_^`, letters written as
`&eacute;`, runs of `@`.
"""

import importlib.metadata
import pathlib

from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

assert importlib.metadata.version("pycocoevalcap") == "1.2"
here = pathlib.Path(__file__).parent
captions = (here / "ptb_captions.txt").read_text(encoding="utf-8").split("\n")
captions += [line.split("\t")[0] for line in (here / "tokens.tsv").read_text(encoding="utf-8").split("\n")]
captions = [caption for caption in captions if caption.strip()]
words = PTBTokenizer().tokenize({number: [{"caption": caption}] for number, caption in enumerate(captions)})
with open(here / "ptb.tsv", "w", encoding="utf-8") as out:
    for number, caption in enumerate(captions):
        # The tokeniser puts no-break spaces into some tokens; the scorers then split there.
        out.write(f"{caption}\t{' '.join(words[number][0].split())}\n")
