"""Images and weights that are defined by formulas, the same in Rust (`src/stages/extract/testing.rs`)."""

import numpy as np
import torch
from PIL import Image


def fnv(data):
    """FNV-1a hash of 64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def unit(name, count):
    """`count` numbers in [-1, 1): the upper 24 bits of SplitMix64 with the seed fnv(name)."""
    with np.errstate(over="ignore"):
        z = np.uint64(fnv(name.encode())) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1


def load_formula(network):
    """Weights defined by a formula of the parameter's name and shape, the same as `formula_weights` in Rust."""
    state = network.state_dict()
    for name, tensor in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        u = unit(name, tensor.numel())
        if tensor.dim() > 1:
            values = u * np.sqrt(6.0 / (tensor.numel() // tensor.shape[0]))
        elif name.endswith("running_var") or (tensor.dim() == 1 and name.endswith("weight")):
            values = 1.0 + 0.5 * u
        else:
            values = 0.1 * u
        state[name] = torch.from_numpy(values.astype(np.float32).reshape(tensor.shape))
    network.load_state_dict(state)
    return network.eval()


def formula_picture(width, height):
    """Smooth ramps with hard edges, different in every channel."""
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    channels = [(3 * x + 5 * y) % 256, (x * y) // 7 % 256, np.where((x // 9 + y // 11) % 2 == 0, 20 + x % 60, 230 - y % 50)]
    return Image.fromarray(np.stack(channels, -1).astype(np.uint8))


def shortest(values):
    """f32 values with as few digits as identify them."""
    return [float(np.format_float_positional(v, unique=True, trim="-")) for v in np.asarray(values, np.float32)]
