"""Writes shards.json: Arrow files by pyarrow, in base64, that src/io/shard must read or reject.

python tests/golden/shards.py > tests/golden/shards.json
"""

import base64
import io
import json

import pyarrow as pa

assert pa.__version__ == "26.0.1", pa.__version__

vectors = pa.array([[0.5, -1.0, 2.0], [3.0, float("inf"), -0.0]], pa.list_(pa.float32(), 3))
regions = pa.array(
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]],
    pa.list_(pa.list_(pa.float32(), 2), 2),
)
columns = {
    "image_id": pa.array([7, -9], pa.int64()),
    "image": vectors,
    "regions": regions,
    "caption": pa.array(["a dog", "a caf\u00e9"], pa.string()),
    "tokens": pa.array([[1, 2, 3], []], pa.list_(pa.int32())),
    "seen": pa.array([True, False]),
}


def arrow(table, options=None):
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


table = pa.table(columns)
files = {
    "plain": arrow(table),
    "none": arrow(table.slice(0, 0)),
    "two": arrow(pa.concat_tables([table, table])),
    "compressed": arrow(pa.table({"x": pa.array([0] * 1000, pa.int64())}), pa.ipc.IpcWriteOptions(compression="lz4")),
    "dictionary": arrow(pa.table({"split": pa.array(["train", "val"]).dictionary_encode()})),
    "nulls": arrow(pa.table({"image_id": pa.array([1, None], pa.int64())})),
    "view": arrow(pa.table({"caption": pa.array(["a", "b"], pa.string_view())})),
}
print(json.dumps(files, indent=1))
