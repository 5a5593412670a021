"""Writes tokens.tsv: captions and their tokens by NLTK 3.10.4.

The sentence splitter is Punkt without a trained model, with the abbreviations of src/kernels/text/sentences.rs, so that
no download is needed. The tokeniser is NLTKWordTokenizer, as in `nltk.word_tokenize`.
"""

import itertools
import json
import pathlib
import random
import re

import nltk
from nltk.tokenize.destructive import NLTKWordTokenizer
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

assert nltk.__version__ == "3.10.4"
here = pathlib.Path(__file__).parent
source = (here / "../../src/kernels/text/sentences.rs").read_text()
parameters = PunktParameters()
parameters.abbrev_types = set(re.findall(r'"([^"]+)"', source.split("ABBREVIATIONS")[1].split("];")[0]))
punkt = PunktSentenceTokenizer(parameters)
words = NLTKWordTokenizer()


def word_tokenize(caption):
    return [word for sentence in punkt.tokenize(caption.lower()) for word in words.tokenize(sentence)]


def captions():
    yield from [
        "A man in a blue shirt is standing on a ladder cleaning a window .",
        "Two dogs play-fight on the grass; one's brown, the other isn't.",
        'A sign reads "STOP" in red letters',
        '"Welcome," says the sign',
        "The boys' ball rolls away from the boy's dog's house.",
        "A child can't reach; it cannot jump.",
        "He's gonna ride, she'll watch, they've left, we're here, I'd go, I'm in",
        "'Tis a dog and 'twas a cat",
        "wanna play? gotta run! gimme that, lemme see, more'n one, d'ye see",
        "A price tag of $3.88 (roughly 3,36 euros), 50% off & more @ home #1",
        "Dr. Smith and Mrs. Jones look at Mt. Hood.",
        "A dog runs. It is wet. The end",
        "Wait... what? A dog!! Running?!",
        "At 10:30, the bus: number 5, left.",
        "A man -- maybe old -- sits [alone] {here} <there>",
        "the 'brown' dog 'n' the cat",
        "rock 'n roll in the '80s",
        "A caf\u00e9 with na\u00efve \u201cquotes\u201d and \u2018single\u2019 ones \u2013 dashes \u2014 too",
        "\u00abBonjour\u00bb says a man",
        "``odd'' quoting '' here",
        "trailing comma,",
        "trailing colon:",
        "a,b:c;d",
        "A 3.5 m tree, 1,000 leaves.",
        "tree..",
        "end of quote.\"",
        "end (of bracket.)",
        "* starred * text*",
        "U.S. flag waving",
        "A girl, who's 5. the other is 6",
        "J. Doe walks",
        "no space.After period",
        "   leading and trailing   ",
        "tabs and  double  spaces",
        "a - b -c d- e--f",
        "they 're split already , and n't .",
        "it's Bob's; that's James' hat",
        "don't won't shouldn't've",
        "an e.g. and an i.e. here.",
        "",
        ".",
        "...",
        "'",
        "\"",
        "''",
        "a 'quoted phrase' here",
        "black-and-white dog's ' alone",
        "\u72ac runs \u4e2d",
        "ice cream!",
    ]
    # Grammar of caption-like sentences with unusual punctuation.
    draw = random.Random(20260101)
    subject = ["A dog", "Two men", "The girl's mother", "Someone who isn't tired", "A man (in red)", "A \"clown\"", "Kids"]
    verb = ["runs", "can't stop", "jumps, rolls", "is playing: alone", "doesn't look", "won't sit", "skates -- fast --"]
    place = ["on grass", "at 5:30", "in the boys' room", "near St. Mary's", "by No. 7", "in a 'box'", "with $20 & a hat"]
    end = ["", ".", " .", "!", "?", "...", ".\"", ".)", ";", ",", " ' "]
    # Punkt ends a sentence after an abbreviation if `.)` or `."` follows later. This is wrong, and Pairloom does not.
    everything = [
        parts
        for parts in itertools.product(subject, verb, place, end)
        if not (parts[3] in ('.)', '."') and ("St." in parts[2] or "No." in parts[2]))
    ]
    for parts in draw.sample(everything, 200):
        yield " ".join(parts[:3]) + parts[3]
    for parts in draw.sample(everything, 40):
        second = draw.choice(everything)
        yield " ".join(parts[:3]) + ". " + " ".join(second[:3]) + second[3]


if __name__ == "__main__":
    with open(here / "tokens.tsv", "w", encoding="utf-8") as out:
        for caption in captions():
            out.write(caption + "\t" + json.dumps(word_tokenize(caption), ensure_ascii=False) + "\n")
