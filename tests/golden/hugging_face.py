"""Writes Parquet files as Hugging Face's `datasets` stores the feature `Image`: a struct of `bytes` and `path`.

    python tests/golden/hugging_face.py tests/golden/hugging_face
"""

import io
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

assert pa.__version__ == "26.0.1", pa.__version__

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def picture(width, height, kind):
    out = io.BytesIO()
    Image.new("RGB", (width, height), (90, 120, 30)).save(out, kind)
    return out.getvalue()


def write(name, rows, captions, **options):
    columns = {"image": pa.array([row[0] for row in rows], IMAGE), captions[0]: pa.array([row[1] for row in rows], captions[1])}
    if len(rows[0]) > 2:
        columns["id"] = pa.array([row[2] for row in rows], pa.int32())
        columns["split"] = pa.array([row[3] for row in rows])
    pq.write_table(pa.table(columns), f"{sys.argv[1]}_{name}.parquet", **options)


texts = ("captions", pa.list_(pa.string()))
write("first", [
    ({"bytes": picture(5, 4, "JPEG"), "path": "a b.jpg"}, ["one", " two "], 30, "train"),
    ({"bytes": picture(3, 2, "PNG"), "path": "ä.png"}, ["three"], 10, "val"),
], texts, compression="snappy")  # fmt: skip
write("second", [({"bytes": picture(1, 6, "PNG"), "path": None}, ["four", "five — é"], 20, "test")], texts, compression="zstd")
write("single", [
    ({"bytes": picture(2, 2, "PNG"), "path": "x.png"}, "a picture"),
    ({"bytes": None, "path": "/elsewhere/y.png"}, "a name"),
], ("caption", pa.string()))  # fmt: skip
