"""TensorBoard reads our events: tags, steps, times and values, exactly."""

import pathlib
import struct

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import probe

FAR = 2**40


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("events")
    assert probe.run("tensorboard-write", path).returncode == 0
    return path


@pytest.fixture(scope="module")
def events(directory):
    accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0},
                                   purge_orphaned_data=False)
    return accumulator.Reload()


def series(events, tag):
    """(wall time, step, value) of each event, wherever this TensorBoard keeps scalars."""
    tags = events.Tags()
    if tag in tags["scalars"]:
        return [(e.wall_time, e.step, np.float32(e.value)) for e in events.Scalars(tag)]
    return [(e.wall_time, e.step, np.float32(e.tensor_proto.float_val[0]))
            for e in events.Tensors(tag)]


def test_the_directory_holds_one_file_per_writer_with_the_usual_name(directory):
    names = sorted(path.name for path in directory.iterdir())
    assert len(names) == 2
    assert names[0].startswith("events.out.tfevents.1700000000.")
    assert names[1].startswith("events.out.tfevents.1700000012.")


def test_the_first_event_is_the_file_version(directory):
    for path in directory.iterdir():
        first = next(iter(EventFileLoader(str(path)).Load()))
        assert first.file_version == "brain.Event:2"


def test_scalars_have_their_exact_steps_times_and_values(events):
    times = [1.7e9 + 0.5 * (i + 1) + (10 if i >= 5 else 0) for i in range(10)]
    for tag, value in {"train/loss": lambda i: 4 - np.float32(i) / 8,
                       "größe": lambda i: np.float32(i) * np.float32(1e30),
                       "ramp": lambda i: -np.float32(i)}.items():
        got = series(events, tag)
        assert got == [(times[i], i, value(i)) for i in range(10)], tag


def test_large_steps_are_kept(events):
    assert [(step, value) for _, step, value in series(events, "far")] == [
        (FAR, np.float32(0.1))] * 2


def test_text_is_found_by_the_text_page(events):
    assert events.SummaryMetadata("config").plugin_data.plugin_name == "text"
    texts = [(e.step, list(e.tensor_proto.string_val)) for e in events.Tensors("config")]
    assert texts == [(0, [b"begin = 0"]), (5, [b"begin = 5"])]


def test_the_checksums_matter_to_the_reader(directory, tmp_path):
    """A changed byte ends the reading there: the values above were read through checked records."""
    source = sorted(directory.iterdir())[0]
    content = bytearray(source.read_bytes())
    length = struct.unpack("<Q", content[:8])[0]
    content[16 + length + 12 + 3] ^= 1  # in the second record's data
    path = pathlib.Path(tmp_path / source.name)
    path.write_bytes(content)
    events = list(EventFileLoader(str(path)).Load())
    assert len(events) == 1
