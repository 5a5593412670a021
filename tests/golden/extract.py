"""Writes reference values of `extract` by torchvision.

    python tests/golden/extract.py golden tests/golden/extract.json
    python tests/golden/extract.py photographs FLICKR8K SQUEEZENET.safetensors FOLDER/photographs.json

The first command writes the committed file, with images and weights defined by formulas. The second is for a manual
check on photographs, which are not committed; then run

    PAIRLOOM_PARITY=FOLDER cargo test --workspace --lib extract::golden_tests -- --nocapture

with `FLICKR8K`, `SQUEEZENET` as in pipelines/flickr8k.toml.
"""

import base64
import io
import json
import os
import struct
import sys
import zlib

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image
from torchvision import models, transforms

from formulas import fnv, formula_picture, load_formula, shortest

assert PIL.__version__ == "13.0.0", PIL.__version__
assert torch.__version__.split("+")[0] == "2.11.0", torch.__version__
assert torchvision.__version__.split("+")[0] == "0.26.0", torchvision.__version__

NETWORKS = ["squeezenet1_0", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]
NORMALIZE = transforms.Compose(
    [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
)


# Size of the encoded images: no multiple of the size of a JPEG block in either direction.
WIDTH, HEIGHT = 17, 13


def outputs(network, batch):
    """Mean feature maps and scores."""
    with torch.no_grad():
        if isinstance(network, models.SqueezeNet):
            maps = network.features(batch)
        else:
            maps = torch.nn.Sequential(*list(network.children())[:-2])(batch)
        return maps.mean((2, 3)).numpy(), network(batch).numpy()


def text(data):
    return base64.b64encode(bytes(data)).decode()


def png(width, height, depth, color, rows, chunks=()):
    """Encodes a PNG without Pillow, which does not support all bit depths."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunk(*c) for c in chunks) + body + chunk(b"IEND", b"")


def encoded():
    rgb = formula_picture(WIDTH, HEIGHT)
    alpha = rgb.getchannel(0)

    def save(image, kind, **options):
        out = io.BytesIO()
        image.save(out, kind, **options)
        return out.getvalue()

    orientation = Image.Exif()
    orientation[0x0112] = 6
    words = np.arange(WIDTH * HEIGHT * 3, dtype=np.uint32) * 2654435761 >> 7 & 0xFFFF
    wide = words.astype(">u2").reshape(HEIGHT, WIDTH * 3)
    yield "jpeg-420", save(rgb, "JPEG", quality=85)
    yield "jpeg-422", save(rgb, "JPEG", quality=85, subsampling="4:2:2")
    yield "jpeg-444", save(rgb, "JPEG", quality=95, subsampling="4:4:4")
    yield "jpeg-progressive", save(rgb, "JPEG", quality=70, progressive=True)
    yield "jpeg-restarts", save(rgb, "JPEG", quality=85, restart_marker_blocks=1)
    yield "jpeg-grey", save(rgb.convert("L"), "JPEG")
    yield "jpeg-cmyk", save(rgb.convert("CMYK"), "JPEG", quality=90)
    yield "jpeg-orientation", save(rgb, "JPEG", exif=orientation)
    # The last byte of the Adobe marker is the colour transform; 2 is YCCK.
    cmyk = save(rgb.convert("CMYK"), "JPEG", quality=90)
    at = cmyk.index(b"Adobe") + 11
    assert cmyk[at] == 0
    yield "jpeg-ycck", cmyk[:at] + b"\2" + cmyk[at + 1 :]
    # Of an animation, the first picture; of several pictures in a JPEG (MPO, as cameras write them), too.
    yield "png-animated", save(rgb, "PNG", save_all=True, append_images=[rgb.rotate(180)], duration=100)
    yield "jpeg-several", save(rgb, "MPO", save_all=True, append_images=[rgb.rotate(180)])
    yield "png-rgb", save(rgb, "PNG")
    yield "png-grey", save(rgb.convert("L"), "PNG")
    yield "png-bits", save(rgb.convert("1"), "PNG")
    yield "png-palette", save(rgb.quantize(11), "PNG")
    yield "png-palette-transparent", save(rgb.quantize(11), "PNG", transparency=3)
    yield "png-rgba", save(Image.merge("RGBA", (*rgb.split(), alpha)), "PNG")
    yield "png-grey-alpha", save(Image.merge("LA", (alpha, alpha)), "PNG")
    yield "png-grey-2", png(WIDTH, HEIGHT, 2, 0, [bytes((i * 37 + j * 11) % 256 for j in range(5)) for i in range(HEIGHT)])
    yield "png-grey-16", png(WIDTH, HEIGHT, 16, 0, [row[:WIDTH].tobytes() for row in wide >> 7])
    yield "png-grey-alpha-16", png(WIDTH, HEIGHT, 16, 4, [row[: 2 * WIDTH].tobytes() for row in wide])
    yield "png-rgb-16", png(WIDTH, HEIGHT, 16, 2, [row.tobytes() for row in wide])
    yield "png-rgba-16", png(WIDTH, HEIGHT, 16, 6, [np.append(row, row[:WIDTH]).tobytes() for row in wide])


def golden():
    resized = []
    for width, height, resize, crop in [
        (500, 375, 256, 224), (333, 500, 256, 224), (37, 53, 256, 224), (256, 256, 256, 224), (900, 17, 64, 51),
        (17, 900, 64, 51), (1, 1, 40, 33), (1021, 767, 97, 64), (64, 48, 48, 48), (300, 1000, 128, 112),
    ]:  # fmt: skip
        square = transforms.CenterCrop(crop)(transforms.Resize(resize)(formula_picture(width, height)))
        pixels = np.asarray(square).tobytes()
        middle = pixels[len(pixels) // 2 :][:60]
        resized.append({"size": [width, height], "resize": resize, "crop": crop, "digest": f"{fnv(pixels):016x}",
                        "middle": list(middle)})  # fmt: skip

    decoded = []
    for name, data in encoded():
        image = Image.open(io.BytesIO(data)).convert("RGB")
        decoded.append({"name": name, "bytes": text(data), "size": list(image.size), "rgb": text(image.tobytes())})

    networks = []
    batch = torch.stack([
        NORMALIZE(transforms.CenterCrop(96)(transforms.Resize(112)(formula_picture(*size))))
        for size in [(160, 120), (120, 190)]
    ])  # fmt: skip
    for name in NETWORKS:
        network = getattr(models, name)(weights=None)
        state = {k: v for k, v in network.state_dict().items() if not k.endswith("num_batches_tracked")}
        lines = "".join(f"{k} {list(v.shape)}\n" for k, v in sorted(state.items()))
        entry = {"name": name, "parameters": sum(p.numel() for p in network.parameters()),
                 "names": f"{fnv(lines.encode()):016x}"}  # fmt: skip
        if name in ("squeezenet1_0", "resnet18", "resnet50"):
            average, scores = outputs(load_formula(network), batch)
            entry |= {"average": [shortest(row[:100]) for row in average], "scores": [shortest(r[:50]) for r in scores]}
        networks.append(entry)
    return {
        "made_by": f"tests/golden/extract.py golden; torchvision {torchvision.__version__}, torch {torch.__version__}, "
        f"Pillow {PIL.__version__}",
        "resized": resized,
        "decoded": decoded,
        "networks": networks,
    }


def photographs(folder, weights):
    from safetensors.torch import load_file

    cut = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224)])
    names = sorted(os.listdir(f"{folder}/images"))
    squares = {name: cut(Image.open(f"{folder}/images/{name}").convert("RGB")) for name in names}
    ten = names[:: len(names) // 10][:10]
    batch = torch.stack([NORMALIZE(squares[name]) for name in ten])
    networks = {name: load_formula(getattr(models, name)(weights=None)) for name in ("squeezenet1_0", "resnet18")}
    trained = models.squeezenet1_0(weights=None)
    trained.load_state_dict(load_file(weights))
    networks["trained squeezenet1_0"] = trained.eval()
    features = {}
    for name, network in networks.items():
        average, scores = outputs(network, batch)
        features[name] = {"average": [shortest(row) for row in average], "scores": [shortest(row) for row in scores]}
    return {
        "squares": {name: f"{zlib.crc32(np.asarray(square).tobytes()):08x}" for name, square in squares.items()},
        "pixels": {name: text(np.asarray(squares[name]).tobytes()) for name in ten},
        "features": features,
    }


if __name__ == "__main__":
    what, *arguments, out = sys.argv[1:]
    with open(out, "w") as file:
        json.dump({"golden": golden, "photographs": photographs}[what](*arguments), file, indent=None)
        file.write("\n")
