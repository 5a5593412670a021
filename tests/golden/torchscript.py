"""Writes a module in TorchScript, and what PyTorch computes with it.

    python tests/golden/torchscript.py FLICKR8K/images tests/golden/torchscript.json

The first rows are of pictures that are defined by formulas, the others of photographs, which are not committed. The module
is traced in evaluation mode, and its file has neither the source text of this program nor the traced input.
"""

import base64
import io
import json
import os
import sys
import zipfile

import PIL
import torch
import torchvision
from PIL import Image
from torch import nn
from torchvision import transforms

from formulas import formula_picture, load_formula, shortest

assert PIL.__version__ == "13.0.0", PIL.__version__
assert torch.__version__.split("+")[0] == "2.15.0", torch.__version__
assert torchvision.__version__.split("+")[0] == "0.29.2", torchvision.__version__

SIZES = [(160, 120), (120, 190)]
PHOTOGRAPHS = ["1000268201_693b08cb0e.jpg", "1001773457_577c3a7d70.jpg", "1002674143_1b742ab4b8.jpg"]
MEAN, DEVIATION = [0.5, 0.4, 0.3], [0.3, 0.25, 0.2]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 5, 4)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x))).mean((2, 3))


def small_archive(module):
    """Archive without records that libtorch does not need."""
    whole, small = io.BytesIO(), io.BytesIO()
    torch.jit.save(module, whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(small, "w", zipfile.ZIP_DEFLATED) as target:
        for record in source.infolist():
            if not record.filename.endswith(".debug_pkl") and "traced_inputs" not in record.filename:
                target.writestr(zipfile.ZipInfo(record.filename, (1980, 1, 1, 0, 0, 0)), source.read(record))
    return small.getvalue()


if __name__ == "__main__":
    images = [formula_picture(*size) for size in SIZES]
    images += [Image.open(os.path.join(sys.argv[1], name)).convert("RGB") for name in PHOTOGRAPHS]
    transform = transforms.Compose([
        transforms.Resize(112), transforms.CenterCrop(96), transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION)
    ])  # fmt: skip
    batch = torch.stack([transform(image) for image in images])
    network = load_formula(Small())
    with torch.no_grad():
        rows = [shortest(row) for row in network(batch).numpy()]
    traced = torch.jit.trace(network, batch)
    golden = {
        "made_by": f"tests/golden/torchscript.py; torchvision {torchvision.__version__}, torch {torch.__version__}",
        "module": base64.b64encode(small_archive(traced)).decode(),
        "mean": MEAN, "deviation": DEVIATION, "sizes": SIZES, "photographs": PHOTOGRAPHS, "rows": rows,
    }  # fmt: skip
    with open(sys.argv[2], "w") as file:
        json.dump(golden, file)
        file.write("\n")
