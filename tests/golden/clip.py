"""Writes reference values of CLIP by open_clip: both towers of a small copy, and the parameters of the published sizes.

    python tests/golden/clip.py tests/golden/clip.json

Images, weights and token identifiers are defined by formulas.
"""

import json
import sys

import open_clip
import torch
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from open_clip.transform import PreprocessCfg, image_transform_v2

from formulas import fnv, formula_picture, load_formula, shortest

assert open_clip.__version__ == "3.3.0", open_clip.__version__
assert torch.__version__.split("+")[0] == "2.15.0", torch.__version__

WORDS, SIDE = 300, 48
TEXTS = [[298, 5, 17, 200, 8, 299], [298, 299], [298] + [(7 * i * i + 3) % 297 for i in range(75)] + [299],
         [298, 1, 299, 2, 3, 299]]  # fmt: skip


def small(quick_gelu):
    vision = CLIPVisionCfg(layers=3, width=64, head_width=32, patch_size=16, image_size=SIDE)
    text = CLIPTextCfg(context_length=77, vocab_size=WORDS, width=96, heads=3, layers=2)
    return load_formula(CLIP(embed_dim=40, vision_cfg=vision, text_cfg=text, quick_gelu=quick_gelu))


def golden():
    transform = image_transform_v2(PreprocessCfg(size=SIDE), is_train=False)
    batch = torch.stack([transform(formula_picture(*size)) for size in [(160, 120), (120, 190)]])
    tokens = torch.zeros(len(TEXTS), 77, dtype=torch.long)
    for row, text in enumerate(TEXTS):
        tokens[row, : len(text)] = torch.tensor(text)
    outputs = []
    for quick_gelu in (False, True):
        network = small(quick_gelu)
        with torch.no_grad():
            images, texts = network.encode_image(batch), network.encode_text(tokens)
        outputs.append({"quick_gelu": quick_gelu, "images": [shortest(row) for row in images.numpy()],
                        "texts": [shortest(row) for row in texts.numpy()]})  # fmt: skip
    networks = []
    for name in ["ViT-B-32", "ViT-B-16", "ViT-L-14"]:
        with torch.device("meta"):
            state = CLIP(**open_clip.get_model_config(name)).state_dict()
        lines = "".join(f"{k} {list(v.shape)}\n" for k, v in sorted(state.items()) if k != "logit_scale")
        networks.append({"name": name, "names": f"{fnv(lines.encode()):016x}"})
    pixels = batch.numpy().ravel()
    return {
        "made_by": f"tests/golden/clip.py; open_clip {open_clip.__version__}, torch {torch.__version__}",
        "texts": TEXTS,
        "pixels": [[i, *shortest(pixels[i : i + 1])] for i in range(0, pixels.size, 997)],
        "outputs": outputs,
        "networks": networks,
    }


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(golden(), file, indent=None)
        file.write("\n")
