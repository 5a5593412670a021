"""Writes event files of the plugin HParams with the messages of TensorBoard, and reads them with the plugin.

    python tests/golden/hparams.py tests/golden
"""

import os
import shutil
import sys
import tempfile

from google.protobuf import struct_pb2
from tensorboard import context, version
from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups, metadata, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

assert version.VERSION == "2.21.0", version.VERSION

START, END = 1_700_000_000.25, 1_700_000_100.5


def value(plain):
    if isinstance(plain, bool):
        return struct_pb2.Value(bool_value=plain)
    if isinstance(plain, str):
        return struct_pb2.Value(string_value=plain)
    return struct_pb2.Value(number_value=plain)


def values(*plain):
    return struct_pb2.ListValue(values=[value(one) for one in plain])


def summary(tag, **data):
    content = plugin_data_pb2.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **data)
    plugin = SummaryMetadata.PluginData(
        plugin_name=metadata.PLUGIN_NAME, content=content.SerializeToString(deterministic=True)
    )
    made = Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin), tensor=metadata.NULL_TENSOR)
    return Summary(value=[made])


experiment = api_pb2.Experiment(
    hparam_infos=[
        api_pb2.HParamInfo(name="bidirectional", type="DATA_TYPE_BOOL", domain_discrete=values(False)),
        api_pb2.HParamInfo(name="learning_rate", type="DATA_TYPE_FLOAT64", differs=True),
        api_pb2.HParamInfo(name="loss", type="DATA_TYPE_STRING", domain_discrete=values("sum", "max"), differs=True),
    ],
    metric_infos=[api_pb2.MetricInfo(name=api_pb2.MetricName(tag="kept/rsum"), display_name="rsum")],
)
settings = {"bidirectional": False, "learning_rate": 0.0, "loss": "max"}
start = plugin_data_pb2.SessionStartInfo(
    hparams={name: value(setting) for name, setting in settings.items()}, start_time_secs=START
)
end = plugin_data_pb2.SessionEndInfo(status="STATUS_SUCCESS", end_time_secs=END)
scalar = Summary(value=[Summary.Value(tag="kept/rsum", simple_value=200.0 / 3.0)])

FILES = {
    "experiment": (START, [(0, summary(metadata.EXPERIMENT_TAG, experiment=experiment))]),
    "start": (START, [(0, summary(metadata.SESSION_START_INFO_TAG, session_start_info=start))]),
    "end": (END, [(0, summary(metadata.SESSION_END_INFO_TAG, session_end_info=end)), (300, scalar)]),
}
for name, (time, summaries) in FILES.items():
    with open(os.path.join(sys.argv[1], f"hparams_{name}.tfevents"), "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=time, file_version="brain.Event:2").SerializeToString())
        for step, made in summaries:
            writer.write(Event(wall_time=time, step=step, summary=made).SerializeToString(deterministic=True))
        writer.flush()

# The plugin reads a training from a folder, and the experiment from the folder above.
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "one"))
    for name in FILES:
        target = folder if name == "experiment" else os.path.join(folder, "one")
        shutil.copy(os.path.join(sys.argv[1], f"hparams_{name}.tfevents"), os.path.join(target, f"events.out.tfevents.{name}"))
    multiplexer = EventMultiplexer().AddRunsFromDirectory(folder)
    multiplexer.Reload()
    plugin = backend_context.Context(
        base_plugin.TBContext(data_provider=MultiplexerDataProvider(multiplexer, folder))
    )
    request = api_pb2.ListSessionGroupsRequest(
        allowed_statuses=[api_pb2.STATUS_SUCCESS],
        col_params=[api_pb2.ColParams(metric=api_pb2.MetricName(tag="kept/rsum"))],
        slice_size=10,
    )
    groups = list_session_groups.Handler(context.RequestContext(), plugin, "", request).run().session_groups
    assert len(groups) == 1, groups
    read = {name: getattr(made, made.WhichOneof("kind")) for name, made in groups[0].hparams.items()}
    assert read == settings, read
    assert abs(groups[0].metric_values[0].value - 200.0 / 3.0) < 1e-5, groups
