"""Writes ptb.tsv: captions and their tokens in the COCO evaluation; and src/kernels/text/ptb/classes.rs, the character
classes of its tokeniser.

The tokens are those of pycocoevalcap 1.2's `PTBTokenizer`, which runs Stanford CoreNLP 3.4.1 (Java) and removes
punctuation. The captions are those of ptb_captions.txt, which were written for this file, and those of tokens.tsv.

Excluded, as Pairloom splits them differently: telephone numbers with brackets, letters written as `&eacute;`,
backslashes before `/` and `*`.
"""

import importlib.metadata
import pathlib
import textwrap

from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

assert importlib.metadata.version("pycocoevalcap") == "1.2"
here = pathlib.Path(__file__).parent


def tokenize(captions: list[str]) -> list[str]:
    words = PTBTokenizer().tokenize({number: [{"caption": caption}] for number, caption in enumerate(captions)})
    return [words[number][0] for number in range(len(captions))]


def edges(characters: list[int]) -> list[int]:
    """First character of each range of a class, and the character after its last one."""
    found: list[int] = []
    for character in characters:
        if found and found[-1] == character:
            found[-1] += 1
        else:
            found += [character, character + 1]
    return found


captions = (here / "ptb_captions.txt").read_text(encoding="utf-8").split("\n")
captions += [line.split("\t")[0] for line in (here / "tokens.tsv").read_text(encoding="utf-8").split("\n")]
captions = [caption for caption in captions if caption.strip()]
with open(here / "ptb.tsv", "w", encoding="utf-8") as out:
    for caption, words in zip(captions, tokenize(captions)):
        # Some tokens contain no-break spaces, at which the scorers split.
        out.write(f"{caption}\t{' '.join(words.split())}\n")

# A class is what a character joins: `acb` for all, `a-cb` for letters and digits, `a.cb` for letters. Left out are
# ASCII, surrogates, and the ends of lines, at which the program would begin another caption.
characters = [c for c in range(0x80, 0x10000) if not 0xD800 <= c < 0xE000 and c not in (0x85, 0x2028, 0x2029)]
probes = ["z {} z", "a{}b", "a-{}b", "a.{}b"]
answers = iter(tokenize([probe.format(chr(c)) for c in characters for probe in probes]))
letters, marks, digits, symbols = [], [], [], []
for character, (alone, word, hyphenated, sentence) in zip(characters, zip(*[answers] * len(probes))):
    is_token, joins, joins_hyphen, joins_period = alone != "z z", *(" " not in t for t in (word, hyphenated, sentence))
    if joins and joins_hyphen:
        (letters if joins_period else digits).append(character)
    elif joins and is_token:
        marks.append(character)
    elif is_token:
        symbols.append(character)
with open(here.parent.parent / "src/kernels/text/ptb/classes.rs", "w", encoding="utf-8") as out:
    out.write(
        "//! Character classes of the PTB tokeniser beyond ASCII, found by asking it for each of the first 65,536 code\n"
        "//! points. `tests/golden/ptb.py` wrote this file.\n//!\n"
        "//! A class is a list of edges: where it begins, where it ends, where it begins again.\n"
    )
    for name, description, members in [
        ("LETTERS", "Letters, which a hyphen may join.", letters),
        ("MARKS", "Other characters of words: combining marks, modifiers.", marks),
        ("DIGITS", "Digits.", digits),
        ("SYMBOLS", "Other characters that are tokens by themselves. What is in no class is deleted.", symbols),
    ]:
        numbers = ", ".join(f"0x{edge:04x}" for edge in edges(members)) + ","
        lines = textwrap.fill(numbers, 120, initial_indent="    ", subsequent_indent="    ")
        out.write(f"\n/// {description}\npub(super) const {name}: [u16; {len(edges(members))}] = [\n{lines}\n];\n")
