"""Writes eccv.json: measures of the package `eccv_caption` on made-up rankings of COCO's test split.

    python tests/golden/eccv.py

Every image and caption is a vector of 256 signs, so that scores are whole numbers with many ties, of which the lower
index ranks first. The signs of an image are a hash of its identifier. A caption has half of its signs from each of two
of its verified images, if it has any, and otherwise from its own image; three of eight signs are flipped.
`tests/it/qrels.rs` makes the same vectors. The judgements are those in the package and are not written.
"""

import importlib.metadata
import json
import pathlib

import eccv_caption
import numpy

assert importlib.metadata.version("eccv_caption") == "0.1.0" and numpy.__version__ == "2.4.6"

WORDS, DEPTH = 4, 60
package = pathlib.Path(eccv_caption.__file__).parent / "data"


def mix(x):
    """Finaliser of SplitMix64."""
    x = x + numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def words(ids, salt):
    """Four hashes of each identifier."""
    ids = numpy.asarray(ids, numpy.uint64)[:, None]
    return mix(ids + numpy.arange(WORDS, dtype=numpy.uint64) * numpy.uint64(1 << 32) + numpy.uint64(salt << 40))


def signs(bits):
    """Signs by bit, the lowest bit of the first word first."""
    planes = numpy.unpackbits(bits.astype("<u8").view(numpy.uint8), axis=1, bitorder="little")
    return planes.astype(numpy.float32) * 2 - 1


metrics = eccv_caption.Metrics()
caption_ids = [int(id) for id in metrics.coco_ids]
own = [metrics.coco_gts["t2i"][id][0] for id in caption_ids]
image_ids = list(dict.fromkeys(own))
assert (len(image_ids), len(caption_ids)) == (5000, 25_000) and own == [image_ids[i // 5] for i in range(25_000)]

# Two verified captions are not among the 25,000 of the test split. The package counts them as relevant and never finds
# them; Pairloom leaves them out with a warning. With them, R-precision and mAP@R of image to text are lower, by at
# most (1/19 + 1/13) / 1,261, because their images have 19 and 13 relevant captions.
lacking = {
    (image, caption) for image, captions in metrics.eccv_gts["i2t"].items() for caption in set(captions) - set(caption_ids)
}
assert lacking == {(575916, 144675), (421999, 467259)}
for image, caption in lacking:
    metrics.eccv_gts["i2t"][image].remove(caption)

verified = [metrics.eccv_gts["t2i"].get(id, [of]) for id, of in zip(caption_ids, own)]
first, second = ([images[k % len(images)] for images in verified] for k in (0, 1))
choice = words(caption_ids, 1)
flips = words(caption_ids, 2) & (words(caption_ids, 3) | words(caption_ids, 4))
image_signs = signs(words(image_ids, 0))
caption_signs = signs(((words(first, 0) & choice) | (words(second, 0) & ~choice)) ^ flips)


def ranked(queries, items, query_ids, item_ids):
    """The best items of each query, by score and then by index."""
    item_ids = numpy.array(item_ids)
    lists = {}
    for query, scores in zip(query_ids, queries @ items.T):
        lists[query] = item_ids[numpy.argsort(-scores, kind="stable")[:DEPTH]].tolist()
    return lists


retrieved = {
    "i2t": ranked(image_signs, caption_signs, image_ids, caption_ids),
    "t2i": ranked(caption_signs, image_signs, caption_ids, image_ids),
}


def percent(values):
    return {direction: 100.0 * float(value) for direction, value in values.items()}


def measures(recalls):
    result = {f"recall {k}": percent(recalls(retrieved, "all", k)) for k in (1, 5, 10)}
    for name, values in metrics.eccv_metrics(retrieved, "all").items():
        if name != "eccv_r1":
            result[{"eccv_map_at_r": "map_at_r", "eccv_rprecision": "r_precision"}[name]] = percent(values)
    result["n_queries"] = {direction: len(metrics.eccv_gts[direction]) for direction in ("i2t", "t2i")}
    return result


golden = {"own": {f"recall {k}": percent(metrics.coco_5k_recalls(retrieved, "all", k)) for k in (1, 5, 10)}}
golden["eccv"] = measures(metrics.eccv_recalls)
# The package has no precisions for CxC: its judgements take the place of the others.
metrics.set_eccv_gts(package / "cxc_image_to_caption.json", package / "cxc_caption_to_image.json")
golden["cxc"] = measures(metrics.cxc_recalls)
path = pathlib.Path(__file__).with_suffix(".json")
path.write_text(json.dumps(golden, indent=1) + "\n")
