"""Exact evaluation, search and caption similarity for image-text retrieval.

Matrices are arrays of numpy, tensors of torch, or columns of Arrow, with one vector a row. Float32 in C order is read in
place; anything else is copied once. Results do not depend on the number of threads. Ctrl-C ends a call.
"""

from ._evaluation import Comparison, Evaluation, evaluate, search
from ._captions import caption_similarity, cider, cider_d, scene_graphs, spice, tokenize
from ._pairloom import Table

__all__ = [
    "Comparison",
    "Evaluation",
    "Table",
    "caption_similarity",
    "cider",
    "cider_d",
    "evaluate",
    "scene_graphs",
    "search",
    "spice",
    "tokenize",
]
