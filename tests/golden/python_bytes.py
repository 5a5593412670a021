"""Writes python_bytes.tsv: captions and their tokens in the published training code under Python 3.

That code reads captions as bytes and tokenises `str(line).lower()` with NLTK, so that tokens of `b'a dog .'` result.
The sentence splitter is that of tokens.py. The captions are those of tokens.tsv, and some with non-ASCII letters.

Excluded, as Pairloom splits some of them differently: captions with a full stop and a space inside. The quotes of
`b'…'` change the sentence ends of Punkt: in `b'mr. and mrs. smith.'`, `mrs.` is one.
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
