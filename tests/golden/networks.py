"""Writes reference values of the image networks by torchvision and timm.

    python tests/golden/networks.py tests/golden/networks.json

Images and weights are defined by formulas, as in extract.py.
"""

import json
import sys

import numpy as np
import PIL
import timm
import torch
import torchvision
from timm.data import create_transform, resolve_data_config
from torch import nn
from torchvision import models, transforms
from torchvision.models import resnet, vgg

from formulas import fnv, formula_picture, load_formula, shortest

assert PIL.__version__ == "13.0.0", PIL.__version__
assert torch.__version__.split("+")[0] == "2.15.0", torch.__version__
assert torchvision.__version__.split("+")[0] == "0.29.2", torchvision.__version__
assert timm.__version__ == "1.0.31", timm.__version__


def resnext(group_width):
    """ResNeXt-101 in the width of WSL's weights, as torch.hub's `facebookresearch/WSL-Images` builds it."""
    return resnet.ResNet(resnet.Bottleneck, [3, 4, 23, 3], groups=32, width_per_group=group_width)


def narrow_vgg(letter):
    """VGG with an eighth of the channels and classes."""
    plan = [size if size == "M" else size // 8 for size in vgg.cfgs[letter]]
    network = models.VGG(vgg.make_layers(plan))
    network.classifier = nn.Sequential(
        nn.Linear(64 * 7 * 7, 512), nn.ReLU(True), nn.Dropout(), nn.Linear(512, 512), nn.ReLU(True), nn.Dropout(),
        nn.Linear(512, 125),
    )  # fmt: skip
    return network


# Name, network on the meta device for its parameters, network for values or None, and its layers with values.
NETWORKS = [
    ("squeezenet1_1", models.squeezenet1_1, models.squeezenet1_1, ["features.4", "features.12"]),
    ("mobilenet_v2", models.mobilenet_v2, models.mobilenet_v2, ["features.0", "features.6", "features.18"]),
    ("vgg16", models.vgg16, lambda: narrow_vgg("D"), ["features.9", "classifier.1", "classifier.4"]),
    ("vgg19", models.vgg19, lambda: narrow_vgg("E"), ["features.18", "classifier.4"]),
    ("resnext50_32x4d", models.resnext50_32x4d, models.resnext50_32x4d, ["layer1", "layer3"]),
    ("resnext101_32x8d", models.resnext101_32x8d, None, []),
    ("resnext101_32x16d", lambda: resnext(16), None, []),
    ("resnext101_32x32d", lambda: resnext(32), None, []),
    ("resnext101_32x48d", lambda: resnext(48), None, []),
    ("inception_resnet_v2", lambda: timm.create_model("inception_resnet_v2", pretrained=False),
     lambda: timm.create_model("inception_resnet_v2", pretrained=False),
     ["mixed_5b", "repeat", "mixed_6a", "mixed_7a", "block8"]),
]  # fmt: skip

SIDE = 96


def feature(network, batch):
    """Average of the last feature maps, or fc7 of VGG."""
    if isinstance(network, models.VGG):
        return network.classifier[:-1](torch.flatten(network.avgpool(network.features(batch)), 1))
    if isinstance(network, resnet.ResNet):
        return torch.nn.Sequential(*list(network.children())[:-2])(batch).mean((2, 3))
    maps = network.forward_features(batch) if hasattr(network, "forward_features") else network.features(batch)
    return maps.mean((2, 3))


def tapped(network, batch, names):
    """Outputs of named modules: means of maps, or vectors. Later in-place operations do not change them."""
    found, modules = {}, dict(network.named_modules())

    def keep(name):
        return lambda _module, _input, output: found.__setitem__(name, output.clone())

    handles = [modules[name].register_forward_hook(keep(name)) for name in names]
    network(batch)
    for handle in handles:
        handle.remove()
    return {name: value.mean((2, 3)) if value.dim() == 4 else value for name, value in found.items()}


def golden():
    networks = []
    to_tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)])
    batch = torch.stack([
        to_tensor(transforms.CenterCrop(SIDE)(transforms.Resize(112)(formula_picture(*size))))
        for size in [(160, 120), (120, 190)]
    ])  # fmt: skip
    for name, whole, small, layers in NETWORKS:
        with torch.device("meta"):
            network = whole()
        state = {k: v for k, v in network.state_dict().items() if not k.endswith("num_batches_tracked")}
        lines = "".join(f"{k} {list(v.shape)}\n" for k, v in sorted(state.items()))
        entry = {"name": name, "parameters": sum(p.numel() for p in network.parameters()),
                 "names": f"{fnv(lines.encode()):016x}"}  # fmt: skip
        if small:
            network = load_formula(small())
            with torch.no_grad():
                rows = {"feature": feature(network, batch), "scores": network(batch)}
                rows |= tapped(network, batch, layers)
            entry["outputs"] = {key: [shortest(row[:24]) for row in value.numpy()] for key, value in rows.items()}
        networks.append(entry)
        print(name, file=sys.stderr)

    bicubic = transforms.InterpolationMode.BICUBIC
    resized = []
    for width, height, resize, crop in [
        (500, 375, 224, 224), (333, 500, 256, 224), (37, 53, 224, 224), (900, 17, 64, 51), (17, 900, 64, 51),
        (1, 1, 40, 33), (1021, 767, 97, 64), (64, 48, 48, 48), (300, 1000, 128, 112), (500, 333, 333, 299),
    ]:  # fmt: skip
        square = transforms.CenterCrop(crop)(transforms.Resize(resize, bicubic)(formula_picture(width, height)))
        pixels = np.asarray(square).tobytes()
        resized.append({"size": [width, height], "resize": resize, "crop": crop, "digest": f"{fnv(pixels):016x}"})

    ten_crops = []
    for width, height, resize, crop in [(160, 120, 112, 96), (121, 190, 61, 48), (200, 200, 50, 45)]:
        crops = transforms.TenCrop(crop)(transforms.Resize(resize)(formula_picture(width, height)))
        digests = [f"{fnv(np.asarray(square).tobytes()):016x}" for square in crops]
        ten_crops.append({"size": [width, height], "resize": resize, "crop": crop, "digests": digests})

    model = timm.create_model("inception_resnet_v2", pretrained=False)
    whole = create_transform(**resolve_data_config({}, model=model))(formula_picture(500, 375))
    whole = whole.numpy().ravel()
    return {
        "made_by": f"tests/golden/networks.py; torchvision {torchvision.__version__}, timm {timm.__version__}, "
        f"torch {torch.__version__}, Pillow {PIL.__version__}",
        "networks": networks,
        "bicubic": resized,
        "ten_crops": ten_crops,
        "inception_input": {"count": whole.size, "values": [[i, *shortest(whole[i : i + 1])] for i in range(0, whole.size, 9973)]},
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(golden(), file, indent=None)
        file.write("\n")
