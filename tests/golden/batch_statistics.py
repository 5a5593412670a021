"""Writes values of a ResNet-18 in training mode, whose batch normalisation uses the statistics of the batch.

    python tests/golden/batch_statistics.py tests/golden/batch_statistics.json

Images and weights are defined by formulas, and everything is computed in f64: L2-normalised features, the stored statistics
after the pass, and gradients of the sum of the features times sin(0), sin(1), sin(2), …
"""

import json
import sys

import numpy as np
import torch
import torchvision
from torchvision import models

from formulas import formula_picture, load_formula, shortest

assert torch.__version__.split("+")[0] == "2.15.0", torch.__version__
assert torchvision.__version__.split("+")[0] == "0.29.2", torchvision.__version__

STATISTICS = ["bn1.running_mean", "bn1.running_var", "layer2.0.downsample.1.running_var", "layer4.1.bn2.running_mean"]
GRADIENTS = ["conv1.weight", "bn1.weight", "layer3.0.bn2.bias", "layer4.1.conv2.weight"]

if __name__ == "__main__":
    squares = [np.asarray(formula_picture(*size))[-64:, -64:] for size in [(64, 64), (80, 70), (70, 90)]]
    batch = torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2).double() / 255
    network = load_formula(models.resnet18()).double().train()
    maps = torch.nn.Sequential(*list(network.children())[:-2])(batch)
    features = torch.nn.functional.normalize(maps.mean((2, 3)), dim=1)
    (features * torch.arange(3 * 512).double().view(3, 512).sin()).sum().backward()
    state, parameters = network.state_dict(), dict(network.named_parameters())
    golden = {
        "made_by": f"tests/golden/batch_statistics.py; torchvision {torchvision.__version__}, torch {torch.__version__}",
        "features": [shortest(row[:16]) for row in features.detach().numpy()],
        "statistics": {name: shortest(state[name][:16].numpy()) for name in STATISTICS},
        "gradients": {name: parameters[name].grad.reshape(-1)[:16].tolist() for name in GRADIENTS},
    }
    with open(sys.argv[1], "w") as file:
        json.dump(golden, file)
        file.write("\n")
