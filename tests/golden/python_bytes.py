"""Writes python_bytes.tsv: captions and the words that the published training codes make of them under Python 3.

These codes open a file of captions as bytes and cut `str(line).lower()` with NLTK, so that words of `b'a dog .'` come out.
The sentence splitter is the one of tokens.py. The captions are those of tokens.tsv and some with other letters.

Left out, because the product cuts some of them otherwise: captions with a period and a space inside. The quotes of `b'…'`
change where Punkt ends a sentence: in `b'mr. and mrs. smith.'` even at `mrs.`.
"""

import json
import pathlib

from tokens import word_tokenize

here = pathlib.Path(__file__).parent
captions = [line.split("\t")[0] for line in (here / "tokens.tsv").read_text(encoding="utf-8").splitlines()]
captions = [caption for caption in captions if caption.count(". ") == 0]
captions += ["A caf\u00e9 on the r\u00fce .", "a back\\slash", "she's \"here\"", "\U0001f415 a dog .", "\u05db\u05dc\u05d1"]
with open(here / "python_bytes.tsv", "w", encoding="utf-8") as out:
    for caption in captions:
        words = word_tokenize(str(caption.strip().encode("utf-8")))
        out.write(caption + "\t" + json.dumps(words, ensure_ascii=False) + "\n")
