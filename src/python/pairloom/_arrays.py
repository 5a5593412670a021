"""Matrices of other libraries as float32 arrays of numpy, or as they are for Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np


def matrix(values: Any, name: str, normalize: bool = False) -> Any:
    """Returns vectors that the extension reads in place.

    Tensors on a card are copied to main memory. Other types than float32 are converted, other orders are copied.
    """
    if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__"):
        if not normalize:
            return values
        raise TypeError(f"`{name}` is a column of Arrow, which is not normalised: divide its vectors by their lengths")
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        # bfloat16 is no type of numpy.
        values = values.float().numpy() if values.is_floating_point() else values.numpy()
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"`{name}` has the shape {values.shape}, expected (vectors, width)")
    if values.dtype.kind not in "fiu":
        raise TypeError(f"`{name}` has the type {values.dtype}, expected numbers")
    values = np.ascontiguousarray(values, dtype=np.float32)
    if normalize:
        values = values / np.linalg.norm(values, axis=1, keepdims=True)
    return values


def indices(values: Any, name: str) -> list[int]:
    """Returns whole numbers from 0 on."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    values = np.asarray(values)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise TypeError(f"`{name}` has the type {values.dtype} and the shape {values.shape}, expected a list of integers")
    if values.size and values.min() < 0:
        raise ValueError(f"`{name}` has {values.min()}, expected numbers from 0 on")
    return values.tolist()
