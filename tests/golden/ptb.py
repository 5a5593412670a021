"""Writes ptb.tsv: captions and their tokens in the COCO evaluation.

The tokens are those of pycocoevalcap 1.2's `PTBTokenizer`, which runs Stanford CoreNLP 3.4.1 (Java) and removes
punctuation. The captions are those of ptb_captions.txt, which were written for this file, and those of tokens.tsv.

Excluded, as Pairloom splits them differently: telephone numbers with brackets, emoticons like `^_^`, letters written as
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
        # Some tokens contain no-break spaces, at which the scorers split.
        out.write(f"{caption}\t{' '.join(words[number][0].split())}\n")
