"""Similarity of captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _pairloom

#: Texts: a list, or a column of Arrow or pandas.
Texts = Any


def cider_d(
    candidates: Texts, references: Sequence[Texts], *, tokenizer: str = "ptb", threads: int | None = None
) -> list[float]:
    """CIDEr-D of one candidate an image: what the COCO evaluation prints as CIDEr.

    Document frequencies are those of `references`. The mean of the result is the score of a system.

    Args:
        candidates: one caption an image.
        references: the captions of each image.
        tokenizer: `"ptb"` (of the COCO evaluation), `"treebank"` or `"whitespace"`.

    Returns:
        list of floats, from 0 to 10, one an image.
    """
    return _pairloom.cider(_texts(candidates), [_texts(own) for own in references], "cider_d", tokenizer, threads)


def cider(
    candidates: Texts, references: Sequence[Texts], *, tokenizer: str = "ptb", threads: int | None = None
) -> list[float]:
    """CIDEr of one candidate an image, by equation 2 of the paper: without clipping and length penalty."""
    return _pairloom.cider(_texts(candidates), [_texts(own) for own in references], "cider", tokenizer, threads)


def spice(
    candidates: Texts, references: Sequence[Texts], *, threads: int | None = None
) -> list[dict[str, float | None]]:
    """SPICE-style score of one candidate an image, by a parser of rules in place of the Java tool's.

    Returns:
        list of dicts with `f`, `precision`, `recall`, and the F-scores `object`, `attribute`, `relation`, `color`,
        `count` and `size`, which are None without such tuples.
    """
    parts = ("object", "attribute", "relation", "color", "count", "size")
    rows = _pairloom.spice(_texts(candidates), [_texts(own) for own in references], threads)
    return [{"f": f, "precision": p, "recall": r, **dict(zip(parts, scores, strict=True))} for f, p, r, scores in rows]


def caption_similarity(
    captions: Sequence[Texts], measure: str = "cider_d", *, tokenizer: str = "ptb", threads: int | None = None
) -> NDArray[np.float32]:
    """Similarity φ of every image with every caption: graded relevance.

    Args:
        captions: the captions of each image.
        measure: `"cider_d"`, `"cider"` or `"spice"`.

    Returns:
        float32 array, (images, captions). A caption is one of its own image's references.
    """
    return _pairloom.caption_similarity([_texts(own) for own in captions], measure, tokenizer, threads)


def scene_graphs(captions: Texts, *, threads: int | None = None) -> list[dict[str, Any]]:
    """Objects, attributes (object, attribute) and relations (subject, relation, object) of each caption."""
    names = ("objects", "attributes", "relations")
    return [dict(zip(names, graph, strict=True)) for graph in _pairloom.scene_graphs(_texts(captions), threads)]


def tokenize(
    captions: Texts, *, tokenizer: str = "ptb", lowercase: bool = True, threads: int | None = None
) -> list[list[str]]:
    """Words of each caption."""
    return _pairloom.tokenize(_texts(captions), tokenizer, lowercase, threads)


def _texts(texts: Texts) -> list[str]:
    """A list of texts: one of Python, or a column of Arrow or pandas."""
    if isinstance(texts, str):
        raise TypeError("got one text, expected a list of texts")
    texts = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"got {text!r} at {place}, expected a text")
    return texts
