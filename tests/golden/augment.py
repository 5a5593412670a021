"""Writes augment.json: reference values of random image augmentation by torchvision.

    python tests/golden/augment.py golden tests/golden/augment.json [FLICKR8K]

FLICKR8K is the folder with `images/` of Flickr8k. The file has only names, digests and a few values of its photographs.
Without FLICKR8K, that part of the file is left unchanged.
"""

import json
import os
import sys
import zlib

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional

assert PIL.__version__ == "13.0.0", PIL.__version__
assert torch.__version__.split("+")[0] == "2.11.0", torch.__version__
assert torchvision.__version__.split("+")[0] == "0.26.0", torchvision.__version__

NORMALIZE = transforms.Compose(
    [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
)
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
DRAWS = 40_000
QUANTILES = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99]
# Number of values kept of an augmented image, at positions spread over it.
KEPT = 24


def formula(width, height):
    """An image defined by a formula, the same as `formula_picture` in Rust."""
    y, x = np.mgrid[:height, :width]
    third = np.where((x // 9 + y // 11) % 2 == 0, 20 + x % 60, 230 - y % 50)
    return Image.fromarray(np.stack([(3 * x + 5 * y) % 256, x * y // 7 % 256, third], axis=2).astype(np.uint8))


def view(image, left, top, width, height, side, mirrored):
    """Crops and resizes a region by torchvision: digest before normalisation, and some values after it."""
    square = functional.resized_crop(
        image, top, left, height, width, [side, side], transforms.InterpolationMode.BILINEAR, antialias=True
    )
    if mirrored:
        square = functional.hflip(square)
    values = NORMALIZE(square).numpy().reshape(-1)
    places = [int(place) for place in np.linspace(0, len(values) - 1, KEPT)]
    return {
        "region": [left, top, width, height],
        "side": side,
        "mirrored": mirrored,
        "crc": f"{zlib.crc32(np.asarray(square).tobytes()):08x}",
        "values": [[place, float(values[place])] for place in places],
    }


def drawn(image, side):
    """A random augmentation."""
    top, left, height, width = transforms.RandomResizedCrop.get_params(image, SCALE, RATIO)
    return view(image, left, top, width, height, side, bool(torch.rand(1) < 0.5))


def boxes(width, height):
    """Quantiles of the parameters that `get_params` draws for an image of this size."""
    image = Image.new("RGB", (width, height))
    drawn = np.array([transforms.RandomResizedCrop.get_params(image, SCALE, RATIO) for _ in range(DRAWS)], float)
    top, left, h, w = drawn.T
    # Offset of the rectangle relative to the free space, where there is any.
    across, down = (left[w < width] / (width - w)[w < width], top[h < height] / (height - h)[h < height])
    figures = {"area": w * h / (width * height), "ratio": w / h, "across": across, "down": down}
    return {
        "size": [width, height],
        "quantiles": {name: np.quantile(values, QUANTILES).round(6).tolist() for name, values in figures.items()},
    }


def central(width, height):
    """The region for an image so long that no drawn region fits."""
    image = Image.new("RGB", (width, height))
    found = {transforms.RandomResizedCrop.get_params(image, SCALE, RATIO) for _ in range(20)}
    assert len(found) == 1, found
    top, left, h, w = found.pop()
    return {"size": [width, height], "region": [left, top, w, h]}


def main():
    torch.manual_seed(7)
    path = sys.argv[2]
    formulas = []
    for width, height in [(97, 61), (61, 97), (300, 200), (16, 16)]:
        image = formula(width, height)
        views = [drawn(image, side) for side in (7, 32, 224)]
        views += [view(image, 0, 0, width, height, 32, True), view(image, width - 1, height - 1, 1, 1, 5, False)]
        formulas.append({"size": [width, height], "views": views})
    photographs = []
    if len(sys.argv) > 3:
        folder = os.path.join(sys.argv[3], "images")
        for name in sorted(os.listdir(folder))[::120]:
            image = Image.open(os.path.join(folder, name)).convert("RGB")
            photographs.append({"name": name, "views": [drawn(image, 224) for _ in range(2)]})
    elif os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            photographs = json.load(file)["photographs"]
    golden = {
        "boxes": [boxes(*size) for size in [(500, 375), (333, 500), (640, 300)]],
        "central": [central(*size) for size in [(1000, 10), (10, 1000), (2001, 33), (1, 77)]],
        "probabilities": QUANTILES,
        "formulas": formulas,
        "photographs": photographs,
    }
    with open(path, "w", encoding="utf-8") as file:
        lines = [f'"{name}": {json.dumps(value)}' for name, value in golden.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


assert sys.argv[1] == "golden", sys.argv
main()
