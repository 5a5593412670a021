"""Writes an event file with the classes of TensorBoard, and reads it with TensorBoard.

    python tests/golden/event_file.py tests/golden/event_file.tfevents
"""

import os
import shutil
import sys
import tempfile

from tensorboard import version
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

assert version.VERSION == "2.21.0", version.VERSION

WALL_TIME = 1_700_000_000.25
ROWS = [
    (0, {"loss": 0.0, "rsum": 1.0}),
    (1, {"loss": 0.1}),
    (127, {"loss": -2.5, "rsum": 3.0}),
    (128, {"loss": 1e-30}),
    (300_000, {"loss": 1e30}),
    (2**63 - 1, {"loss": 51.2, "rsum": 200.0 / 3.0}),
]

events = [Event(wall_time=WALL_TIME, file_version="brain.Event:2")]
for step, scalars in ROWS:
    values = [Summary.Value(tag=f"history/{name}", simple_value=value) for name, value in scalars.items()]
    events.append(Event(wall_time=WALL_TIME, step=step, summary=Summary(value=values)))
with open(sys.argv[1], "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString(deterministic=True))
    writer.flush()

with tempfile.TemporaryDirectory() as folder:
    shutil.copy(sys.argv[1], os.path.join(folder, "events.out.tfevents.0"))
    accumulator = EventAccumulator(folder).Reload()
    for name in ["loss", "rsum"]:
        read = [(event.step, event.wall_time) for event in accumulator.Scalars(f"history/{name}")]
        assert read == [(step, WALL_TIME) for step, scalars in ROWS if name in scalars], read
