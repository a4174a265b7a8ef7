"""Streams share a batch without touching each other; the arithmetic is a small stand-in graph."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.audio import FRAME
from edge_runtime.audio.vad import Ears, VoiceDetector
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.errors import DeviceError


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with the detector's signature whose result depends on every input.

    h' = h / 2 + mean(audio), c' = c + 1, probability = first sample + h'[0] + c'[0].
    """
    nodes = [
        helper.make_node("ReduceMean", ["audio"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["h", "half"], ["faded"]),
        helper.make_node("Add", ["faded", "mean"], ["h_next"]),
        helper.make_node("Add", ["c", "one"], ["c_next"]),
        helper.make_node("Gather", ["h_next", "zero"], ["first_h"], axis=1),
        helper.make_node("Gather", ["c_next", "zero"], ["first_c"], axis=1),
        helper.make_node("Gather", ["audio", "zero"], ["oldest"], axis=1),
        helper.make_node("Add", ["first_h", "first_c"], ["sum"]),
        helper.make_node("Add", ["sum", "oldest"], ["probability"]),
    ]
    constants = {"half": np.float32(0.5), "one": np.float32(1), "zero": np.int64(0)}

    def infos(**widths: int) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", width][: 1 + bool(width)])
            for name, width in widths.items()
        ]

    graph = helper.make_graph(
        nodes,
        "stand_in",
        infos(audio=576, h=128, c=128),
        infos(probability=0, h_next=128, c_next=128),
        [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    path = tmp_path_factory.mktemp("vad") / "stand_in.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def detector(plan: Path) -> VoiceDetector:
    device = OnnxDevice()
    return VoiceDetector(device.load(plan), device, rows=5)


class Reference:
    """The same arithmetic for one stream, from the whole of its audio."""

    def __init__(self) -> None:
        self.audio = np.zeros(64, np.float32)
        self.h = 0.0
        self.c = 0.0

    def hear(self, frame: np.ndarray) -> float:
        self.audio = np.concatenate([self.audio, frame])
        seen = self.audio[-576:]
        self.h = self.h / 2 + float(seen.mean())
        self.c += 1
        return float(seen[0]) + self.h + self.c


def test_any_mix_of_streams_equals_each_alone(detector: VoiceDetector) -> None:
    rng = np.random.default_rng(1)
    streams = {detector.open(): Reference() for _ in range(3)}
    for step in range(60):
        if step % 7 == 3:
            leaver = list(streams)[int(rng.integers(len(streams)))]
            del streams[leaver]
            detector.close(leaver)
        while len(streams) < 3 or (step % 11 == 5 and len(streams) < 5):
            streams[detector.open()] = Reference()
        due = [int(slot) for slot in rng.permutation(list(streams)) if rng.random() < 0.7]
        frames = rng.uniform(-1, 1, (len(due), 512)).astype(np.float32)
        got = detector.probabilities(due, frames)
        wanted = [streams[slot].hear(frame) for slot, frame in zip(due, frames, strict=True)]
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_one_stream_takes_the_short_way_with_the_same_result(detector: VoiceDetector) -> None:
    alone, beside, reference = detector.open(), detector.open(), Reference()
    rng = np.random.default_rng(2)
    for _ in range(5):
        frame = rng.uniform(-1, 1, 512).astype(np.float32)
        wanted = reference.hear(frame)
        assert detector.probabilities([alone], [frame]) == pytest.approx([wanted], abs=1e-5)
        assert detector.probabilities([beside], frame[None]) == pytest.approx([wanted], abs=1e-5)


def test_a_reused_slot_starts_fresh(detector: VoiceDetector) -> None:
    slot = detector.open()
    frame = np.ones(512, np.float32)
    first = detector.probabilities([slot], [frame])
    assert detector.probabilities([slot], [frame]) != first
    detector.close(slot)
    assert detector.open() == slot
    assert detector.probabilities([slot], [frame]) == first


def test_nobody_due_is_nothing_to_do(detector: VoiceDetector) -> None:
    assert detector.probabilities([], []) == []


def test_full_and_foreign_slots_are_refused(detector: VoiceDetector) -> None:
    slots = [detector.open() for _ in range(5)]
    assert sorted(slots) == [0, 1, 2, 3, 4]
    with pytest.raises(DeviceError, match="all 5 streams"):
        detector.open()
    detector.close(2)
    for slot in (2, 5, -1):
        with pytest.raises(DeviceError, match="not open"):
            detector.close(slot)


def test_ears_hear_together_what_one_hears(plan: Path) -> None:
    """Streams are spread, stay where they are, and their places come back."""
    device = OnnxDevice()
    ears = Ears([VoiceDetector(device.load(plan), device, rows=2) for _ in range(2)])
    slots = [ears.open() for _ in range(4)]
    assert len(set(slots)) == 4
    with pytest.raises(DeviceError, match="in use"):
        ears.open()
    random = np.random.default_rng(6)
    alone = [Reference() for _ in slots]
    for _ in range(3):
        frames = random.normal(size=(4, FRAME)).astype(np.float32)
        found = [0.0] * 4
        shared = ears.shared(slots)
        assert [len(places) for _, places, _ in shared] == [2, 2]
        for detector, places, own in shared:
            answers = detector.probabilities(own, [frames[place] for place in places])
            for place, answer in zip(places, answers, strict=True):
                found[place] = answer
        assert found == pytest.approx(
            [each.hear(frame) for each, frame in zip(alone, frames, strict=True)], rel=1e-4
        )
    ears.close(slots[1])
    assert ears.shared(slots[:1])[0][1] == [0]
    assert ears.open() == slots[1]
