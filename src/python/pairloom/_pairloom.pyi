from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

class Table:
    column_names: list[str]
    def __len__(self) -> int: ...
    def to_json(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Evaluation:
    summary: Table
    metrics: Table
    rankings: Table
    hubs: Table
    warnings: list[str]
    def ranks(self, number: int, captions: bool) -> list[int]: ...

def evaluate(
    images: object,
    captions: object,
    image_of_caption: list[int],
    relevant: list[tuple[int, int]],
    protocols: list[str],
    dataset: str,
    methods: str,
    cutoffs: list[int],
    bank: tuple[object, object] | None,
    similarity: str,
    depth: int,
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> Evaluation: ...
def compare(first: Evaluation, second: Evaluation) -> list[tuple[str, str, list[float], tuple[float, float], float, int]]: ...
def search(
    queries: object,
    items: object,
    k: int,
    method: str,
    bank: object | None,
    item_bank: object | None,
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...
def cider(
    candidates: list[str], references: list[list[str]], variant: str, tokenizer: str, threads: int | None
) -> list[float]: ...
def spice(
    candidates: list[str], references: list[list[str]], threads: int | None
) -> list[tuple[float, float, float, list[float | None]]]: ...
def caption_similarity(
    captions: list[list[str]], measure: str, tokenizer: str, threads: int | None
) -> NDArray[np.float32]: ...
def scene_graphs(
    captions: list[str], threads: int | None
) -> list[tuple[list[str], list[tuple[str, str]], list[tuple[str, str, str]]]]: ...
def tokenize(captions: list[str], tokenizer: str, lowercase: bool, threads: int | None) -> list[list[str]]: ...
