"""Evaluation and search."""

from __future__ import annotations

import html
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _pairloom
from ._arrays import indices, matrix

#: Name of a ranking method, or a dict from its name to its parameters.
Method = str | dict[str, dict[str, Any]]
Progress = Callable[[int, int], object]


def evaluate(
    images: Any,
    captions: Any,
    *,
    captions_per_image: int | None = None,
    image_of_caption: Any = None,
    relevant: Iterable[tuple[int, int]] | None = None,
    methods: Sequence[Method] = ("nns",),
    protocols: Sequence[str] = ("all",),
    dataset: str = "test",
    cutoffs: Sequence[int] = (1, 5, 10),
    bank: tuple[Any, Any] | None = None,
    similarity: str = "cosine",
    normalize: bool = False,
    depth: int = 10,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Ranks captions for images and images for captions, exactly, and measures the rankings.

    R@k is the share of queries that have at least one match among their k best items, in percent; rsum is the sum of
    R@1, R@5 and R@10 of both directions. Of equal scores the lower index comes first.

    Args:
        images: vectors of the images, (images, width).
        captions: vectors of the captions, (captions, width).
        captions_per_image: captions c·i to c·(i + 1) − 1 are those of image i. By default captions ÷ images.
        image_of_caption: the image of each caption, in place of `captions_per_image`.
        relevant: pairs (image, caption) that are relevant beside the matches, measured as a relevance of its own.
        methods: names of ranking methods, or one-entry dicts with parameters: `["nns", {"csls": {"k": 10}}]`.
        protocols: `"all"`, `"five_fold"` (the mean over five blocks of 1,000 images) or `"first_fold"`.
        dataset: name of the data, part of the names of protocols: `"coco"` gives `coco-5k`.
        cutoffs: the k of recalls, ascending.
        bank: vectors of images and captions that are not the test set, which some methods learn from.
        similarity: `"cosine"` of unit vectors, `"order"` or `"order_squared"` of order embeddings.
        normalize: divide each vector by its length first; this copies. Without it other lengths are an error.
        depth: items of each query in `rankings`.
        threads: by default those of the machine.
        progress: function that is called with (finished, total) queries, at most twenty times a second.

    Returns:
        Evaluation

    Raises:
        ValueError: shapes do not fit, values are not finite, vectors have no length 1, settings are wrong.
        TypeError: an input is no matrix of numbers.

    Example:
        >>> import numpy as np, pairloom
        >>> images = np.eye(3, dtype=np.float32)
        >>> pairloom.evaluate(images, images)["rsum"]
        600.0
    """
    images, captions = matrix(images, "images", normalize), matrix(captions, "captions", normalize)
    if bank is not None:
        bank = tuple(matrix(part, f"{name} of the bank", normalize) for part, name in zip(bank, ("images", "captions"), strict=True))
    n_images, n_captions = len(images), len(captions)
    if image_of_caption is not None:
        if captions_per_image is not None:
            raise ValueError("got `captions_per_image` and `image_of_caption`, expected one of them")
        image_of_caption = indices(image_of_caption, "image_of_caption")
    else:
        each = captions_per_image or (n_captions // n_images if n_images else 0)
        if each * n_images != n_captions or n_images == 0:
            raise ValueError(
                f"got {n_captions} captions of {n_images} images, {each} an image, which does not fit: "
                "give `captions_per_image` or `image_of_caption`"
            )
        image_of_caption = np.repeat(np.arange(n_images), each).tolist()
    relevant = [(int(image), int(caption)) for image, caption in (relevant if relevant is not None else ())]
    result = _pairloom.evaluate(
        images, captions, image_of_caption, relevant, list(protocols), dataset, json.dumps([_method(method) for method in methods]), list(cutoffs), bank,
        similarity, depth, threads, progress,
    )
    for message in result.warnings:
        warnings.warn(message, stacklevel=2)
    return Evaluation(result, tuple(cutoffs), tuple(protocols), len(methods))


class Evaluation:
    """Result of `evaluate`: tables that every Arrow library reads, and the numbers of the first protocol and method.

    Attributes:
        summary: one row a protocol and method: recalls of both directions, medians and means of ranks, rsum.
        metrics: one row a measure, with its unit and its 95 % interval.
        rankings: the best items of each query.
        hubs: how often each item is among the k best of the queries.
    """

    def __init__(
        self, result: _pairloom.Evaluation, cutoffs: tuple[int, ...], protocols: tuple[str, ...], methods: int
    ) -> None:
        self._result = result
        self._cutoffs, self._protocols, self._methods = cutoffs, protocols, methods
        self.summary, self.metrics = result.summary, result.metrics
        self.rankings, self.hubs = result.rankings, result.hubs

    def rows(self) -> list[dict[str, Any]]:
        """Rows of `summary` as dicts."""
        return json.loads(self.summary.to_json())

    def __getitem__(self, name: str) -> Any:
        """A column of `summary`, of the first protocol and method: `"rsum"`, `"i2t_r1"`, `"t2i_r10"`."""
        row = self.rows()[0]
        if name not in row:
            raise KeyError(f"{name!r}, expected one of {', '.join(row)}")
        return row[name]

    def ranks(self, direction: str, method: int = 0) -> NDArray[np.int64]:
        """Rank of the best match of every query by the first protocol, from 1; 0 without a match.

        Args:
            direction: `"i2t"` or `"t2i"`.
            method: number of the method.

        Returns:
            int64 array, (queries,)
        """
        if direction not in ("i2t", "t2i"):
            raise ValueError(f"got direction {direction!r}, expected 'i2t' or 't2i'")
        if self._protocols[0] == "five_fold":
            raise ValueError("got the protocol five_fold first, expected one pool: `rankings` has the ranks of each fold")
        if not 0 <= method < self._methods:
            raise ValueError(f"got method {method}, expected 0 to {self._methods - 1}")
        return np.array(self._result.ranks(method, direction == "t2i"), dtype=np.int64)

    def compare(self, other: Evaluation) -> list[Comparison]:
        """Is the difference real? Compares rsum with that of `other`, on the same test set.

        Returns:
            list of `Comparison`, one a protocol and method that both have. `difference` is this one minus `other`.
        """
        rows = _pairloom.compare(other._result, self._result)
        return [
            Comparison(protocol, method, new, old, new - old, interval, p, images)
            for protocol, method, (old, new), interval, p, images in rows
        ]

    def __repr__(self) -> str:
        lines = []
        for row in self.rows():
            recalls = {side: " ".join(f"{row[f'{side}_r{k}']:.1f}" for k in self._cutoffs) for side in ("i2t", "t2i")}
            method = row["method"] + (f" ({row['parameters']})" if row.get("parameters") else "")
            lines.append(
                f"{row['protocol']} {method}: image→text {recalls['i2t']}, text→image {recalls['t2i']}, rsum {row['rsum']:.1f}"
            )
        cutoffs = ", ".join(f"R@{k}" for k in self._cutoffs)
        lines.append(f"{cutoffs}: queries with a match among their k best items, in percent")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self.rows()
        columns = ["protocol", "method", "parameters"]
        columns += [f"{side}_r{k}" for side in ("i2t", "t2i") for k in self._cutoffs] + ["rsum"]
        text = lambda value: "" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text(row.get(name)))}</td>" for name in columns) + "</tr>" for row in rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True)
class Comparison:
    """Difference of rsum between two evaluations.

    `interval` is the 95 % interval of a paired bootstrap over images, `p_value` that of a paired randomisation test over
    images. Both cover the choice of test images; neither covers the seeds of a training.
    """

    protocol: str
    method: str
    rsum: float
    rsum_other: float
    difference: float
    interval: tuple[float, float]
    p_value: float
    images: int


def search(
    queries: Any,
    items: Any,
    k: int = 10,
    *,
    method: Method = "nns",
    bank: Any = None,
    item_bank: Any = None,
    normalize: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k best items of each query, exactly.

    Args:
        queries: unit vectors, (queries, width).
        items: unit vectors, (items, width).
        k: number of items of each query; all of them if there are fewer.
        method: name of a ranking method, or a one-entry dict with parameters: `{"csls": {"k": 10}}`.
        bank: vectors of other queries that the method learns from; by default all of `queries`.
        item_bank: vectors of other items, for the methods that learn from items too.
        normalize, threads, progress: as in `evaluate`.

    Returns:
        indices of items, int64, and their scores, float32; both (queries, k), best first.
    """
    queries, items = matrix(queries, "queries", normalize), matrix(items, "items", normalize)
    bank, item_bank = (None if part is None else matrix(part, "bank", normalize) for part in (bank, item_bank))
    if item_bank is not None and bank is None:
        raise ValueError("got `item_bank` without `bank`")
    if k < 1:
        raise ValueError(f"got k {k}, expected at least 1")
    return _pairloom.search(queries, items, k, json.dumps(_method(method)), bank, item_bank, threads, progress)


def _method(method: Method) -> dict[str, dict[str, Any]]:
    """A method with its parameters. Methods inside of others have names, too."""
    if isinstance(method, str):
        return {method: {}}
    if len(method) != 1:
        raise ValueError(f"got the method {method!r}, expected a name or a dict with one name")
    nested = {"methods": lambda own: [_method(each) for each in own], "method": _method}
    return {
        name: {key: nested[key](value) if key in nested else value for key, value in (settings or {}).items()}
        for name, settings in method.items()
    }
