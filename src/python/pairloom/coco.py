"""The calls of pycocoevalcap, without Java: `from pairloom.coco import Cider, PTBTokenizer, Spice`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _pairloom


class PTBTokenizer:
    """Tokeniser of the COCO evaluation."""

    def tokenize(self, captions_for_image: dict[Any, list[dict[str, str]]]) -> dict[Any, list[str]]:
        """Cuts `{image: [{"caption": text}, …]}` into words: `{image: ["a dog runs", …]}`."""
        images = list(captions_for_image)
        texts = [caption["caption"] for image in images for caption in captions_for_image[image]]
        words = iter(_pairloom.tokenize(texts, "ptb", True, None))
        return {image: [" ".join(next(words)) for _ in captions_for_image[image]] for image in images}


class Cider:
    """CIDEr-D."""

    def compute_score(
        self, gts: dict[Any, list[str]], res: dict[Any, list[str]]
    ) -> tuple[float, NDArray[np.float64]]:
        """Returns the mean and the scores of the images of `gts`, in their order.

        Args:
            gts: the references of each image, cut into words: `{image: ["a dog runs", …]}`.
            res: one candidate an image: `{image: ["a dog"]}`.
        """
        candidates, references = _pairs(gts, res)
        scores = np.array(_pairloom.cider(candidates, references, "cider_d", "whitespace", None))
        return float(scores.mean()), scores

    def method(self) -> str:
        return "CIDEr"


class Spice:
    """SPICE, by a parser of rules: scores differ from those of the Java tool."""

    def compute_score(
        self, gts: dict[Any, list[str]], res: dict[Any, list[str]]
    ) -> tuple[float, list[dict[str, dict[str, float | None]]]]:
        """Returns the mean and, for each image, `{"All": {"f": …, "pr": …, "re": …}, "Object": {"f": …}, …}`."""
        names = ("Object", "Attribute", "Relation", "Color", "Cardinality", "Size")
        candidates, references = _pairs(gts, res)
        rows = _pairloom.spice(candidates, references, None)
        scores = [
            {"All": {"f": f, "pr": p, "re": r}, **{name: {"f": part} for name, part in zip(names, parts, strict=True)}}
            for f, p, r, parts in rows
        ]
        return float(np.mean([f for f, *_ in rows])), scores

    def method(self) -> str:
        return "SPICE"


def _pairs(gts: dict[Any, list[str]], res: dict[Any, list[str]]) -> tuple[list[str], list[list[str]]]:
    if gts.keys() != res.keys():
        raise ValueError(f"got candidates of {len(res)} images, expected those of the {len(gts)} with references")
    for image, own in res.items():
        if len(own) != 1:
            raise ValueError(f"got {len(own)} candidates of image {image!r}, expected one")
    return [res[image][0] for image in gts], [list(gts[image]) for image in gts]
