"""Streams share a batch without touching each other; the arithmetic is a small stand-in graph."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_runtime.audio import FRAME, vad
from edge_runtime.audio.vad import AT_ONCE, Ears, VoiceDetector
from edge_runtime.device.onnx import OnnxDevice
from edge_runtime.errors import DeviceError


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with the detector's signature whose result depends on every input.

    Frame by frame h' = h + mean(audio), c' = c + 1, probability = first sample + h'[0] + c'[0].
    """
    nodes = [
        helper.make_node("ReduceMean", ["audio"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Gather", ["mean", "rows"], ["means"]),
        helper.make_node("Shape", ["rows"], ["turns"], start=0, end=1),
        helper.make_node("Squeeze", ["turns"], ["turn"]),
        helper.make_node("Range", ["zero", "turn", "one"], ["number"]),
        helper.make_node("Unsqueeze", ["number", "last"], ["numbers"]),
        helper.make_node("Cast", ["frames"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Less", ["numbers", "wide"], ["real"]),
        helper.make_node("Cast", ["real"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["means", "mask"], ["masked"]),
        helper.make_node("CumSum", ["masked", "zero"], ["more_h"]),
        helper.make_node("CumSum", ["mask", "zero"], ["more_c"]),
        *[
            node
            for name, grown in (("h", "masked"), ("c", "mask"))
            for node in (
                helper.make_node("Gather", [name, "zero"], [f"first_{name}"], axis=1),
                helper.make_node("ReduceSum", [grown, "axis"], [f"sum_{name}"], keepdims=0),
                helper.make_node("Unsqueeze", [f"sum_{name}", "last"], [f"column_{name}"]),
                helper.make_node("Add", [name, f"column_{name}"], [f"{name}_next"]),
            )
        ],
        helper.make_node("Gather", ["audio", "zero"], ["oldest"], axis=1),
        helper.make_node("Gather", ["oldest", "rows"], ["firsts"]),
        helper.make_node("Sum", ["firsts", "first_h", "more_h", "first_c", "more_c"],
                         ["probability"]),
    ]  # fmt: skip
    constants = {
        "zero": np.int64(0), "one": np.int64(1), "axis": np.array([0]), "last": np.array([-1])
    }  # fmt: skip

    def info(name: str, *shape: object, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "stand_in",
        [
            info("audio", "N", 576),
            info("rows", "T", "B", kind=TensorProto.INT64),
            info("frames", "B", kind=TensorProto.INT32),
            info("h", "B", 128),
            info("c", "B", 128),
        ],
        [info("probability", "T", "B"), info("h_next", "B", 128), info("c_next", "B", 128)],
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
        self.h += float(seen.mean())
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
        got = [heard for (heard,) in detector.hear(due, frames)]
        wanted = [streams[slot].hear(frame) for slot, frame in zip(due, frames, strict=True)]
        np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_frames_that_are_judged_in_one_go_equal_each_by_itself(detector: VoiceDetector) -> None:
    rng = np.random.default_rng(4)
    streams = {detector.open(): Reference() for _ in range(4)}
    for _ in range(30):
        due = [int(slot) for slot in rng.permutation(list(streams)) if rng.random() < 0.7]
        audio = [
            rng.uniform(-1, 1, 512 * int(rng.integers(1, AT_ONCE + 1))).astype(np.float32)
            for _ in due
        ]
        for slot, heard, samples in zip(due, detector.hear(due, audio), audio, strict=True):
            wanted = [streams[slot].hear(frame) for frame in samples.reshape(-1, 512)]
            np.testing.assert_allclose(heard, wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("samples", "frames"), [(0, []), (511, []), (512, [1]), (512 * 20 + 100, [8, 8, 4])]
)
def test_a_recording_is_heard_in_pieces_of_whole_frames(samples: int, frames: list[int]) -> None:
    sound = np.arange(samples, dtype=np.float32)
    found = list(vad.pieces(sound))
    assert [len(piece) for piece in found] == [512 * count for count in frames]
    np.testing.assert_array_equal(np.concatenate([*found, sound[:0]]), sound[: 512 * sum(frames)])


def test_shapes_of_batches_are_not_kept_for_ever(
    detector: VoiceDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vad, "BOUND", 3)
    slot = detector.open()
    for frames in (1, 2, 3, 4, 1, 5):
        detector.hear([slot], [np.zeros(512 * frames, np.float32)])
    assert list(detector._calls) == [(4, 4, 1), (1, 1, 1), (5, 5, 1)]


def test_one_stream_of_several_hears_what_it_does_alone(detector: VoiceDetector) -> None:
    alone, beside, reference = detector.open(), detector.open(), Reference()
    rng = np.random.default_rng(2)
    for _ in range(5):
        frame = rng.uniform(-1, 1, 512).astype(np.float32)
        wanted = reference.hear(frame)
        assert detector.hear([alone], [frame])[0] == pytest.approx([wanted], abs=1e-5)
        assert detector.hear([beside], frame[None])[0] == pytest.approx([wanted], abs=1e-5)


def test_a_reused_slot_starts_fresh(detector: VoiceDetector) -> None:
    slot = detector.open()
    frame = np.ones(512, np.float32)
    first = detector.hear([slot], [frame])
    assert detector.hear([slot], [frame]) != first
    detector.close(slot)
    assert detector.open() == slot
    assert detector.hear([slot], [frame]) == first


def test_nobody_due_is_nothing_to_do(detector: VoiceDetector) -> None:
    assert detector.hear([], []) == []


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
            answers = detector.hear(own, [frames[place] for place in places])
            for place, (answer,) in zip(places, answers, strict=True):
                found[place] = answer
        assert found == pytest.approx(
            [each.hear(frame) for each, frame in zip(alone, frames, strict=True)], rel=1e-4
        )
    ears.close(slots[1])
    assert ears.shared(slots[:1])[0][1] == [0]
    assert ears.open() == slots[1]
