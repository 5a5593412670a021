"""Writes tokens_cased.tsv: captions with capital letters and their tokens by NLTK 3.10.4; see tokens.py."""

import json
import pathlib

from tokens import captions, punkt, words

here = pathlib.Path(__file__).parent
more = ["DON'T Run, I'LL Be There", "CANNOT Cannot GONNA", "THE DOG'S Ball ISN'T RED.", "'TIS 'Twas He'Ll", "Dr. No. A Cat."]
with open(here / "tokens_cased.tsv", "w", encoding="utf-8") as out:
    for caption in [*captions(), *more]:
        found = [word for sentence in punkt.tokenize(caption) for word in words.tokenize(sentence)]
        out.write(caption + "\t" + json.dumps(found, ensure_ascii=False) + "\n")
