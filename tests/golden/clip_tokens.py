"""Writes captions with their tokens by open_clip.

    python tests/golden/clip_tokens.py tests/golden/clip_tokens.json

The merges are those of a made-up file that this program writes down too, because the published file is a megabyte: all
its merges are of letters that occur in the captions, and the rest joins symbols that no caption has.
"""

import gzip
import json
import sys
import tempfile

import ftfy
import open_clip
from open_clip.tokenizer import SimpleTokenizer, bytes_to_unicode

assert open_clip.__version__ == "3.3.0", open_clip.__version__
assert ftfy.__version__ == "6.3.1", ftfy.__version__

CAPTIONS = [
    "A man in a blue shirt is standing on a ladder cleaning a window .",
    "two dogs' owners don't run, they'll WALK; it's 12 o'clock!",
    "  white\tspace \n and\u00a0more  ",
    "na\u00efve caf\u00e9 & cafe\u0301 \u2014 \u201cquoted\u201d man\u2019s \u2026",
    "&lt;b&gt; bold &amp;amp; &quot;x&quot; &eacute; &EACUTE; &notit; &copy 2020",
    "<b>&lt;</b> &amp;",
    "\uff21\uff22\uff23 \ufb01ne \u0149 \u3000wide",
    "\u4e00\u53ea\u72d7 \U0001f436 dog\U0001f436dog \u0e2b\u0e21\u0e32",
    "<start_of_text>inside<end_of_text> a <END_OF_TEXT>",
    "x" * 300,
    "word " * 100,
    "",
    "...---...!!! #1 (a_b) 3.14 \u00bd \u00b2",
    "control\u0000\u0007\u007f \u001b[31mred\u001b[0m \ufeffbom",
    "\u0130stanbul STRASSE\u00df \u03a3\u03a3 \u01c5",
    "\u0080\u0092\u009f \u2028 line",
]


def merges():
    """48,894 merges: first the most frequent pairs of the captions, then pairs of symbols without use."""
    letters = bytes_to_unicode()
    tokenizer = SimpleTokenizer.__new__(SimpleTokenizer)
    base = SimpleTokenizer()
    words = {}
    for caption in CAPTIONS:
        for word in base.pat.findall(base.clean_fn(caption)):
            symbols = [letters[b] for b in word.encode("utf-8")]
            symbols[-1] += "</w>"
            words[tuple(symbols)] = words.get(tuple(symbols), 0) + 1
    del tokenizer
    learned = []
    while len(learned) < 150:
        pairs = {}
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs:
            break
        best = max(sorted(pairs), key=pairs.get)
        learned.append(best)
        merged = {}
        for word, count in words.items():
            out, i = [], 0
            while i < len(word):
                if word[i : i + 2] == best:
                    out.append(best[0] + best[1])
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] = merged.get(tuple(out), 0) + count
        words = merged
    return learned


def filler(count):
    """Pairs of the letters of bytes that no UTF-8 text has (0xC0, 0xC1, 0xF5 to 0xFF), as often as needed."""
    letters = [bytes_to_unicode()[b] for b in (0xC0, 0xC1)]
    symbols, pairs = list(letters), []
    place = 0
    while len(pairs) < count:
        for letter in letters:
            pairs.append((symbols[place], letter))
            symbols.append(symbols[place] + letter)
        place += 1
    return pairs[:count]


def golden():
    learned = merges()
    pairs = learned + filler(49152 - 256 - 2 - len(learned))
    text = "#version\n" + "\n".join(f"{a} {b}" for a, b in pairs) + "\n"
    with tempfile.NamedTemporaryFile(suffix=".gz") as file:
        file.write(gzip.compress(text.encode()))
        file.flush()
        tokenizer = SimpleTokenizer(file.name)
    rows = []
    for caption in CAPTIONS:
        tokens = tokenizer(caption)[0].tolist()
        end = tokens.index(0) if 0 in tokens[1:] else len(tokens)
        # A token 0 is a "!", so the end is the last end mark.
        end = len(tokens) - tokens[::-1].index(49407)
        rows.append({"text": caption, "tokens": tokens[:end]})
    return {
        "made_by": f"tests/golden/clip_tokens.py; open_clip {open_clip.__version__}, ftfy {ftfy.__version__}",
        "merges": [" ".join(pair) for pair in learned],
        "captions": rows,
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(golden(), file, indent=None, ensure_ascii=True)
        file.write("\n")
