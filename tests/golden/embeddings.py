"""Writes embedding files for tests of `ingest`, in the formats of other programs, and the recalls of their evaluation.

    python tests/golden/embeddings.py

writes into its own folder the vectors of 16 images with 3 captions each, of width 6 and exact in f16:
  embeddings_images.npy (f64) and embeddings_captions.npy (f16), rows in order;
  embeddings_image_of.txt, the image of each caption;
  embeddings_images.parquet and embeddings_captions.parquet, with pyarrow's defaults (snappy) and row groups of 7 and 11;
  embeddings_images.feather, compressed with lz4, and embeddings_captions.arrows, a stream of batches of 20 rows;
  embeddings.json: identifiers, splits, unit vectors, and recalls by argsort.
Captions are shuffled in the tables, and four images are in the split `val`.
"""

import json
import pathlib

import numpy
import pyarrow
import pyarrow.feather
import pyarrow.parquet

assert numpy.__version__ == "2.4.6" and pyarrow.__version__ == "26.0.1"

IMAGES, CAPTIONS, WIDTH = 16, 3, 6
folder = pathlib.Path(__file__).parent
random = numpy.random.default_rng(11)

images = random.normal(size=(IMAGES, WIDTH))
captions = numpy.repeat(images, CAPTIONS, axis=0) + 0.8 * random.normal(size=(IMAGES * CAPTIONS, WIDTH))
images, captions = 3 * images.astype("<f2").astype("<f8"), captions.astype("<f2").astype("<f8")
images = images.astype("<f2").astype("<f8")
image_of = numpy.repeat(numpy.arange(IMAGES), CAPTIONS)

numpy.save(folder / "embeddings_images.npy", images)
numpy.save(folder / "embeddings_captions.npy", captions.astype("<f2"))
numpy.savetxt(folder / "embeddings_image_of.txt", image_of, fmt="%d")

image_ids = 1000 + 7 * numpy.arange(IMAGES)
splits = numpy.array(["val" if i % 4 == 1 else "test" for i in range(IMAGES)])
order = random.permutation(IMAGES * CAPTIONS)


def lists(values, kind):
    return pyarrow.array(values.tolist(), kind)


def halves(values):
    flat = pyarrow.array(values.astype("<f2").ravel())
    return pyarrow.ListArray.from_arrays(numpy.arange(0, flat.__len__() + 1, WIDTH, dtype="int32"), flat)


dictionary = pyarrow.array(splits).dictionary_encode()
table = pyarrow.table(
    {
        "image_id": pyarrow.array(image_ids, pyarrow.int32()),
        "split": dictionary,
        "file_name": [f"{i}.jpg" for i in image_ids],
        "embedding": halves(images),
    }
)
pyarrow.parquet.write_table(table, folder / "embeddings_images.parquet", row_group_size=7)
table = pyarrow.table(
    {
        "embedding": lists(captions[order], pyarrow.list_(pyarrow.float32(), WIDTH)),
        "image_id": pyarrow.array(image_ids[image_of[order]], pyarrow.int64()),
        "caption_id": pyarrow.array(order, pyarrow.uint64()),
    }
)
pyarrow.parquet.write_table(table, folder / "embeddings_captions.parquet", row_group_size=11)

table = pyarrow.table(
    {
        "picture": pyarrow.array(image_ids, pyarrow.uint16()),
        "part": pyarrow.array(splits, pyarrow.large_string()),
        "vector": lists(images, pyarrow.list_(pyarrow.float64())),
    }
)
pyarrow.feather.write_feather(table, folder / "embeddings_images.feather", compression="lz4")
table = pyarrow.table(
    {
        "part": pyarrow.array(splits[image_of[order]]).dictionary_encode(),
        "caption": pyarrow.array(order, pyarrow.int16()),
        "picture": pyarrow.array(image_ids[image_of[order]], pyarrow.int32()),
        "vector": lists(captions[order], pyarrow.large_list(pyarrow.float32())),
    }
)
with pyarrow.ipc.new_stream(folder / "embeddings_captions.arrows", table.schema) as stream:
    stream.write_table(table, max_chunksize=20)


def unit(values):
    return values / numpy.sqrt((values**2).sum(axis=1, keepdims=True))


def recalls(kept):
    """R@1, 5, 10 of image to text and text to image, in percent, over the images `kept`."""
    of = numpy.flatnonzero(numpy.isin(image_of, kept))
    scores = unit(images[kept]) @ unit(captions[of]).T
    for rows in (scores, scores.T):
        ordered = numpy.sort(rows, axis=1)
        assert (ordered[:, 1:] - ordered[:, :-1]).min() > 2e-6, "scores that rounding could exchange"
    hit = kept[:, None] == image_of[of][None, :]
    result = {}
    for name, rows, hits in (("i2t", scores, hit), ("t2i", scores.T, hit.T)):
        ranked = numpy.take_along_axis(hits, numpy.argsort(-rows, axis=1), axis=1)
        ranks = ranked.argmax(axis=1)
        for k in (1, 5, 10):
            result[f"{name}_r{k}"] = 100.0 * float((ranks < k).mean())
    return result


golden = {
    "image_ids": image_ids.tolist(),
    "splits": splits.tolist(),
    "caption_ids": order.tolist(),
    "images": [[float(f"{x:.9f}") for x in row] for row in unit(images)],
    "captions": [[float(f"{x:.9f}") for x in row] for row in unit(captions)],
    "all": recalls(numpy.arange(IMAGES)),
    "test": recalls(numpy.flatnonzero(splits == "test")),
    "val": recalls(numpy.flatnonzero(splits == "val")),
}
(folder / "embeddings.json").write_text(json.dumps(golden, indent=None) + "\n")
